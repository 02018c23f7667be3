"""The collocates of a word: the words that stand near it more often than chance would have it.

Near is within a number of words on the same side, in the same text, or span. Punctuation marks do not count as words.
Every word is counted once, however many usages it stands near, and the usages themselves are left out, so that a
collocate has a 2 × 2 table of words near and not near, itself and not itself (Evert 2008, surface cooccurrence).

Shapes: D documents, N words of the corpus, V different words.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked, require_at_least
from bertfeat.core import FeatureSet, SpanCutter
from bertfeat.display import displayed
from bertfeat.io import Address
from bertfeat.progress import ProgressOption, StepProgress
from bertfeat.usages.dispersion import PartCounts
from bertfeat.usages.hits import documents_that_meet, open_with_texts
from bertfeat.usages.near import REACH, check_reach, stretch_over, word_borders
from bertfeat.usages.pattern import Pattern
from bertfeat.usages.pattern_search import find_pattern, outermost
from bertfeat.usages.query import parse_condition_on
from bertfeat.usages.spans import TextSpans, open_cutter
from bertfeat.usages.word_index import Hits, WordIndex, open_word_index


class Association(StrEnum):
    """A measure of how strongly two words attract each other."""

    LOG_LIKELIHOOD = "log-likelihood"  # G², Dunning 1993; grows with the size of the corpus
    LOG_DICE = "log-dice"  # Rychlý 2008; 14 at most, and the same for corpora of any size


@displayed
@dataclass(frozen=True, slots=True)
class Collocate:
    """A word that stands near the searched one."""

    word: str  # without case
    near: int  # how often it stands near
    expected: float  # how often it would stand near by chance
    left: int  # how often it stands near, on the left of the nearest usage
    right: int
    found: int  # how often it stands in the corpus
    documents: int  # in how many it stands near
    dispersion: float  # Gries's DP (2008) of these places over the words near in each document
    log_likelihood: float
    log_dice: float


@displayed
@dataclass(frozen=True, slots=True)
class Collocates:
    """The collocates of a word."""

    word: str
    documents: int  # searched; with a condition, those that meet it
    words: int  # in these documents, or in the listed spans of them, without punctuation marks
    found: int  # usages in these documents
    near: int  # words near a usage
    left: int  # words on the left of a usage that are near
    right: int
    collocates: tuple[Collocate, ...]  # the strongest first
    spans: str | None = None  # what a usage and the words near it stand in, such as sentences; None: a text


@checked
def find_collocates(
    features: FeatureSet | str | Path | Address,
    word: str,
    *,
    left: int = REACH,
    right: int = REACH,
    least: int = 3,
    measure: Association | str = Association.LOG_LIKELIHOOD,
    k: int = 20,
    where: str | None = None,
    spans: str | None = None,
    progress: ProgressOption[StepProgress] = None,
) -> Collocates:
    """Find the ``k`` words that stand near a word more often than chance would have it, by a ``measure``.

    The word may be a pattern (docs/patterns.md).

    Near are ``left`` words before a usage and ``right`` words after it; with ``spans``, such as ``"sentences"``
    (docs/spans.md), those of them that a span has together with the usage, and usages in no span do not count. Words
    that stand near less than ``least`` times are left out. Only documents that meet the condition ``where`` count, and
    of a column's spans only words in one. The set needs texts, and no vectors of words.

    Raises:
        UsageError: no word, a pattern that is not known, a number that is too small, an unknown
            measure, spans that are unknown or of a column that was not kept, or a condition that cannot be read.
        FeatureSetError: no texts in the set; or the column of spans lists such as are empty or outside the text.
        DamagedError, StorageError: see :func:`bertfeat.find_usages`.
    """
    check_reach(left, right)
    require_at_least(1, least=least, k=k)
    pattern, measure = Pattern.parse(word), Association(measure)
    features = open_with_texts(features)
    condition, cutter = parse_condition_on(features, where), open_cutter(features, spans)
    index = open_word_index(features, progress=progress)
    inside = documents_that_meet(features, condition)
    hits = find_pattern(index, pattern)
    hits = hits[inside[index.document_of(hits.first)]]
    words = index.without_marks(np.arange(len(index.words)))
    scope = _Scope(words, inside[index.document_of(words)], None)
    if cutter is not None:
        scope = scope.within(features, index, cutter, hits)
        hits = hits[scope.hold(index, hits)]
    hits = hits[outermost(hits)]
    counts = _count_near(index, hits, scope, left, right)
    found = (int(inside.sum()), int(counts.everywhere.sum()), len(hits), int(counts.near.sum()))
    return Collocates(word, *found, left, right, _strongest(index, counts, len(hits), least, measure, k), spans)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The words among which collocates are counted."""

    words: NDArray[np.int64]  # [N] places of all words of the corpus, without punctuation marks
    searched: NDArray[np.bool_]  # [N] those in documents that meet the condition, and in spans that a column lists
    spans: TextSpans | None  # those that a usage and a word near it stand in

    def within(self, features: FeatureSet, index: WordIndex, cutter: SpanCutter, hits: Hits) -> "_Scope":
        """The same within spans, by the texts of ``hits``; or by all texts, where a column lists the spans."""
        if not cutter.rule.column:  # all words of a text are in its spans
            return replace(self, spans=TextSpans.read(features, index, cutter, index.text_of(hits.first)))
        spans = TextSpans.read(features, index, cutter, index.text_of(self.words[self.searched]))
        listed = replace(self, spans=spans)
        return replace(listed, searched=self.searched & listed.hold(index, Hits.of_words(self.words)))

    def hold(self, index: WordIndex, hits: Hits) -> NDArray[np.bool_]:
        """Mask of the hits that stand in a span, ``[n]``."""
        every = np.ones(len(hits), bool)
        return every if self.spans is None else self.spans.hold(index.text_of(hits.first), index.characters(hits))


