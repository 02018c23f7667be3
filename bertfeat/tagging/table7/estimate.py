"""Before a table is made: how long it will take, and whether the model sees what tells names."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertfeat.corpus import Corpus, CorpusSettings, Document, open_corpus
from bertfeat.encoder import resolve_device
from bertfeat.errors import TaggerError
from bertfeat.extraction import Extractor, estimate_extraction
from bertfeat.features import FeatureSet
from bertfeat.models import Model
from bertfeat.tagging.batches import gather_batch, shuffled_batches
from bertfeat.tagging.datasets import is_feature_set
from bertfeat.tagging.layer_input import parse_input
from bertfeat.tagging.network import NetworkSettings, TaggerNetwork
from bertfeat.tagging.sentences import SentenceChunk
from bertfeat.tagging.settings import TrainingSettings
from bertfeat.tagging.table7.finetune import TaggedSentence, fine_tune
from bertfeat.tagging.table7.grid import GridPoint
from bertfeat.tagging.table7.rows import TableRow
from bertfeat.tokens import Tokenizer

EPOCHS = 16
"""Epochs that a training is taken to last, if it may: so many they were on real data."""

_TIMED = 12  # batches that a network is timed on, after half as many to warm up
_TUNED = 64  # sentences that fine-tuning is timed on
_SAMPLE = 2000
_LABELS = tuple(map(str, range(13)))


@dataclass(frozen=True, slots=True)
class Table7Estimate:
    """What a table would take, in seconds."""

    words: int  # of the training set
    epochs: int
    extraction: float
    training: float
    fine_tuning: float

    @property
    def hours(self) -> float:
        """All of it, in hours."""
        return (self.extraction + self.training + self.fine_tuning) / 3600


def estimate_table(
    given: Mapping[str, Path],
    rows: Sequence[TableRow],
    seeds: int,
    settings: TrainingSettings,
    *,
    tuned: Model | None,
    grid: Sequence[GridPoint],
    reading: CorpusSettings,
    layers: str,
    extractor: Mapping[str, Any],
) -> Table7Estimate:
    """Time the model, a few batches of every row, and some steps of fine-tuning; nothing is written.

    Raises:
        CorpusError: a file cannot be read.
    """
    corpora = {name: open_corpus([path], reading) for name, path in given.items() if not is_feature_set(path)}
    extraction = sum(
        estimate_extraction(Extractor(layers=layers, pooling="word", **extractor), corpus).seconds
        for corpus in corpora.values()
    )
    sample, words, count = _sample_sentences(given["train"], corpora.get("train"))
    recorded = None if "train" in corpora else FeatureSet(given["train"]).header.model
    model = recorded or Extractor(**extractor).identity
    training, lasting = 0.0, min(EPOCHS, settings.epochs)
    for row in rows:
        wanted = parse_input(row.name, model.num_layers)
        width = wanted.recipe.width(model.hidden_size)
        shape = NetworkSettings(width, wanted.mixed_layers, settings.hidden, settings.crf, settings.dropout)
        training += (
            words / _training_speed(shape, sample, settings.batch_size, extractor.get("device")) * lasting * seeds
        )
    fine_tuning = 0.0
    if tuned is not None:
        some = sample[:_TUNED]
        point = GridPoint(min(16, len(some)), 1e-6, 1)
        done = fine_tune(tuned, some, some[:1], **asdict(point), seed=0, device=extractor.get("device"))
        epochs = (sum(point.epochs for point in grid) if len(grid) > 1 else 0) + seeds * grid[0].epochs
        fine_tuning = done.seconds / len(some) * count * epochs
    return Table7Estimate(words, lasting, extraction, training, fine_tuning)


def lower_cases(model: Model) -> bool:
    """Whether capitals are lost on a model."""
    tokenizer = Tokenizer(model)
    pair = tokenizer.pieces(["Paris", "paris"], offsets=False)
    return bool(np.array_equal(pair[0].ids, pair[1].ids))


def share_of_capitals(features: FeatureSet) -> float:
    """The share of words with a capital letter among the first sentences; 0 where no words are stored."""
    if "words" not in features.names:
        return 0.0
    sentences = (words for batch in features.stream(["words"]) for words in batch.column("words").to_pylist())
    found = [word for words in islice(sentences, _SAMPLE) for word in words]
    return sum(1 for word in found if word != word.lower()) / max(1, len(found))


def _sample_sentences(path: Path, corpus: Corpus | None) -> tuple[list[TaggedSentence], int, int]:
    """Some tagged sentences of the training set, and how many words and sentences it has."""
    if corpus is not None:
        documents: list[TaggedSentence] = [
            (row.words or (), row.tags or ()) for row in corpus.rows() if isinstance(row, Document)
        ]
    else:
        batches = FeatureSet(path).stream(["words", "tags"])
        documents = [
            (words, tags)
            for batch in batches
            for words, tags in zip(batch.column("words").to_pylist(), batch.column("tags").to_pylist(), strict=True)
        ]
    words = sum(len(each) for each, _ in documents)
    if not words:
        raise TaggerError(f"{path}: there is no sentence with words in it")
    with_words = [each for each in documents if each[0]]
    step = max(1, len(with_words) // _SAMPLE)
    return with_words[::step], words, len(with_words)


def _training_speed(
    shape: NetworkSettings, sample: Sequence[TaggedSentence], batch_size: int, device: str | None
) -> float:
    """Words a second of a training."""
    where = resolve_device(device)
    network = TaggerNetwork(shape, _LABELS, spans=False).to(where)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    offsets = np.cumsum([0, *(len(words) for words, _ in sample)], dtype=np.int64)
    features = np.zeros((int(offsets[-1]), shape.width), np.float16)
    batches = list(
        islice(shuffled_batches(SentenceChunk(offsets, features, ()), batch_size, (0,)), _TIMED + _TIMED // 2)
    )
    words, begun = 0, time.perf_counter()
    for number, packed in enumerate(batches):
        if number == len(batches) // 3:
            words, begun = 0, time.perf_counter()
        batch = gather_batch(features, packed, where)
        loss = network.loss(batch, torch.zeros(len(packed.words), dtype=torch.long, device=where))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        words += len(packed.words)
    return words / (time.perf_counter() - begun)
