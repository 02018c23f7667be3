"""The task of classification: one label per text or pair; and the spelling of labels in files and feature sets."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from bertfeat.core import FeatureSet, format_of, parse_cell
from bertfeat.errors import HeadError, parameter
from bertfeat.learning.record import Outputs
from bertfeat.learning.scores import ClassScores, score_classes
from bertfeat.learning.settings import HeadSettings
from bertfeat.learning.tables import ExampleTable, Gold, gold_values
from bertfeat.learning.task import GoldExamples, Guess, HeadPrediction, Offsets, PassageSpans, Scores, Task, Threshold

# ── spelling of labels ────────────────────────────────────────────────────────────────────────────────────


class StoredLabel(str):
    """The spelling of a label that is stored as a number or a truth value; it matches any text for the same value."""

    __slots__ = ()


def spell_label(value: object) -> str:
    """Spell a label: texts unchanged, truth values as ``true`` or ``false``, whole numbers without a point."""
    if isinstance(value, str):
        return value
    whole = isinstance(value, float) and value.is_integer()  # 1.0 in one file and 1 in another are one label
    return StoredLabel(f"{value:.0f}" if whole else str(value).lower())


def align_labels(labels: Iterable[str], outputs: Outputs, *, where: str, column: str) -> Iterator[str]:
    """The labels of a column, respelled as in the ``outputs`` of a head.

    Where only one side is stored as values (numbers or truth values), labels with the same value are the same label;
    else spellings are compared as they are. A label that matches none of the head's is unchanged.
    """
    spellings: dict[object, list[str]] = {}
    for known in outputs.labels:
        spellings.setdefault(_value_of(known), []).append(known)
    for label in labels:
        if isinstance(label, StoredLabel) is outputs.stored:
            yield label
            continue
        fitting = spellings.get(_value_of(label), [label])
        if len(fitting) > 1:
            raise HeadError(
                f"the label {label} is stored as a value, and may be {' or '.join(map(repr, fitting))}",
                where=where,
                remedy=f"extract it anew with {parameter('keep', (f'{column}:string',))}, which keeps texts",
            )
        yield fitting[0]


def merged_labels_warnings(
    task: Task, sources: Iterable[tuple[FeatureSet, ...] | Path], column: str | None
) -> tuple[str, ...]:
    """Warnings about feature sets in which different labels of a CSV file may have become the same number.

    The first rows of a file decide the type of a column; the spelling of the numbers in later rows is not stored.
    """
    if not isinstance(task, Labels):
        return ()
    firsts = [source[0] for source in sources if not isinstance(source, Path)]
    merging = dict.fromkeys(features.folder for features in firsts if _stores_numbers(features, column))
    problem = "the labels are stored as numbers, so that texts such as 1.1 and 1.10 are one label"
    remedy = parameter("keep", (f"{column}:string",))
    return tuple(f"{folder}: {problem}; extract with {remedy} to keep texts" for folder in merging)


def _stores_numbers(features: FeatureSet, column: str | None) -> bool:
    """Whether a column is stored as float64 and was read from a format whose cells are texts, such as CSV."""
    types = {kept.name: kept.type for kept in features.kept}
    return types.get(column or "") == "float64" and any(format_of(source).cells for source in features.sources)


def _value_of(label: str) -> object:
    """The value of a label; True is not 1."""
    value = parse_cell(label)
    return (isinstance(value, bool), value)


# ── the task ──────────────────────────────────────────────────────────────────────────────────────────────


class OneOfSeveral(Task):
    """A task in which exactly one of several answers is right, by softmax over them."""

    measure = "accuracy"

    def score(
        self, gold: Sequence[Gold], guesses: Sequence[Guess], passages: Sequence[str], at: Threshold
    ) -> ClassScores:
        """Accuracy and the other scores of classes."""
        return score_classes([str(value) for value in gold], [str(guess.value) for guess in guesses])

    def frequent(self, gold: Sequence[Gold]) -> Guess:
        """The answer that is right most often."""
        return Guess(cast("str | int", Counter(gold).most_common(1)[0][0]))


class Labels(OneOfSeveral):
    """The task of predicting exactly one label per text or pair."""

    name = "labels"
    problem_type = "single_label_classification"

    def read_gold(self, table: ExampleTable, label: str | None) -> tuple[Gold, ...]:
        """The label of each row, as :func:`spell_label` spells it."""
        assert label is not None
        labels, known = _read_labels(table, label), self.outputs
        return tuple(align_labels(labels, known, where=table.where, column=label) if known.labels else labels)

    def learn_outputs(self, gold: Sequence[Gold], origin: str, settings: HeadSettings) -> Outputs:
        """The labels, sorted."""
        labels = tuple(sorted(set(map(str, gold))))
        if len(labels) < 2:
            problem = f"every example has the label {labels[0]!r}: there is nothing to learn"
            raise HeadError(problem, where=origin)
        return Outputs(labels, stored=isinstance(gold[0], StoredLabel))

    def make_targets(self, gold: GoldExamples) -> NDArray[np.generic]:
        """The number of each example's label: ``[E]`` int64."""
        numbers = {label: number for number, label in enumerate(self.outputs.labels)}
        found = [numbers.get(str(label), -1) for label in gold.values]
        if -1 in found:
            place = found.index(-1)
            where = f"example {gold.ids[place]}" if gold.ids else gold.origin
            raise HeadError(f"its label {gold.values[place]!r} is none of the head's", where=where)
        return np.array(found, np.int64)

    def mean_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Mean negative log probability of the right labels: scores ``[B, K]``, label numbers ``[B]``."""
        return cross_entropy(scores, targets)

    def guesses(self, scores: Scores, offsets: Offsets, spans: PassageSpans | None) -> list[Guess]:
        """The most probable label of each example ``[E, K]``."""
        return [Guess(self.outputs.labels[row.argmax()], tuple(row.tolist())) for row in shares_of(scores)]

    def guess_loss(self, gold: Sequence[Gold], guesses: Sequence[Guess]) -> float | None:
        """Mean negative log probability of the right labels; examples whose label the head lacks do not count."""
        numbers = {label: number for number, label in enumerate(self.outputs.labels)}
        return label_loss([numbers.get(str(right), -1) for right in gold], guesses)

    def line(self, row: HeadPrediction, choices: tuple[str, ...]) -> dict[str, object]:
        """Id, label and its probability."""
        return {"id": row.id, "label": row.value, "probability": row.probability}


def _read_labels(table: ExampleTable, label: str) -> Iterator[str]:
    """The label of each row."""
    for row, value in gold_values(table, label):
        if value is None or value != value or value == "":
            problem, remedy = f"row {row:,} has no {label}", "give each row one, or leave the row out of the corpus"
            raise HeadError(problem, where=table.where, remedy=remedy)
        yield spell_label(value)


def label_loss(places: Sequence[int], guesses: Sequence[Guess]) -> float:
    """Mean negative log probability of the right labels or choices, by their numbers; those below 0 do not count."""
    shares = [guess.scores[place] for place, guess in zip(places, guesses, strict=True) if place >= 0]
    least = float(np.finfo(np.float32).tiny)
    return -float(np.mean(np.log(np.maximum(shares, least)))) if shares else 0.0


def shares_of(scores: Scores) -> Scores:
    """Softmax of each row: ``[E, K]``."""
    shares: Scores = torch.from_numpy(scores).softmax(-1).numpy()
    return shares
