"""What a probe is asked, and what it found."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertfeat.errors import CorpusError, UsageError

MOST = 20_000
FOLDS = 5


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """How a label is probed.

    Raises:
        UsageError: a number that cannot be right.
    """

    pooling: str | None = None  # of the document columns, where there are several
    layers: tuple[str, ...] = ()  # recipes; none: every single layer that is stored, and the stored combinations
    folds: int = FOLDS
    most: int = MOST  # documents or words that are learnt from, a random sample where there are more
    min_members: int = 0  # classes in fewer of the documents that are learnt from are left out
    strength: float = 1.0  # inverse of the L2 regularisation: scikit-learn's C
    seed: int = 1

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise UsageError(f"{self.folds} folds: give at least 2, so that something is left to test on")
        if self.most < 1 or self.seed < 0 or self.min_members < 0 or not self.strength > 0:
            raise UsageError("most and strength must be above 0, seed and min members not below it")


@dataclass(frozen=True, slots=True)
class Measured:
    """Accuracy and macro-averaged F1, the mean over the folds and the standard deviation among them."""

    accuracy: float
    accuracy_spread: float
    macro_f1: float
    macro_f1_spread: float


@dataclass(frozen=True, slots=True)
class LayerProbe:
    """What one column gives away of the label."""

    column: str  # its recipe: layer3, concat4
    layer: int | None  # None for combinations of layers
    measured: Measured
    converged: bool


@dataclass(frozen=True, slots=True)
class Probed:
    """A label probed layer by layer."""

    features: str
    model: str
    label: str
    pooling: str
    folds: int
    examples: int  # documents or words that were learnt from
    labelled: int  # that there are
    nulls: int  # without a label, left out
    unaligned: int  # words without a vector, left out
    rare: int  # of the sample, but of classes that are in too few documents, left out
    classes: Mapping[str, int]  # members of each among the examples
    majority: str
    baseline: Measured  # of always saying what most are
    layers: tuple[LayerProbe, ...]

    @property
    def best(self) -> LayerProbe:
        """The column with the best macro F1; of equal ones the first."""
        return max(self.layers, key=lambda probe: probe.measured.macro_f1)


def read_probes(path: str | Path) -> list[Probed]:
    """Read what ``bertfeat probe --json`` printed, a probe a line.

    Raises:
        CorpusError: the file cannot be read, or is something else.
    """
    try:
        return [_probed(json.loads(line)) for line in Path(path).read_text("utf-8").splitlines() if line.strip()]
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorpusError(f"{path}: this is not what bertfeat probe --json prints, a probe a line") from error


def _probed(raw: dict[str, Any]) -> Probed:
    layers = tuple(LayerProbe(**{**layer, "measured": Measured(**layer["measured"])}) for layer in raw["layers"])
    return Probed(**{**raw, "baseline": Measured(**raw["baseline"]), "layers": layers})
