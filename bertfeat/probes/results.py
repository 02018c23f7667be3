"""The settings of a probe, and its result."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from bertfeat.errors import CorpusError, UsageError
from bertfeat.io import JsonError, decode_json, read_regular

MOST = 20_000
FOLDS = 5

_MOST_SEED = 2**32 - 1  # that scikit-learn takes
_NO_PROBE = "this is not what bertfeat probe --json prints, a probe a line"
_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=0)]


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
            raise UsageError(f"{self.folds} folds", remedy="give at least 2, so that something is left to test on")
        if self.most < 1 or self.seed < 0 or self.min_members < 0:
            raise UsageError("most must be above 0, seed and min members not below it")
        if not 0 < self.strength < math.inf:
            raise UsageError(f"strength {self.strength}", remedy="give a number above 0; the default is 1")
        if self.seed > _MOST_SEED:
            raise UsageError(f"seed {self.seed}", remedy=f"give at most {_MOST_SEED:,}")


@dataclass(frozen=True, slots=True)
class ProbeScores:
    """Accuracy and macro-averaged F1, the mean over the folds and the standard deviation among them."""

    accuracy: _Share
    accuracy_spread: _Share
    macro_f1: _Share
    macro_f1_spread: _Share


@dataclass(frozen=True, slots=True)
class LayerProbe:
    """How well one column predicts the label."""

    column: str  # its recipe: layer3, concat4
    layer: _Count | None  # None for combinations of layers
    measured: ProbeScores
    converged: bool


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """A label probed layer by layer."""

    features: str
    model: str
    label: str
    pooling: str
    folds: Annotated[int, Meta(ge=2)]
    examples: _Count  # documents or words that were learnt from
    labelled: _Count  # that there are
    nulls: _Count  # without a label, left out
    unaligned: _Count  # words without a vector, left out
    rare: _Count  # of the sample, but of classes that are in too few documents, left out
    classes: Mapping[str, _Count]  # members of each among the examples
    majority: str
    baseline: ProbeScores  # of always predicting the most frequent class
    layers: Annotated[tuple[LayerProbe, ...], Meta(min_length=1)]

    @property
    def best(self) -> LayerProbe:
        """The column with the best macro F1; of equal ones the first."""
        return max(self.layers, key=lambda probe: probe.measured.macro_f1)


def read_probes(path: str | Path) -> list[ProbeReport]:
    """Read what ``bertfeat probe --json`` printed, a probe a line.

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
