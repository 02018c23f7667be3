"""The transforms that an index applies to vectors before it stores them: FAISS's chains, and whitening.

A chain is written in a factory string, such as ``PCAW256,L2norm``. A build can add a whitening: before they are
compared, vectors get mean zero, and equal variances without correlation. Su et al. 2021 (arXiv:2103.15316, algorithm 1)
define it as ``(x - mean) U Λ^(-1/2)``, where ``U Λ Uᵀ`` is the covariance of all vectors; where a width is given, only
the directions of largest variance are used. Half whitening goes half the way, with ``Λ^(-1/4)``, so that directions of
large variance still count for more. FAISS applies the whitening, which is stored in the index file.

Shapes: n vectors, W values in each, R directions in which they vary, K values after whitening.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import UsageError
from bertfeat.search.vectors.faiss_import import FaissIndex, faiss
from bertfeat.search.vectors.metric import Metric, Whitening
from bertfeat.search.vectors.statistics import RunningMean

_LEAST_VARIANCE = 1e-7
"""Directions with less than this share of the largest variance do not count: rounding of float32 would be magnified."""

_CHUNK = 2048  # vectors that are converted to float64 at once

Transform = Callable[[NDArray[np.float32]], NDArray[np.float32]]


class FaissTransform(Protocol):
    """One step of a chain: FAISS's ``VectorTransform``."""

    def apply(self, vectors: NDArray[np.float32], /) -> NDArray[np.float32]:
        """Transform vectors ``[n, W]``; the width may change."""
        ...


def index_transform(index: FaissIndex) -> Transform | None:
    """The transform that a trained index applies to vectors ``[n, W]`` before it stores them; None without one."""
    plain = faiss.downcast_index(index)
    return partial(apply_transforms, plain) if isinstance(plain, faiss.IndexPreTransform) else None


def judged_transform(index: FaissIndex) -> Transform | None:
    """The transform that exact search applies to vectors when recall is measured; None for the vectors as they are.

    Whitening and scaling to length 1 change on purpose which vectors are near, so exact search applies them too.
    Rotations and dropped dimensions should keep the same vectors near, so what they change counts as the index's loss.
    """
    transform = index_transform(index)
    if transform is None:
        return None
    for step in _chained_transforms(index):
        whitens = isinstance(step, faiss.PCAMatrix) and step.eigen_power != 0
        if whitens or isinstance(step, faiss.NormalizationTransform):
            return transform
    return None


def transformed_index(index: FaissIndex) -> FaissIndex:
    """The index behind the transforms of an ``IndexPreTransform``."""
    inner: FaissIndex = faiss.downcast_index(faiss.downcast_index(index).index)
    return inner


