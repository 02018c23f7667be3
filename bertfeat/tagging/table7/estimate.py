"""Before a table is made: how long it will take."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Unpack

import numpy as np
import torch

from bertfeat.corpus import CorpusSettings, Document, open_corpus
from bertfeat.encoder import resolve_device
from bertfeat.errors import TaggerError
from bertfeat.extraction import Extractor, estimate_extraction
from bertfeat.features import FeatureSet
from bertfeat.tagging.dataset_extractors import ExtractorArguments
from bertfeat.tagging.datasets import OpenSource, SentenceSource
from bertfeat.tagging.network import NetworkSettings, TaggerNetwork
from bertfeat.tagging.settings import TrainingSettings
from bertfeat.tagging.table7.datasets import find_dataset
from bertfeat.tagging.table7.finetune import TaggedSentence, fine_tune_model
from bertfeat.tagging.table7.plan import SEEDS, Table7Plan, plan_table7
from bertfeat.tagging.table7.rows import TableRow
from bertfeat.training import GridPoint, gather_batch, parse_input, shuffled_batches

EPOCHS = 16
"""Epochs that a training is taken to last, if it may: so many they were on real data."""

_TIMED = 12  # batches that a network is timed on, after half as many to warm up
_TUNED = 64  # sentences that fine-tuning is timed on
_SAMPLE = 2000
_LABELS = tuple(map(str, range(13)))


@dataclass(frozen=True, slots=True)
class Table7Estimate:
    """The time that a table would take, in seconds."""

    words: int  # of the training set
    epochs: int
    extraction: float
    training: float
    fine_tuning: float
    rows: int

    @property
    def hours(self) -> float:
        """All of it, in hours."""
        return (self.extraction + self.training + self.fine_tuning) / 3600


def estimate_table7(
    train: SentenceSource,
    dev: SentenceSource,
    test: SentenceSource | None,
    folder: str | Path,
    *,
    rows: Sequence[str | TableRow] = ("paper",),
    seeds: Sequence[int] = SEEDS,
    settings: TrainingSettings | None = None,
    fine_tune: bool = False,
    grid: Sequence[GridPoint] | None = None,
    corpus_settings: CorpusSettings | None = None,
    **extractor: Unpack[ExtractorArguments],
) -> Table7Estimate:
    """How long :func:`bertfeat.tagging.train_table7` would take: the model, a few batches of every row and some steps
    of fine-tuning are timed. Features that are there already cost nothing. Nothing is written.

    Raises:
        CorpusError: a file cannot be read.
        UsageError: no rows or no seeds; options that have no effect.
    """
    plan = plan_table7(
        train,
        dev,
        test,
        rows=rows,
        seeds=seeds,
        settings=settings,
        fine_tune=fine_tune,
        grid=grid,
        corpus_settings=corpus_settings,
        **extractor,
    )
    stored = {name: find_dataset(plan, Path(folder), name, {}) for name in plan.sources}
    return _estimate_plan(plan, {name: stored[name] or source for name, source in plan.sources.items()})


def _estimate_plan(plan: Table7Plan, sources: Mapping[str, OpenSource]) -> Table7Estimate:
    settings, arguments, device = plan.settings, plan.options.extractor, plan.options.extractor.get("device")
    reading = plan.options.corpus_settings
    corpora = {name: open_corpus([source], reading) for name, source in sources.items() if isinstance(source, Path)}
    extraction = sum(
        estimate_extraction(
            Extractor(layers=plan.options.layers or "last", pooling="word", **arguments), corpus
        ).seconds
        for corpus in corpora.values()
    )
    sentences = _read_source(sources["train"], reading)
    words = sum(len(sentence) for sentence, _ in sentences)
    sample = sentences[:: max(1, len(sentences) // _SAMPLE)]
    train = sources["train"]
    model = train.header.model if isinstance(train, FeatureSet) else Extractor(**arguments).identity
    training, epochs = 0.0, min(EPOCHS, settings.epochs)
    for row in plan.rows:
        layer_input = parse_input(row.name, model.num_layers)
        width = layer_input.recipe.width(model.hidden_size)
        shape = NetworkSettings(width, layer_input.mixed_layers, settings.hidden, bool(settings.crf), settings.dropout)
        speed = _training_speed(shape, sample, settings.batch_size, device)
        training += words / speed * epochs * len(plan.seeds)
    fine_tuning = _fine_tuning_seconds(plan, sample, len(sentences), device)
    return Table7Estimate(words, epochs, extraction, training, fine_tuning, len(plan.rows))


def _fine_tuning_seconds(
    plan: Table7Plan, sample: Sequence[TaggedSentence], sentences: int, device: str | None
) -> float:
    if plan.tuned is None:
        return 0.0
    some = sample[:_TUNED]
    point = GridPoint(min(16, len(some)), 1e-6, 1)
    report = fine_tune_model(plan.tuned, some, some[:1], **asdict(point), seed=0, device=device)
    epochs = sum(point.epochs for point in plan.grid) if len(plan.grid) > 1 else 0
    epochs += len(plan.seeds) * plan.grid[0].epochs
    return report.seconds / len(some) * sentences * epochs


def _read_source(source: OpenSource, reading: CorpusSettings) -> list[TaggedSentence]:
    """The tagged sentences of a source that have words.

    Raises:
        TaggerError: there are none.
    """
    sentences: list[TaggedSentence] = []
    if isinstance(source, FeatureSet):
        for batch in source.stream(["words", "tags"]):
            sentences += zip(batch.column("words").to_pylist(), batch.column("tags").to_pylist(), strict=True)
    else:
        rows = open_corpus([source], reading).rows()
        sentences += [(row.words or (), row.tags or ()) for row in rows if isinstance(row, Document)]
    with_words = [sentence for sentence in sentences if sentence[0]]
    if not with_words:
        raise TaggerError("there is no sentence with words in it", where=source)
    return with_words


def _training_speed(
    shape: NetworkSettings, sample: Sequence[TaggedSentence], batch_size: int, device: str | None
) -> float:
    """Words a second of a training."""
    where = resolve_device(device)
    network = TaggerNetwork(shape, _LABELS, spans=False).to(where)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    offsets = np.cumsum([0, *(len(words) for words, _ in sample)], dtype=np.int64)
    features = np.zeros((int(offsets[-1]), shape.width), np.float16)
    batches = list(islice(shuffled_batches(offsets, batch_size, (0,)), _TIMED + _TIMED // 2))
    words, begun = 0, time.perf_counter()
    for number, packed in enumerate(batches):
        if number == len(batches) // 3:
            words, begun = 0, time.perf_counter()
        batch = gather_batch(features, packed, where)
        loss = network.loss(batch, torch.zeros(len(packed.vectors), dtype=torch.long, device=where))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        words += len(packed.vectors)
    return words / (time.perf_counter() - begun)
