"""The settings that every training on stored features has."""

from dataclasses import dataclass
from typing import Literal, get_args

from bertfeat.errors import UsageError, parameter

MEMORY = 4 * 2**30
PATIENCE = 6
Schedule = Literal["plateau", "linear"]
_MOST = {"hidden": 2**16, "memory": 2**62, "seed": 2**62}  # larger numbers fit no memory, or no 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How something is trained on stored features.

    Raises:
        UsageError: a number that cannot be right.
    """

    hidden: int = 256
    dropout: float = 0.5
    batch_size: int = 32  # examples: sentences, texts, questions
    learning_rate: float = 1e-3
    epochs: int = 40  # at most
    schedule: Schedule = "plateau"  # of the learning rate
    patience: int = PATIENCE  # epochs without a better score on the development set, after which a plateau ends
    seed: int = 1
    memory: int = MEMORY  # bytes of features that are held

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs", "patience", "memory"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name.replace('_', ' ')} {getattr(self, name)}", remedy="give at least 1")
        if self.schedule not in get_args(Schedule):
            raise UsageError(f"schedule {self.schedule!r}", remedy=f"known are {', '.join(get_args(Schedule))}")
        if self.schedule == "linear" and self.patience != PATIENCE:
            remedy = f"leave it out, or give {parameter('schedule', 'plateau')}"
            raise UsageError(
                f"{parameter('patience', self.patience)} has no effect: all epochs are learnt", remedy=remedy
            )
        if not 0.0 <= self.dropout < 1.0:
            raise UsageError(f"dropout {self.dropout}", remedy="give a share from 0 up to, not including, 1")
        if not 0.0 < self.learning_rate < 1.0:
            remedy = "give one between 0 and 1; the default is 0.001"
            raise UsageError(f"learning rate {self.learning_rate}", remedy=remedy)
        if self.seed < 0:
            raise UsageError(f"seed {self.seed}", remedy="give 0 or more")
        for name, most in _MOST.items():
            if getattr(self, name) > most:
                raise UsageError(f"{name} {getattr(self, name)}", remedy=f"give at most {most:,}")
