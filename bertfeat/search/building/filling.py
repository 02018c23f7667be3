"""The filling of a trained index with vectors, block by block; the documents of each go into the index's stores.

Shapes: n vectors, W values in each.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing

from bertfeat.errors import IndexFolderError
from bertfeat.io import give_back_memory, prefetched
from bertfeat.search.evaluation.recall import ExactSearch
from bertfeat.search.vectors.faiss_import import VectorSink
from bertfeat.search.vectors.faiss_index import add_vectors
from bertfeat.search.vectors.metric import Metric
from bertfeat.search.vectors.vector_blocks import VectorBlock, VectorSource, prepare_vectors

Keep = Callable[[VectorBlock], None]
"""The type of functions that store the documents of a block."""


def fill_index(
    index: VectorSink,
    blocks: Generator[VectorBlock, None, None],
    metric: Metric,
    done: Callable[[int], None],
    exact: ExactSearch | None = None,
) -> int:
    """Add all vectors to a FAISS index, or to lists on disk; returns the number of zero vectors."""
    zero = count = 0
    with closing(blocks):  # so that no thread reads on after an error
        for number, block in enumerate(blocks, 1):
            zero += int(prepare_vectors(metric, block.vectors, count).sum())
            if len(block.vectors):
                add_vectors(index, block.vectors)
                if exact is not None:
                    exact.add(count, block.vectors)
            count += len(block.vectors)
            if number % 4 == 0:
                give_back_memory()  # growing inverted lists leave a third of their size behind
            done(count)
    return zero


def kept_blocks(source: VectorSource, keep: Keep) -> Generator[VectorBlock, None, None]:
    """All blocks of a source, each handed to ``keep`` first; a thread reads and keeps one block ahead."""

    def blocks() -> Iterator[VectorBlock]:
        for block in source.blocks(documents=True):
            keep(block)
            yield block

    return prefetched(blocks(), join=True)


def check_complete(added: int, count: int) -> None:
    """Check that as many vectors were added as the source has."""
    if added != count:
        raise IndexFolderError(f"{count:,} vectors were announced, but {added:,} came: the features are being changed")
