"""The number of threads for each part of the work, from the cores that this process may use.

Beside a GPU, texts are tokenized on all cores at once, so nothing else may take them all: threads of torch wait for
each other in a loop that keeps their cores busy.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from bertfeat.core.recipe import FeatureColumn


def use_threads(count: int) -> None:
    """Let this process, or a thread of it other than its first, compute with ``count`` threads."""
    torch.set_num_threads(count)


def threads_in_use() -> int:
    """The number of threads that this process computes with: its cores, or fewer if the environment says so."""
    return torch.get_num_threads()


@contextmanager
def held_to_threads(count: int) -> Iterator[None]:
    """Compute with ``count`` threads within this block."""
    before = threads_in_use()
    if count == before:
        yield
        return
    use_threads(count)
    try:
        yield
    finally:
        use_threads(before)


def merging_threads(device: torch.device, columns: Sequence[FeatureColumn]) -> int:
    """The number of threads that merge computed batches.

    On a CPU it is the encoder's; beside a GPU it is a quarter of the cores for vectors of tokens or words, and one for
    those of documents, which are few.
    """
    if device.type == "cpu":
        return threads_in_use()
    if all(column.pooling.per_document for column in columns):
        return 1
    return min(threads_in_use(), _quarter())


def writer_count(device: torch.device) -> int:
    """The number of parts that are written at once: one beside an encoder on all cores, several beside a GPU."""
    return 1 if device.type == "cpu" else min(4, _quarter())


def _quarter() -> int:
    """A quarter of the cores, at least one: for writing parts, or merging the vectors of tokens, beside a GPU."""
    return max(1, len(os.sched_getaffinity(0)) // 4)
