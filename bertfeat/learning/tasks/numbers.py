"""The task of regression: one number per text or pair, such as a similarity (STS-B in section 4.1 of the paper)."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import mse_loss

from bertfeat.errors import HeadError, parameter
from bertfeat.learning.record import Outputs
from bertfeat.learning.scores import NumberScores, score_numbers
from bertfeat.learning.settings import HeadSettings
from bertfeat.learning.tables import ExampleTable, Gold, gold_values
from bertfeat.learning.task import GoldExamples, Guess, Offsets, PassageSpans, Scores, Task, Threshold


class Numbers(Task):
    """The task of predicting one number per text or pair, learned at mean 0 and standard deviation 1."""

    name = "numbers"
    measure = "Spearman"
    compares = True
    problem_type = "regression"
    baseline = "Mean of the training set"

    def read_gold(self, table: ExampleTable, label: str | None) -> tuple[Gold, ...]:
        """The number of each row."""
        assert label is not None
        return tuple(_read_numbers(table, label))

    def learn_outputs(self, gold: Sequence[Gold], origin: str, settings: HeadSettings) -> Outputs:
        """Mean and standard deviation of the numbers."""
        numbers = _as_array(gold)
        if not numbers.std() > 0:
            raise HeadError(f"every number is {numbers[0]:g}: there is nothing to learn", where=origin)
        return Outputs((), float(numbers.mean()), float(numbers.std()))

    def make_targets(self, gold: GoldExamples) -> NDArray[np.generic]:
        """Standardized numbers: ``[E]`` float32."""
        return ((_as_array(gold.values) - self.outputs.mean) / self.outputs.spread).astype(np.float32)

    def mean_loss(self, scores: Tensor, targets: Tensor) -> Tensor:
        """Mean squared error: ``[B, 1]``, ``[B]``."""
        return mse_loss(scores[:, 0], targets)

    def guesses(self, scores: Scores, offsets: Offsets, spans: PassageSpans | None) -> list[Guess]:
        """The number of each example ``[E, 1]``."""
        return [Guess(float(value) * self.outputs.spread + self.outputs.mean) for value in scores[:, 0]]

    def guess_loss(self, gold: Sequence[Gold], guesses: Sequence[Guess]) -> float | None:
        """Mean squared error of standardized numbers."""
        return float(np.mean(np.square((_as_array(_values(guesses)) - _as_array(gold)) / self.outputs.spread)))

    def score(
        self,
        gold: Sequence[Gold],
        guesses: Sequence[Guess],
        passages: Sequence[str],
        at: Threshold,
    ) -> NumberScores:
        """Correlations and errors."""
        return score_numbers(_as_array(gold), _as_array(_values(guesses)))

    def frequent(self, gold: Sequence[Gold]) -> Guess:
        """The mean of the training set's numbers, as a baseline."""
        return Guess(float(np.mean(_as_array(gold))))


def _values(guesses: Sequence[Guess]) -> list[Gold]:
    return [guess.value for guess in guesses]


def _as_array(numbers: Sequence[Gold]) -> NDArray[np.float64]:
    return np.array(numbers, np.float64)


def _read_numbers(table: ExampleTable, label: str) -> Iterator[float]:
    for row, value in gold_values(table, label):
        try:
            number = float(value) if isinstance(value, str | int | float) and "_" not in str(value) else math.nan
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise HeadError(
                f"the {label} of row {row:,} is {value!r}, which is no finite number",
                where=table.where,
                remedy=f"correct it; labels that are names are learned by {parameter('task', 'labels')}",
            )
        yield number
