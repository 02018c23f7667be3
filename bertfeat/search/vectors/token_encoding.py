"""Fixed dimensional encodings: one vector for all tokens of a text, so that a search by vectors nears one by maxsim.

MUVERA (Dhulipala et al. 2024, arXiv:2405.19504, section 2) divides the space of tokens into partitions. In each, a
query has the sum of its tokens there, and a document the mean of its own, or that of the nearest partition where it has
some. So the inner product of both has, for each token of the query, the mean of the document's tokens near it, which
stands for the nearest one. MUVERA draws partitions and projections at random, several times; here a sample of the
tokens gives them once: the centers of k-means, and principal components. At the same width that finds more of the best
texts by maxsim (docs/many-vectors.md).

Shapes: N tokens of all texts, n tokens of one, S texts (documents or spans), W values in the vector of a token, P
partitions, V values in each.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from bertfeat.core import PieceRanges, unit_vectors
from bertfeat.errors import IndexFolderError, UsageError, parameter
from bertfeat.search.vectors.faiss_import import faiss, faiss_errors

MOST_VALUES = 128
"""The largest number of values in a partition: principal components of the tokens."""

_TEXTS_AT_ONCE = 256  # so that tokens of many overlapping spans take little memory
_ITERATIONS = 20  # of k-means
_SEED = 4171


@dataclass(frozen=True, slots=True)
class EncodingShape:
    """The shape of an encoding, as the record of an index has it."""

    partitions: Annotated[int, Meta(ge=1, le=1 << 16)]
    values: Annotated[int, Meta(ge=1, le=MOST_VALUES)]  # in each partition

    @classmethod
    def of_width(cls, width: int, token_width: int) -> "EncodingShape":
        """The shape of an encoding of ``width`` values, of tokens of ``token_width``.

        Raises:
            UsageError: ``width`` cannot be divided among partitions.
        """
        shape = cls.within(width, token_width)
        if shape.width != width:
            raise UsageError(
                f"each partition of these tokens has {shape.values} values, and {width:,} are no multiple of that",
                where=parameter("encode", f"fde:{width}"),
                remedy=f"choose {shape}",
            )
        return shape

    @classmethod
    def within(cls, width: int, token_width: int) -> "EncodingShape":
        """The widest encoding within ``width`` values, or one of a single partition if even that is wider."""
        values = min(MOST_VALUES, token_width)
        return cls(max(1, width // values), values)

    @property
    def width(self) -> int:
        """Number of values in the encoding of a text."""
        return self.partitions * self.values

    def __str__(self) -> str:
        return f"fde:{self.width}"


@dataclass(frozen=True, eq=False)
class TokenEncoding:
    """Encodes the tokens of a text as one vector; only their directions count, as in a cosine."""

    centers: NDArray[np.float32]  # [P, W] of the partitions, of length 1; a token is in that of the nearest
    directions: NDArray[np.float32]  # [V, W] orthogonal, of length 1

    @property
    def shape(self) -> EncodingShape:
        """Its partitions, and the values in each."""
        return EncodingShape(len(self.centers), len(self.directions))

    @cached_property
    def _nearest(self) -> NDArray[np.int64]:
        """The partitions in the order of their distance from each partition, itself first, ``[P, P]``."""
        cosines = self.centers @ self.centers.T
        np.fill_diagonal(cosines, 2)
        return np.argsort(-cosines, axis=1, kind="stable")

    def encode_texts(self, tokens: NDArray[np.floating], ranges: PieceRanges) -> NDArray[np.float32]:
        """The vectors of texts, from those of all tokens; zero where a text has no tokens.

        Shape: ``tokens [N, W]`` → ``[S, P * V]``.
        """
        partitions, values = self._place(tokens[ranges.rows])
        encoded = np.empty((len(ranges.first), self.shape.width), np.float32)
        for start in range(0, len(encoded), _TEXTS_AT_ONCE):
            part = slice(start, start + _TEXTS_AT_ONCE)
            encoded[part] = self._fill(
                partitions, values, replace(ranges, first=ranges.first[part], stop=ranges.stop[part])
            )
        return encoded

    def _fill(
        self, partitions: NDArray[np.int64], values: NDArray[np.float32], ranges: PieceRanges
    ) -> NDArray[np.float32]:
        """The vectors of texts, from the partition and the values of each token in ``ranges.rows``."""
        places, owners = ranges.expand()
        texts, shape = len(ranges.first), self.shape
        keys = owners * shape.partitions + partitions[places]
        order = np.argsort(keys, kind="stable")
        found, first, sizes = np.unique(keys[order], return_index=True, return_counts=True)
        means: NDArray[np.float32] = np.zeros((texts * shape.partitions, shape.values), np.float32)
        has_tokens = np.zeros((texts, shape.partitions), bool)
        if len(found):
            sums = np.add.reduceat(values[places[order]], first, axis=0)
            means[found] = sums / sizes[:, np.newaxis].astype(np.float32)
            has_tokens.ravel()[found] = True
        # the nearest partition where the text has tokens, which is the partition itself if it has some there
        sources = [nearest[has_tokens[:, nearest].argmax(axis=1)] for nearest in self._nearest]
        filled = np.arange(texts)[:, np.newaxis] * shape.partitions + np.stack(sources, axis=1)
        vectors: NDArray[np.float32] = means[filled].reshape(texts, shape.width)
        return vectors

    def encode_query(self, tokens: NDArray[np.floating]) -> NDArray[np.float32]:
        """The vector of a query from those of its tokens, whose inner product with a text's nears their maxsim.

        Shape: ``tokens [n, W]`` → ``[P * V]``.
        """
        partitions, values = self._place(tokens)
        members = np.equal.outer(np.arange(len(self.centers)), partitions).astype(np.float32)
        sums: NDArray[np.float32] = members @ values
        sums /= max(1, len(tokens))
        return sums.ravel()

    def _place(self, tokens: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The partition of each token, and its values."""
        units = unit_vectors(tokens)
        return np.argmax(units @ self.centers.T, axis=1), units @ self.directions.T

    def to_array(self) -> NDArray[np.float32]:
        """The centers and the directions, one after the other, ``[P + V, W]``."""
        return np.concatenate([self.centers, self.directions])

    @classmethod
    def from_array(cls, array: NDArray[np.float32], shape: EncodingShape) -> "TokenEncoding":
        """The encoding that :meth:`to_array` gave."""
        return cls(array[: shape.partitions], array[shape.partitions :])

    def write(self, path: Path) -> None:
        """Write the encoding to a ``.npy`` file."""
        np.save(path, self.to_array())


