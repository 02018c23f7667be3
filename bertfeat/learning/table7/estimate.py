"""The estimate of the time that a comparison of layers for a head, such as the paper's Table 7, takes."""

import time
from dataclasses import dataclass

import torch

from bertfeat.arguments import checked
from bertfeat.core import estimate_extraction, resolve_device, synchronize
from bertfeat.display import displayed
from bertfeat.learning.datasets import ALL_LAYERS, Training
from bertfeat.learning.example_store import ExampleBatch
from bertfeat.learning.fine_tuning import fine_tuned_head, learn_outputs, open_table
from bertfeat.learning.inputs import parse_input
from bertfeat.learning.kinds import PairForm
from bertfeat.learning.networks import HeadNetwork, HeadShape
from bertfeat.learning.settings import GridPoint
from bertfeat.learning.table7.results import parse_rows
from bertfeat.learning.table7.training import EstimateRequest, Tuning
from bertfeat.learning.task import HeadTexts, Task
from bertfeat.options import takes

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
@takes(EstimateRequest)
def estimate_head_table7(asked: EstimateRequest) -> HeadTableEstimate:
    """Estimate how long :func:`bertfeat.learning.train_head_table7` would take; nothing is written.

    The model, a few batches of every row, one step of its linear heads and some steps of fine-tuning are timed.

    Raises:
        CorpusError, HeadError: a file cannot be read, or has no gold values.
    """
    training, tuning = asked.open()
    settings, how, seeds = training.settings, training.how, len(asked.seeds)
    made = training.extractor(ALL_LAYERS)
    corpora = [each for file in training.corpora.values() for _, each in training.task.open_corpora(file, how)]
    extraction = sum(estimate_extraction(made, corpus).seconds for corpus in corpora)
    texts, task = learn_outputs(training, open_table(training.task, training.sources["train"], how))
    apart, count = task.pair_form(how) is PairForm.APART, len(texts.gold)
    epochs = min(_EPOCHS, settings.epochs)
    learning, solving = 0.0, 0.0
    chosen = parse_rows(asked.rows, made.model.num_layers)
    for row in chosen:
        layers = parse_input(row.name, made.model.num_layers)
        shape = task.shape(layers, made.model.hidden_size, settings, apart=apart)
        if task.has_epochs(settings, mixed=layers.mixed):
            speed = _examples_per_second(shape, task.vectors_per_example(texts), settings.batch_size, asked.device)
            learning += count / speed * epochs * seeds
        if task.solves(settings, mixed=layers.mixed):
            solving += _solving_seconds(shape, count * task.vectors_per_example(texts), asked.device)
    tuned = 0.0 if tuning is None else _tuning_seconds(tuning, task, texts, training, seeds)
    return HeadTableEstimate(count, len(chosen), epochs, extraction, learning, solving, tuned)


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


def _tuning_seconds(tuning: Tuning, task: Task, texts: HeadTexts, training: Training, seeds: int) -> float:
    """The seconds for fine-tuning at every point of the grid, then with all seeds, from one epoch on some examples."""
    some, points = slice(0, _TUNED), tuning.points
    sample = HeadTexts(texts.ids[some], texts.texts[some], texts.others[some], texts.gold[some])
    point, device = GridPoint(min(16, len(sample.ids)), 1e-6, 1), training.asked.device
    with fine_tuned_head(
        tuning.model, task, sample, point, training.settings, device=device, precision=tuning.precision
    ) as (_, tuned):
        seconds = tuned.seconds
    epochs = sum(point.epochs for point in points) if len(points) > 1 else 0
    return seconds / len(sample.ids) * len(texts.ids) * (epochs + seeds * points[0].epochs)
