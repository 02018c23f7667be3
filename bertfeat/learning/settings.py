"""The settings of learning: each field is a keyword in Python, and an option of the shell unless it is rare.

This module is imported for the help of the shell, and so it imports neither torch nor NumPy.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Literal

from msgspec import Meta

from bertfeat.arguments import checked
from bertfeat.core import CorpusSettings, ModelSettings, list_poolings
from bertfeat.errors import UsageError, parameter
from bertfeat.learning.kinds import PairForm
from bertfeat.options import Option, check_bounds

# ── settings of fine-tuning ───────────────────────────────────────────────────────────────────────────────


@checked
@dataclass(frozen=True, slots=True)
class GridPoint:
    """The settings of one fine-tuning: a point of a grid, such as the paper's, searched with the development set."""

    batch_size: Annotated[int, Meta(ge=1)]  # examples
    learning_rate: Annotated[float, Meta(gt=0, lt=1)]
    epochs: Annotated[int, Meta(ge=1)]


PAPER_GRID = tuple(GridPoint(*point) for point in product((16, 32), (5e-5, 3e-5, 2e-5), (2, 3, 4)))
"""The grid of section A.3 of the paper."""


# ── settings of training in epochs ────────────────────────────────────────────────────────────────────────


MEMORY = 4 * 2**30  # bytes of features
PATIENCE = 6  # epochs; by default, the least patience
_PATIENT_UPDATES = 100  # the patience is raised to the number of epochs that contain this many updates
Schedule = Literal["plateau", "linear"]
_DECAYS = (10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSettings:
    """The settings of a head's training on stored features; fine-tuning reads some of them, too, such as the seed.

    Raises:
        UsageError: a number out of its bounds, or a patience with a linear schedule.
    """

    hidden: Annotated[  # -1: a network, linear heads and the mean of both are tried
        int,
        Option(
            "Width of the hidden layer; 0: none, so that the head is solved, not trained in epochs (answer: trained).",
            default="by the task",
            least=0,
            most=2**16,
        ),
    ] = -1
    dropout: Annotated[
        float, Option("Share of values left out while it learns.", least=0, below=1, python_only=True)
    ] = 0.5
    batch_size: Annotated[int, Option("Sentences, or other examples, in a batch.", least=1, most=2**31)] = 32
    learning_rate: Annotated[
        float, Option("At the beginning; it falls by the schedule.", metavar="RATE", above=0, below=1)
    ] = 1e-3
    epochs: Annotated[int, Option("Epochs at most.", least=1, most=2**31)] = 40
    schedule: Annotated[
        Schedule,
        Option(
            "plateau: halve the rate where the score on the development set no longer rises, and keep the best epoch; "
            "linear: let it fall to 0 over all epochs, and keep the last one.",
            python_only=True,
        ),
    ] = "plateau"
    patience: Annotated[
        int | None,
        Option(
            "Epochs without a better score on the development set before a plateau ends.",
            default=f"{PATIENCE}, or as many as {_PATIENT_UPDATES} updates take",
            least=1,
            most=2**31,
            python_only=True,
        ),
    ] = None
    seed: Annotated[
        int, Option("Of the random numbers: another one, another result.", basic=True, least=0, most=2**62)
    ] = 1
    memory: Annotated[
        int,
        Option(
            "Bytes of features held in memory; larger sets are read anew each epoch.",
            default="4 GiB",
            least=1,
            most=2**62,
            python_only=True,
        ),
    ] = MEMORY
    weight_decay: Annotated[
        float | None,
        Option(
            "Half of it times the squared weights is added to the loss.",
            default="10 to 0.0003 without a hidden layer, as is best on dev; with one 0",
            above=0,
            most=1_000_000,
            python_only=True,
        ),
    ] = None
    task: Annotated[
        str | None,
        Option(
            "Of classify: labels, multi-labels, numbers, or one that a package adds.",
            default="labels; multi-labels where --label holds lists or is several columns",
            metavar="NAME",
            basic=True,
        ),
    ] = None
    max_answer: Annotated[int, Option("Tokens of the longest answer.", least=1, python_only=True)] = 30
    crf: Annotated[
        bool | None,
        Option(
            "Score whole sequences of tags (CRF), or each tag by itself as the paper does.",
            default="a CRF where tags stand for spans; none for a Table 7",
            basic=True,
        ),
    ] = None
    scheme: Annotated[
        Literal["BIO", "IOBES"],
        Option("In which spans are learned; BIO, IOB1 and IOBES are read, BIO is written.", python_only=True),
    ] = "BIO"

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.schedule == "linear" and self.patience is not None:
            remedy = f"leave it out, or give {parameter('schedule', 'plateau')}"
            raise UsageError(
                f"{parameter('patience', self.patience)} has no effect: all epochs are learned", remedy=remedy
            )

    @property
    def epochs_waited(self) -> int:
        """The number of epochs without a better score after which training with ``plateau`` ends."""
        return PATIENCE if self.patience is None else self.patience

    @property
    def decays(self) -> tuple[float, ...]:
        """The weight decays that linear heads are solved with, the strongest first."""
        return _DECAYS if self.weight_decay is None else (self.weight_decay,)


def with_patience(settings: HeadSettings, examples: int) -> HeadSettings:
    """The settings with the patience for a number of training examples: by default 6 epochs, or more if 100 updates
    take more.

    With few examples an epoch has few updates, and its score may be chance.
    """
    if settings.patience is not None or settings.schedule != "plateau":
        return settings
    updates = -(-examples // settings.batch_size)  # in one epoch
    return replace(settings, patience=max(PATIENCE, -(-_PATIENT_UPDATES // updates)))


# ── what is learned, from which examples ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningSettings(ModelSettings):
    """The settings of learning: what is predicted, how examples are read and become features, how a head is trained.

    They are keywords of every function that trains heads.

    The fields of :class:`ModelSettings` are for corpora, whose features are not extracted yet.
    """

    label: Annotated[
        str | None,
        Option(
            "Column of a label, a number or a list of labels, or one a label (1 or 0); of choices the number, from 0, "
            "or the column.",
            metavar="COL[,COL]",
            basic=True,
        ),
    ] = None
    choices: Annotated[Sequence[str], Option("Columns of the choices.", metavar="COL,COL[,COL]", basic=True)] = ()
    pooling: Annotated[
        str | None, Option(f"{list_poolings()}.", default="the model's own, else mean", metavar="KIND")
    ] = None
    embed_pairs: Annotated[
        PairForm | str | None,
        Option(
            "Each text by itself (u, v, |u-v|, u·v), or both as one sequence with segment ids.",
            default="apart",
        ),
    ] = None
    settings: HeadSettings | None = None
    corpus_settings: CorpusSettings | None = None

    @property
    def training(self) -> HeadSettings:
        """The settings of the head, the usual ones if none were given."""
        return self.settings or HeadSettings()

    @property
    def reading(self) -> CorpusSettings:
        """The settings of reading corpora, the usual ones if none were given."""
        return self.corpus_settings or CorpusSettings()

    @property
    def pair_form(self) -> PairForm | None:
        """The form in which pairs are embedded, if it was given."""
        return None if self.embed_pairs is None else PairForm(self.embed_pairs)
