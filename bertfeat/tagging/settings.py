"""The settings of a tagger: how it is trained and which features it reads."""

from collections.abc import Mapping
from dataclasses import dataclass

from bertfeat.errors import UsageError
from bertfeat.features import ModelIdentity
from bertfeat.tagging.labels import LabelSet
from bertfeat.tagging.network import NetworkSettings
from bertfeat.training import EpochRecord, Extraction, FileDigest, LayerInput, LoopSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings(LoopSettings):
    """How a tagger is trained; ``hidden`` is the width of each direction of the LSTM, for which the paper has 768.

    Raises:
        UsageError: a number that cannot be right.
    """

    crf: bool | None = None  # score whole sequences of tags; None: where they stand for spans
    scheme: str = "BIO"  # in which spans are learnt: BIO or IOBES

    def __post_init__(self) -> None:
        LoopSettings.__post_init__(self)
        if self.hidden < 1:
            raise UsageError(f"hidden {self.hidden}", remedy="give at least 1")
        if self.scheme not in ("BIO", "IOBES"):
            remedy = "spans are learnt as BIO or IOBES, and written as BIO"
            raise UsageError(f"scheme {self.scheme!r}", remedy=remedy)


@dataclass(frozen=True, slots=True)
class TaggerSettings:
    """A saved tagger: which features it reads, which labels it predicts, and how it was trained."""

    format_version: int
    model: ModelIdentity  # that makes the features
    extraction: Extraction  # how it makes them
    input: LayerInput
    network: NetworkSettings
    labels: LabelSet
    training: TrainingSettings
    data: Mapping[str, str]  # digest of the train and dev features
    places: Mapping[str, str]  # their folders, relative to the tagger's; none in format 1
    best_epoch: int
    score: float  # of that epoch on the development set
    history: tuple[EpochRecord, ...]  # of each epoch
    versions: Mapping[str, str]
    weights: FileDigest | None  # of the weights' file; None in format 1

    @property
    def measure(self) -> str:
        """What the scores are."""
        return "span F1" if self.labels.has_spans else "accuracy"
