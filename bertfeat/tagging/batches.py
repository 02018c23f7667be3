"""Shuffled batches of sentences of similar length, packed: no padding is computed.

Shapes: B sentences of a batch, longest first; T words of the longest; N words of all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.tagging.sentences import SentenceChunk

_POOL = 32  # batches whose sentences are sorted by length together


@dataclass(frozen=True, slots=True)
class PackedSentences:
    """Where the words of a batch of sentences are, time by time: all first words, all second words, and so on."""

    sizes: tuple[int, ...]  # [T] how many sentences have a word at each time
    words: NDArray[np.int64]  # [N] number of each word in the chunk that the sentences are from
    sentences: NDArray[np.int64]  # [B] which sentences of the chunk, longest first


@dataclass(frozen=True, slots=True)
class SentenceBatch:
    """A batch as a network takes it."""

    features: Tensor  # [N, W] packed, float16 or float32
    sentence: Tensor  # [N] whose word it is, 0..B-1
    sizes: tuple[int, ...]  # [T]

    @property
    def count(self) -> int:
        """Number B of sentences."""
        return self.sizes[0]


def pack_sentences(offsets: NDArray[np.int64], sentences: NDArray[np.int64]) -> PackedSentences:
    """Order the words of some sentences time by time, the longest sentence first."""
    lengths = offsets[sentences + 1] - offsets[sentences]
    order = np.argsort(-lengths, kind="stable")
    sentences, lengths = sentences[order], lengths[order]
    times = np.arange(lengths[0])
    exists = times[:, None] < lengths[None, :]  # [T, B]
    words = (offsets[sentences][None, :] + times[:, None])[exists]
    return PackedSentences(tuple(exists.sum(1).tolist()), words, sentences)


def gather_batch(features: NDArray[np.floating], packed: PackedSentences, device: torch.device) -> SentenceBatch:
    """Gather the features of a packed batch."""
    whose = np.concatenate([np.arange(size) for size in packed.sizes])
    gathered = torch.from_numpy(features[packed.words])
    return SentenceBatch(gathered.to(device), torch.from_numpy(whose).to(device), packed.sizes)


def shuffled_batches(sentences: SentenceChunk, size: int, seed: Sequence[int]) -> Iterator[PackedSentences]:
    """Batches of ``size`` sentences of similar length, each sentence once, in an order that depends on ``seed``."""
    draw = np.random.default_rng(seed)
    lengths = np.diff(sentences.offsets)
    order = draw.permutation(len(lengths))
    pools = [order[at : at + size * _POOL] for at in range(0, len(order), size * _POOL)]
    pools = [pool[np.argsort(lengths[pool], kind="stable")] for pool in pools]
    batches = [pool[at : at + size] for pool in pools for at in range(0, len(pool), size)]
    for number in draw.permutation(len(batches)):
        yield pack_sentences(sentences.offsets, batches[number])


def batches_by_length(sentences: SentenceChunk, size: int) -> Iterator[PackedSentences]:
    """Batches of ``size`` sentences, the longest first: the quickest way through all of them."""
    order = np.argsort(-np.diff(sentences.offsets), kind="stable")
    for at in range(0, len(order), size):
        yield pack_sentences(sentences.offsets, order[at : at + size])
