"""Probes: how well a linear classifier reads a label off each layer.

As in Alain & Bengio 2016 (arXiv:1610.01644): logistic regression on frozen features, one layer at a time.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core import FeatureSet, KeptColumn, Pooling, ReadableColumn
from bertfeat.display import displayed
from bertfeat.errors import CorpusError, NotDerivableError, UsageError, did_you_mean, needed_library, parameter
from bertfeat.io import Address, JsonError, decode_json, read_regular
from bertfeat.progress import OnStep, ProgressOption, StepProgress, telling
from bertfeat.study.probe_examples import (
    TAGS,
    Examples,
    check_classes,
    check_classifier_memory,
    read_document_labels,
    read_word_labels,
    sample_examples,
)
from bertfeat.study.probe_settings import ProbeSettings

_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class ProbeScores:
    """Accuracy and macro-averaged F1, the mean over the folds and the standard deviation among them."""

    accuracy: _Share
    accuracy_spread: _Share
    macro_f1: _Share
    macro_f1_spread: _Share


@dataclass(frozen=True, slots=True)
class LayerProbe:
    """The scores of one column in predicting the label."""

    column: str  # its recipe: layer3, concat4
    layer: _Count | None  # None for combinations of layers
    measured: ProbeScores
    converged: bool


@displayed
@dataclass(frozen=True, slots=True)
class ProbeReport:
    """A label probed layer by layer."""

    features: str
    model: str
    label: str
    pooling: str
    folds: Annotated[int, Meta(ge=2)]
    examples: _Count  # documents or words that were learned from
    labeled: _Count  # all documents or words with a label
    nulls: _Count  # without a label, left out
    unaligned: _Count  # words without a vector, left out
    rare: _Count  # sampled, but left out since their classes are in too few documents
    classes: Mapping[str, _Count]  # members of each among the examples
    majority: str
    baseline: ProbeScores  # of always predicting the most frequent class
    layers: Annotated[tuple[LayerProbe, ...], Meta(min_length=1)]

    @property
    def best(self) -> LayerProbe:
        """The column with the best macro F1; of equal ones the first."""
        return max(self.layers, key=lambda probe: probe.measured.macro_f1)


@checked
def probe_layers(
    features: FeatureSet | str | Path | Address,
    label: str,
    settings: ProbeSettings | None = None,
    *,
    progress: ProgressOption[StepProgress] = None,
) -> ProbeReport:
    """Probe the layers of a feature set for a kept column (document vectors), or for ``tags`` (word vectors).

    Features are standardized and classified by logistic regression, cross-validated in folds with equal shares of
    the classes; for words, no document is in two folds.

    Raises:
        UsageError: no such label, one class only, or a class with fewer members than folds.
        NotDerivableError: no vectors of the kind that the label needs, or not of these layers.
        MissingLibraryError: scikit-learn is not installed.
    """
    settings = settings or ProbeSettings()
    features = features if isinstance(features, FeatureSet) else FeatureSet(features)
    by_word = label == TAGS  # no kept column can have that name
    columns = _probed_columns(features, _choose_pooling(features, label, by_word, settings.pooling), settings.layers)
    labels = read_word_labels(features) if by_word else read_document_labels(features, label)
    examples = sample_examples(labels, settings.most, settings.min_members, settings.seed)
    check_classes(examples, label, settings.folds, are_numbers=KeptColumn(label, "float64") in features.kept)
    check_classifier_memory(examples, max(column.width for column in columns))
    folds = make_folds(examples, by_word, settings.folds, settings.seed)
    frequent = [np.full(len(test), np.bincount(examples.members[train]).argmax()) for train, test in folds]
    baseline = _score_folds(examples, folds, frequent)
    results = []
    with telling(progress) as tell:
        counter = _ClassifierCounter(tell, len(columns) * len(folds))
        for column in columns:
            results.append(_probe_column(features, column, examples, folds, settings, counter))
    nulls = int((labels.numbers < 0).sum())
    return ProbeReport(
        features=str(features.folder),
        model=features.header.model.name,
        label=label,
        pooling=str(columns[0].pooling),
        folds=settings.folds,
        examples=len(examples.rows),
        labeled=len(labels.numbers) - nulls,
        nulls=nulls,
        unaligned=int((~labels.aligned).sum()),
        rare=examples.rare,
        classes=dict(zip(examples.classes, examples.counts.tolist(), strict=True)),
        majority=examples.classes[examples.counts.argmax()],
        baseline=baseline,
        layers=tuple(results),
    )


# ── which vectors ───────────────────────────────────────────────────────────────────────────────────────────


def _choose_pooling(features: FeatureSet, label: str, by_word: bool, asked: str | None) -> Pooling:
    stored = list(dict.fromkeys(column.pooling for column in features.columns))
    if by_word:
        if TAGS not in features.names:
            remedy = "extract a corpus that has them, as CoNLL"
            raise UsageError("its words have no tags", where=features.folder, remedy=remedy)
        if Pooling.WORD not in stored or asked not in (None, Pooling.WORD):
            raise NotDerivableError(
                "tags are probed on vectors of words",
                where=features.folder,
                remedy=f"extract with {parameter('pooling', 'word')}",
            )
        return Pooling.WORD
    if label not in (known := [kept.name for kept in features.kept]):
        also = [TAGS] if TAGS in features.names else []
        raise UsageError(
            f"there is no label {label!r}; there are: {', '.join([*known, *also]) or 'none'}",
            where=features.folder,
            remedy=f"{did_you_mean(label, known)}extract with {parameter('keep')} to have more",
        )
    usable = [pooling for pooling in stored if pooling.per_document and asked in (None, pooling)]
    if not usable:
        raise NotDerivableError(
            f"{label} is probed on vectors of documents, and there are none of {asked or 'any'} pooling",
            where=features.folder,
            remedy=f"extract with {parameter('pooling', asked or 'mean')}",
        )
    if len(usable) > 1:
        problem = f"say which vectors with {parameter('pooling')}: {' or '.join(usable)}"
        raise UsageError(problem, where=features.folder)
    return usable[0]


def _probed_columns(features: FeatureSet, pooling: Pooling, layers: Sequence[str]) -> list[ReadableColumn]:
    if layers and tuple(layers) != ("all",):
        columns = [column for layer in layers for column in features.find_each(layer, pooling)]
        return list({column.recipe: column for column in columns}.values())
    columns = features.single_layers(pooling)
    combined = [
        column for column in features.columns if column.pooling is pooling and column.recipe.single_layer is None
    ]
    return [*columns, *(features.find(column.name) for column in combined)]


# ── learning ────────────────────────────────────────────────────────────────────────────────────────────────

Folds = list[tuple[NDArray[np.int64], NDArray[np.int64]]]
"""For each fold the numbers of the examples to learn from, and of those to test on."""


def make_folds(examples: Examples, by_word: bool, folds: int, seed: int) -> Folds:
    """Cut examples into folds with equal shares of the classes; of words no document is in two."""
    with needed_library("probes need scikit-learn", "bertfeat[analysis]"):
        from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold
    kind = StratifiedGroupKFold if by_word else StratifiedKFold
    cut = kind(folds, shuffle=True, random_state=seed)
    return list(cut.split(examples.members[:, None], examples.members, groups=examples.rows if by_word else None))


class _ClassifierCounter:
    """Counts the trained classifiers over all columns, and reports the progress."""

    def __init__(self, tell: OnStep, total: int) -> None:
        self._tell, self._done, self._total = tell, 0, total

    def __call__(self) -> None:
        self._done += 1
        self._tell(StepProgress("", self._done, self._total, "classifiers"))


def _probe_column(
    features: FeatureSet,
    column: ReadableColumn,
    examples: Examples,
    folds: Folds,
    settings: ProbeSettings,
    counter: _ClassifierCounter,
) -> LayerProbe:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    vectors = example_vectors(features, column, examples)
    predicted, converged = [], True
    for train, test in folds:
        classifier = make_pipeline(StandardScaler(), LogisticRegression(C=settings.strength, max_iter=500))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ConvergenceWarning)
            classifier.fit(vectors[train], examples.members[train])
        converged &= not any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
        predicted.append(classifier.predict(vectors[test]))
        counter()
    single = column.recipe.single_layer
    name = column.recipe.name if single is None else f"layer{single}"
    return LayerProbe(name, single, _score_folds(examples, folds, predicted), converged)


_MOST_VALUE = 1e18  # a float32 holds its square


def example_vectors(features: FeatureSet, column: ReadableColumn, examples: Examples) -> NDArray[np.float32]:
    """The vectors of the examples: ``[n, width]``."""
    vectors = np.empty((len(examples.rows), column.width), np.float32)
    seen = at = 0
    for batch in features.batches(column.name):
        chosen = batch.matrix[examples.chosen[seen : seen + len(batch)]]
        vectors[at : at + len(chosen)] = chosen
        if not np.isfinite(chosen).all() or np.abs(chosen).max(initial=0) > _MOST_VALUE:
            raise UsageError(
                f"{column.name} holds values from which no classifier can learn: not finite, or above {_MOST_VALUE:g}",
                where=features.folder,
                remedy="bertfeat verify tells whether they are the model's own",
            )
        seen, at = seen + len(batch), at + len(chosen)
    return vectors


def _score_folds(examples: Examples, folds: Folds, predicted: Sequence[NDArray[np.int64]]) -> ProbeScores:
    from sklearn.metrics import accuracy_score, f1_score

    pairs = [(examples.members[test], classes) for (_, test), classes in zip(folds, predicted, strict=True)]
    accuracies = [float(accuracy_score(gold, classes)) for gold, classes in pairs]
    # over the classes that occur in a fold, gold or predicted
    f1s = [float(f1_score(gold, classes, average="macro", zero_division=0.0)) for gold, classes in pairs]
    return ProbeScores(*(float(average(values)) for values in (accuracies, f1s) for average in (np.mean, np.std)))


# ── reports that were printed ───────────────────────────────────────────────────────────────────────────────

_NO_PROBE = "this is not what bertfeat probe --json prints, a probe a line"


@checked
def read_probes(path: str | Path) -> list[ProbeReport]:
    """Read the output of ``bertfeat probe --json``, one probe per line.

    Raises:
        CorpusError: the file cannot be read, or is something else.
    """
    try:
        text = read_regular(Path(path)).decode("utf-8-sig")  # some shells put a byte order mark before what they write
    except OSError as error:
        raise CorpusError(f"cannot be read: {error.strerror or error}", where=path) from error
    except UnicodeError as error:
        raise CorpusError(f"{_NO_PROBE}: it is not UTF-8", where=path) from error
    probes = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                probes.append(decode_json(line, ProbeReport))
            except JsonError as error:
                raise CorpusError(f"{_NO_PROBE}: {error}", where=f"{path}, line {number}") from error
    if not probes:
        raise CorpusError(f"{_NO_PROBE}: it is empty", where=path)
    return probes
