"""The result of a probe."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import CorpusError
from bertfeat.io import JsonError, decode_json, read_regular

_NO_PROBE = "this is not what bertfeat probe --json prints, a probe a line"
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
    labeled: _Count  # that there are
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


@checked
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
