"""The trainings of a table of layers, and its baselines."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Literal

import numpy as np

from bertfeat.errors import TrainingError, errors_within
from bertfeat.features import FeatureSet
from bertfeat.io import ResultKind, storage_errors
from bertfeat.learning.checkpoint import STATE_NAME, remove_checkpoint
from bertfeat.learning.datasets import HeadOptions
from bertfeat.learning.examples import HeadExamples
from bertfeat.learning.fine_tuning import fine_tuned_head
from bertfeat.learning.folders import hold_result_folder
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.loop import HeadLoop, SolvedHeads, store_guesses
from bertfeat.learning.record import HeadInput, Outputs
from bertfeat.learning.schedule import OnEpoch, OnPace
from bertfeat.learning.scores import SpanScores
from bertfeat.learning.settings import GridPoint, HeadSettings
from bertfeat.learning.table7.results import (
    FINE_TUNED_ROW,
    FINE_TUNING,
    PAPER_ROWS,
    HeadRow,
    HeadRun,
    HeadRuns,
    HeadTable,
    TableRow,
)
from bertfeat.learning.task import Guess, HeadScores, HeadTexts, Task, own_scores
from bertfeat.learning.training import OpenSources, open_sources
from bertfeat.models import Model

# ── baselines ─────────────────────────────────────────────────────────────────────────────────────────────


MOST_FREQUENT = "most-frequent"
COSINE = "cosine"
TITLES = {MOST_FREQUENT: "Most frequent answer", COSINE: "Cosine of the two vectors (last layer)"}


def cosine_guesses(examples: HeadExamples) -> list[Guess]:
    """The cosine of the two vectors of each example."""
    return [Guess(value) for value in _cosines(examples)]


def _cosines(examples: HeadExamples) -> Iterator[float]:
    for chunk in examples.store.chunks():
        first, second = np.split(chunk.features.astype(np.float32), 2, axis=1)
        norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        yield from (np.einsum("nw,nw->n", first, second) / np.maximum(norms, 1e-12)).tolist()


# ── trainings ─────────────────────────────────────────────────────────────────────────────────────────────


OnHeadRun = Callable[[str, HeadRun, bool], None]
"""Called after each run with the title of its row; the last argument says whether it was there already."""


@dataclass(frozen=True)
class HeadTableTraining:
    """The trainings of one table, in a folder that :func:`hold_result_folder` holds."""

    sets: Mapping[str, tuple[FeatureSet, ...]]  # train, dev and perhaps test
    options: HeadOptions
    settings: HeadSettings
    last: OpenSources  # as the last layer's row reads them: what is not of layers is read from them, too
    runs: HeadRuns
    on_run: OnHeadRun | None = None
    on_epoch: OnEpoch | None = None
    on_pace: OnPace | None = None

    def run(
        self,
        rows: Sequence[TableRow],
        seeds: Sequence[int],
        *,
        tuned: Model | None,
        grid: Sequence[GridPoint],
        precision: Literal["fp32", "bf16"] | None,
    ) -> HeadTable:
        """Do the missing runs of those rows and seeds, and give the table.

        ``precision`` is that of fine-tuning the model ``tuned``.
        """
        results = [*self._baselines()]
        results += [self._row(row, seeds) for row in rows]
        if tuned is not None:
            assert precision is not None
            results.append(self._fine_tune(tuned, grid, seeds, precision))
        measure = self.options.task.measure_of(self._outputs)
        model = self.sets["train"][0].header.model.name
        return HeadTable(self.options.kind, model, measure, tuple(results), self.settings.schedule)

    # ── frozen features ─────────────────────────────────────────────────────────────────────────────────────

    def _row(self, row: TableRow, seeds: Sequence[int]) -> HeadRow:
        """One row with every seed; its features are read, and linear heads solved, once, if any seed is missing."""
        opened = cache(lambda: self._open(row.name))
        solved: list[SolvedHeads] = []
        runs = [self._train(row, seed, opened, solved) for seed in seeds]
        return HeadRow.of(row.name, row.title, runs, self._paper(row))

    def _train(self, row: TableRow, seed: int, opened: Callable[[], OpenSources], solved: list[SolvedHeads]) -> HeadRun:
        """One row with one seed; a training that was killed goes on."""
        place = HeadRun(row.name, seed, 0.0, None, {}).place
        stored = self.runs.read(place)
        folder = self.runs.path(place).with_suffix(".head")
        if stored is None:
            reads, examples = opened()
            learn = partial(self._learn, row, seed, folder, reads, examples, solved)
            with hold_result_folder(folder, ResultKind.HEAD):
                begun = (folder / STATE_NAME).exists()
                try:
                    stored = learn()
                except TrainingError:  # what a killed run left does not fit: it is of no other use
                    if not begun:
                        raise
                    remove_checkpoint(folder)
                    stored = learn()
            self.runs.write(stored)
            self._told(row.title, stored, False)
        else:
            self._told(row.title, stored, True)
        if folder.exists():
            with storage_errors(folder):
                shutil.rmtree(folder)
        return stored

    def _learn(
        self,
        row: TableRow,
        seed: int,
        folder: Path,
        reads: HeadInput,
        opened: Mapping[str, HeadExamples],
        solved: list[SolvedHeads],
    ) -> HeadRun:
        """A training; ``solved`` holds the linear heads of one before it, or gets those of this one."""
        train, dev = opened["train"], opened["dev"]
        settings = replace(self.settings, seed=seed)
        outputs = self._outputs
        device = self.options.extractor.get("device")
        loop = HeadLoop(folder, settings, device, train, dev, reads, outputs, *solved)
        loop.learn(self.on_epoch, self.on_pace)
        solved[:] = [] if loop.solved is None else [loop.solved]
        network, where = loop.network, loop.device
        scores = self._scores(opened, lambda name: store_guesses(network, opened[name], outputs, settings, where))
        return self._run(row.name, seed, scores, epochs=len(loop.history), seconds=loop.seconds)

    def _open(self, layers: str) -> OpenSources:
        return open_sources(self.sets, replace(self.options, layers=layers), self.settings)

    # ── fine-tuning ─────────────────────────────────────────────────────────────────────────────────────────

    def _fine_tune(
        self, model: Model, grid: Sequence[GridPoint], seeds: Sequence[int], precision: Literal["fp32", "bf16"]
    ) -> HeadRow:
        """The best point of the grid for the first seed, with every seed."""
        _, opened = self.last
        texts = {name: self.options.task.read_texts(examples.table, examples.gold) for name, examples in opened.items()}
        tune = partial(self._fine_tune_point, model, opened, texts, precision)
        points = grid if len(grid) == 1 else [max(grid, key=lambda point: tune(point, seeds[0]).dev)]
        runs = [tune(points[0], seed) for seed in seeds]
        return HeadRow.of(FINE_TUNING, FINE_TUNED_ROW.title, runs, self._paper(FINE_TUNED_ROW))

    def _fine_tune_point(
        self,
        model: Model,
        opened: Mapping[str, HeadExamples],
        texts: Mapping[str, HeadTexts],
        precision: Literal["fp32", "bf16"],
        point: GridPoint,
        seed: int,
    ) -> HeadRun:
        stored = self.runs.read(HeadRun(FINE_TUNING, seed, 0.0, None, {}, grid=point, precision=precision).place)
        if stored is not None:
            return self._told(FINE_TUNED_ROW.title, stored, True)
        outputs = self._outputs
        device, longest = self.options.extractor.get("device"), self.settings.max_answer
        with fine_tuned_head(
            model,
            texts["train"],
            outputs,
            point,
            seed=seed,
            device=device,
            precision=precision,
            max_answer=longest,
        ) as tuned:
            scores = self._scores(opened, lambda name: tuned.guesses(texts[name]))
            run = self._run(FINE_TUNING, seed, scores, epochs=point.epochs, seconds=tuned.seconds, grid=point)
            run = replace(run, precision=precision)
        self.runs.write(run)
        return self._told(FINE_TUNED_ROW.title, run, False)

    # ── baselines, scores ───────────────────────────────────────────────────────────────────────────────────

    def _baselines(self) -> list[HeadRow]:
        _, opened = self.last
        train = opened["train"]
        frequent = self.options.task.frequent(train.gold, self._outputs)
        guesses: dict[str, Callable[[HeadExamples], list[Guess]]] = {}
        if frequent is not None:
            guesses[MOST_FREQUENT] = lambda examples: [frequent] * len(examples.gold)
        if self.options.task.compares and len(train.sets) == 2:
            guesses[COSINE] = cosine_guesses
        rows = []
        for name, guess in guesses.items():
            scores = self._scores(opened, lambda which, guess=guess: guess(opened[which]))  # type: ignore[misc]
            rows.append(HeadRow.of(name, TITLES[name], [self._run(name, 0, scores)]))
        return rows

    def _scores(
        self, opened: Mapping[str, HeadExamples], guesses: Callable[[str], Sequence[Guess]]
    ) -> dict[str, HeadScores]:
        """The scores on the development set, and on the test set by the threshold that is best on the former."""
        task, outputs = self.options.task, self._outputs
        dev, test = opened["dev"], opened.get("test")
        found, threshold = own_scores(task, dev.gold, guesses("dev"), outputs, dev.passages)
        if test is None:
            return {"dev": found}
        with errors_within(test.origin):
            return {"dev": found, "test": task.score(test.gold, guesses("test"), outputs, test.passages, threshold)}

    def _run(
        self,
        row: str,
        seed: int,
        scores: Mapping[str, HeadScores],
        *,
        epochs: int = 0,
        seconds: float = 0.0,
        grid: GridPoint | None = None,
    ) -> HeadRun:
        test = scores.get("test")
        further = single_scores(test or scores["dev"])
        value = test.f1 if isinstance(test, SpanScores) else None if test is None else test.value
        return HeadRun(row, seed, scores["dev"].value, value, further, epochs, seconds, grid)

    @cached_property
    def _outputs(self) -> Outputs:
        """The outputs that the training set has, whichever layers are read."""
        return self.last[1]["train"].learn_outputs(self.settings)

    def _paper(self, row: TableRow) -> float | None:
        """The paper's score of a row, which it has for tags alone."""
        return row.paper if self.options.kind is HeadKind.TAG else None

    def _told(self, title: str, run: HeadRun, was_stored: bool) -> HeadRun:
        if self.on_run is not None:
            self.on_run(title, run, was_stored)
        return run


def rows_have_epochs(rows: Sequence[str | TableRow], task: Task, settings: HeadSettings) -> bool:
    """Whether a network is trained in epochs for any row."""
    meant = [row for given in rows for row in (PAPER_ROWS if given == "paper" else (given,))]
    names = [row if isinstance(row, str) else row.name for row in meant]
    return not names or any(task.has_epochs(settings, mixed=name.startswith("mix")) for name in names)


def single_scores(scores: HeadScores) -> dict[str, float]:
    """The scores that are single numbers, by name."""
    single = {name: value for name, value in asdict(scores).items() if isinstance(value, float)}
    if isinstance(scores, SpanScores) and scores.best_exact is not None:
        single["best_exact"] = scores.best_exact.score
    return single
