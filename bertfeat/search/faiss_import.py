"""FAISS itself, imported when it is first used, or the error that says how to get it.

Importing a room that can search must not need FAISS, which comes with an extra; searching does.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bertfeat.errors import BertfeatError


class _Library:
    """Stands for the module ``faiss`` until something of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        try:
            module = importlib.import_module("faiss")
        except ImportError as error:
            raise BertfeatError(
                "an index needs FAISS, which is not installed: pip install 'bertfeat[cpu]', or 'bertfeat[gpu]' with "
                "CUDA"
            ) from error
        value = getattr(module, name)
        setattr(self, name, value)  # found at once the next time
        return value


faiss: Any = _Library()


def explain(error: Exception) -> str:
    """What FAISS complains of, without the place in its source."""
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    text = str(error)
    for mark in ("failed: ", "Error: ", ".cpp:"):
        text = text.rpartition(mark)[2] or text
    return text.strip()


@contextmanager
def faiss_errors(kind: type[BertfeatError], problem: str, remedy: str) -> Iterator[None]:
    """Turn what FAISS raises in the block into ``problem: what FAISS complains of; remedy``."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise kind(f"{problem}: {explain(error)}; {remedy}") from error
