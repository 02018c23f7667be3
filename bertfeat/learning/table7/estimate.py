"""The estimate of the time that a comparison of layers for a head, such as the paper's Table 7, takes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Unpack

import torch

from bertfeat.arguments import checked
from bertfeat.core import estimate_extraction, resolve_device, synchronize
from bertfeat.display import displayed
from bertfeat.learning.datasets import (
    ALL_LAYERS,
    HeadOptions,
    HeadSource,
    LearningArguments,
    head_corpora,
    head_extractor,
)
from bertfeat.learning.example_store import ExampleBatch
from bertfeat.learning.fine_tuning import fine_tuned_head, known_texts, open_table
from bertfeat.learning.inputs import parse_input
from bertfeat.learning.kinds import HeadKind, PairForm
from bertfeat.learning.networks import HeadNetwork, HeadShape
from bertfeat.learning.settings import GridPoint
from bertfeat.learning.table7.results import TableRow, parse_rows
from bertfeat.learning.table7.training import Tuning, open_table_request
from bertfeat.learning.task import HeadTexts, Task

_EPOCHS = 16  # assumed epochs of a training, if the settings allow as many: as measured on real data
_SOLVING_STEPS = 200  # assumed solver steps for all linear heads of one group of inputs: as measured on real data
_SOLVED_ON = 4096  # vectors on which a solver step is timed
_STEPS = 3  # solver steps that are timed; the fastest counts
_TIMED = 12  # batches on which a network is timed, after half as many for warming up
_TUNED = 48  # examples on which fine-tuning is timed


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
    fine_tune: bool = False,
    grid: Sequence[GridPoint] = (),
    **examples: Unpack[LearningArguments],
) -> HeadTableEstimate:
    """Estimate how long :func:`bertfeat.learning.train_head_table7` would take; nothing is written.

    The model, a few batches of every row, one step of its linear heads and some steps of fine-tuning are timed.

    Raises:
        CorpusError, HeadError: a file cannot be read, or has no gold values.
    """
    request = open_table_request(kind, {"train": train, "dev": dev, "test": test}, rows, fine_tune, grid, examples)
    options = replace(request.options, layers=ALL_LAYERS)
    settings, device, sources = options.settings, options.extractor.get("device"), list(request.sources.values())
    given = [source[0] for source in sources if not isinstance(source, Path)]
    made = head_extractor(options, given[0] if given else None)
    corpora = [corpus for source in sources if isinstance(source, Path) for _, corpus in head_corpora(source, options)]
    extraction = sum(estimate_extraction(made, corpus).seconds for corpus in corpora)
    table = open_table(sources[0], options)
    texts = known_texts(options.task, table, options.label)
    task = options.task.learned(texts.gold, table.where, settings, options.gold_columns(table.kept))
    count = len(texts.gold)
    epochs = min(_EPOCHS, settings.epochs)
    training, solving = 0.0, 0.0
    chosen = parse_rows(rows, made.model.num_layers)
    for row in chosen:
        layers = parse_input(row.name, made.model.num_layers)
        shape = task.shape(layers, made.model.hidden_size, settings, apart=options.pair_form is PairForm.APART)
        if task.has_epochs(settings, mixed=layers.mixed):
            speed = _examples_per_second(shape, task.vectors_per_example(texts), settings.batch_size, device)
            training += count / speed * epochs * len(seeds)
        if task.solves(settings, mixed=layers.mixed):
            solving += _solving_seconds(shape, count * task.vectors_per_example(texts), device)
    tuning = 0.0 if request.tuning is None else _tuning_seconds(request.tuning, task, texts, options, len(seeds))
    return HeadTableEstimate(count, len(chosen), epochs, extraction, training, solving, tuning)


def _examples_per_second(shape: HeadShape, vectors: int, size: int, device: str | None) -> float:
    """The training speed on a device, in batches of ``size`` examples with ``vectors`` vectors each."""
    where = resolve_device(device)
    network = HeadNetwork(shape).to(where)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused=True)
    owners = torch.arange(size, device=where).repeat(vectors)
    batch = ExampleBatch(torch.zeros(size * vectors, shape.width, device=where), owners, (size,) * vectors)
    begun = time.perf_counter()
    for number in range(_TIMED + _TIMED // 2):
        if number == _TIMED // 2:
            synchronize(where)
            begun = time.perf_counter()
        loss = network(batch).square().mean()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
    synchronize(where)
    return _TIMED * size / (time.perf_counter() - begun)


def _solving_seconds(shape: HeadShape, vectors: int, device: str | None) -> float:
    """The seconds for solving a row's linear heads, by the time of a step on some vectors for each group of inputs."""
    where, seconds = resolve_device(device), 0.0
    for width in shape.input_groups.values():
        inputs = torch.zeros(min(vectors, _SOLVED_ON), width, device=where)
        head = torch.nn.Linear(width, shape.outputs, device=where)
        taken = []
        for _ in range(_STEPS):
            begun = time.perf_counter()
            torch.autograd.backward(head(inputs).square().mean())
            synchronize(where)
            taken.append(time.perf_counter() - begun)
        seconds += _SOLVING_STEPS * min(taken) * vectors / len(inputs)
    return seconds


def _tuning_seconds(tuning: Tuning, task: Task, texts: HeadTexts, options: HeadOptions, seeds: int) -> float:
    """The seconds for fine-tuning at every point of the grid, then with all seeds, from one epoch on some examples."""
    some, points = slice(0, _TUNED), tuning.points
    sample = HeadTexts(texts.ids[some], texts.texts[some], texts.others[some], texts.gold[some])
    point, device = GridPoint(min(16, len(sample.ids)), 1e-6, 1), options.extractor.get("device")
    with fine_tuned_head(
        tuning.model, task, sample, point, options.settings, device=device, precision=tuning.precision
    ) as (_, tuned):
        seconds = tuned.seconds
    epochs = sum(point.epochs for point in points) if len(points) > 1 else 0
    return seconds / len(sample.ids) * len(texts.ids) * (epochs + seeds * points[0].epochs)
