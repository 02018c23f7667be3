"""Keywords: words that stand more often in a corpus, or a part of it, than in another one.

Shapes: F different words of the corpus.
"""

import os
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.arguments import checked, require_at_least, require_text
from bertfeat.core import FeatureSet
from bertfeat.display import displayed
from bertfeat.errors import UsageError, errors_within, parameter, pluralize, shorten
from bertfeat.io import Address, ResultKind, is_address
from bertfeat.progress import ProgressOption, StepProgress
from bertfeat.usages.collocates import log_likelihood
from bertfeat.usages.frequencies import CountedWords, WordFrequencies, WordFrequency, cut_corpus, read_pattern
from bertfeat.usages.hits import documents_that_meet, open_with_texts
from bertfeat.usages.query import parse_condition_on
from bertfeat.usages.results import per_million
from bertfeat.usages.word_forms import Attribute
from bertfeat.where import Condition

REST = "rest"
"""The documents of a set that do not meet its condition."""

_NEVER = 0.5  # counts for a word that the reference does not have, so that its ratio is finite (Hardie 2014)


class Keyness(StrEnum):
    """A measure of how much more often a word stands in one corpus than in another."""

    LOG_LIKELIHOOD = "log-likelihood"  # G², Dunning 1993: how sure it is; grows with the corpus
    LOG_RATIO = "log-ratio"  # Hardie 2014: how large it is; 1 is twice as often, 2 four times


@displayed
@dataclass(frozen=True, slots=True)
class Keyword(WordFrequency):
    """A word that stands more often than in the reference."""

    reference_found: int
    reference_per_million: float
    log_likelihood: float
    log_ratio: float


@displayed
@dataclass(frozen=True, slots=True)
class Keywords(WordFrequencies):
    """The keywords of a corpus against a reference, those with the highest measure first."""

    frequencies: tuple[Keyword, ...]
    against: str  # the reference: its folder, a condition, or "rest"
    reference_documents: int
    reference_words: int
    measure: str


@checked
def find_keywords(
    features: FeatureSet | str | Path | Address,
    against: FeatureSet | str | Path | Address,
    word: str | None = None,
    *,
    ngrams: int = 1,
    attribute: Attribute | str = Attribute.WORD,
    by: str | None = None,
    slices: str | int | None = None,
    where: str | None = None,
    least: int = 3,
    measure: Keyness | str = Keyness.LOG_LIKELIHOOD,
    k: int = 20,
    progress: ProgressOption[StepProgress] = None,
) -> Keywords:
    """Find the ``k`` words that stand more often in a corpus than in a reference, by a ``measure``.

    The reference ``against`` is another feature set, all of it and split into words alike; or a condition, such as
    ``"year > 1900"``, that documents of this set meet; or ``"rest"``, those that do not meet ``where``, which is a
    condition on this set alone. Each keyword has G² (Dunning 1993) over the four cells of the table of both corpora,
    itself and not itself; and the binary logarithm of the ratio of its relative frequencies (Hardie 2014), where a word
    that the reference does not have counts as half of one there. Words that stand less than ``least`` times are left
    out. See :func:`count_words` for the rest.

    Raises:
        UsageError: a reference that is no feature set and no condition, is this set itself, or is split into words by
            another rule; documents that are compared and meet the condition, too; ``"rest"`` without ``where``; and
            see :func:`count_words`.
        FeatureSetError, DamagedError, StorageError: see :func:`count_words`.
    """
    require_at_least(1, least=least, k=k)
    features, pattern, attribute = open_with_texts(features), read_pattern(word, ngrams), Attribute(attribute)
    measure = Keyness(measure)
    inside = documents_that_meet(features, parse_condition_on(features, where))
    cut = cut_corpus(features, by, slices, inside)
    named = parameter("against", *([shorten(against)] if isinstance(against, str) else []))
    counted = CountedWords.of(features, pattern, attribute, inside, cut, progress=progress)
    with errors_within(named):
        reference = _Reference.of(features, against, inside, restricted=where is not None)
        other = CountedWords.of(reference.features, pattern, attribute, reference.inside, progress=progress)
    table = _Table.of(counted, other)
    scores = table.log_likelihoods if measure is Keyness.LOG_LIKELIHOOD else table.log_ratios
    more = np.flatnonzero((table.own >= least) & (table.log_ratios > 0))
    chosen = more[np.argsort(-scores[more], kind="stable")[:k]]  # equal ones by the alphabet
    found = counted.frequencies(chosen)
    keywords = [table.keyword(*each, other.words) for each in zip(found.frequencies, chosen.tolist(), strict=True)]
    return Keywords(
        **{each.name: getattr(found, each.name) for each in fields(found)} | {"frequencies": tuple(keywords)},
        against=reference.name,
        reference_documents=int(reference.inside.sum()),
        reference_words=other.words,
        measure=measure.value,
    )


