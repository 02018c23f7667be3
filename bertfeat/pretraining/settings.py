"""The settings of a pre-training: what is learned, from which sequences, and for how long."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Literal

from bertfeat.arguments import checked
from bertfeat.errors import UsageError, parameter
from bertfeat.options import Option, check_bounds

# ── the shape of a new model ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Layers L, width H of a hidden state and attention heads A; a feed-forward part is 4H wide.

    Raises:
        UsageError: numbers that make no BERT, such as a width that the heads do not divide.
    """

    layers: int
    width: int
    heads: int

    def __post_init__(self) -> None:
        for name, most in (("layers", 200), ("width", 1 << 14), ("heads", 1 << 10)):  # larger ones fit no memory
            if not 1 <= getattr(self, name) <= most:
                remedy = f"give {name} from 1 to {most:,}"
                raise UsageError(f"{name} {getattr(self, name):,}", where=self._named, remedy=remedy)
        if self.width % self.heads:
            problem = f"the width H={self.width} is not divisible by the attention heads A={self.heads}"
            raise UsageError(problem, where=self._named, remedy=f"give H as a multiple of {self.heads}")

    @property
    def spec(self) -> str:
        """The shape as ``--shape`` takes it: ``L=4,H=256,A=4``."""
        return f"L={self.layers},H={self.width},A={self.heads}"

    @property
    def _named(self) -> str:
        return parameter("shape", self.spec)


SHAPES: Mapping[str, ModelShape] = {
    "tiny": ModelShape(2, 128, 2),
    "mini": ModelShape(4, 256, 4),
    "small": ModelShape(4, 512, 8),
    "medium": ModelShape(8, 512, 8),
    "base": ModelShape(12, 768, 12),
    "large": ModelShape(24, 1024, 16),
}
"""``base`` and ``large`` of Devlin et al. 2019, section 3; the others of Turc et al. 2019."""


def parse_shape(text: str) -> ModelShape:
    """Read a shape: one of :data:`SHAPES`, or ``L=4,H=256,A=4``."""
    if text in SHAPES:
        return SHAPES[text]
    items = [item.strip() for item in text.split(",")]
    numbers = {
        match[1].upper(): int(match[2]) for item in items if (match := re.fullmatch(r"([LHAlha])=([0-9]{1,9})", item))
    }
    if len(items) != 3 or set(numbers) != {"L", "H", "A"}:
        remedy = f"give {', '.join(SHAPES)}, or numbers such as L=4,H=256,A=4"
        raise UsageError("this is no shape of a model", where=parameter("shape", text), remedy=remedy)
    return ModelShape(numbers["L"], numbers["H"], numbers["A"])


# ── the objective and its masks ─────────────────────────────────────────────────────────────────────────────


class Objective(StrEnum):
    """Objective of a pre-training; the second and third are ablations of the paper's section 5.1."""

    MLM_NSP = "mlm+nsp"
    """Masked pieces, and whether the second segment follows the first."""
    MLM = "mlm"
    """Masked pieces of single segments."""
    LTR = "ltr"
    """The next piece, from those left of it."""

    @property
    def has_pairs(self) -> bool:
        """Whether sequences have two segments."""
        return self is Objective.MLM_NSP

    @property
    def has_masks(self) -> bool:
        """Whether pieces are masked."""
        return self is not Objective.LTR


@dataclass(frozen=True, slots=True)
class MaskShares:
    """Shares, in percent, of the predicted pieces that are masked, replaced by a random piece, or left as they are."""

    masked: float = 80
    random: float = 10
    kept: float = 10

    def __post_init__(self) -> None:
        shares = (self.masked, self.random, self.kept)
        if not all(share >= 0 for share in shares) or abs(sum(shares) - 100) > 1e-9:
            shown = ":".join(f"{share:g}" for share in shares)
            remedy = "give three shares that add up to 100, such as 80:10:10"
            raise UsageError(f"the shares {shown} add up to {sum(shares):g}", where=parameter("mask"), remedy=remedy)


def parse_mask(text: str) -> MaskShares:
    """Read the shares of masked, random and kept pieces, such as ``80:10:10``."""
    try:
        masked, random, kept = (float(share) for share in text.split(":"))
    except ValueError:
        remedy = "give the shares of masked, random and unchanged pieces, such as 80:10:10"
        raise UsageError("these are not three numbers", where=parameter("mask", text), remedy=remedy) from None
    return MaskShares(masked, random, kept)


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────


VOCABULARY = 30_000
_MOST_STEPS = (1 << 31) - 1
_BUDGETS = ("steps", "epochs", "minutes")
_CONTINUED_RATE = 5e-5  # default learning rate where a starting model is trained further


