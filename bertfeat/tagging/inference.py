"""The tags that a network predicts."""

from collections.abc import Iterator

import numpy as np
import torch

from bertfeat.tagging.labels import LabelSet
from bertfeat.tagging.network import TaggerNetwork
from bertfeat.training import ExampleChunk, ExampleStore, batches_by_length, gather_batch

_EVALUATED = 128  # sentences of a batch where nothing is learnt


def predict_store(
    network: TaggerNetwork, labels: LabelSet, store: ExampleStore, device: torch.device
) -> Iterator[list[str]]:
    """The tags of each sentence of a store, in order: BIO for spans."""
    for sentences in store.chunks():
        yield from predict_chunk(network, labels, sentences, device)


def predict_chunk(
    network: TaggerNetwork, labels: LabelSet, sentences: ExampleChunk, device: torch.device
) -> Iterator[list[str]]:
    """The tags of each sentence, in order: BIO for spans."""
    network.eval()
    numbers = np.empty(len(sentences.features), np.int64)
    for packed in batches_by_length(sentences.offsets, _EVALUATED):
        numbers[packed.vectors] = network.decode(gather_batch(sentences.features, packed, device)).cpu().numpy()
    for first, last in zip(sentences.offsets[:-1], sentences.offsets[1:], strict=True):
        yield labels.tags(numbers[first:last].tolist())
