"""The shape of a BERT that is trained from scratch: its layers, its width and its attention heads."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from bertfeat.errors import UsageError, parameter

_MOST = {"layers": 200, "width": 1 << 14, "heads": 1 << 10}  # more fit no memory


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
        for name, most in _MOST.items():
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
    numbers = {match[1].upper(): int(match[2]) for item in items if (match := _ITEM.fullmatch(item))}
    if len(items) != 3 or set(numbers) != {"L", "H", "A"}:
        remedy = f"give {', '.join(SHAPES)}, or numbers such as L=4,H=256,A=4"
        raise UsageError("this is no shape of a model", where=parameter("shape", text), remedy=remedy)
    return ModelShape(numbers["L"], numbers["H"], numbers["A"])


_ITEM = re.compile(r"([LHAlha])=([0-9]{1,9})")
