"""Table 7 for heads: the same head on features of different layers, with every seed, fine-tuning and baselines."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path

from bertfeat.features import FeatureSet
from bertfeat.heads.answer_scores import SpanScores
from bertfeat.heads.datasets import HeadOptions
from bertfeat.heads.examples import HeadExamples, learn_outputs
from bertfeat.heads.fine_tuning import fine_tuned_head
from bertfeat.heads.guesses import Guess, HeadScores, measure_of, score_guesses, threshold_of
from bertfeat.heads.loop import HeadLoop, store_guesses
from bertfeat.heads.settings import HeadInput, HeadSettings
from bertfeat.heads.table7.baselines import COSINE, MOST_FREQUENT, TITLES, cosine_guesses, frequent_guesses
from bertfeat.heads.table7.report import HeadRow, HeadTable
from bertfeat.heads.table7.runs import HeadRun, HeadRuns
from bertfeat.heads.tables import FeatureTable
from bertfeat.heads.texts import HeadTexts, read_texts
from bertfeat.heads.training import OpenSources, open_sources
from bertfeat.io import ResultKind, storage_errors
from bertfeat.models import Model
from bertfeat.tagging import FINE_TUNED_ROW, FINE_TUNING, TableRow
from bertfeat.training import GridPoint, OnEpoch, hold_result_folder

OnHeadRun = Callable[[str, HeadRun, bool], None]
"""Called after each run with the title of its row; the last argument says whether it was there already."""


@dataclass(frozen=True, slots=True)
class HeadTableTraining:
    """The trainings of one table, in a folder that :func:`hold_result_folder` holds."""

    sets: Mapping[str, tuple[FeatureSet, ...]]  # train, dev and perhaps test
    options: HeadOptions
    settings: HeadSettings
    last: OpenSources  # as the last layer's row reads them: what is not of layers is read from them, too
    runs: HeadRuns
    on_run: OnHeadRun | None = None
    on_epoch: OnEpoch | None = None

    def run(
        self, rows: Sequence[TableRow], seeds: Sequence[int], *, tuned: Model | None, grid: Sequence[GridPoint]
    ) -> HeadTable:
        """Do the missing runs of those rows and seeds, and give the table."""
        results = [*self._baselines()]
        results += [self._row(row, seeds) for row in rows]
        if tuned is not None:
            results.append(self._fine_tune(tuned, grid, seeds))
        measure = measure_of(self.options.kind, regression=self.settings.regression)
        model = self.sets["train"][0].header.model.name
        return HeadTable(self.options.kind, model, measure, tuple(results), self.settings.schedule)

    # ── frozen features ─────────────────────────────────────────────────────────────────────────────────────

    def _row(self, row: TableRow, seeds: Sequence[int]) -> HeadRow:
        """One row with every seed; its features are read once, if any seed is missing."""
        opened = cache(lambda: self._open(row.name))
        return HeadRow.of(row.name, row.title, [self._train(row, seed, opened) for seed in seeds])

    def _train(self, row: TableRow, seed: int, opened: Callable[[], OpenSources]) -> HeadRun:
        """One row with one seed; a training that was killed goes on."""
        place = HeadRun(row.name, seed, 0.0, None, {}).place
        stored = self.runs.read(place)
        folder = self.runs.path(place).with_suffix(".head")
        if stored is None:
            reads, examples = opened()
            with hold_result_folder(folder, ResultKind.HEAD):
                stored = self._learn(row, seed, folder, reads, examples)
            self.runs.write(stored)
            self._told(row.title, stored, False)
        else:
            self._told(row.title, stored, True)
        if folder.exists():
            with storage_errors(folder):
                shutil.rmtree(folder)
        return stored

    def _learn(
        self, row: TableRow, seed: int, folder: Path, reads: HeadInput, opened: Mapping[str, HeadExamples]
    ) -> HeadRun:
        train, dev = opened["train"], opened["dev"]
        settings = replace(self.settings, seed=seed)
        outputs = learn_outputs(train.kind, train.gold, train.origin, regression=settings.regression)
        loop = HeadLoop(folder, settings, self.options.extractor.get("device"), train, dev, reads, outputs)
        loop.learn(self.on_epoch)
        network, device = loop.network, loop.device
        scores = self._scores(opened, lambda name: store_guesses(network, opened[name], outputs, settings, device))
        seconds = sum(epoch["seconds"] for epoch in loop.history)
        return self._run(row.name, seed, scores, epochs=len(loop.history), seconds=seconds)

    def _open(self, layers: str) -> OpenSources:
        return open_sources(self.sets, replace(self.options, layers=layers), self.settings)

    # ── fine-tuning ─────────────────────────────────────────────────────────────────────────────────────────

    def _fine_tune(self, model: Model, grid: Sequence[GridPoint], seeds: Sequence[int]) -> HeadRow:
        """The best point of the grid for the first seed, with every seed."""
        _, opened = self.last
        texts = {
            name: read_texts(self.options.kind, FeatureTable(self.sets[name]), examples.gold)
            for name, examples in opened.items()
        }
        tune = partial(self._fine_tune_point, model, opened, texts)
        points = grid if len(grid) == 1 else [max(grid, key=lambda point: tune(point, seeds[0]).dev)]
        return HeadRow.of(FINE_TUNING, FINE_TUNED_ROW.title, [tune(points[0], seed) for seed in seeds])

    def _fine_tune_point(
        self,
        model: Model,
        opened: Mapping[str, HeadExamples],
        texts: Mapping[str, HeadTexts],
        point: GridPoint,
        seed: int,
    ) -> HeadRun:
        stored = self.runs.read(HeadRun(FINE_TUNING, seed, 0.0, None, {}, grid=point).place)
        if stored is not None:
            return self._told(FINE_TUNED_ROW.title, stored, True)
        train = opened["train"]
        outputs = learn_outputs(train.kind, train.gold, train.origin, regression=self.settings.regression)
        device, longest = self.options.extractor.get("device"), self.settings.max_answer
        with fine_tuned_head(
            model, texts["train"], outputs, point, seed=seed, device=device, max_answer=longest
        ) as tuned:
            scores = self._scores(opened, lambda name: tuned.guesses(texts[name]))
            run = self._run(FINE_TUNING, seed, scores, epochs=point.epochs, seconds=tuned.seconds, grid=point)
        self.runs.write(run)
        return self._told(FINE_TUNED_ROW.title, run, False)

    # ── baselines, scores ───────────────────────────────────────────────────────────────────────────────────

    def _baselines(self) -> list[HeadRow]:
        _, opened = self.last
        regression = self.settings.regression
        train = opened["train"]
        guesses: dict[str, Callable[[HeadExamples], list[Guess]]] = {
            MOST_FREQUENT: lambda examples: frequent_guesses(train, len(examples.gold), regression=regression)
        }
        if regression and len(train.sets) == 2:
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
        scores: dict[str, HeadScores] = {}
        threshold = None
        for name in (name for name in ("dev", "test") if name in opened):
            examples = opened[name]
            scores[name] = score_guesses(
                examples.kind,
                examples.gold,
                guesses(name),
                regression=self.settings.regression,
                passages=examples.passages,
                threshold=threshold,
            )
            threshold = threshold_of(scores[name])
        return scores

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

    def _told(self, title: str, run: HeadRun, was_stored: bool) -> HeadRun:
        if self.on_run is not None:
            self.on_run(title, run, was_stored)
        return run


def single_scores(scores: HeadScores) -> dict[str, float]:
    """The scores that are single numbers, by name."""
    single = {name: value for name, value in asdict(scores).items() if isinstance(value, float)}
    if isinstance(scores, SpanScores) and scores.best_exact is not None:
        single["best_exact"] = scores.best_exact.score
    return single
