"""Shuffled batches of examples of similar length, packed: no padding is computed.

An example is what has a label of its own, or a sequence of labels: the words of a sentence, the tokens of a question
and its passage, the choices of a question, or one text. Shapes: B examples of a batch, longest first; T vectors of
the longest; N vectors of all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_POOL = 32  # batches whose examples are sorted by length together


@dataclass(frozen=True, slots=True)
class ExampleChunk:
    """Examples with their vectors, flat: S examples, N vectors, W width."""

    offsets: NDArray[np.int64]  # [S+1] where each example's vectors begin
    features: NDArray[np.floating]  # [N, W] float16 or float32
    examples: NDArray[np.int64]  # [S] their numbers in the store

    def __len__(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class PackedExamples:
    """Where the vectors of a batch are, time by time: all first ones, then all second ones, and so on."""

    sizes: tuple[int, ...]  # [T] how many examples have a vector at each time
    vectors: NDArray[np.int64]  # [N] number of each vector in the chunk
    examples: NDArray[np.int64]  # [B] which examples of the chunk, longest first
    owners: NDArray[np.int64]  # [N] whose vector each is, 0..B-1


@dataclass(frozen=True, slots=True)
class ExampleBatch:
    """A batch as a network takes it."""

    features: Tensor  # [N, W] packed, float16 or float32
    example: Tensor  # [N] whose vector it is, 0..B-1
    sizes: tuple[int, ...]  # [T]

    @property
    def count(self) -> int:
        """Number B of examples."""
        return self.sizes[0]


def pack_examples(offsets: NDArray[np.int64], examples: NDArray[np.int64]) -> PackedExamples:
    """Order the vectors of some examples time by time, the longest example first."""
    lengths = offsets[examples + 1] - offsets[examples]
    order = np.argsort(-lengths, kind="stable")
    examples, lengths = examples[order], lengths[order]
    times = np.arange(lengths[0])
    exists = times[:, None] < lengths[None, :]  # [T, B]
    vectors = (offsets[examples][None, :] + times[:, None])[exists]
    owners = np.broadcast_to(np.arange(len(examples)), exists.shape)[exists]
    return PackedExamples(tuple(exists.sum(1).tolist()), vectors, examples, owners)


def gather_batch(features: NDArray[np.floating], packed: PackedExamples, device: torch.device) -> ExampleBatch:
    """Gather the features of a packed batch."""
    gathered = torch.from_numpy(features[packed.vectors])
    return ExampleBatch(gathered.to(device), torch.from_numpy(packed.owners).to(device), packed.sizes)


def shuffled_batches(offsets: NDArray[np.int64], size: int, seed: Sequence[int]) -> Iterator[PackedExamples]:
    """Batches of ``size`` examples of similar length, each example once, in an order that depends on ``seed``."""
    draw = np.random.default_rng(seed)
    lengths = np.diff(offsets)
    order = draw.permutation(len(lengths))
    pools = [order[at : at + size * _POOL] for at in range(0, len(order), size * _POOL)]
    pools = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
    batches = [pool[at : at + size] for pool in pools for at in range(0, len(pool), size)]
    for number in draw.permutation(len(batches)):
        yield pack_examples(offsets, batches[number])


def batches_by_length(offsets: NDArray[np.int64], size: int) -> Iterator[PackedExamples]:
    """Batches of ``size`` examples, the longest first: the quickest way through all of them."""
    order = np.argsort(-np.diff(offsets), kind="stable")
    for at in range(0, len(order), size):
        yield pack_examples(offsets, order[at : at + size])
