"""Reports of a pre-training: while it runs, when it is done, and in ``pretraining.json``."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bertfeat.display import displayed, format_duration
from bertfeat.io import FileDigest
from bertfeat.pretraining.settings import PretrainingSettings


@dataclass(frozen=True, slots=True)
class HeldOutScores:
    """Scores of a model on the sequences that are held out, with the same masks each time."""

    loss: float  # mean over the predicted pieces
    unigram_loss: float  # of the pieces' frequencies in what is learned from, add-one, on the same pieces
    copying_loss: float  # of those frequencies and the piece that stands in each place, which may be the unchanged one
    accuracy: float  # of the predicted pieces
    copying_accuracy: float  # of the likeliest piece by frequencies and the piece that stands in its place
    predicted: int  # pieces
    next_accuracy: float | None  # of next sentences; None without pairs
    sequences: int
    perplexity: float | None  # of a left-to-right model


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """Means over the steps since the last point."""

    step: int
    words: float  # loss of the predicted pieces
    pairs: float | None  # loss of next sentences
    anchor: float | None  # distance from the old vectors
    rate: float  # learning rate after the step


@dataclass(frozen=True, slots=True)
class PretrainingIdentity:
    """All that decides a result: pre-trainings of one identity give one model, on one machine."""

    settings: PretrainingSettings
    model: str | None  # fingerprint of the starting model
    corpus: str  # digest of the texts, and of where documents begin


@dataclass(frozen=True, slots=True)
class CorpusFigures:
    """The counts of a tokenized corpus."""

    documents: int
    sentences: int
    pieces: int
    held_out_pieces: int
    held_out: str  # what is held out
    sequences: int  # of an epoch
    failed: int  # rows that cannot be read
    first_failure: str  # why the first of them cannot
    unknown: int  # pieces that the vocabulary does not know


@displayed
@dataclass(frozen=True, slots=True)
class PretrainingRecord:
    """``pretraining.json``."""

    format_version: int
    identity: PretrainingIdentity
    model: str | None  # name of the model that went on
    sources: tuple[str, ...]
    stamps: tuple[str, ...]  # of the sources
    figures: CorpusFigures
    steps: int
    history: tuple[HistoryPoint, ...]
    before: HeldOutScores | None
    after: HeldOutScores | None
    tokens: int  # in all steps, special ones included, padding not
    seconds: float  # of training alone
    versions: Mapping[str, str]
    files: Mapping[str, FileDigest]  # of the model, by their names in its folder


@displayed
@dataclass(frozen=True, slots=True)
class PretrainingReport:
    """The result of a pre-training."""

    folder: Path
    record: PretrainingRecord
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    resumed: int  # steps that an earlier run had done
    trained: bool  # False where nothing was left to do
    seconds: float  # of this run in all


@dataclass(frozen=True, slots=True)
class PretrainingProgress:
    """Progress of a pre-training."""

    stage: str
    fraction: float  # of the stage, 0 to 1
    tokens_per_second: float | None = None
    loss: float | None = None
    seconds_left: float | None = None

    def __str__(self) -> str:
        text = self.stage
        if self.tokens_per_second is not None:
            text += f", {self.tokens_per_second:,.0f} tokens/s"
        if self.loss is not None:
            text += f", loss {self.loss:.3f}"
        if self.seconds_left is not None:
            text += f", {format_duration(self.seconds_left)} left"
        return text


@displayed
@dataclass(frozen=True, slots=True)
class PretrainingEstimate:
    """Time and memory of a pre-training, measured on a part of the corpus."""

    parameters: int
    pieces: int  # of the corpus, extrapolated
    sequences: int  # of an epoch
    steps: int
    tokens_per_second: float
    seconds: float  # of all steps
    warnings: tuple[str, ...]


OnPretraining = Callable[[PretrainingProgress], None]
