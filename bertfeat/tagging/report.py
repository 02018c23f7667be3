"""The report of a training."""

from dataclasses import dataclass
from pathlib import Path

from bertfeat.tagging.scores import Scores
from bertfeat.tagging.settings import TaggerSettings


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
