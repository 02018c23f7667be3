"""An estimate of the time that a head's Table 7 takes."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Unpack

import torch

from bertfeat.arguments import checked
from bertfeat.corpus import CorpusSettings
from bertfeat.display import displayed
from bertfeat.encoder import resolve_device
from bertfeat.extraction import estimate_extraction
from bertfeat.learning.datasets import (
    ALL_LAYERS,
    ExtractorArguments,
    HeadOptions,
    HeadSource,
    check_examples,
    head_corpora,
    head_extractor,
    open_sets,
    recorded_model,
    settle_task,
)
from bertfeat.learning.example_store import ExampleBatch
from bertfeat.learning.fine_tuning import TunedHead, fine_tuned_head
from bertfeat.learning.inputs import parse_input
from bertfeat.learning.kinds import HeadKind, PairForm
from bertfeat.learning.networks import HeadNetwork, HeadShape
from bertfeat.learning.settings import PAPER_GRID, GridPoint, HeadSettings
from bertfeat.learning.table7.results import TableRow, parse_rows
from bertfeat.learning.table7.table import rows_have_epochs
from bertfeat.learning.task import HeadTexts
from bertfeat.learning.tasks.table import task_of
from bertfeat.learning.trainer import check_tuning, find_tuned_model
from bertfeat.learning.tuned_training import known_texts, open_table

_EPOCHS = 16  # that a training is taken to last, if it may: so many they were on real data
_SOLVING_STEPS = 200  # that the linear heads of one group of inputs take together: so many they were on real data
_SOLVED_ON = 4096  # vectors that a step is timed on
_STEPS = 3  # that are timed
_TIMED = 12  # batches that a network is timed on, after half as many to warm up
_TUNED = 48  # examples that fine-tuning is timed on


@displayed
@dataclass(frozen=True, slots=True)
class HeadTableEstimate:
    """The time that a table would take, in seconds."""

    examples: int  # of the training set
    rows: int
    epochs: int
    extraction: float
    training: float
    solving: float  # of linear heads
    fine_tuning: float

    @property
    def hours(self) -> float:
        """All of it, in hours."""
        return (self.extraction + self.training + self.solving + self.fine_tuning) / 3600


@checked
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
    """How long :func:`bertfeat.learning.train_head_table7` would take; nothing is written.

    The model, a few batches of every row, one step of its linear heads and some steps of fine-tuning are timed.

    Raises:
        CorpusError, HeadError: a file cannot be read, or says not what is right.
    """
    settings = settings or HeadSettings()
    reading, form = corpus_settings or CorpusSettings(), None if embed_pairs is None else PairForm(embed_pairs)
    named = {"train": open_sets(train), "dev": open_sets(dev)} | ({} if test is None else {"test": open_sets(test)})
    settings = settle_task(HeadKind(kind), settings, label, named["train"], reading)
    task = task_of(HeadKind(kind), settings.task)
    options = HeadOptions(task, ALL_LAYERS, pooling, form, label, choices, reading, extractor)
    trained = rows_have_epochs(rows, task, settings)
    check_examples(replace(options, layers=None), named, settings, tuning=fine_tune, epochs=trained, grid=tuple(grid))
    points, tuned, precision = tuple(grid or PAPER_GRID), None, "auto"
    device = extractor.get("device")
    if fine_tune:
        tuned = find_tuned_model(extractor.get("model"), extractor.get("revision"), recorded_model(named))
        precision = check_tuning(points, device, extractor.get("precision", "auto"))
    sources = list(named.values())
    given = [source[0] for source in sources if not isinstance(source, Path)]
    made = head_extractor(options, given[0] if given else None)
    corpora = [corpus for source in sources if isinstance(source, Path) for _, corpus in head_corpora(source, options)]
    extraction = sum(estimate_extraction(made, corpus).seconds for corpus in corpora)
    table = open_table(sources[0], options)
    texts = known_texts(table, options)
    gold = texts.gold
    chosen, epochs = parse_rows(rows, made.model.num_layers), min(_EPOCHS, settings.epochs)
    outputs = task.learn_outputs(gold, table.where, settings)
    apart = options.pair_form is PairForm.APART
    training, solving = 0.0, 0.0
    for row in chosen:
        layers = parse_input(row.name, made.model.num_layers)
        shape = task.shape(layers, made.model.hidden_size, settings, outputs, apart=apart)
        if task.has_epochs(settings, mixed=layers.mixed):
            training += len(gold) / _examples_a_second(shape, texts, settings, device) * epochs * len(seeds)
        if task.solves(settings, mixed=layers.mixed):
            solving += _solving_seconds(shape, len(gold) * task.vectors_an_example(texts), device)
    tuning = 0.0
    if tuned is not None:
        tune_once = partial(
            fine_tuned_head,
            tuned,
            outputs=outputs,
            seed=0,
            device=device,
            precision=precision,
            max_answer=settings.max_answer,
        )
        tuning = _tuning_seconds(tune_once, texts, points, len(seeds))
    return HeadTableEstimate(len(gold), len(chosen), epochs, extraction, training, solving, tuning)


def _examples_a_second(shape: HeadShape, texts: HeadTexts, settings: HeadSettings, device: str | None) -> float:
    """Examples a second of a training on a device, on batches of usual size."""
    where = resolve_device(device)
    network = HeadNetwork(shape).to(where)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    done, begun = 0, time.perf_counter()
    for number, batch in enumerate(
        islice(_empty_batches(shape, texts, settings.batch_size, where), _TIMED + _TIMED // 2)
    ):
        if number == _TIMED // 2:
            done, begun = 0, time.perf_counter()
        loss = network(batch).square().mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        done += batch.count
    return done / (time.perf_counter() - begun)


def _empty_batches(shape: HeadShape, texts: HeadTexts, size: int, device: torch.device) -> Iterator[ExampleBatch]:
    """Batches of the usual number of vectors an example: of tokens about one in four characters."""
    mean = texts.task.vectors_an_example(texts)
    while True:
        sizes = (size,) * mean
        owners = torch.arange(size, device=device).repeat(mean)
        yield ExampleBatch(torch.zeros(size * mean, shape.width, device=device), owners, sizes)


def _solving_seconds(shape: HeadShape, vectors: int, device: str | None) -> float:
    """The seconds of solving a row's linear heads, by how long a step takes on some vectors of each group of inputs."""
    where, seconds = resolve_device(device), 0.0
    for width in shape.input_groups.values():
        inputs = torch.zeros(min(vectors, _SOLVED_ON), width, device=where)
        head = torch.nn.Linear(width, shape.outputs, device=where)
        taken = []
        for _ in range(_STEPS):
            begun = time.perf_counter()
            torch.autograd.backward(head(inputs).square().mean())
            taken.append(time.perf_counter() - begun)
        seconds += _SOLVING_STEPS * min(taken) * vectors / len(inputs)
    return seconds


def _tuning_seconds(
    tune_once: Callable[..., AbstractContextManager[TunedHead]],
    texts: HeadTexts,
    grid: Sequence[GridPoint],
    seeds: int,
) -> float:
    """The seconds of fine-tuning with every point of the grid, and with all seeds, by an epoch over some examples."""
    some = slice(0, _TUNED)
    sample = HeadTexts(texts.task, texts.ids[some], texts.texts[some], texts.others[some], texts.gold[some])
    point = GridPoint(min(16, len(sample.ids)), 1e-6, 1)
    with tune_once(train=sample, point=point) as tuned:
        seconds = tuned.seconds
    epochs = sum(point.epochs for point in grid) if len(grid) > 1 else 0
    return seconds / len(sample.ids) * len(texts.ids) * (epochs + seeds * grid[0].epochs)
