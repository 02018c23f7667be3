"""What a network makes of sentences: their tags."""

from collections.abc import Iterator

import numpy as np
import torch

from bertfeat.tagging.batches import batch_of, by_length
from bertfeat.tagging.labels import Labels
from bertfeat.tagging.network import TaggerNetwork
from bertfeat.tagging.sentences import Sentences, SentenceStore

_EVALUATED = 128  # sentences of a batch where nothing is learnt


def predictions(
    network: TaggerNetwork, labels: Labels, store: SentenceStore, device: torch.device
) -> Iterator[list[str]]:
    """The tags of each sentence of a store, in order: BIO for spans."""
    for sentences in store.chunks():
        yield from predicted(network, labels, sentences, device)


def predicted(
    network: TaggerNetwork, labels: Labels, sentences: Sentences, device: torch.device
) -> Iterator[list[str]]:
    """The tags of each sentence, in order: BIO for spans."""
    network.eval()
    found = np.empty(len(sentences.features), np.int64)
    for packed in by_length(sentences, _EVALUATED):
        found[packed.words] = network.decode(batch_of(sentences.features, packed, device)).cpu().numpy()
    for first, last in zip(sentences.offsets[:-1], sentences.offsets[1:], strict=True):
        yield labels.tags(found[first:last].tolist())
