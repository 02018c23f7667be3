"""The settings of a head: how it is trained and what it reads."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bertfeat.errors import UsageError
from bertfeat.features import ModelIdentity
from bertfeat.heads.kinds import HeadKind, PairForm
from bertfeat.heads.networks import HeadShape
from bertfeat.io import to_plain
from bertfeat.recipe import Pooling
from bertfeat.training import EpochRecord, Extraction, FileDigest, GridPoint, LayerInput, LoopSettings, parse_input

_HIDDEN = {HeadKind.CLASSIFY: 0, HeadKind.ANSWER: 128, HeadKind.CHOOSE: 256}


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSettings(LoopSettings):
    """How a head is trained on stored features.

    Raises:
        UsageError: a number that cannot be right.
    """

    hidden: int = -1  # width of the hidden layer; 0: none, -1: what suits the kind
    regression: bool = False  # numbers are learnt, not labels
    max_answer: int = 30  # tokens of the longest answer

    def __post_init__(self) -> None:
        LoopSettings.__post_init__(self)
        if self.hidden < -1:
            raise UsageError(f"hidden {self.hidden}", remedy="give 0 for none, or a width")
        if self.max_answer < 1:
            raise UsageError(f"max answer {self.max_answer}", remedy="give at least 1")

    def hidden_of(self, kind: HeadKind) -> int:
        """The width of the hidden layer of a head of the kind."""
        return _HIDDEN[kind] if self.hidden < 0 else self.hidden


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a head predicts: labels, or numbers that were learnt at mean 0, spread 1; neither: spans, choices."""

    labels: tuple[str, ...] = ()
    mean: float = 0.0
    spread: float = 1.0


@dataclass(frozen=True, slots=True)
class HeadInput:
    """The features that a head reads of each text or token."""

    model: ModelIdentity  # that makes them
    extraction: Extraction  # how it makes them
    pooling: Pooling
    layers: LayerInput
    pairs: PairForm | None  # None: single texts

    def shape(self, kind: HeadKind, training: HeadSettings, outputs: Outputs) -> HeadShape:
        """The shape of the network of a head that reads them."""
        apart = self.pairs is PairForm.APART
        return head_shape(kind, self.layers, self.model.hidden_size, training, outputs, apart=apart)


@dataclass(frozen=True, slots=True)
class ExampleColumns:
    """The columns of the training corpus, which those of other corpora are taken to be, too."""

    texts: tuple[str, ...] = ()
    pair: str | None = None
    label: str | None = None  # of what is to be predicted
    choices: tuple[str, ...] = ()


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
    measure: str  # of the score
    score: float  # on the development set
    threshold: float | None  # of the no-answer score, above which a question has none
    seconds: float  # of training, without extraction
    data: Mapping[str, str]  # digests of train and dev
    versions: Mapping[str, str]
    # of the frozen approach
    extraction: Extraction | None = None
    pooling: Pooling | None = None
    layers: str | None = None  # a layer specification
    network: HeadShape | None = None
    places: Mapping[str, tuple[str, ...]] | None = None  # folders of the features, relative to the head's
    best_epoch: int = 1
    history: tuple[EpochRecord, ...] = ()
    weights: FileDigest | None = None
    # of fine-tuning
    point: GridPoint | None = None
    precision: Literal["fp32", "bf16"] | None = None  # that it was computed in

    def reads(self) -> HeadInput:
        """The features that a head on stored features reads."""
        assert self.extraction is not None
        assert self.pooling is not None
        return HeadInput(self.model, self.extraction, self.pooling, self.input, self.pairs)

    @property
    def input(self) -> LayerInput:
        """The layers that are read."""
        return parse_input(self.layers or "last", self.model.num_layers)

    def identity(self) -> dict[str, object]:
        """All that decides the result of its training."""
        return head_identity(self.kind, self.reads(), self.training, self.data)


def head_identity(
    kind: HeadKind, reads: HeadInput, training: HeadSettings, data: Mapping[str, str]
) -> dict[str, object]:
    """All that decides the result of a training on stored features, as JSON has it."""
    return {
        "kind": str(kind),
        "model": reads.model.fingerprint,
        "layers": reads.layers.spec,
        "pooling": str(reads.pooling),
        "pairs": reads.pairs and str(reads.pairs),
        "extraction": to_plain(reads.extraction),
        "training": to_plain(training),
        "data": dict(data),
    }


def head_shape(
    kind: HeadKind, layers: LayerInput, hidden_size: int, training: HeadSettings, outputs: Outputs, *, apart: bool
) -> HeadShape:
    """The shape of the network of a head on stored features of a model, of pairs that are embedded ``apart`` or not."""
    texts = 2 if apart else 1
    return HeadShape(
        width=texts * layers.recipe.width(hidden_size),
        texts=texts,
        mixed_layers=layers.mixed_layers,
        hidden=training.hidden_of(kind),
        recurrent=kind is HeadKind.ANSWER,
        outputs={HeadKind.ANSWER: 2, HeadKind.CHOOSE: 1}.get(kind, len(outputs.labels) or 1),  # a vector's scores
        dropout=training.dropout,
    )
