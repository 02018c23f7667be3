"""The comparison of layers as features for a head, as in the paper's Table 7: rows, seeds, fine-tuning, baselines."""

import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from bertfeat.arguments import checked
from bertfeat.core import FeatureSet, Model, Pooling, Tokenizer, find_model
from bertfeat.display import displayed
from bertfeat.errors import TrainingError, UsageError, errors_within
from bertfeat.io import ResultKind, hold_result_folder, storage_errors
from bertfeat.learning.datasets import ALL_LAYERS, Training, extracted_sets
from bertfeat.learning.examples import HeadExamples, OpenSources, open_sources
from bertfeat.learning.fine_tuning import fine_tuned_head
from bertfeat.learning.head_files import STATE_NAME, remove_checkpoint
from bertfeat.learning.inputs import count_failed_rows, record_place
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.loop import HeadLoop, SolvedHeads, store_guesses
from bertfeat.learning.schedule import Epoch, Pace, cut_short_warnings
from bertfeat.learning.scores import SpanScores
from bertfeat.learning.settings import GridPoint, HeadSettings, LearningSettings
from bertfeat.learning.sources import HeadSource
from bertfeat.learning.table7.results import (
    COSINE,
    FINE_TUNED_ROW,
    FINE_TUNING,
    MOST_FREQUENT,
    PAPER_ROWS,
    PICTURE_NAME,
    HeadRow,
    HeadRun,
    HeadRuns,
    HeadTable,
    TableIdentity,
    TableRow,
    TableRun,
    parse_rows,
    run_place,
    tuned_place,
    write_head_table,
)
from bertfeat.learning.task import Guess, HeadScores, HeadTexts, Task
from bertfeat.learning.tasks.labels import merged_labels_warnings
from bertfeat.learning.trainer import check_tuning, find_tuned_model
from bertfeat.options import takes
from bertfeat.plots import draw_if_possible, draw_table7
from bertfeat.progress import AnyProgress, ProgressOption, telling

# ── capitals ──────────────────────────────────────────────────────────────────────────────────────────────


_SAMPLE = 2000  # sentences that are searched for capitals
_MANY_CAPITALS = 0.01  # share of words with capitals above which a model that lower-cases them causes a warning

_log = logging.getLogger("bertfeat")


def _warn_of_lower_case(name: str | Path | None, revision: str | None, features: FeatureSet) -> None:
    """Warn where a model lower-cases words whose capitals may mark names."""
    model = find_model(name, revision=revision)
    if _lower_cases(model) and (share := _share_of_capitals(features)) > _MANY_CAPITALS:
        _log.warning(
            "%s lower-cases its input, and %.0f%% of the words here have capitals, which mark names; the paper's is a "
            "cased model: google-bert/bert-base-cased",
            model.name,
            100 * share,
        )


def _lower_cases(model: Model) -> bool:
    """Whether a model's tokenizer makes no difference between capitals and small letters."""
    tokenizer = Tokenizer(model)
    upper, lower = tokenizer.pieces(["Paris", "paris"], offsets=False)
    return bool(np.array_equal(upper.ids, lower.ids))


def _share_of_capitals(features: FeatureSet) -> float:
    """The share of words with a capital letter among the first sentences; 0 where no words are stored."""
    if "words" not in features.names:
        return 0.0
    sentences = (words for batch in features.stream(["words"]) for words in batch.column("words").to_pylist())
    words = [word for sentence in islice(sentences, _SAMPLE) for word in sentence]
    return sum(1 for word in words if word != word.lower()) / max(1, len(words))


# ── requests ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Tuning:
    """The fine-tuning that a table compares with its rows."""

    model: Model
    points: tuple[GridPoint, ...]
    precision: Literal["fp32", "bf16"]


@dataclass(frozen=True, slots=True)
class EstimateRequest(LearningSettings):
    """A table of layers, whose time is to be estimated."""

    kind: HeadKind | str
    train: HeadSource
    dev: HeadSource
    test: HeadSource | None
    _: KW_ONLY
    rows: Sequence[str | TableRow] = ("paper",)
    seeds: Sequence[int] = (1, 2, 3, 4, 5)
    fine_tune: Sequence[GridPoint] = ()

    def open(self) -> tuple[Training, Tuning | None]:
        """Open and check the training before anything is extracted; taggers have no CRF by default, as in the paper."""
        named = {"train": self.train, "dev": self.dev, "test": self.test}
        training, points = Training.open(self.kind, named, self), tuple(self.fine_tune)
        if training.task.reads is Pooling.WORD:
            settings = replace(training.settings, crf=bool(training.settings.crf))
            training = replace(training, settings=settings)
        epochs = _rows_have_epochs(self.rows, training.task, training.settings)
        training.check(tuning=bool(points), epochs=epochs)
        if not points:
            return training, None
        model = find_tuned_model(self.model, self.revision, training.recorded_model)
        return training, Tuning(model, points, check_tuning(points, self.device, self.precision))


