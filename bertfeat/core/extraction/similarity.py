"""Similarity of vectors: the four measures that sentence-transformers names, larger for more similar vectors."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.errors import UsageError, WrongTypeError
from bertfeat.io import decode_json

Vectors = Tensor | NDArray[np.generic] | Sequence[Tensor] | Sequence[NDArray[np.generic]]
"""Vectors as ``[n, width]``, one vector as ``[width]``, or a list of vectors."""


def similarity_of_all(measure: str, a: Vectors, b: Vectors) -> Tensor:
    """Compare each vector of ``a`` with each of ``b``. Shape: ``[len(a), len(b)]``."""
    return _ALL[measure](*_as_matrices(a, b))


def similarity_of_pairs(measure: str, a: Vectors, b: Vectors) -> Tensor:
    """Compare the vectors of ``a`` and ``b`` one by one. Shape: ``[n]``."""
    first, second = _as_matrices(a, b)
    if len(first) != len(second):
        raise UsageError(f"{len(first)} vectors cannot be compared with {len(second)} one by one; similarity() can")
    return _PAIRS[measure](first, second)


def normalize_rows(vectors: Tensor) -> Tensor:
    """Bring vectors to length 1; zero vectors stay. Shape: ``[n, width]``."""
    return torch.nn.functional.normalize(vectors, dim=-1)


_ALL: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": lambda a, b: normalize_rows(a) @ normalize_rows(b).T,
    "dot": lambda a, b: a @ b.T,
    "euclidean": lambda a, b: -torch.cdist(a, b),
    "manhattan": lambda a, b: -torch.cdist(a, b, p=1.0),
}
_PAIRS: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cosine": lambda a, b: (normalize_rows(a) * normalize_rows(b)).sum(-1),
    "dot": lambda a, b: (a * b).sum(-1),
    "euclidean": lambda a, b: -(a - b).norm(dim=-1),
    "manhattan": lambda a, b: -(a - b).abs().sum(-1),
}
MEASURES = tuple(_ALL)


def read_measure(folder: Path) -> str:
    """The measure that the configuration in a model's folder names, else ``cosine``; the folder need not exist."""
    named = None
    with suppress(OSError, ValueError):
        named = decode_json((folder / "config_sentence_transformers.json").read_bytes(), dict).get("similarity_fn_name")
    return named if named in MEASURES else "cosine"  # as sentence-transformers does with unknown names


def check_measure(name: object) -> str:
    """Return the name of a measure, which may be the value of an Enum member."""
    plain = getattr(name, "value", name)
    if plain not in MEASURES:
        raise UsageError(f"unknown similarity {plain!r}; known are {', '.join(MEASURES)}")
    return str(plain)


def _as_matrices(a: Vectors, b: Vectors) -> tuple[Tensor, Tensor]:
    first, second = _as_matrix(a), _as_matrix(b)
    if first.shape[1] != second.shape[1]:
        raise UsageError(f"vectors of width {first.shape[1]} and {second.shape[1]} cannot be compared")
    exact = torch.promote_types(first.dtype, second.dtype)
    return first.to(exact), second.to(exact).to(first.device)


def _as_matrix(vectors: Vectors) -> Tensor:
    """Make a matrix of float32, or of float64 if the vectors are float64."""
    if isinstance(vectors, Tensor):
        matrix = vectors
    elif len(vectors) and isinstance(vectors[0], Tensor):
        matrix = torch.stack(list(vectors))  # type: ignore[arg-type]
    else:
        array = np.asarray(vectors)
        if array.dtype.kind not in "biuf":
            raise WrongTypeError(
                f"similarity() compares vectors, not {type(vectors).__name__} of texts; encode() them first"
            )
        matrix = torch.from_numpy(array)
    if matrix.ndim not in (1, 2):
        raise UsageError(f"vectors are [n, width] or [width], not an array of shape {tuple(matrix.shape)}")
    matrix = matrix if matrix.dtype == torch.float64 else matrix.float()
    return matrix[None] if matrix.ndim == 1 else matrix
