"""Canaries: vectors of fixed strings, which show whether a model gives the same vectors in two places.

A feature set, and every index or head that is made from one, records those of the machine that computed it. Wherever
the model is opened again they are computed once more, because other versions of a library, another processor or another
kernel may compute something else without any error.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from bertfeat.errors import shorten

CANARY_TEXTS = (
    "bank",
    "He sat on the bank of the river, and deposited 1,250.75 dollars at 3 o'clock.",
    "세종대왕은 1443년에 한글을 만들었다.",
    "def area(r): return 3.14159 * r**2  # πr² — “naïve”, §4; see https://example.org?q=a&b=ü",
    "In the town where I was born lived a man who had spent more than forty years of his life at sea, and who told us, "
    "whenever the evenings were long and the fire was warm, of islands that no map shows, of storms that lasted for a "
    "month, and of a whale so old that barnacles had grown into letters on its back, which he alone could read.",
)
"""The strings, which are part of the storage format: a word, sentences in two languages, code, and a long sentence."""

PRECISION_COSINES: Mapping[str, float] = {"fp32": 0.999999, "bf16": 0.9995, "fp16": 0.9999, "int8": 0.995}
"""Least cosine between vectors and the same ones in exact fp32, by the precision that they are computed in."""

_MOST_VALUES = 64  # of a vector that are kept
_SHOWN_PARTS = 10  # of a group, in a message


@dataclass(frozen=True, slots=True)
class Canary:
    """The vectors of :data:`CANARY_TEXTS`, and what computed them.

    They are the means of the last layer over the tokens of each string, of which at most 64 evenly spaced values are
    kept.
    """

    precision: Annotated[str, Meta(pattern="^(fp32|bf16|fp16|int8)$")]
    values: bytes = field(repr=False)  # [strings, kept values] float32, row by row, little-endian
    computed_by: Mapping[str, str]  # versions of libraries, device, processor, kernels

    def __post_init__(self) -> None:
        if not self.values or len(self.values) % (4 * len(CANARY_TEXTS)) or not np.isfinite(self.vectors).all():
            raise ValueError(f"the canary's {len(self.values)} bytes are not {len(CANARY_TEXTS)} finite vectors")

    @classmethod
    def of(cls, precision: str, vectors: NDArray[np.float32], computed_by: Mapping[str, str]) -> "Canary":
        """The canary of the strings' vectors, ``[strings, H]``."""
        width = vectors.shape[1]
        kept = min(_MOST_VALUES, width)
        return cls(precision, vectors[:, np.arange(kept) * width // kept].astype("<f4").tobytes(), computed_by)

    @property
    def vectors(self) -> NDArray[np.float32]:
        """The kept values, ``[strings, kept values]``."""
        return np.frombuffer(self.values, "<f4").reshape(len(CANARY_TEXTS), -1)


def find_canary_problem(one: Canary | None, other: Canary | None) -> str | None:
    """The difference between two computations that give the strings different vectors, and between what computed them.

    None where the vectors are as near as their precisions promise, and where a canary is absent.
    """
    if one is None or other is None:
        return None
    if len(one.values) != len(other.values):
        return f"canaries of {len(one.values)} and of {len(other.values)} bytes"
    cosines = [cosine_between(ours, theirs) for ours, theirs in zip(one.vectors, other.vectors, strict=True)]
    least = combine_cosines(PRECISION_COSINES[one.precision], PRECISION_COSINES[other.precision])
    worst = int(np.argmin(cosines))
    if cosines[worst] >= least:
        return None
    promising = " with ".join(dict.fromkeys((one.precision, other.precision)))
    return (
        f"for {shorten(CANARY_TEXTS[worst], 40)!r} their cosine is {cosines[worst]:.6f}, where {promising} promises "
        f"{least:.6f} ({_describe_changes(one, other)})"
    )


class CanaryGroups:
    """The parts of a feature set, grouped by the vectors that the model gives where they were made."""

    def __init__(self) -> None:
        self._groups: list[tuple[Canary | None, list[int]]] = []

    def add(self, number: int, canary: Canary | None) -> None:
        """Add a part, by its number, to the first group whose vectors are the same."""
        for known, numbers in self._groups:
            if find_canary_problem(known, canary) is None:
                numbers.append(number)
                return
        self._groups.append((canary, [number]))

    def problem(self) -> str | None:
        """The problem of the first two groups, with their parts; None if there is one group."""
        if len(self._groups) < 2:
            return None
        (one, ours), (other, theirs) = self._groups[:2]
        parts = f"the model gave other vectors for {_name_parts(theirs)} than for {_name_parts(ours)}"
        return f"{parts}: {find_canary_problem(one, other)}"


def _name_parts(numbers: list[int]) -> str:
    shown, more = ", ".join(map(str, numbers[:_SHOWN_PARTS])), len(numbers) - _SHOWN_PARTS
    return f"part{'s' if len(numbers) > 1 else ''} {shown}" + (f" and {more:,} more" if more > 0 else "")


def combine_cosines(one: float, other: float) -> float:
    """The least cosine between two vectors whose cosines with a third are at least these."""
    return math.cos(math.acos(one) + math.acos(other))


def cosine_between(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """The cosine of two vectors in float64; where one is zero, 1 if both are, else 0."""
    ours, theirs = one.astype(np.float64), other.astype(np.float64)
    norms = float(np.linalg.norm(ours) * np.linalg.norm(theirs))
    return float(ours @ theirs) / norms if norms else float(np.array_equal(ours, theirs))


def _describe_changes(one: Canary, other: Canary) -> str:
    names = dict.fromkeys([*one.computed_by, *other.computed_by])
    pairs = [(name, one.computed_by.get(name, "none"), other.computed_by.get(name, "none")) for name in names]
    changes = [f"{name} {shorten(ours)} and {shorten(theirs)}" for name, ours, theirs in pairs if ours != theirs]
    return f"different are {', '.join(changes)}" if changes else "versions, processor and kernels are the same"
