"""The settings that fine-tuning is tried with."""

from dataclasses import dataclass
from itertools import product
from typing import Annotated

from msgspec import Meta

from bertfeat.arguments import checked


@checked
@dataclass(frozen=True, slots=True)
class GridPoint:
    """One point of the grid that the paper searches on the development set."""

    batch_size: Annotated[int, Meta(ge=1)]  # sentences
    learning_rate: Annotated[float, Meta(gt=0, lt=1)]
    epochs: Annotated[int, Meta(ge=1)]


PAPER_GRID = tuple(GridPoint(*point) for point in product((16, 32), (5e-5, 3e-5, 2e-5), (2, 3, 4)))
"""Section A.3 of the paper."""
