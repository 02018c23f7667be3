"""Changes in the meaning of words over a kept column, measured by stored word vectors.

The measures are the average pairwise distance (APD) and the Jensen-Shannon divergence (JSD) over senses, both as in
Giulianelli, Del Tredici and Fernández 2020 (arXiv:2004.14118), and the prototype distance (PRT) as in Kutuzov and
Giulianelli 2020 (arXiv:2005.00050), each with its bootstrap interval.

Shapes: n usages of a slice, W width of their vectors, K senses, R rows: the sample itself, then the resamples of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core import FeatureSet, unit_vectors
from bertfeat.display import Cells, displayed
from bertfeat.errors import UsageError, parameter
from bertfeat.io import Address
from bertfeat.progress import ProgressOption, StepProgress, telling
from bertfeat.search import Interval as Interval  # exported from here
from bertfeat.study.change_sample import EqualSample, WordReader, WordSample
from bertfeat.study.settings import ChangeMeasure, ChangeSettings
from bertfeat.usages import Usage, cluster_labels, find_usage_column, open_word_index, word_pattern
from bertfeat.where import Slice, cut_slices


@dataclass(frozen=True, slots=True)
class SliceDistance:
    """The distance between the usages of a word in two slices, by every measure."""

    first: str  # names of the slices
    last: str
    prt: Interval
    apd: Interval
    jsd: Interval


@displayed
@dataclass(frozen=True, slots=True)
class WordChange:
    """The change in the meaning of a word, with the usages that show it."""

    word: str
    counts: Mapping[str, int]  # usages with a vector, by slice
    compared: int  # usages of each slice
    overall: SliceDistance  # first slice against last
    steps: tuple[SliceDistance, ...]  # each slice against the next one
    senses: Mapping[str, tuple[int, ...]]  # number of compared usages of each sense, by slice
    before: tuple[Usage, ...]  # of the first slice, farthest from the last one's prototype; scores are cosines to it
    after: tuple[Usage, ...]  # of the last slice, farthest from the first one's prototype

    def cells(self) -> Cells:
        """The row of a table that shows the word."""
        overall = {"prt": self.overall.prt, "apd": self.overall.apd, "jsd": self.overall.jsd}
        return {"word": self.word, **overall, "compared": self.compared, "usages": self.counts}


@dataclass(frozen=True, slots=True)
class UnmeasuredWord:
    """A word that could not be measured."""

    word: str
    counts: Mapping[str, int]  # usages with a vector, by slice
    reason: str


@displayed
@dataclass(frozen=True, slots=True)
class ChangeReport:
    """The changes of words over a kept column, the most changed first."""

    features: str
    by: str
    column: str  # the feature column whose vectors were compared
    measure: ChangeMeasure  # the one that ranks the words
    slices: tuple[Slice, ...]
    outside: int  # documents in no slice: their value lies outside, or they have none
    words: tuple[WordChange, ...]
    unmeasured: tuple[UnmeasuredWord, ...]


@checked
def measure_change(
    features: FeatureSet | str | Path | Address,
    words: Sequence[str] | None,
    by: str,
    settings: ChangeSettings | None = None,
    *,
    progress: ProgressOption[StepProgress] = None,
) -> ChangeReport:
    """Measure how the meaning of words differs between slices of a kept column, such as years.

    ``words`` None means all with ``settings.least`` usages in every slice, as :func:`bertfeat.find_usages` finds
    them, ignoring case. Equally many usages of each slice are compared. Words that could not be measured are listed
    in the report; memory grows only by one number per document and a few per word.

    Raises:
        UsageError: impossible slices, or no word could be measured.
        FeatureSetError: no texts, or no vectors of tokens or words, in the set.
        NotDerivableError: the column cannot be derived from the stored ones.
        BertfeatError: scikit-learn is not installed.
    """
    settings = settings or ChangeSettings()
    features = features if isinstance(features, FeatureSet) else FeatureSet(features)
    column = find_usage_column(features, settings.column, "change")
    cut = cut_slices(features, by, settings.slices)
    slices, reader = cut.slices, WordReader(features, column, cut, by, settings)
    patterns = [] if words is None else [word_pattern(features, word) for word in dict.fromkeys(words)]
    results = []
    with telling(progress) as tell:
        open_word_index(features, progress=tell)  # made with progress where there is none
        names = reader.frequent_words() if words is None else [pattern.word for pattern in patterns]
        samples = reader.sample_vocabulary(names) if words is None else map(reader.sample_word, patterns)
        for number, sample in enumerate(samples, 1):
            results.append(_measure_word(sample, slices, settings))
            tell(StepProgress("", number, len(names), "words"))
    measured = [result for result in results if isinstance(result, WordChange)]
    unmeasured = [result for result in results if isinstance(result, UnmeasuredWord)]
    if not measured:
        few = f"no word has {settings.least} usages in every slice of {by}"
        problem = "; ".join(word.reason for word in unmeasured[:5]) or few
        raise UsageError(problem, where=features.folder, remedy=f"give a smaller {parameter('least')}, or other slices")
    measured.sort(key=lambda change: (-getattr(change.overall, settings.measure).value, change.word))
    return ChangeReport(
        features=str(features.folder),
        by=by,
        column=column.name,
        measure=ChangeMeasure(settings.measure),
        slices=slices,
        outside=len(features) - sum(one.documents for one in slices),
        words=tuple(measured),
        unmeasured=tuple(unmeasured),
    )


def _measure_word(sample: WordSample, slices: Sequence[Slice], settings: ChangeSettings) -> WordChange | UnmeasuredWord:
    if not sample.is_enough:
        counts = ", ".join(f"{number:,} in {name}" for name, number in sample.counts.items())
        problem = f"{sample.word!r} has too few usages to compare {settings.least} of each slice: {counts}"
        if not any(sample.counts.values()):
            problem = f"{sample.word!r} does not occur in the documents of any slice"
        return UnmeasuredWord(sample.word, sample.counts, problem)
    compared = sample.equal()
    number = compared.units.shape[1]
    try:
        labels = cluster_labels(np.concatenate(compared.units), settings.senses, sample.word).reshape(-1, number)
    except UsageError as error:  # its vectors are equal
        return UnmeasuredWord(sample.word, sample.counts, error.problem)
    names = [one.name for one in slices]
    means = [
        mean_usages(name, units, of_slice, settings.senses, sample.random)
        for name, units, of_slice in zip(names, compared.units, labels, strict=True)
    ]
    steps = tuple(measure_distance(one, other) for one, other in pairwise(means))
    senses = [tuple(np.bincount(of_slice, minlength=settings.senses).tolist()) for of_slice in labels]
    return WordChange(
        word=sample.word,
        counts=sample.counts,
        compared=number,
        overall=steps[0] if len(steps) == 1 else measure_distance(means[0], means[-1]),
        steps=steps,
        senses=dict(zip(names, senses, strict=True)),
        before=_farthest(compared, 0, -1, settings.usages),
        after=_farthest(compared, -1, 0, settings.usages),
    )


def _farthest(compared: EqualSample, one: int, other: int, number: int) -> tuple[Usage, ...]:
    """The usages of one slice that are farthest from the prototype of the other, with their cosines to it."""
    prototype: NDArray[np.float32] = unit_vectors(compared.units[other].mean(axis=0))
    scores = np.round((compared.units[one] @ prototype).astype(np.float64), 6)
    order = np.argsort(scores, kind="stable")[:number].tolist()
    return tuple(replace(compared.usages[one][at], score=float(scores[at])) for at in order)


# ── the distance between two slices ─────────────────────────────────────────────────────────────────────────


_Reals = NDArray[np.float64]

_RESAMPLES = 1000
_TAILS = (97.5, 2.5)  # percentiles of the resamples, for an interval of 95 %
_LEAST_COSINE = 1e-3


@dataclass(frozen=True, slots=True)
class _SliceMeans:
    """The means of a slice and of its resamples, from which the measures are computed."""

    name: str
    vectors: _Reals  # [R, W] mean of the usages' vectors of length 1
    senses: _Reals  # [R, K] share of the usages that each sense has


def mean_usages(
    name: str, units: NDArray[np.float32], labels: NDArray[np.integer], senses: int, random: np.random.Generator
) -> _SliceMeans:
    """The means of a slice and of resamples of it, from ``units [n, W]`` of length 1 and their senses ``labels [n]``.

    A resample draws n of the n usages with replacement; the usages keep their senses.
    """
    number = len(units)
    drawn = random.multinomial(number, np.full(number, 1 / number), _RESAMPLES)
    weights = np.concatenate([np.ones((1, number)), drawn]) / number
    return _SliceMeans(name, weights @ units.astype(np.float64), weights @ np.eye(senses)[labels])


def measure_distance(one: _SliceMeans, other: _SliceMeans) -> SliceDistance:
    """The measures between two slices."""
    return SliceDistance(
        one.name,
        other.name,
        prt=_interval(_inverted_similarity(one.vectors, other.vectors), 1.0, 1 / _LEAST_COSINE),
        apd=_interval(_average_pairwise_distance(one.vectors, other.vectors), 0.0, 2.0),
        jsd=_interval(sense_divergence(one.senses, other.senses), 0.0, 1.0),
    )


def _average_pairwise_distance(one: _Reals, other: _Reals) -> _Reals:
    """APD with cosine distance (Giulianelli, Del Tredici and Fernández 2020, arXiv:2004.14118): ``[R]``, 0 to 2.

    The mean cosine over all pairs of usages is the dot product of the means of their vectors of length 1.
    """
    distance: _Reals = 1 - (one * other).sum(axis=1)
    return distance


def _inverted_similarity(one: _Reals, other: _Reals) -> _Reals:
    """PRT, 1 / cosine of the prototypes (Kutuzov and Giulianelli 2020, arXiv:2005.00050): ``[R]``, from 1 on.

    Cosines below 0.001 count as 0.001.
    """
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    cosines = np.divide((one * other).sum(axis=1), lengths, out=np.zeros(len(one)), where=lengths > 0)
    inverted: _Reals = 1 / np.clip(cosines, _LEAST_COSINE, 1)
    return inverted


def sense_divergence(one: _Reals, other: _Reals) -> _Reals:
    """JSD of the senses' shares, base 2 (Giulianelli, Del Tredici and Fernández 2020): ``[R]``, 0 to 1."""
    return _entropy((one + other) / 2) - (_entropy(one) + _entropy(other)) / 2


def _entropy(shares: _Reals) -> _Reals:
    logarithms = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    entropy: _Reals = -(shares * logarithms).sum(axis=1)
    return entropy


def _interval(values: _Reals, least: float, greatest: float) -> Interval:
    """The basic bootstrap interval (Davison and Hinkley 1997, equation 5.6), within the bounds of the measure.

    Resamples lie further apart than the samples that they are drawn from; the basic interval corrects for that.
    """
    low, high = np.clip(2 * values[0] - np.percentile(values[1:], _TAILS), least, greatest)
    return Interval(*(round(float(value), 6) for value in (np.clip(values[0], least, greatest), low, high)))
