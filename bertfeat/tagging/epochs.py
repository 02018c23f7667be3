"""What a training tells of its epochs, and at its end."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bertfeat.tagging.scores import Scores
from bertfeat.tagging.settings import TaggerSettings


@dataclass(frozen=True, slots=True)
class Epoch:
    """What one epoch came to."""

    number: int  # from 1
    loss: float
    score: float  # on the development set: span F1, or accuracy of plain tags
    learning_rate: float
    words: int
    seconds: float  # of learning, without the evaluation
    best: int  # number of the best epoch so far


@dataclass(frozen=True, slots=True)
class TrainingReport:
    """A training that is done."""

    folder: Path
    settings: TaggerSettings
    scores: Scores | None  # on the development set; None where nothing was left to do
    seconds: float
    warnings: tuple[str, ...]
    resumed: int  # epochs that an earlier run had done
    cached: bool  # whether all features fitted the memory


OnEpoch = Callable[[Epoch], None]