def _rows_have_epochs(rows: Sequence[str | TableRow], task: Task, settings: HeadSettings) -> bool:
    """Whether a network is trained in epochs for any row."""
    meant = [row for given in rows for row in (PAPER_ROWS if given == "paper" else (given,))]
    names = [row if isinstance(row, str) else row.name for row in meant]
    return not names or any(task.has_epochs(settings, mixed=name.startswith("mix")) for name in names)


# ── trainings ─────────────────────────────────────────────────────────────────────────────────────────────


class HeadTableTraining:
    """The trainings of one table, in a folder that :func:`hold_result_folder` holds."""

    def __init__(
        self,
        sets: Mapping[str, tuple[FeatureSet, ...]],
        training: Training,
        last: OpenSources,
        runs: HeadRuns,
        tell: Callable[[AnyProgress], None],
    ) -> None:
        self._sets, self._training, self._settings, self._runs = sets, training, training.settings, runs
        self._device, self._tell = training.asked.device, tell
        self._task, self._last = last.task, last.examples  # texts and gold values are the same for every layer
        self._done = self._total = 0
        self._paced = False  # the pace is reported once: further trainings take much the same time

    def run(self, rows: Sequence[TableRow], seeds: Sequence[int], tuning: Tuning | None) -> HeadTable:
        """Do the missing runs of the rows and seeds, and return the table."""
        tried = len(tuning.points) if tuning is not None and len(tuning.points) > 1 else 0
        self._total = (len(rows) + (tuning is not None)) * len(seeds) + tried
        results = [*self._baselines(), *(self._row(row, seeds) for row in rows)]
        results += [] if tuning is None else [self._fine_tune(tuning, seeds)]
        model = self._sets["train"][0].header.model.name
        task, schedule = self._task, self._settings.schedule
        return HeadTable(task.kind, task.name, model, task.measure, tuple(results), schedule)

    # ── frozen features ─────────────────────────────────────────────────────────────────────────────────────

    def _row(self, row: TableRow, seeds: Sequence[int]) -> HeadRow:
        """Train one row with every seed; if any run is missing, its features are read and linear heads solved once."""
        opened = cache(lambda: open_sources(self._sets, self._training, row.name))
        solved: SolvedHeads | None = None
        runs = []
        for seed in seeds:
            run = self._runs.read(run_place(row, seed))
            stored = run is not None
            if run is None:
                run, solved = self._train(row, seed, opened(), solved)
            self._remove_training(row, seed)
            runs.append(self._report(row.title, run, stored))
        return HeadRow.of(row.name, row.title, runs, self._paper(row))

    def _train(
        self, row: TableRow, seed: int, opened: OpenSources, solved: SolvedHeads | None
    ) -> tuple[HeadRun, SolvedHeads | None]:
        """Train one row with one seed, from its checkpoint if there is one; also returns its linear heads.

        These are the same for every seed: those of an earlier one may be given.
        """
        folder = self._training_folder(row, seed)
        with hold_result_folder(folder, ResultKind.HEAD):
            begun = (folder / STATE_NAME).exists()
            try:
                run, solved = self._learn(row, seed, folder, opened, solved)
            except TrainingError:  # the checkpoint of an interrupted run does not fit, so it is of no use
                if not begun:
                    raise
                remove_checkpoint(folder)
                run, solved = self._learn(row, seed, folder, opened, solved)
        self._runs.write(run)
        return run, solved

    def _learn(
        self, row: TableRow, seed: int, folder: Path, opened: OpenSources, solved: SolvedHeads | None
    ) -> tuple[HeadRun, SolvedHeads | None]:
        """Train one row with one seed and score it; see :meth:`_train` for the linear heads."""
        settings = replace(self._settings, seed=seed)
        loop = HeadLoop(folder, settings, self._device, opened, solved)
        loop.learn(self._tell_pace)
        guess = partial(store_guesses, self._task, loop.network, settings=settings, device=loop.device)
        scores = self._scores(opened.examples, lambda name: guess(opened.examples[name]))
        run = _scored_run(row.name, seed, scores, epochs=len(loop.history), seconds=loop.seconds)
        return run, loop.solved

    def _training_folder(self, row: TableRow, seed: int) -> Path:
        """The folder of a training's checkpoint, until the run is done."""
        return self._runs.path(run_place(row, seed)).with_suffix(".head")

    def _remove_training(self, row: TableRow, seed: int) -> None:
        """Remove the folder of a training that is done."""
        folder = self._training_folder(row, seed)
        if folder.exists():
            with storage_errors(folder):
                shutil.rmtree(folder)

    # ── fine-tuning ─────────────────────────────────────────────────────────────────────────────────────────

    def _fine_tune(self, tuning: Tuning, seeds: Sequence[int]) -> HeadRow:
        """Fine-tune with every seed at the point of the grid that is best for the first seed."""
        texts = {name: self._task.read_texts(examples.table, examples.gold) for name, examples in self._last.items()}
        tune = partial(self._fine_tune_point, tuning, texts)
        point, points = tuning.points[0], tuning.points
        if len(points) > 1:
            point = max(points, key=lambda point: tune(point, seeds[0]).dev)
        runs = [tune(point, seed) for seed in seeds]
        return HeadRow.of(FINE_TUNING, FINE_TUNED_ROW.title, runs, self._paper(FINE_TUNED_ROW))

    def _fine_tune_point(self, tuning: Tuning, texts: Mapping[str, HeadTexts], point: GridPoint, seed: int) -> HeadRun:
        stored = self._runs.read(tuned_place(point, tuning.precision, seed))
        if stored is not None:
            return self._report(FINE_TUNED_ROW.title, stored, True)
        settings = replace(self._settings, seed=seed)
        with fine_tuned_head(
            tuning.model, self._task, texts["train"], point, settings, device=self._device, precision=tuning.precision
        ) as (head, tuned):
            scores = self._scores(self._last, lambda name: head.guesses(texts[name]))
        run = _scored_run(FINE_TUNING, seed, scores, epochs=point.epochs, seconds=tuned.seconds)
        run = replace(run, grid=point, precision=tuning.precision)
        self._runs.write(run)
        return self._report(FINE_TUNED_ROW.title, run, False)

    # ── baselines, scores ───────────────────────────────────────────────────────────────────────────────────

    def _baselines(self) -> list[HeadRow]:
        train, frequent = self._last["train"], self._task.frequent(self._last["train"].gold)
        guesses: dict[str, Callable[[HeadExamples], list[Guess]]] = {}
        if frequent is not None:
            guesses[MOST_FREQUENT] = lambda examples: [frequent] * len(examples.gold)
        if self._task.compares and len(train.sets) == 2:
            guesses[COSINE] = _cosine_guesses
        rows = []
        for name, guess in guesses.items():
            scores = self._scores(self._last, lambda which, guess=guess: guess(self._last[which]))  # type: ignore[misc]
            title = self._task.baseline if name == MOST_FREQUENT else "Cosine of the two vectors (last layer)"
            rows.append(HeadRow.of(name, title, [_scored_run(name, 0, scores)]))
        return rows

    def _scores(
        self, examples: Mapping[str, HeadExamples], guesses: Callable[[str], Sequence[Guess]]
    ) -> dict[str, HeadScores]:
        """The scores on the development set with the best threshold, and on the test set with that same threshold."""
        dev, test = examples["dev"], examples.get("test")
        found, threshold = self._task.best_scores(dev.gold, guesses("dev"), dev.passages)
        if test is None:
            return {"dev": found}
        with errors_within(test.origin):
            return {"dev": found, "test": self._task.score(test.gold, guesses("test"), test.passages, threshold)}

    def _paper(self, row: TableRow) -> float | None:
        """The paper's score of a row, which it has for tags alone."""
        return row.paper if self._task.kind is HeadKind.TAG else None

    def _report(self, title: str, run: HeadRun, stored: bool) -> HeadRun:
        self._done += 1
        self._tell(TableRun(title, run, stored, self._done, self._total))
        return run

    def _tell_pace(self, progress: Epoch | Pace) -> None:
        if isinstance(progress, Pace) and not self._paced:
            self._paced = True
            self._tell(progress)