@dataclass(frozen=True, slots=True)
class _NearCounts:
    """The numbers of times that each different word stands near usages, and anywhere."""

    left: NDArray[np.int64]  # [V] near, on the left of the nearest usage
    right: NDArray[np.int64]  # [V]
    everywhere: NDArray[np.int64]  # [V] in all searched documents
    outside: NDArray[np.int64]  # [V] in all searched documents, but not in a usage
    words: NDArray[np.int64]  # [m] the number of each word that is near
    documents: NDArray[np.int64]  # [m] the number of the document of each word that is near

    @property
    def near(self) -> NDArray[np.int64]:
        """The number of times that each word stands near, ``[V]``."""
        return self.left + self.right

    def disperse(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """In how many documents some different words stand near, and their dispersion over what is near in each."""
        ranks = np.full(len(self.left), -1, np.int64)
        ranks[numbers] = np.arange(len(numbers))
        of_near = ranks[self.words]
        sizes = np.bincount(self.documents)
        counted = PartCounts.of_hits(of_near[of_near >= 0], self.documents[of_near >= 0], len(sizes))
        return counted.ranges(len(numbers)), counted.deviations(sizes, len(numbers))


def _count_near(index: WordIndex, hits: Hits, scope: _Scope, left: int, right: int) -> _NearCounts:
    """Count the words near hits, in one span with them, and all words that are searched."""
    different, words, spans = len(index.vocabulary), scope.words, scope.spans
    texts = index.text_of(words)
    # -1 for a word on the left of the nearest usage, 1 for one on its right, 0 for one that is not near
    side = np.zeros(len(words), np.int8)
    begin, stop = word_borders(words, hits)
    owners, own = index.text_of(hits.first), index.characters(hits)
    # from far to near, so that the nearest usage decides
    for away in range(max(left, right), 0, -1):
        for reach, direction, at in ((right, 1, stop - 1 + away), (left, -1, begin - away)):
            if away <= reach:
                known = np.flatnonzero((at >= 0) & (at < len(words)))
                known = known[texts[at[known]] == owners[known]]
                if spans is not None:
                    neighbors = index.characters(Hits.of_words(words[at[known]]))
                    known = known[spans.hold(owners[known], stretch_over(own[known], neighbors))]
                side[at[known]] = direction
    of_hits = np.zeros(len(words), bool)
    for more in range(int((stop - begin).max(initial=0))):
        of_hits[(begin + more)[begin + more < stop]] = True
    side[of_hits] = 0
    numbers = index.words[words]
    masks = (side < 0, side > 0, scope.searched, scope.searched & ~of_hits)
    left_of, right_of, everywhere, outside = (np.bincount(numbers[mask], minlength=different) for mask in masks)
    near = np.flatnonzero(side)
    return _NearCounts(
        left_of, right_of, everywhere, outside, numbers[near].astype(np.int64), texts[near] // index.texts_per_document
    )


def _strongest(
    index: WordIndex, counts: _NearCounts, usages: int, least: int, measure: Association, k: int
) -> tuple[Collocate, ...]:
    """The ``k`` collocates with the highest scores, of so many usages.

    Words that stand near less than ``least`` times, or less often than by chance, are none. logDice (Rychlý 2008) is 14
    for words that never stand apart.
    """
    near, outside = counts.near.astype(np.float64), counts.outside.astype(np.float64)
    expected = near.sum() * outside / max(1.0, outside.sum())  # if the words near were drawn by chance
    chosen = np.flatnonzero((counts.near >= least) & (near > expected))
    scores = {
        Association.LOG_LIKELIHOOD: log_likelihood(near[chosen], outside[chosen], near.sum(), outside.sum()),
        Association.LOG_DICE: 14 + np.log2(2 * near[chosen] / (usages + counts.everywhere[chosen])),
    }
    order = np.argsort(-scores[measure], kind="stable")[:k]  # equal ones by the alphabet
    words = index.spell(chosen[order])
    ranges, deviations = counts.disperse(chosen[order])
    return tuple(
        Collocate(
            word=word,
            near=int(counts.near[number]),
            expected=round(float(expected[number]), 2),
            left=int(counts.left[number]),
            right=int(counts.right[number]),
            found=int(counts.everywhere[number]),
            documents=int(ranges[place]),
            dispersion=round(float(deviations[place]), 4),
            log_likelihood=round(float(scores[Association.LOG_LIKELIHOOD][at]), 2),
            log_dice=round(float(scores[Association.LOG_DICE][at]), 2),
        )
        for place, (word, number, at) in enumerate(zip(words, chosen[order].tolist(), order.tolist(), strict=True))
    )


def log_likelihood(
    near: NDArray[np.float64], whole: NDArray[np.float64], all_near: float, all_whole: float
) -> NDArray[np.float64]:
    """The G² of each word's table (Dunning 1993): ``2 · sum(observed · ln(observed / expected))`` over its four cells.

    ``near`` ``[n]`` counts a word within a part of a corpus, and ``whole`` in the whole of it; of all words (or texts)
    there are ``all_near`` in the part and ``all_whole`` in the whole.
    """
    observed = np.stack([near, all_near - near, whole - near, all_whole - all_near - whole + near])
    rows, columns = (all_near, all_near, all_whole - all_near, all_whole - all_near), (whole, all_whole - whole) * 2
    expected = np.stack([row * column / all_whole for row, column in zip(rows, columns, strict=True)])
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(observed > 0, observed * np.log(observed / expected), 0.0)
    total: NDArray[np.float64] = 2 * terms.sum(axis=0)
    return total
