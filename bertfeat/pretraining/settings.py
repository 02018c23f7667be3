"""The settings of a pre-training: what is learnt, from which sequences, and for how long."""

from dataclasses import dataclass, replace
from enum import StrEnum

from bertfeat.errors import UsageError, parameter
from bertfeat.pretraining.shapes import SHAPES, ModelShape, parse_shape

LEAST_LENGTH = 8
VOCABULARY = 30_000
PRECISIONS = ("auto", "fp32", "bf16")
_BUDGETS = ("steps", "epochs", "minutes")
_AT_LEAST = {"vocabulary": 100, "batch_size": 1, "max_length": LEAST_LENGTH, "positions": LEAST_LENGTH}
_AT_MOST = {"vocabulary": 1 << 24, "batch_size": 1 << 20, "max_length": 1 << 16, "positions": 1 << 16}
_SCRATCH_ONLY = ("shape", "vocabulary", "cased", "positions")
_NARROWEST, _FASTEST, _SLOWEST = 128, 1e-3, 1e-4  # rates of the narrowest and the widest models
_GOING_ON = 5e-5


class Objective(StrEnum):
    """What a pre-training learns to predict; the second and third are ablations of the paper's section 5.1."""

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
    """How many in 100 of the predicted pieces are masked, replaced by a random piece, or left as they are.

    Raises:
        UsageError: they do not add up to 100.
    """

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
    """Read ``80:10:10``.

    Raises:
        UsageError: these are not three shares of 100.
    """
    try:
        masked, random, kept = (float(share) for share in text.split(":"))
    except ValueError:
        remedy = "give the shares of masked, random and unchanged pieces, such as 80:10:10"
        raise UsageError("these are not three numbers", where=parameter("mask", text), remedy=remedy) from None
    return MaskShares(masked, random, kept)


@dataclass(frozen=True, slots=True)
class PretrainingSettings:
    """How a model is pre-trained. What is None is decided by :meth:`resolved`.

    Raises:
        UsageError: a value that cannot be right, or two that exclude each other.
    """

    shape: str | None = None  # from scratch; default mini
    vocabulary: int | None = None  # pieces, from scratch; default 30,000
    cased: bool = False  # whether a new vocabulary keeps capitals and accents
    objective: str | None = None  # default mlm+nsp from scratch, mlm where a model goes on
    steps: int | None = None
    epochs: int | None = None  # default 1, where there are neither steps nor minutes
    minutes: float | None = None
    mask: str = "80:10:10"
    mask_rate: float = 0.15
    whole_words: bool = False
    max_length: int = 128  # tokens of a sequence, special ones included
    positions: int | None = None  # of a new model; default max_length
    batch_size: int = 32  # sequences
    learning_rate: float | None = None  # default by the model's width, or 5e-5 where a model goes on
    held_out: float = 0.01  # share of the corpus
    anchor: float | None = None  # weight of the distance from the model's old vectors
    seed: int = 1
    precision: str = "auto"  # bf16: products of matrices in bfloat16, weights and sums in float32

    def __post_init__(self) -> None:
        for name, least in _AT_LEAST.items():
            self._check_range(name, least, _AT_MOST[name])
        for name in ("steps", "epochs"):
            self._check_range(name, 1, (1 << 31) - 1)
        self._check_range("seed", 0, 1 << 62)
        if self.minutes is not None and not 0 < self.minutes < 1e7:
            raise _wrong("minutes", self.minutes, "give a positive number")
        if not 0 < self.mask_rate < 1:
            raise _wrong("mask_rate", self.mask_rate, "give a share between 0 and 1; the paper has 0.15")
        if self.learning_rate is not None and not 0 < self.learning_rate < 1:
            raise _wrong("learning_rate", self.learning_rate, "give one between 0 and 1, such as 1e-4")
        if not 0 <= self.held_out <= 0.5:
            raise _wrong("held_out", self.held_out, "give a share from 0 to 0.5")
        if self.anchor is not None and not 0 < self.anchor < 1e6:
            raise _wrong("anchor", self.anchor, "give a positive number, such as 10")
        self._check_words()

    def _check_range(self, name: str, least: int, most: int) -> None:
        value = getattr(self, name)
        if value is not None and not least <= value <= most:
            raise _wrong(name, value, f"give a whole number from {least:,} to {most:,}")

    def _check_words(self) -> None:
        if self.objective is not None and self.objective not in tuple(Objective):
            raise _wrong("objective", self.objective, f"give one of {', '.join(Objective)}")
        if self.precision not in PRECISIONS:
            raise _wrong("precision", self.precision, f"give one of {', '.join(PRECISIONS)}")
        if self.shape is not None:
            parse_shape(self.shape)
        parse_mask(self.mask)
        budgets = [parameter(name) for name in _BUDGETS if getattr(self, name) is not None]
        if len(budgets) > 1:
            raise UsageError(f"{' and '.join(budgets)} each say how long it trains", remedy="give one of them")
        if (self.positions or self.max_length) < self.max_length:
            problem = f"sequences of {self.max_length} tokens do not fit {self.positions} positions"
            raise UsageError(problem, remedy=f"give {parameter('positions')} at least {self.max_length}")
        self._check_masks()

    def _check_masks(self) -> None:
        """Refuse what says how pieces are masked where none are."""
        defaults = {"mask": "80:10:10", "mask_rate": 0.15, "whole_words": False}
        changed = [name for name, value in defaults.items() if getattr(self, name) != value]
        if self.objective == Objective.LTR and changed:
            problem = f"{parameter(changed[0])} says how pieces are masked, and {Objective.LTR} masks none"
            raise UsageError(problem, remedy="leave it out")

    @property
    def goal(self) -> Objective:
        """The objective; of settings that are resolved."""
        return Objective(self.objective or Objective.MLM_NSP)

    @property
    def model_shape(self) -> ModelShape:
        """The shape of a new model; of settings that are resolved."""
        return parse_shape(self.shape or "mini")

    @property
    def rate(self) -> float:
        """The highest learning rate; of settings that are resolved."""
        return self.learning_rate or _GOING_ON

    def resolved(self, *, from_scratch: bool) -> "PretrainingSettings":
        """The same settings with nothing left open but the precision, which the device decides.

        Raises:
            UsageError: a setting of a new model where another one goes on, or the other way round.
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
            objective=str(self.goal),
            positions=self.positions or self.max_length,
            learning_rate=self.learning_rate or default_rate(shape.width),
        )

    def _going_on(self) -> "PretrainingSettings":
        for name in _SCRATCH_ONLY:
            if getattr(self, name):
                problem = f"{parameter(name)} is for a new model, and {parameter('model')} brings its own"
                raise UsageError(problem, remedy="leave one of them out")
        objective = self.objective or str(Objective.MLM)
        return replace(self, objective=objective, learning_rate=self.learning_rate or _GOING_ON)


def default_rate(width: int) -> float:
    """The learning rate of a new model: 1e-3 at a width of 128, less for wider ones, at least the paper's 1e-4."""
    return max(_SLOWEST, min(_FASTEST, _FASTEST * _NARROWEST / width))


def _wrong(name: str, value: object, remedy: str) -> UsageError:
    return UsageError("this cannot be right", where=parameter(name, value), remedy=remedy)
