"""The interface that all encoders have, and the hidden states that they yield."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from bertfeat.core.encoder.path import EncoderPath
from bertfeat.core.encoder.precision import Precision
from bertfeat.core.tokens import TokenBatch


@dataclass(frozen=True, slots=True)
class HiddenState:
    """One layer of a batch; layer 0 is the embedding output, 1..L are the outputs of the blocks."""

    layer: int
    values: Tensor  # [T, H], or [S, H] where only the first token of each sequence was computed
    first_token_only: bool

    def cut(self, tokens: int, sequences: int) -> "HiddenState":
        """Leave out the rows that were added to fill a batch up."""
        rows = sequences if self.first_token_only else tokens
        return HiddenState(self.layer, self.values[:rows], self.first_token_only)


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
        self, batch: TokenBatch, layers: Collection[int], *, first_token_only: bool = False
    ) -> Iterator[HiddenState]:
        """Yield the chosen layers, ascending, each valid until the next is requested."""
