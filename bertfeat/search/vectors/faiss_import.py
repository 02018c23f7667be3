"""The ``faiss`` module, imported when it is first used, with types for its classes and the handling of its errors.

FAISS comes with an extra: searching needs it, but modules that can search must be importable without it.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import BertfeatError, needed_library

Scored = tuple[NDArray[np.float32], NDArray[np.int64]]
"""The result of FAISS's searches: scores ``[Q, K]``, and the numbers of the vectors ``[Q, K]``."""


class VectorSink(Protocol):
    """An object that takes vectors: an index, or a builder of one."""

    def add(self, vectors: NDArray[np.float32], /) -> None:
        """Add vectors ``[n, W]``."""
        ...


class FaissIndex(VectorSink, Protocol):
    """The attributes that every FAISS index has; those of single classes are untyped, since FAISS has no type stubs.

    Shapes: n vectors, Q queries, K hits, W values.
    """

    d: int  # W
    ntotal: int
    is_trained: bool
    metric_type: int

    def train(self, sample: NDArray[np.float32], /) -> None:
        """Train on a sample ``[n, W]``."""
        ...

    def search(self, queries: NDArray[np.float32], k: int, /, *, params: object = None) -> Scored:
        """The nearest vectors of queries ``[Q, W]``."""
        ...

    def reconstruct_batch(self, numbers: NDArray[np.int64], /) -> NDArray[np.float32]:
        """The stored vectors of those numbers, ``[n, W]``."""
        ...

    def reset(self) -> None:
        """Remove all vectors; the index stays trained."""
        ...

    def remove_ids(self, selector: object, /) -> int:
        """Remove the vectors that a FAISS selector selects; returns their number."""
        ...

    def add_with_ids(self, vectors: NDArray[np.float32], numbers: NDArray[np.int64], /) -> None:
        """Add vectors ``[n, W]`` with the given numbers; only inverted lists store these."""
        ...


class CodeVector(Protocol):
    """The encoded vectors of an index, one after the other."""

    def size(self) -> int:
        """Return the size of the encoded vectors in bytes."""
        ...

    def resize(self, size: int, /) -> None:
        """Cut bytes off at the end, or add some."""
        ...

    def data(self) -> object:
        """A pointer to the encoded vectors."""
        ...


class InvertedLists(Protocol):
    """Lists of vectors, by the number of their cluster."""

    code_size: int

    def list_size(self, number: int, /) -> int:
        """Count the vectors in a list."""
        ...

    def get_ids(self, number: int, /) -> object:
        """A pointer to the numbers of a list's vectors."""
        ...


class DirectMap(Protocol):
    """The map from each vector to its list: FAISS's ``DirectMap``."""

    type: int


class InvertedIndex(FaissIndex, Protocol):
    """An index of inverted lists: FAISS's ``IndexIVF``."""

    nlist: int
    code_size: int
    invlists: InvertedLists
    own_invlists: bool
    direct_map: DirectMap

    def set_direct_map_type(self, kind: int, /) -> None:
        """Make a map of that type, or drop it."""
        ...

    def make_direct_map(self) -> None:
        """Note in which list each vector is, so that vectors can be given back."""
        ...

    def replace_invlists(self, lists: InvertedLists, own: bool, /) -> None:
        """Replace the inverted lists; with ``own`` the index frees the new ones."""
        ...


class _LazyFaiss:
    """Stands for the module ``faiss`` until a name of it is used."""

    def __getattr__(self, name: str) -> Any:
        with needed_library("an index needs FAISS", "bertfeat[faiss]"):
            module = importlib.import_module("faiss")
        value = getattr(module, name)
        setattr(self, name, value)  # so this is called once for each name
        return value


faiss: Any = _LazyFaiss()


def faiss_message(error: Exception) -> str:
    """The message of a FAISS error, without the place in FAISS's source."""
    if isinstance(error, MemoryError):
        return "it needs more memory than there is"
    text = str(error)
    for mark in ("failed: ", "Error: ", ".cpp:"):
        text = text.rpartition(mark)[2] or text
    return text.strip()


@contextmanager
def faiss_errors(kind: type[BertfeatError], problem: str, remedy: str, *, where: object = "") -> Iterator[None]:
    """Convert errors of FAISS in the ``with`` block to ``kind``, as ``where: problem: FAISS's message; remedy``."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        raise kind(f"{problem}: {faiss_message(error)}", where=where, remedy=remedy) from error