def fit_encoding(tokens: NDArray[np.floating], shape: EncodingShape) -> TokenEncoding:
    """Find the partitions and directions of a sample of tokens ``[n, W]``, not none.

    Raises:
        UsageError: there are fewer tokens than partitions.
        IndexFolderError: a vector is not finite.
    """
    if not np.isfinite(tokens).all():
        problem = "a vector of a token is not finite (NaN or infinite)"
        raise IndexFolderError(problem, remedy="bertfeat verify finds the cause")
    if len(tokens) < shape.partitions:
        raise UsageError(
            f"{len(tokens):,} sampled tokens cannot be divided into {shape.partitions:,} partitions",
            where=parameter("encode", str(shape)),
            remedy=f"choose fde:{len(tokens) * shape.values} at most",
        )
    units = unit_vectors(tokens)
    width = units.shape[1]
    with faiss_errors(UsageError, f"{len(tokens):,} tokens cannot be divided into {shape.partitions:,} partitions", ""):
        clusters = faiss.Kmeans(
            width, shape.partitions, niter=_ITERATIONS, seed=_SEED, spherical=True, min_points_per_centroid=1
        )
        clusters.train(units)
    if shape.values == width:
        directions = np.eye(width, dtype=np.float32)
    else:
        _, vectors = np.linalg.eigh(units.T @ units)  # the variances ascend
        directions = np.ascontiguousarray(vectors[:, : -shape.values - 1 : -1].T, np.float32)
    return TokenEncoding(clusters.centroids, directions)
