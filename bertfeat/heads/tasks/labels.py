"""Labels: each text or pair has one of several (sections 4.1 and 5.3 of the paper)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from bertfeat.errors import HeadError
from bertfeat.heads.gold import Gold, gold_values
from bertfeat.heads.guesses import Guess, Threshold
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.scores import ClassScores, score_classes
from bertfeat.heads.settings import HeadSettings, Outputs
from bertfeat.heads.tables import ExampleTable
from bertfeat.heads.task import GoldExamples, HeadPrediction, Offsets, PassageSpans, Scores, Task
from bertfeat.heads.tasks.spelling import StoredLabel, align_labels, spell_label

if TYPE_CHECKING:
    from transformers import PreTrainedConfig


class OneOfSeveral(Task):
    """A task with exactly one right answer of several, by softmax over them."""

    measure = "accuracy"

    def score(
        self, gold: Sequence[Gold], guesses: Sequence[Guess], outputs: Outputs, passages: Sequence[str], at: Threshold
    ) -> ClassScores:
        """Accuracy and the scores beside it."""
        return score_classes([str(value) for value in gold], [str(guess.value) for guess in guesses])

    def frequent(self, gold: Sequence[Gold], outputs: Outputs) -> Guess:
        """The answer that is right most often."""
        return Guess(cast("str | int", Counter(gold).most_common(1)[0][0]))


class LabelOutputs(Task):
    """A task whose network gives each label a score, and whose fine-tuned model names the labels."""

    problem_type: ClassVar[str | None] = None  # as transformers calls it, where it asks

    def width(self, outputs: Outputs) -> int:
        """A score for each label."""
        return len(outputs.labels)

    def config(self, outputs: Outputs) -> Mapping[str, object]:
        """The names of the labels."""
        names = dict(enumerate(outputs.labels))
        numbers = {label: number for number, label in names.items()}
        asked = {} if self.problem_type is None else {"problem_type": self.problem_type}
        return {"num_labels": len(names), "id2label": names, "label2id": numbers, **asked}

    def check_config(self, config: "PreTrainedConfig", outputs: Outputs) -> str | None:  # type: ignore[override]
        """The contradiction between the model's labels and the head's."""
        names = tuple(name for _, name in sorted((config.id2label or {}).items()))
        return None if names == outputs.labels else "this model has other labels than its head"


class NamedLabels(LabelOutputs):
    """A task whose outputs are labels of texts or pairs."""

    kind = HeadKind.CLASSIFY
    architecture = "AutoModelForSequenceClassification"

    def fits(self, outputs: Outputs) -> bool:
        """Whether there are labels, each once, in order."""
        return bool(outputs.labels) and list(outputs.labels) == sorted(set(outputs.labels))


class Labels(OneOfSeveral, NamedLabels):
    """Exactly one label a text or pair."""

    name = "labels"
    problem_type = "single_label_classification"

    def read_gold(self, table: ExampleTable, label: str | None, known: Outputs | None) -> tuple[Gold, ...]:
        """The label of each row, as :func:`spell_label` spells it.

        Raises:
            HeadError: a row without one, or with one that may be several of those that are ``known``.
        """
        assert label is not None
        labels = _read_labels(table, label)
        return tuple(labels if known is None else align_labels(labels, known, where=table.where, column=label))

    def learn_outputs(self, gold: Sequence[Gold], origin: str, settings: HeadSettings) -> Outputs:
        """The labels, sorted.

        Raises:
            HeadError: there is one label only.
        """
        labels = tuple(sorted(set(map(str, gold))))
        if len(labels) < 2:
            problem = f"every example has the label {labels[0]!r}: there is nothing to learn"
            raise HeadError(problem, where=origin)
        return Outputs(labels, stored=isinstance(gold[0], StoredLabel))

    def make_targets(self, gold: GoldExamples, outputs: Outputs) -> NDArray[np.generic]:
        """The number of each example's label: ``[E]`` int64.

        Raises:
            HeadError: a label that is none of the head's.
        """
        numbers = {label: number for number, label in enumerate(outputs.labels)}
        found = [numbers.get(str(label), -1) for label in gold.values]
        if -1 in found:
            place = found.index(-1)
            where = f"example {gold.ids[place]}" if gold.ids else gold.origin
            raise HeadError(f"its label {gold.values[place]!r} is none of the head's", where=where)
        return np.array(found, np.int64)

    def mean_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Mean negative log probability of the labels: ``[B, K]``, numbers ``[B]``."""
        return cross_entropy(scores, targets)

    def guesses(self, scores: Scores, offsets: Offsets, outputs: Outputs, spans: PassageSpans | None) -> list[Guess]:
        """The most probable label of each example ``[E, K]``."""
        return [Guess(outputs.labels[row.argmax()], tuple(row.tolist())) for row in shares_of(scores)]

    def guess_loss(self, gold: Sequence[Gold], guesses: Sequence[Guess], outputs: Outputs) -> float | None:
        """Mean negative log probability of the right labels; examples whose label no guess can be do not count."""
        numbers = {label: number for number, label in enumerate(outputs.labels)}
        return label_loss([numbers.get(str(right), -1) for right in gold], guesses)

    def line(self, row: HeadPrediction, choices: tuple[str, ...]) -> dict[str, object]:
        """Id, label and its probability."""
        return {"id": row.id, "label": row.value, "probability": row.probability}


def _read_labels(table: ExampleTable, label: str) -> Iterator[str]:
    """The label of each row.

    Raises:
        HeadError: a row without one.
    """
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
