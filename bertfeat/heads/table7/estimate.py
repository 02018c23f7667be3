"""Before a head's Table 7 is made: how long it will take."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Unpack

import numpy as np
import torch

from bertfeat.corpus import CorpusSettings
from bertfeat.errors import HeadError
from bertfeat.extraction import Extractor, estimate_extraction
from bertfeat.heads.datasets import ALL_LAYERS, HeadOptions, HeadSource, head_corpora, head_extractor, open_sets
from bertfeat.heads.examples import learn_outputs
from bertfeat.heads.fine_tuning import fine_tuned_head
from bertfeat.heads.gold import read_gold
from bertfeat.heads.kinds import HeadKind, PairForm
from bertfeat.heads.networks import HeadNetwork, HeadShape
from bertfeat.heads.settings import HeadSettings, Outputs, head_shape
from bertfeat.heads.texts import HeadTexts, read_texts
from bertfeat.heads.tuned_training import open_table
from bertfeat.tagging import ExtractorArguments, TableRow, parse_rows
from bertfeat.training import PAPER_GRID, ExampleBatch, GridPoint, parse_input

_EPOCHS = 16  # that a training is taken to last, if it may: so many they were on real data
_TIMED = 12  # batches that a network is timed on, after half as many to warm up
_TUNED = 48  # examples that fine-tuning is timed on


@dataclass(frozen=True, slots=True)
class HeadTableEstimate:
    """The time that a table would take, in seconds."""

    examples: int  # of the training set
    rows: int
    epochs: int
    extraction: float
    training: float
    fine_tuning: float

    @property
    def hours(self) -> float:
        """All of it, in hours."""
        return (self.extraction + self.training + self.fine_tuning) / 3600


def estimate_head_table7(
    kind: HeadKind | str,
    train: HeadSource,
    dev: HeadSource,
    test: HeadSource | None,
    *,
    rows: Sequence[str | TableRow] = ("paper",),
    seeds: Sequence[int] = (1, 2, 3, 4, 5),
    label: str | None = None,
    choices: tuple[str, ...] = (),
    pooling: str | None = None,
    embed_pairs: PairForm | str | None = None,
    settings: HeadSettings | None = None,
    fine_tune: bool = False,
    grid: Sequence[GridPoint] = (),
    corpus_settings: CorpusSettings | None = None,
    **extractor: Unpack[ExtractorArguments],
) -> HeadTableEstimate:
    """How long :func:`bertfeat.heads.train_head_table7` would take; nothing is written.

    The model, a few batches of every row and some steps of fine-tuning are timed.

    Raises:
        CorpusError, HeadError: a file cannot be read, or says not what is right.
    """
    settings = settings or HeadSettings()
    reading, form = corpus_settings or CorpusSettings(), None if embed_pairs is None else PairForm(embed_pairs)
    options = HeadOptions(HeadKind(kind), ALL_LAYERS, pooling, form, label, choices, reading, extractor)
    sources = [open_sets(source) for source in (train, dev, test) if source is not None]
    given = [source[0] for source in sources if not isinstance(source, Path)]
    made = head_extractor(options, given[0] if given else None)
    corpora = [corpus for source in sources if isinstance(source, Path) for _, corpus in head_corpora(source, options)]
    extraction = sum(estimate_extraction(made, corpus).seconds for corpus in corpora)
    table = open_table(sources[0], options)
    gold = read_gold(options.kind, table, label, regression=settings.regression)
    if not gold:
        raise HeadError("it does not say what is right", where=table.where)
    texts = read_texts(options.kind, table, gold)
    chosen, epochs = parse_rows(rows, made.model.num_layers), min(_EPOCHS, settings.epochs)
    outputs = learn_outputs(options.kind, gold, table.where, regression=settings.regression)
    apart = options.pair_form is PairForm.APART
    training = 0.0
    for row in chosen:
        layers = parse_input(row.name, made.model.num_layers)
        shape = head_shape(options.kind, layers, made.model.hidden_size, settings, outputs, apart=apart)
        training += len(gold) / _examples_a_second(shape, texts, settings) * epochs * len(seeds)
    tuning = (
        _tuning_seconds(made, texts, outputs, settings, tuple(grid or PAPER_GRID), len(seeds)) if fine_tune else 0.0
    )
    return HeadTableEstimate(len(gold), len(chosen), epochs, extraction, training, tuning)


def _examples_a_second(shape: HeadShape, texts: HeadTexts, settings: HeadSettings) -> float:
    """Examples a second of a training, on batches of usual size."""
    network = HeadNetwork(shape)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    done, begun = 0, time.perf_counter()
    for number, batch in enumerate(islice(_empty_batches(shape, texts, settings.batch_size), _TIMED + _TIMED // 2)):
        if number == _TIMED // 2:
            done, begun = 0, time.perf_counter()
        loss = network(batch).square().mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        done += batch.count
    return done / (time.perf_counter() - begun)


def _empty_batches(shape: HeadShape, texts: HeadTexts, size: int) -> Iterator[ExampleBatch]:
    """Batches of the usual number of vectors an example: of tokens about one in four characters."""
    lengths = [1 + len("".join((text, *others))) // 4 for text, others in zip(texts.texts, texts.others, strict=True)]
    mean = {HeadKind.ANSWER: int(np.mean(lengths)), HeadKind.CHOOSE: len(texts.others[0])}.get(texts.kind, 1)
    while True:
        sizes = (size,) * mean
        yield ExampleBatch(torch.zeros(size * mean, shape.width), torch.arange(size).repeat(mean), sizes)


def _tuning_seconds(
    made: Extractor, texts: HeadTexts, outputs: Outputs, settings: HeadSettings, grid: Sequence[GridPoint], seeds: int
) -> float:
    some = slice(0, _TUNED)
    sample = HeadTexts(texts.kind, texts.ids[some], texts.texts[some], texts.others[some], texts.gold[some])
    point = GridPoint(min(16, len(sample.ids)), 1e-6, 1)
    longest, device = settings.max_answer, str(made.device)
    with fine_tuned_head(made.model, sample, outputs, point, seed=0, device=device, max_answer=longest) as tuned:
        seconds = tuned.seconds
    epochs = sum(point.epochs for point in grid) if len(grid) > 1 else 0
    return seconds / len(sample.ids) * len(texts.ids) * (epochs + seeds * grid[0].epochs)