def _cosine_guesses(examples: HeadExamples) -> list[Guess]:
    """The cosine of the two vectors of each example."""
    guesses: list[Guess] = []
    for chunk in examples.store.chunks():
        first, second = np.split(chunk.features.astype(np.float32), 2, axis=1)
        norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
        guesses += map(Guess, (np.einsum("nw,nw->n", first, second) / np.maximum(norms, 1e-12)).tolist())
    return guesses


def _scored_run(
    row: str, seed: int, scores: Mapping[str, HeadScores], *, epochs: int = 0, seconds: float = 0.0
) -> HeadRun:
    test = scores.get("test")
    value = test.f1 if isinstance(test, SpanScores) else None if test is None else test.value
    further = test or scores["dev"]
    single = {name: number for name, number in asdict(further).items() if isinstance(number, float)}
    if isinstance(further, SpanScores) and further.best_exact is not None:
        single["best_exact"] = further.best_exact.score
    return HeadRun(row, seed, scores["dev"].value, value, single, epochs, seconds)


# ── the call ──────────────────────────────────────────────────────────────────────────────────────────────


@displayed
@dataclass(frozen=True, slots=True)
class HeadTableReport:
    """A Table 7 of heads that is done."""

    folder: Path
    table: HeadTable
    warnings: tuple[str, ...]
    failed: int = 0  # rows of the corpora that could not be read or embedded


