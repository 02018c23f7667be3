"""Changes in the meaning of words over a kept column, measured by stored word vectors.

APD and JSD over senses as in Giulianelli, Del Tredici and Fernández 2020 (arXiv:2004.14118), PRT as in Kutuzov and
Giulianelli 2020 (arXiv:2005.00050).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.errors import UsageError, parameter
from bertfeat.features import FeatureSet, unit_vectors
from bertfeat.io import Address
from bertfeat.progress import ProgressOption, StepProgress, telling
from bertfeat.study.change_measures import mean_usages, measure_distance
from bertfeat.study.change_results import ChangeReport, UnmeasuredWord, WordChange
from bertfeat.study.change_sample import EqualSample, WordReader, WordSample
from bertfeat.study.settings import ChangeMeasure, ChangeSettings
from bertfeat.usages import Usage, cluster_labels, find_usage_column
from bertfeat.where import Slice, cut_slices

_TOLD = 5  # reasons that the error gives where no word was measured


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
    them, without case. Equally many usages of each slice are compared. Words that could not be measured are listed
    in the report; memory grows only by one number a document and a few a word.

    Raises:
        UsageError: impossible slices, or no word could be measured.
        FeatureSetError: no texts, or no vectors of tokens or words, in the set.
        NotDerivableError: the column cannot be derived from the stored ones.
        BertfeatError: scikit-learn is not installed.
    """
    settings = settings or ChangeSettings()
    features = features if isinstance(features, FeatureSet) else FeatureSet(features)
    column = find_usage_column(features, settings.column, "change")
    slices = cut_slices(features, by, settings.slices)
    reader = WordReader(features, column, slices, by, settings)
    names = reader.frequent_words() if words is None else list(dict.fromkeys(words))
    samples = reader.sample_vocabulary(names) if words is None else map(reader.sample_word, names)
    results = []
    with telling(progress) as tell:
        for number, sample in enumerate(samples, 1):
            results.append(_measure_word(sample, slices, settings))
            tell(StepProgress("", number, len(names), "words"))
    measured = [result for result in results if isinstance(result, WordChange)]
    unmeasured = [result for result in results if isinstance(result, UnmeasuredWord)]
    if not measured:
        few = f"no word has {settings.least} usages in every slice of {by}"
        problem = "; ".join(word.reason for word in unmeasured[:_TOLD]) or few
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


def _farthest(compared: EqualSample, of: int, to: int, number: int) -> tuple[Usage, ...]:
    """The usages of one slice that are farthest from the prototype of another, with their cosines to it."""
    prototype: NDArray[np.float32] = unit_vectors(compared.units[to].mean(axis=0))
    scores = np.round((compared.units[of] @ prototype).astype(np.float64), 6)
    order = np.argsort(scores, kind="stable")[:number].tolist()
    return tuple(replace(compared.usages[of][at], score=float(scores[at])) for at in order)
