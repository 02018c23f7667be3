"""The settings of a tagger: how it is trained and which features it reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from bertfeat.errors import TaggerError, UsageError, parameter
from bertfeat.features import FeatureSet, FeatureSettings, ModelIdentity
from bertfeat.io import JsonError, from_plain, to_plain
from bertfeat.recipe import Pooling
from bertfeat.tagging.labels import LabelSet
from bertfeat.tagging.layer_input import TaggerInput
from bertfeat.tagging.network import NetworkSettings
from bertfeat.tagging.tensors import FileDigest
from bertfeat.tokens import LongTextPolicy, Subword

MEMORY = 4 * 2**30
_MOST = {"hidden": 2**16, "memory": 2**62, "seed": 2**62}  # larger numbers fit no memory, or no 64 bits


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """How a tagger is trained.

    Raises:
        UsageError: a number that cannot be right.
    """

    hidden: int = 256  # of each direction of the LSTM; the paper has 768
    crf: bool = False
    scheme: str = "BIO"  # in which spans are learnt: BIO or IOBES
    dropout: float = 0.5
    batch_size: int = 32  # sentences
    learning_rate: float = 1e-3
    epochs: int = 40  # at most
    patience: int = 6  # epochs without a better score on the development set, after which training ends
    seed: int = 1
    memory: int = MEMORY  # bytes of features that are held

    def __post_init__(self) -> None:
        for name in ("hidden", "batch_size", "epochs", "patience", "memory"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name.replace('_', ' ')} {getattr(self, name)}", remedy="give at least 1")
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
        if self.scheme not in ("BIO", "IOBES"):
            remedy = "spans are learnt as BIO or IOBES, and written as BIO"
            raise UsageError(f"scheme {self.scheme!r}", remedy=remedy)


@dataclass(frozen=True, slots=True)
class Extraction:
    """The settings that decide the features of words, for a given model; named as in a feature set's settings."""

    long: LongTextPolicy
    max_length: Annotated[int, Meta(ge=1)]
    prompt: str
    document_context: bool
    subword: Subword
    precision: Literal["fp32", "bf16", "fp16"]
    dtype: Literal["float16", "float32"]
    special_tokens: bool

    @property
    def settings(self) -> FeatureSettings:
        """The same as settings of a feature set."""
        return FeatureSettings.decode(to_plain(self))


class EpochRecord(TypedDict):
    """The record of an epoch."""

    loss: float  # mean over the words
    score: Annotated[float, Meta(ge=0, le=1)]  # on the development set: span F1, or accuracy of plain tags
    rate: Annotated[float, Meta(gt=0, lt=1)]  # learning rate
    words: Annotated[int, Meta(ge=1)]
    seconds: Annotated[float, Meta(ge=0)]  # of learning, without the evaluation


@dataclass(frozen=True, slots=True)
class TaggerSettings:
    """A saved tagger: which features it reads, which labels it predicts, and how it was trained."""

    format_version: int
    model: ModelIdentity  # that makes the features
    extraction: Extraction  # how it makes them
    input: TaggerInput
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


# ── what follows from the epochs so far ─────────────────────────────────────────────────────────────────────

_WAIT = 2  # epochs without a better score, after which the learning rate is halved


def best_epoch(history: Sequence[EpochRecord]) -> int:
    """Number of the epoch with the best score, the first of equal ones; while every score is 0, the last one."""
    scores = [epoch["score"] for epoch in history]
    return 1 + scores.index(max(scores)) if any(scores) else len(scores)


def next_rate(history: Sequence[EpochRecord], training: TrainingSettings) -> float:
    """The learning rate of the epoch after these."""
    if not history:
        return training.learning_rate
    return _rate_after(history[-1]["rate"], len(history) - best_epoch(history))


def _rate_after(rate: float, waited: int) -> float:
    return rate / 2 if waited and waited % _WAIT == 0 else rate


def is_over(history: Sequence[EpochRecord], training: TrainingSettings) -> bool:
    """Whether no epoch follows these."""
    count = len(history)
    return count >= training.epochs or count - best_epoch(history) >= training.patience


def history_problem(history: Sequence[EpochRecord], training: TrainingSettings) -> str | None:
    """Why a training with these settings cannot have this history; None if it can."""
    rate, best = training.learning_rate, 0
    for number, epoch in enumerate(history, 1):
        if number > training.epochs or number - 1 - best >= training.patience:
            return f"epoch {number} comes after the end of the training"
        if epoch["rate"] != rate:
            return f"the learning rate of epoch {number} is {epoch['rate']}, not {rate}"
        if epoch["words"] != history[0]["words"]:
            return f"epoch {number} has {epoch['words']:,} words, and the first {history[0]['words']:,}"
        top = history[best - 1]["score"] if best else 0.0
        best = number if epoch["score"] > top or top == 0.0 else best
        rate = _rate_after(rate, number - best)
    return None


# ── which features are alike ────────────────────────────────────────────────────────────────────────────────


def extraction_of(features: FeatureSet) -> Extraction:
    """The settings of a feature set that decide what its words' features are.

    Raises:
        TaggerError: they are not those of words, or lack something.
    """
    recorded = features.header.settings.encode()
    try:
        values = {field.name: recorded[field.name] for field in fields(Extraction) if field.name in recorded}
        return from_plain(values, Extraction)
    except JsonError as error:
        problem = f"its settings do not say how words were extracted ({error})"
        raise TaggerError(problem, where=features.folder, remedy="extract it again") from error


def check_same_features(ours: FeatureSet, model: ModelIdentity, extraction: Extraction, what: str) -> None:
    """Refuse features that were made by another model or in another way than those of ``what``.

    Raises:
        TaggerError: names what differs.
    """
    header = ours.header
    if header.model.fingerprint != model.fingerprint:
        raise TaggerError(
            f"{ours.folder} was made by {header.model.name} (fingerprint {header.model.fingerprint[:12]}…), and {what} "
            f"by {model.name} ({model.fingerprint[:12]}…)",
            remedy=f"extract it again with {parameter('model', model.name)}",
        )
    differences = header.settings.incomparable_with(extraction.settings, Pooling.WORD)
    if differences:
        listed = ", ".join(
            f"{difference.name} is {difference.ours!r}, not {difference.theirs!r}" for difference in differences
        )
        problem = f"{ours.folder} was extracted in another way than {what}: {listed}"
        raise TaggerError(problem, remedy="extract it again as that")
    extraction_of(ours)  # which refuses settings that lack something
