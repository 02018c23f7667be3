"""The reports of a training: after each epoch, and at the end."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bertfeat.tagging.scores import Scores
from bertfeat.tagging.settings import TaggerSettings


@dataclass(frozen=True, slots=True)
class Epoch:
    """The result of one epoch."""

    number: int  # from 1
    loss: float
    score: float  # on the development set: span F1, or accuracy of plain tags
    learning_rate: float
    words: int
    seconds: float  # of learning, without the evaluation
    best: int  # number of the best epoch so far


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """The result of a training."""

    folder: Path
    settings: TaggerSettings
    scores: Scores | None  # on the development set; None where nothing was left to do
    seconds: float
    warnings: tuple[str, ...]
    resumed: int  # epochs that an earlier run had done
    cached: bool  # whether all features fitted the memory


OnEpoch = Callable[[Epoch], None]