@checked
@dataclass(frozen=True, slots=True)
class PretrainingSettings:
    """Settings of a pre-training.

    :meth:`resolved` decides those that are None.

    Raises:
        UsageError: a value that cannot be right, or two that exclude each other.
    """

    shape: Annotated[
        str | None,
        Option(
            f"Of a new model: {', '.join(SHAPES)}, or layers, width and attention heads.",
            default="mini",
            metavar="NAME|L=N,H=N,A=N",
            basic=True,
        ),
    ] = None
    vocabulary: Annotated[
        int | None,
        Option(
            "Pieces that a new model's vocabulary gets; it is learned from the corpus.",
            default=f"{VOCABULARY:,}",
            basic=True,
            least=100,
            most=1 << 24,
        ),
    ] = None
    cased: Annotated[bool, Option("A new vocabulary keeps capitals and accents.")] = False
    objective: Annotated[
        Objective | None,
        Option(
            "Masked pieces and next sentences, masked pieces alone, or the next piece (left to right).",
            default="mlm+nsp, or mlm with --model",
            basic=True,
        ),
    ] = None
    minutes: Annotated[
        float | None,
        Option(
            "Train as long; the steps are fixed by the speed at the start.",
            metavar="M",
            basic=True,
            above=0,
            below=10_000_000,
        ),
    ] = None
    epochs: Annotated[int | None, Option("Train N times over.", default="1", basic=True, least=1, most=_MOST_STEPS)] = (
        None
    )
    steps: Annotated[int | None, Option("Train so many batches.", least=1, most=_MOST_STEPS)] = None
    anchor: Annotated[
        float | None,
        Option(
            "With --model: weight of the distance from its old vectors, such as 10.",
            metavar="W",
            basic=True,
            above=0,
            below=1_000_000,
        ),
    ] = None
    mask: Annotated[
        str, Option("How many in 100 predicted pieces are masked, replaced at random, kept.", python_only=True)
    ] = "80:10:10"
    mask_rate: Annotated[
        float, Option("Share of predicted pieces; the paper has 0.15.", above=0, below=1, python_only=True)
    ] = 0.15
    whole_words: Annotated[bool, Option("Predict all pieces of a word or none.", python_only=True)] = False
    max_length: Annotated[int, Option("Tokens of a sequence, special ones included.", least=8, most=1 << 16)] = 128
    positions: Annotated[
        int | None,
        Option("Most tokens that a new model can read at once.", default="as --max-length", least=8, most=1 << 16),
    ] = None
    batch_size: Annotated[int, Option("Sequences in a batch.", least=1, most=1 << 20)] = 32
    learning_rate: Annotated[
        float | None,
        Option(
            "The highest; it rises over the first tenth of the steps and falls to 0.",
            default="1e-3 to 1e-4 by the width, 5e-5 with --model",
            metavar="RATE",
            above=0,
            below=1,
        ),
    ] = None
    held_out: Annotated[
        float,
        Option(
            "Share of the corpus that the model is scored on and never learns from.",
            metavar="SHARE",
            least=0,
            most=0.5,
        ),
    ] = 0.01
    seed: Annotated[int, Option("Of the random numbers: another one, another model.", least=0, most=1 << 62)] = 1
    precision: Annotated[
        Literal["auto", "fp32", "bf16"],
        Option("auto: bf16 where the hardware multiplies it natively, else fp32; weights are fp32 in any case."),
    ] = "auto"

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.shape is not None:
            parse_shape(self.shape)
        parse_mask(self.mask)
        self._check_together()

    def _check_together(self) -> None:
        """Refuse settings that exclude each other."""
        budgets = [parameter(name) for name in _BUDGETS if getattr(self, name) is not None]
        if len(budgets) > 1:
            raise UsageError(f"{' and '.join(budgets)} each say how long it trains", remedy="give one of them")
        if (self.positions or self.max_length) < self.max_length:
            problem = f"sequences of {self.max_length} tokens do not fit {self.positions} positions"
            raise UsageError(problem, remedy=f"give {parameter('positions')} at least {self.max_length}")
        defaults = {"mask": "80:10:10", "mask_rate": 0.15, "whole_words": False}
        changed = [name for name, default in defaults.items() if getattr(self, name) != default]
        if self.objective == Objective.LTR and changed:
            problem = f"{parameter(changed[0])} says how pieces are masked, and {Objective.LTR} masks none"
            raise UsageError(problem, remedy="leave it out")

    @property
    def goal(self) -> Objective:
        """The objective of resolved settings."""
        return Objective(self.objective or Objective.MLM_NSP)

    @property
    def model_shape(self) -> ModelShape:
        """The shape of a new model, of resolved settings."""
        return parse_shape(self.shape or "mini")

    @property
    def rate(self) -> float:
        """The highest learning rate of resolved settings."""
        return self.learning_rate or _CONTINUED_RATE

    def resolved(self, *, from_scratch: bool) -> "PretrainingSettings":
        """The same settings with nothing left open but the precision, which the device decides.

        Raises:
            UsageError: a setting for new models with a starting model, or the other way round.
        """
        has_budget = any(getattr(self, name) is not None for name in _BUDGETS)
        settings = self if has_budget else replace(self, epochs=1)
        return settings._of_new_model() if from_scratch else settings._going_on()

    def _of_new_model(self) -> "PretrainingSettings":
        if self.anchor is not None:
            problem = f"{parameter('anchor')} holds a model to its old vectors, and a new one has none"
            raise UsageError(problem, remedy=f"give {parameter('model')}, or leave it out")
        shape = self.model_shape
        return replace(
            self,
            shape=next((name for name, known in SHAPES.items() if known == shape), shape.spec),
            vocabulary=self.vocabulary or VOCABULARY,
            objective=self.goal,
            positions=self.positions or self.max_length,
            learning_rate=self.learning_rate or default_rate(shape.width),
        )

    def _going_on(self) -> "PretrainingSettings":
        for name in ("shape", "vocabulary", "cased", "positions"):
            if getattr(self, name):
                problem = f"{parameter(name)} is for a new model, and {parameter('model')} brings its own"
                raise UsageError(problem, remedy="leave one of them out")
        objective = self.objective or Objective.MLM
        return replace(self, objective=objective, learning_rate=self.learning_rate or _CONTINUED_RATE)


def default_rate(width: int) -> float:
    """The learning rate of a new model: 1e-3 at a width of 128, less for wider ones, at least the paper's 1e-4."""
    return max(1e-4, min(1e-3, 1e-3 * 128 / width))