def apply_transforms(index: FaissIndex, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Apply the chain of an ``IndexPreTransform`` to vectors ``[n, W]``."""
    for step in _chained_transforms(index):
        vectors = step.apply(np.ascontiguousarray(vectors, np.float32))
    return vectors


def transform_parts(index: FaissIndex, parts: NDArray[np.floating]) -> NDArray[np.floating]:
    """Transform the parts of a vector, of which it is the mean, as the index transforms the vector itself.

    The mean of the result is the transformed vector: each step is affine, but for the scaling to length 1, by which all
    parts are divided by the length of their mean. Shape: ``[n, W]`` → ``[n, K]``.
    """
    plain = faiss.downcast_index(index)
    for step in _chained_transforms(plain) if isinstance(plain, faiss.IndexPreTransform) else ():
        if isinstance(step, faiss.NormalizationTransform):
            parts = scale_parts(parts)
        else:
            parts = step.apply(np.ascontiguousarray(parts, np.float32))
    return parts


def scale_parts(parts: NDArray[np.floating]) -> NDArray[np.floating]:
    """Divide parts by the length of their mean, which then has the length 1; parts whose mean is zero stay."""
    length = float(np.linalg.norm(parts.mean(0, dtype=np.float64))) if len(parts) else 0.0
    return parts / length if length > 0 else parts


def _chained_transforms(index: FaissIndex) -> list[FaissTransform]:
    """The transforms of an ``IndexPreTransform`` in order, each as its own class."""
    chain = faiss.downcast_index(index).chain
    return [faiss.downcast_VectorTransform(chain.at(number)) for number in range(chain.size())]


class WhiteningMatrix(FaissTransform, Protocol):
    """The attributes of FAISS's ``PCAMatrix``."""

    d_in: int  # W
    mean: object
    eigenvalues: object
    PCAMat: object  # the directions
    A: object  # the matrix that vectors are multiplied by
    b: object  # the vector that is added then
    is_trained: bool


@dataclass(frozen=True, slots=True)
class Spectrum:
    """The directions in which vectors vary, by descending variance."""

    count: int  # of the vectors
    mean: NDArray[np.float64]  # [W]
    variances: NDArray[np.float64]  # [R]
    directions: NDArray[np.float64]  # [R, W] of length 1


def measure_spectrum(blocks: Iterable[NDArray[np.floating]], width: int) -> Spectrum:
    """The mean and covariance of vectors that stream by, in float64, and the directions of the covariance.

    Memory: a few matrices of W × W in float64, however many vectors there are.
    """
    running, products = RunningMean(), np.zeros((width, width))
    for block in blocks:
        for start in range(0, len(block), _CHUNK):
            deviations = running.deviations(block[start : start + _CHUNK])
            products += deviations.T @ deviations  # these sum to those of deviations from the mean of all
    mean = np.broadcast_to(running.mean, width)  # 0 where there were no vectors
    variances, axes = np.linalg.eigh(products / max(running.count, 1))
    variances, directions = variances[::-1], axes.T[::-1]
    counted = _count_varying(variances, mean)
    directions = directions[:counted]
    # the sign of an eigenvector is arbitrary: its value of largest magnitude is made positive
    signs = np.sign(directions[np.arange(counted), np.abs(directions).argmax(axis=1)])
    return Spectrum(running.count, mean, variances[:counted], directions * signs[:, None])


def _count_varying(variances: NDArray[np.float64], mean: NDArray[np.float64]) -> int:
    """The number of variances, in descending order, that are more than rounding of float32 makes."""
    of_equal_vectors = float(np.square(mean).sum()) * _LEAST_VARIANCE  # they vary a little, too, the more the longer
    return int((variances > _LEAST_VARIANCE * max(variances[0], of_equal_vectors)).sum())


@dataclass(frozen=True, slots=True)
class Whitener:
    """A whitening, and the spectrum that it is taken from."""

    whitening: Whitening  # with its width
    spectrum: Spectrum

    @property
    def width(self) -> int:
        """The number of values in a whitened vector."""
        return self.whitening.width or 0

    def matrix(self) -> WhiteningMatrix:
        """Return the whitening as FAISS's matrix, ``[n, W]`` → ``[n, K]``."""
        made: WhiteningMatrix = faiss.PCAMatrix(len(self.spectrum.mean), self.whitening.width, self.whitening.power)
        directions = np.zeros((made.d_in, made.d_in), np.float32)
        variances = np.zeros(made.d_in, np.float32)
        counted = len(self.spectrum.variances)
        directions[:counted], variances[:counted] = self.spectrum.directions, self.spectrum.variances
        faiss.copy_array_to_vector(self.spectrum.mean.astype(np.float32), made.mean)
        faiss.copy_array_to_vector(variances, made.eigenvalues)
        faiss.copy_array_to_vector(directions.ravel(), made.PCAMat)
        factors = self.spectrum.variances[: self.width, None] ** self.whitening.power
        weighted = self.spectrum.directions[: self.width] * factors
        faiss.copy_array_to_vector(weighted.astype(np.float32).ravel(), made.A)
        faiss.copy_array_to_vector((-weighted @ self.spectrum.mean).astype(np.float32), made.b)
        made.is_trained = True
        return made


def fit_whitening(whitening: Whitening, spectrum: Spectrum) -> Whitener:
    """Fit a whitening to a spectrum, which must have at least one direction, and as many as the width asks for.

    Without a width, all directions are used.
    """
    counted = len(spectrum.variances)
    if not counted:
        raise UsageError(
            f"{whitening}: vectors that do not differ cannot be whitened; there are {spectrum.count:,} of them",
            remedy="index them as they are",
        )
    if (whitening.width or 0) > counted:
        raise UsageError(
            f"{whitening}: {spectrum.count:,} vectors of {len(spectrum.mean):,} values vary in {counted:,} directions",
            remedy=f"give a width of {counted:,} or less, or none",
        )
    return Whitener(replace(whitening, width=whitening.width or counted), spectrum)


def with_transform(index: FaissIndex, matrix: WhiteningMatrix, metric: Metric) -> FaissIndex:
    """An index that whitens vectors, scales them to length 1 under cosine, and passes them to ``index``."""
    whole = faiss.IndexPreTransform(index)  # keeps the index and its transforms alive
    if metric is Metric.COSINE:
        whole.prepend_transform(faiss.NormalizationTransform(index.d))
    whole.prepend_transform(matrix)
    whole.is_trained = index.is_trained and matrix.is_trained
    made: FaissIndex = whole
    return made
