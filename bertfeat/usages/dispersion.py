"""The dispersion of words over the parts of a corpus: in how many of them a word stands, and how evenly.

Shapes: D documents, P parts, F different words, n hits.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertfeat.where import Cut


@dataclass(frozen=True, slots=True)
class CorpusParts:
    """The parts of a corpus, and how large each is."""

    of_documents: NDArray[np.int64]  # [D] the part that each document is in; -1 for documents that do not count
    words: NDArray[np.int64]  # [P] the words in each part

    @classmethod
    def of(cls, words: NDArray[np.int64], inside: NDArray[np.bool_], cut: Cut | None = None) -> Self:
        """The parts of a cut, or else single documents, of ``words`` ``[D]`` each; those ``inside`` ``[D]`` count."""
        numbers = np.arange(len(words)) if cut is None else cut.of_documents
        of_documents = np.where(inside, numbers, -1)
        counted = of_documents >= 0
        parts = len(words) if cut is None else len(cut.slices)
        sizes = np.bincount(of_documents[counted], words[counted], minlength=parts)
        return cls(of_documents, sizes.astype(np.int64))


@dataclass(frozen=True, slots=True)
class PartCounts:
    """How often words stand in each part, where they do."""

    words: NDArray[np.int64]  # [m] the number of a word, ascending
    parts: NDArray[np.int64]  # [m] a part that it stands in
    counts: NDArray[np.int64]  # [m] how often

    @classmethod
    def of_hits(cls, words: NDArray[np.int64], parts: NDArray[np.int64], number: int) -> Self:
        """Count hits ``[n]`` by their words and their parts, of which there are ``number``."""
        pairs, counts = np.unique(words * number + parts, return_counts=True)
        return cls(*np.divmod(pairs, max(1, number)), counts)

    def ranges(self, number: int) -> NDArray[np.int64]:
        """In how many parts each of a ``number`` of words stands, ``[F]``."""
        return np.bincount(self.words, minlength=number)

    def deviations(self, sizes: NDArray[np.int64], number: int) -> NDArray[np.float64]:
        """Gries's DP (2008) of each word, ``[F]``: 0 where it is spread as the parts are large.

        At most it is 1 less the share of the smallest part, so near 1 for a word in few of many parts. It
        is half the sum, over all parts, of the difference between a part's share of the corpus, by ``sizes``
        ``[P]``, and its share of the word.
        """
        own = np.bincount(self.words, self.counts, minlength=number)
        share = sizes[self.parts] / max(1, int(sizes.sum()))
        of_word = self.counts / own[self.words]
        # of a part without the word, the difference is its share; and all shares add up to 1, if there are words
        differences = np.bincount(self.words, weights=np.abs(of_word - share) - share, minlength=number)
        deviations: NDArray[np.float64] = (differences + 1) / 2
        return deviations
