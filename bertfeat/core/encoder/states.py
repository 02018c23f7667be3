"""The interface that all encoders have, and the hidden states that they yield."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from bertfeat.core.encoder.path import EncoderPath
from bertfeat.core.encoder.precision import Precision
from bertfeat.core.recipe import Place
from bertfeat.core.tokens import TokenBatch


@dataclass(frozen=True, slots=True)
class HiddenState:
    """The values of a batch at one place: a layer, or a site within a block."""

    place: Place
    values: Tensor  # [T, H], or [S, H] where only the first token of each sequence was computed; of heads their width
    first_token_only: bool

    def cut(self, tokens: int, sequences: int) -> "HiddenState":
        """Leave out the rows that were added to fill a batch up."""
        rows = sequences if self.first_token_only else tokens
        return HiddenState(self.place, self.values[:rows], self.first_token_only)


class Encoder(Protocol):
    """A frozen encoder that computes chosen layers of packed batches."""

    num_layers: int
    hidden_size: int
    precision: Precision
    device: torch.device
    path: EncoderPath

    @property
    def padded(self) -> bool:
        """Whether a batch costs, in tokens, the number of its sequences times the length of the longest."""

    def hidden_states(
        self, batch: TokenBatch, places: Collection[Place], *, first_token_only: bool = False
    ) -> Iterator[HiddenState]:
        """Yield the values at the chosen places, layer by layer, each valid until the next is requested."""