@dataclass(frozen=True, slots=True)
class TableRequest(EstimateRequest):
    """A table of layers, and where it is saved."""

    folder: str | Path
    _: KW_ONLY
    picture: bool = True
    progress: ProgressOption[AnyProgress] = None


@checked
@takes(TableRequest)
def train_head_table7(asked: TableRequest) -> HeadTableReport:
    """Compare layers as features for a head, as Table 7 of the BERT paper does for tagging, on your own data.

    Corpora are extracted into the folder with every layer. Every row is trained with every seed. For comparison, the
    table also has the most frequent answer, for numbers of pairs embedded apart the cosine of their vectors, and with
    ``fine_tune`` the fine-tuned model: the first seed chooses the best of these points (``PAPER_GRID`` has the paper's)
    on ``dev``, and all seeds are run with it. Finished runs are kept and not done again. ``progress`` is called during
    extraction and after each run.

    Raises:
        HeadError: the folder holds a table of other data or settings; or see :func:`train_head`.
        UsageError: no rows or no seeds; options that have no effect.
    """
    if not asked.seeds or not (asked.rows or asked.fine_tune):
        raise UsageError("a table needs at least one row and one seed")
    folder = Path(asked.folder)
    training, tuning = asked.open()
    task = training.task
    with hold_result_folder(folder, ResultKind.TABLE7), telling(asked.progress) as tell:
        sets = extracted_sets(training, ALL_LAYERS, folder, tell)
        if task.reads is Pooling.WORD and training.corpora:
            _warn_of_lower_case(asked.model, asked.revision, sets["train"][0])
        last = open_sources(sets, training, "last")  # refuses sets before anything is written
        places = {name: tuple(record_place(each.folder, folder) for each in made) for name, made in sets.items()}
        runs = HeadRuns(folder, _table_identity(last, training), places)
        chosen = parse_rows(asked.rows, last.reads.model.num_layers)
        table = HeadTableTraining(sets, training, last, runs, tell).run(chosen, tuple(asked.seeds), tuning)
        write_head_table(folder, table)
        warnings = merged_labels_warnings(task, training.sources.values(), asked.label)
        warnings += last.task.unlearned_warnings(last.examples["dev"].gold)
        trained = [run.epochs for row in table.rows for run in row.runs if run.grid is None and run.epochs]
        warnings += cut_short_warnings(trained, training.settings)
        if asked.picture:
            warnings += draw_if_possible(lambda: draw_table7(table, folder / PICTURE_NAME))
    return HeadTableReport(folder, table, warnings, count_failed_rows(training.sources, sets))


def _table_identity(opened: OpenSources, training: Training) -> TableIdentity:
    """The settings and data shared by all runs of a table."""
    reads = opened.reads
    return TableIdentity(
        kind=training.task.kind,
        model=reads.model.fingerprint,
        pooling=reads.pooling,
        pairs=reads.pairs,
        label=training.asked.label,
        extraction=reads.extraction,
        training=replace(training.settings, seed=HeadSettings().seed),
        data={name: examples.digest for name, examples in opened.examples.items()},
    )
