"""What an encoder is, to everything that uses one."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import torch
from torch import Tensor

from bertfeat.encoder.precision import Precision
from bertfeat.tokens import TokenBatch


@dataclass(frozen=True, slots=True)
class HiddenState:
    """One layer of a batch; layer 0 is the embedding output, 1..L are the outputs of the blocks."""

    layer: int
    values: Tensor  # [T, H], or [S, H] where only the first token of each sequence was computed
    firsts: bool


class BatchForm(StrEnum):
    """How the sequences of a batch go through a model."""

    PACKED = "packed"
    """Side by side without padding, by bertfeat's own forward pass."""
    PADDED = "padded"
    """Padded to the longest one, by transformers."""
    EQUAL = "equal lengths"
    """Those of one length together, by transformers: padding would change their vectors, or is not known not to."""
    SINGLE = "one at a time"
    """Each by itself, by transformers: its company would change its vectors."""


@dataclass(frozen=True, slots=True)
class EncoderPath:
    """On which path a model is computed, and what was found when it was loaded."""

    form: BatchForm
    sentence: str
    notes: tuple[str, ...] = ()  # what a user should know of this model
    difference: float | None = None  # largest relative one between a text alone and in company; None: not looked for


class Encoder(Protocol):
    """A frozen encoder that computes chosen layers of packed batches."""

    num_layers: int
    hidden_size: int
    precision: Precision
    device: torch.device

    @property
    def padded(self) -> bool:
        """Whether a batch costs as many tokens as its longest sequence times their number."""

    def hidden_states(
        self, batch: TokenBatch, layers: Collection[int], *, first_only: bool = False
    ) -> Iterator[HiddenState]:
        """Yield the wanted layers, ascending, each valid until the next is asked for."""


class LoadedEncoder(Encoder, Protocol):
    """An encoder with a model's weights."""

    path: EncoderPath
