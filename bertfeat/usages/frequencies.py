"""Word lists: how often different words, tags or rows of them stand in a corpus, and how evenly over its parts.

Shapes: D documents, P parts, F different words, n hits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked, require_at_least
from bertfeat.core import FeatureSet
from bertfeat.display import displayed
from bertfeat.errors import UsageError, errors_within, parameter, shorten
from bertfeat.io import Address
from bertfeat.progress import ProgressOption, StepProgress
from bertfeat.usages.dispersion import CorpusParts, PartCounts
from bertfeat.usages.hits import documents_that_meet, open_with_texts
from bertfeat.usages.pattern import Pattern
from bertfeat.usages.pattern_search import find_pattern, outermost, require_tags
from bertfeat.usages.query import parse_condition_on
from bertfeat.usages.results import per_million
from bertfeat.usages.word_forms import Attribute, WordForms
from bertfeat.usages.word_index import Hits, WordIndex, open_word_index
from bertfeat.where import Cut, Slice, cut_slices, cut_values, refuse_slices_of_nothing

_MOST_COUNTS = 10_000_000  # of words in slices, each a number of Python


@displayed
@dataclass(frozen=True, slots=True)
class WordFrequency:
    """A word, or words in a row, with its frequency and its dispersion."""

    word: str  # without case; or its tag
    found: int
    per_million: float  # of all words
    documents: int  # in how many it stands
    range: int  # in how many slices it stands; without slices, documents
    dispersion: float  # Gries's DP (2008) over these: 0 where it is spread evenly, near 1 where it is in few of many
    by_slice: tuple[int, ...]  # how often it stands in each slice; empty without slices


@displayed
@dataclass(frozen=True, slots=True)
class WordFrequencies:
    """The words of a corpus, the most frequent first."""

    pattern: str
    attribute: str
    documents: int  # that count: those that meet the condition and are in a slice
    words: int  # in these documents, without punctuation marks
    found: int  # hits of the pattern in these documents
    different: int
    slices: tuple[Slice, ...]  # in the order in which each frequency counts them
    slice_words: tuple[int, ...]  # the words in each slice
    frequencies: tuple[WordFrequency, ...]


@checked
def count_words(
    features: FeatureSet | str | Path | Address,
    word: str | None = None,
    *,
    ngrams: int = 1,
    attribute: Attribute | str = Attribute.WORD,
    by: str | None = None,
    slices: str | int | None = None,
    where: str | None = None,
    least: int = 1,
    k: int = 20,
    progress: ProgressOption[StepProgress] = None,
) -> WordFrequencies:
    """Count the different words that a pattern finds, and give the ``k`` most frequent ones with their dispersion.

    The word may be a pattern (docs/patterns.md): ``"*ing"`` are words that end so, and ``'[tag="ADJ"] *'`` adjectives
    with the next word. Without one all words are counted, or rows of ``ngrams`` of them with no punctuation mark
    between. Words count without case; with ``attribute="tag"`` their tags are counted. Those that stand less than
    ``least`` times are left out.

    Beside each frequency stands in how many documents the word is (its range), and Gries's DP (2008) over these. With
    ``by`` both are over the values of a kept column (up to 100,000 texts; ten million counts of words in values), or
    over ``slices`` of it (see :func:`bertfeat.measure_change`), and each of these has its own count; documents in none
    do not count, nor do those that do not meet the condition ``where``. The set needs texts, and no vectors of words.

    Raises:
        UsageError: a pattern that is not known, or one beside ``ngrams``; tags where there are none; ``by`` or
            ``slices`` that do not cut the set; more counts of words in slices than memory is for; a number that is too
            small; or a condition that cannot be read.
        FeatureSetError: no texts in the set.
        DamagedError, StorageError: see :func:`bertfeat.find_usages`.
    """
    require_at_least(1, least=least, k=k)
    features, pattern, attribute = open_with_texts(features), read_pattern(word, ngrams), Attribute(attribute)
    inside = documents_that_meet(features, parse_condition_on(features, where))
    cut = cut_corpus(features, by, slices, inside)
    counted = CountedWords.of(features, pattern, attribute, inside, cut, progress=progress)
    frequent = np.flatnonzero(counted.counts >= least)
    chosen = frequent[np.argsort(-counted.counts[frequent], kind="stable")[:k]]  # equal ones by the alphabet
    return counted.frequencies(chosen)


def read_pattern(word: str | None, ngrams: int) -> Pattern:
    """The pattern of a word, or without one of so many words in a row.

    Raises:
        UsageError: both, or a pattern that is not known.
    """
    require_at_least(1, ngrams=ngrams)
    if word is None:
        return Pattern.of_any_words(ngrams)
    if ngrams > 1:
        problem = f"{parameter('ngrams', ngrams)} are rows of any words, and {shorten(word)!r} says which"
        raise UsageError(problem, remedy="leave one out; in a pattern, * is a word: 'of the *'")
    return Pattern.parse(word)


def cut_corpus(features: FeatureSet, by: str | None, slices: str | int | None, inside: NDArray[np.bool_]) -> Cut | None:
    """Cut some documents, a mask ``[D]``, by each value of a kept column, or into slices of it; None without one.

    Raises:
        UsageError: slices of no column; or see :func:`bertfeat.where.cut_slices`.
    """
    refuse_slices_of_nothing(by, slices)
    if by is None:
        return None
    return cut_values(features, by, inside) if slices is None else cut_slices(features, by, slices).among(inside)


@dataclass(frozen=True)
class CountedWords:
    """The different words that a pattern finds in a corpus, and how often each is there."""

    pattern: Pattern
    attribute: Attribute
    index: WordIndex
    inside: NDArray[np.bool_]  # [D] mask of the documents that count
    cut: Cut | None
    hits: Hits  # [n] in these documents
    forms: WordForms

    @classmethod
    def of(
        cls,
        features: FeatureSet,
        pattern: Pattern,
        attribute: Attribute,
        inside: NDArray[np.bool_],
        cut: Cut | None = None,
        *,
        progress: ProgressOption[StepProgress] = None,
    ) -> Self:
        """Count the words of a pattern in some documents, a mask ``[D]``; with a cut of these, only in its slices."""
        index = open_word_index(features, progress=progress)
        if attribute is Attribute.TAG:
            with errors_within(features.folder):
                require_tags(index, parameter("attribute", attribute.value))
        if cut is not None:
            inside = inside & (cut.of_documents >= 0)
        hits = find_pattern(index, pattern)
        hits = hits[inside[index.document_of(hits.first)]]
        hits = hits[outermost(hits)]
        return cls(pattern, attribute, index, inside, cut, hits, WordForms.of(index, hits, attribute))

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """How often each different word is there, ``[F]``."""
        return np.bincount(self.forms.of_hits, minlength=len(self.forms.strings))

    @cached_property
    def words(self) -> int:
        """The number of all words in the documents that count, without punctuation marks."""
        return int(self.index.counts[self.inside].sum())

    def frequencies(self, chosen: NDArray[np.int64]) -> WordFrequencies:
        """The frequencies and dispersions of some of the different words, in their order."""
        parts = CorpusParts.of(self.index.counts, self.inside, self.cut)
        return WordFrequencies(
            pattern=self.pattern.word,
            attribute=self.attribute.value,
            documents=int(self.inside.sum()),
            words=self.words,
            found=len(self.hits),
            different=len(self.forms.strings),
            slices=() if self.cut is None else self.cut.slices,
            slice_words=() if self.cut is None else tuple(parts.words.tolist()),
            frequencies=tuple(self._describe(chosen, parts)),
        )

    def _describe(self, chosen: NDArray[np.int64], parts: CorpusParts) -> Sequence[WordFrequency]:
        number = len(chosen)
        ranks = np.full(len(self.forms.strings), -1, np.int64)
        ranks[chosen] = np.arange(number)
        of_hits = ranks[self.forms.of_hits]
        shown = of_hits >= 0
        words, documents = of_hits[shown], self.index.document_of(self.hits.first[shown])
        by_document = PartCounts.of_hits(words, documents, len(self.inside))
        by_part = by_document
        if self.cut is not None:
            by_part = PartCounts.of_hits(words, parts.of_documents[documents], len(parts.words))
        ranges, part_ranges = by_document.ranges(number), by_part.ranges(number)
        deviations = by_part.deviations(parts.words, number)
        slices = self._by_slice(by_part, number)
        strings = self.forms.strings.take(chosen).to_pylist()
        return [
            WordFrequency(
                word=strings[at],
                found=int(self.counts[chosen[at]]),
                per_million=per_million(int(self.counts[chosen[at]]), self.words),
                documents=int(ranges[at]),
                range=int(part_ranges[at]),
                dispersion=round(float(deviations[at]), 4),
                by_slice=slices[at],
            )
            for at in range(number)
        ]

    def _by_slice(self, counted: PartCounts, number: int) -> list[tuple[int, ...]]:
        """The counts of each word in each slice; of none without slices."""
        if self.cut is None:
            return [()] * number
        if number * len(self.cut.slices) > _MOST_COUNTS:
            problem = f"{number:,} words in {len(self.cut.slices):,} slices are more than {_MOST_COUNTS:,} counts"
            raise UsageError(problem, remedy=f"give a smaller {parameter('k')}, or fewer {parameter('slices')}")
        table = np.zeros((number, len(self.cut.slices)), np.int64)
        table[counted.words, counted.parts] = counted.counts
        return list(map(tuple, table.tolist()))
