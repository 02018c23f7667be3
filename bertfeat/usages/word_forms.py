"""The different words, tags, or rows of them, among the hits of a pattern.

Shapes: n hits, F different ones, V different words or tags of the index.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.usages.word_index import Hits, WordIndex


class Attribute(StrEnum):
    """A property of the words of a corpus, as in CQL."""

    WORD = "word"
    TAG = "tag"


@dataclass(frozen=True, slots=True)
class WordForms:
    """The different words or tags among hits: for hits of several words, those of each in a row."""

    of_hits: NDArray[np.int64]  # [n] the number of each hit's own
    strings: pa.LargeStringArray  # [F] in the order of their words in the alphabet

    @classmethod
    def of(cls, index: WordIndex, hits: Hits, attribute: Attribute) -> Self:
        """The different words or tags of hits; words without case, and apart where white space stands between them."""
        names, values = _names_and_values(index, attribute)
        numbers = values[hits.first].astype(np.int64)
        for away in range(1, int(hits.length.max(initial=1))):
            inside = hits.length > away
            places = hits.first[inside] + away
            following = np.zeros(len(hits), np.int64)  # none
            following[inside] = 1 + 2 * values[places].astype(np.int64) + _adjoin(index, places, attribute)
            numbers = np.unique(numbers * (2 * len(names) + 1) + following, return_inverse=True)[1]
        counts = np.bincount(numbers)
        present = np.flatnonzero(counts)
        ranks, example = np.zeros(len(counts), np.int64), np.zeros(len(counts), np.int64)
        ranks[present] = np.arange(len(present))
        example[numbers] = np.arange(len(hits))
        strings = _spell_hits(index, hits[example[present]], names, values, attribute)
        alike = strings.dictionary_encode()  # one word may be spelled as two in a row
        return cls(alike.indices.to_numpy().astype(np.int64)[ranks[numbers]], alike.dictionary)


def _names_and_values(
    index: WordIndex, attribute: Attribute
) -> tuple[pa.LargeStringArray, NDArray[np.unsignedinteger]]:
    """The different words or tags ``[V]``, sorted, and the number of each in the order of the corpus."""
    if attribute is Attribute.WORD:
        return index.vocabulary, index.words
    order = pc.array_sort_indices(index.tag_names).to_numpy()
    return index.tag_names.take(order), np.argsort(order).astype(index.tags.dtype)[index.tags]


def _adjoin(index: WordIndex, places: NDArray[np.int64], attribute: Attribute) -> NDArray[np.bool_]:
    """Whether nothing stands between words and those before them; tags stand apart."""
    return index.adjoin(places) if attribute is Attribute.WORD else np.zeros(len(places), bool)


def _spell_hits(
    index: WordIndex,
    hits: Hits,
    names: pa.LargeStringArray,
    values: NDArray[np.unsignedinteger],
    attribute: Attribute,
) -> pa.LargeStringArray:
    """The words or tags of each hit, joined as they stand; ``[F]``."""
    nothing, space = (pa.scalar(text, pa.large_string()) for text in ("", " "))
    strings = names.take(pa.array(values[hits.first]))
    for away in range(1, int(hits.length.max(initial=1))):
        inside = hits.length > away
        places = np.where(inside, hits.first + away, hits.first)
        apart = inside & ~_adjoin(index, places, attribute)
        between = pc.if_else(pa.array(apart), space, nothing)
        following = pc.if_else(pa.array(inside), names.take(pa.array(values[places])), nothing)
        strings = pc.binary_join_element_wise(strings, between, following, nothing)
    return strings
