"""FAISS itself, or the error that says how to get it."""

from bertfeat.errors import BertfeatError

try:
    import faiss
except ImportError as error:
    raise BertfeatError(
        "an index needs FAISS, which is not installed: pip install 'bertfeat[cpu]', or 'bertfeat[gpu]' with CUDA"
    ) from error

__all__ = ["explain", "faiss"]


def explain(error: Exception) -> str:
    """What FAISS complains of, without the place in its source."""
    text = str(error)
    for mark in ("failed: ", "Error: ", ".cpp:"):
        text = text.rpartition(mark)[2] or text
    return text.strip()