@dataclass(frozen=True, slots=True)
class _Reference:
    """What a corpus is compared with."""

    name: str
    features: FeatureSet
    inside: NDArray[np.bool_]  # [D] mask of its documents that count

    @classmethod
    def of(
        cls,
        features: FeatureSet,
        against: FeatureSet | str | Path | Address,
        inside: NDArray[np.bool_],
        *,
        restricted: bool,
    ) -> Self:
        """Read the reference of the documents ``inside`` a feature set, a mask ``[D]`` which is ``restricted``."""
        if isinstance(against, str) and against == REST:
            if not restricted:
                remedy = f"say with {parameter('where')} which are compared with it"
                raise UsageError(
                    "the rest are the documents that do not meet the condition, and there is none", remedy=remedy
                )
            return cls(REST, features, ~inside)
        if isinstance(against, str) and not _names_a_set(against):
            others = documents_that_meet(features, _parse_reference(features, against))
            if both := int((inside & others).sum()):
                problem = f"{pluralize(both, 'document')} that are compared meet it, too"
                choose = f"say with {parameter('where')} which documents are compared with these"
                raise UsageError(problem, remedy=f"write {REST}, or leave them out" if restricted else choose)
            return cls(against, features, others)
        reference = open_with_texts(against)
        if _without_links(reference) == _without_links(features):
            remedy = f"write {REST}" if restricted else f"give {parameter('where')}, and write {REST}"
            raise UsageError("it is the set that is compared", remedy=remedy)
        rules = [each.header.settings.word_rule for each in (features, reference)]
        if rules[0] != rules[1]:
            remedy = f"extract one of them again with {parameter('words', rules[0].value)}"
            raise UsageError(f"its texts are split into words by another rule, {rules[1]}", remedy=remedy)
        return cls(str(reference.folder), reference, np.ones(len(reference), bool))


def _without_links(features: FeatureSet) -> str:
    """Where a feature set is, behind links."""
    folder = features.folder
    return os.path.realpath(folder) if isinstance(folder, Path) else str(folder)


def _parse_reference(features: FeatureSet, against: str) -> Condition | None:
    """The condition that the documents of a reference meet.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        return parse_condition_on(features, require_text(against, "the reference"))
    except UsageError as error:
        raise UsageError(error.problem, where="no feature set, and as a condition", remedy=error.remedy) from error


def _names_a_set(text: str) -> bool:
    """Whether a text is the place of a file or folder, or has the ending of a feature set, and is no condition."""
    return is_address(text) or os.path.exists(text) or text.endswith(f".{ResultKind.FEATURES.value}")


@dataclass(frozen=True, slots=True)
class _Table:
    """The counts of each different word of a corpus, in it and in the reference."""

    own: NDArray[np.int64]  # [F]
    others: NDArray[np.int64]  # [F]
    log_likelihoods: NDArray[np.float64]  # [F]
    log_ratios: NDArray[np.float64]  # [F]

    @classmethod
    def of(cls, counted: CountedWords, reference: CountedWords) -> Self:
        """Compare two corpora, whose sizes are their words; or hits, where one has more of these, as of marks."""
        own, others = counted.counts, _find_counts(counted, reference)
        both = (counted, reference)
        by_hits = any(len(each.hits) > each.words for each in both)
        whole, whole_other = (max(1, len(each.hits) if by_hits else each.words) for each in both)
        likelihoods = log_likelihood(own.astype(float), (own + others).astype(float), whole, whole + whole_other)
        ratios = np.log2(own / whole) - np.log2(np.where(others > 0, others, _NEVER) / whole_other)
        return cls(own, others, likelihoods, ratios)

    def keyword(self, frequency: WordFrequency, at: int, reference_words: int) -> Keyword:
        """The keyword with the number ``at``."""
        return Keyword(
            **{each.name: getattr(frequency, each.name) for each in fields(frequency)},
            reference_found=int(self.others[at]),
            reference_per_million=per_million(int(self.others[at]), reference_words),
            log_likelihood=round(float(self.log_likelihoods[at]), 2),
            log_ratio=round(float(self.log_ratios[at]), 2),
        )


def _find_counts(counted: CountedWords, reference: CountedWords) -> NDArray[np.int64]:
    """How often each different word of a corpus stands in the reference, ``[F]``."""
    places = pc.index_in(counted.forms.strings, reference.forms.strings).fill_null(-1).to_numpy()
    counts: NDArray[np.int64] = np.append(reference.counts, 0)[places]
    return counts
