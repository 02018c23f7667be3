"""The record of a head that ``head.json`` holds: what it reads, what it predicts, and how it was trained."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from bertfeat.core import ModelIdentity, Pooling
from bertfeat.display import Cells, displayed
from bertfeat.io import FileDigest, to_plain
from bertfeat.learning.inputs import Extraction, LayerInput, parse_input
from bertfeat.learning.kinds import HeadKind, PairForm
from bertfeat.learning.networks import HeadShape
from bertfeat.learning.schedule import EpochRecord
from bertfeat.learning.settings import GridPoint, HeadSettings as HeadSettings
from bertfeat.learning.sources import SourceReading


@dataclass(frozen=True, slots=True)
class Outputs:
    """The outputs of a head: its labels or tags, or the scale of the numbers that it learned; else the defaults."""

    labels: tuple[str, ...] = ()
    mean: float = 0.0  # of the numbers, which are learned at mean 0
    spread: float = 1.0  # their standard deviation, which is learned as 1
    stored: bool = False  # the labels are spellings of stored numbers or truth values, not texts
    scheme: str | None = None  # of tags: BIO or IOBES for spans, PLAIN for others
    usual: int = 0  # number of the tag that most words have


@dataclass(frozen=True, slots=True)
class Candidate:
    """One of the heads that a training learned; the one with the least loss on the development set is kept."""

    hidden: int  # width of the hidden layer; 0: none
    inputs: str  # the group that it (or its linear head) reads, with those before it: ``HeadShape.input_groups``
    weight_decay: float
    score: float  # on the development set
    loss: float | None = None  # on the development set; None where there is one candidate
    averaged: bool = False  # the mean of the network and the best linear head

    def __str__(self) -> str:
        network = f"a hidden layer of {self.hidden}" if self.hidden else "linear"
        network += " averaged with linear" if self.averaged else ""
        return f"{network} on {self.inputs}, weight decay {self.weight_decay:g}"


def best_candidate(candidates: Iterable[Candidate]) -> Candidate:
    """The candidate with the least loss on the development set, the first of equal ones.

    The loss uses probabilities, which say more than right or wrong: with a few hundred examples it chooses well, and
    accuracy badly.
    """
    return min(candidates, key=lambda candidate: candidate.loss or 0.0)


@dataclass(frozen=True, slots=True)
class HeadInput:
    """The features that a head reads of each text or token."""

    model: ModelIdentity  # that makes them
    extraction: Extraction  # how it makes them
    pooling: Pooling
    layers: LayerInput
    pairs: PairForm | None  # None: single texts

    @property
    def layer_width(self) -> int:
        """Number of values that a layer gives: the width of a hidden state, or of what a model's own modules make."""
        own = [each.width for each in self.extraction.stored if each.pooling is Pooling.SENTENCE]
        return own[0] if own else self.model.hidden_size


@dataclass(frozen=True, slots=True)
class ExampleColumns:
    """The columns of the training corpus, which are the defaults for other corpora."""

    texts: tuple[str, ...] = ()
    pair: str | None = None
    label: str | None = None  # column of the gold values; several are separated by commas
    choices: tuple[str, ...] = ()

    @classmethod
    def of(cls, how: SourceReading) -> "ExampleColumns":
        """The columns by which a corpus is read."""
        return cls(how.corpus.text_columns, how.corpus.pair_column, how.label, how.choices)


@displayed
@dataclass(frozen=True, slots=True)
class HeadRecord:
    """A saved head: what it reads, what it predicts, and how it was trained. It is what ``head.json`` holds."""

    format_version: int
    kind: HeadKind
    approach: Literal["frozen", "fine-tuned"]
    model: ModelIdentity  # that makes the features, or was fine-tuned
    pairs: PairForm | None  # None: single texts
    outputs: Outputs
    training: HeadSettings
    columns: ExampleColumns
    measure: str  # name of the score
    score: float  # of the chosen candidate on the development set
    # the no-answer score above which a question has no answer, or for each label the least probability to predict it
    threshold: float | tuple[float, ...] | None
    seconds: float  # of training, without extraction
    data: Mapping[str, str]  # digests of train and dev
    versions: Mapping[str, str]
    # for the frozen approach only
    extraction: Extraction | None = None
    pooling: Pooling | None = None
    layers: str | None = None  # a layer specification
    choice: Mapping[str, object] | None = None  # how it was chosen among several, as ChosenLayers.to_json() tells it
    network: HeadShape | None = None
    places: Mapping[str, tuple[str, ...]] | None = None  # folders of the features, relative to the head's
    candidates: tuple[Candidate, ...] = ()
    best_epoch: int = 0  # of the candidate that was trained in epochs; 0: none was
    history: tuple[EpochRecord, ...] = ()
    weights: FileDigest | None = None
    # for fine-tuning only
    point: GridPoint | None = None
    precision: Literal["fp32", "bf16"] | None = None  # that it was computed in
    files: Mapping[str, FileDigest] | None = None  # of the model and its tokenizer, by name

    def cells(self) -> Cells:
        """The facts that a line or a table shows of the head."""
        kind = {"kind": str(self.kind), "approach": self.approach, "model": self.model.name, "layers": self.layers}
        score = {"measure": self.measure, "score": self.score, "best_epoch": self.best_epoch}
        return {**kind, **score, "labels": self.outputs.labels, "candidates": self.candidates, "history": self.history}

    def reads(self) -> HeadInput:
        """The features that a head on stored features reads."""
        assert self.extraction is not None
        assert self.pooling is not None
        return HeadInput(self.model, self.extraction, self.pooling, self.input, self.pairs)

    @property
    def input(self) -> LayerInput:
        """The layers that are read."""
        return parse_input(self.layers or "last", self.model.num_layers)

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that was kept; of a fine-tuned model there is none."""
        return best_candidate(self.candidates) if self.candidates else None

    def identity(self) -> dict[str, object]:
        """All that decides the result of its training."""
        return head_identity(self.kind, self.reads(), self.training, self.data)


def head_identity(
    kind: HeadKind, reads: HeadInput, training: HeadSettings, data: Mapping[str, str]
) -> dict[str, object]:
    """All that decides the result of a training on stored features, in JSON's types."""
    return {
        "kind": str(kind),
        "model": reads.model.fingerprint,
        "layers": reads.layers.spec,
        "pooling": str(reads.pooling),
        "pairs": reads.pairs and str(reads.pairs),
        "extraction": {
            **to_plain(reads.extraction),
            "stored": [column.described for column in reads.extraction.stored],
        },
        "training": to_plain(training),
        "data": dict(data),
    }
