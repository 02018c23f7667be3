"""Table 7 of the BERT paper on one's own data: which layers make the best features for tagging.

Every row is trained from the same stored layers, once for each seed; results are kept by row and seed, so that what was
done is not done again.
"""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from bertfeat.errors import TaggerError, UsageError
from bertfeat.features import FeatureSet
from bertfeat.io import ResultKind, writing
from bertfeat.models import Model
from bertfeat.tagging.epochs import OnEpoch, TrainingReport
from bertfeat.tagging.result_lock import hold_result_folder
from bertfeat.tagging.sentences import describe_source
from bertfeat.tagging.settings import TrainingSettings, check_same_features
from bertfeat.tagging.table7.finetune import TaggedSentence, fine_tune
from bertfeat.tagging.table7.grid import PAPER_GRID, GridPoint
from bertfeat.tagging.table7.report import RowResult, Table7, write_table7
from bertfeat.tagging.table7.rows import FINE_TUNED_ROW, FINE_TUNING, PAPER_ROWS, TableRow
from bertfeat.tagging.table7.runs import (
    FORMAT_VERSION,
    Measure,
    StoredRun,
    TableIdentity,
    TableRun,
    read_identity,
    read_run,
    run_path,
    write_identity,
    write_run,
)
from bertfeat.tagging.tagger import Tagger
from bertfeat.tagging.tagger_files import remove_tagger
from bertfeat.tagging.training_loop import train

OnRun = Callable[[TableRow, TableRun, bool], None]
"""Called after each run; the last argument says whether it was there already."""


def train_table(
    train_set: FeatureSet,
    dev_set: FeatureSet,
    test_set: FeatureSet | None,
    folder: str | Path,
    *,
    rows: Sequence[TableRow] = PAPER_ROWS,
    seeds: Sequence[int] = (1, 2, 3, 4, 5),
    settings: TrainingSettings | None = None,
    tuned: Model | None = None,
    grid: Sequence[GridPoint] = PAPER_GRID,
    device: str | None = None,
    on_run: OnRun | None = None,
    on_epoch: OnEpoch | None = None,
) -> Table7:
    """Train every row with every seed, those that are not done yet, and write ``table7.json`` and ``table7.md``.

    With ``tuned``, that model is fine-tuned too: the first seed chooses the best point of the ``grid`` on the
    development set, and all seeds are run with it.

    Raises:
        TaggerError: the folder holds a table of other data or settings; or see :func:`bertfeat.tagging.train`.
        UsageError: no rows or no seeds.
        FolderLocked: another run is at work on the folder.
        StorageError: the folder cannot be written, or holds something else.
    """
    with hold_result_folder(Path(folder), ResultKind.TABLE7):
        made = TableTraining(train_set, dev_set, test_set, Path(folder), settings, device)
        return made.run(rows, seeds, tuned=tuned, grid=grid, on_run=on_run, on_epoch=on_epoch)


class TableTraining:
    """One table, in a folder that is :func:`claimed`.

    Raises:
        TaggerError: the folder holds a table of other data or settings, or the sets are not alike.
    """

    def __init__(
        self,
        train_set: FeatureSet,
        dev_set: FeatureSet,
        test_set: FeatureSet | None,
        folder: Path,
        settings: TrainingSettings | None,
        device: str | None,
    ) -> None:
        self.sets, self.test_set, self.folder = (train_set, dev_set), test_set, folder
        self.settings, self.device = settings or TrainingSettings(), device
        self.measure: Measure = "span F1"
        self.identity = self._identity()

    def run(
        self,
        rows: Sequence[TableRow],
        seeds: Sequence[int],
        *,
        tuned: Model | None = None,
        grid: Sequence[GridPoint] = PAPER_GRID,
        on_run: OnRun | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Table7:
        """Do what is not done yet of those rows and seeds, and write the table."""
        if not (rows or tuned) or not seeds:
            raise UsageError("a table needs at least one row and one seed")
        results = []
        for row in rows:
            runs = [self._told(row, self._trained(row, seed, on_epoch), on_run) for seed in seeds]
            results.append(RowResult(row, tuple(runs)))
        if tuned is not None:
            results.append(self._fine_tuned(tuned, grid, seeds, on_run))
        table = Table7(self.sets[0].header.model.name, self.measure, self.identity, tuple(results))
        write_table7(self.folder, table)
        return table

    def _identity(self) -> TableIdentity:
        """Settle what all runs have in common, and refuse a folder with runs of another table."""
        train_set, dev_set = self.sets
        named = {"train": train_set, "dev": dev_set} | ({} if self.test_set is None else {"test": self.test_set})
        for features in named.values():
            if "tags" not in features.names:
                raise TaggerError(
                    f"{describe_source(features)}: its words have no tags; extract a corpus that has them, as CoNLL"
                )
        ours = TableIdentity.of(self.folder, named, self.settings)
        assert ours.extraction is not None  # of this format
        for features in list(named.values())[1:]:
            check_same_features(features, train_set.header.model, ours.extraction, str(train_set.folder))
        theirs = read_identity(self.folder)
        if theirs is not None:
            same = ours if theirs.format_version >= FORMAT_VERSION else ours.in_first_format(named)
            if differ := same.differences(theirs):
                raise TaggerError(
                    f"{self.folder} holds a table with other {' and '.join(differ)}; name another folder with -o, or "
                    f"remove that one"
                )
        if theirs != ours:
            write_identity(self.folder, ours)
        return ours

    def _trained(self, row: TableRow, seed: int, on_epoch: OnEpoch | None) -> tuple[TableRun, bool]:
        """One row with one seed, and whether it was there already."""
        path = run_path(self.folder, TableRun(row.name, seed, 0.0, None, 1, 1, 0.0).place)
        tagger_folder = path.with_suffix(".tagger")
        kept = self._kept(path)
        if kept is None:
            done = self._train(row, seed, tagger_folder, on_epoch)
            tagger = Tagger(tagger_folder, device=self.device)
            self.measure = "span F1" if tagger.labels.has_spans else "accuracy"
            test = None if self.test_set is None else tagger.score(self.test_set, memory=self.settings.memory).value
            history = done.settings.history
            seconds = sum(epoch["seconds"] for epoch in history)
            run = TableRun(row.name, seed, done.settings.score, test, done.settings.best_epoch, len(history), seconds)
            write_run(self.folder, run, self.measure, self.identity)
        else:
            run = kept.run
        _remove(tagger_folder)  # also what a run left that was killed before it came to this
        return run, kept is not None

    def _train(self, row: TableRow, seed: int, folder: Path, on_epoch: OnEpoch | None) -> TrainingReport:
        """Go on with what a killed run left, if it fits; else begin anew: it is of no other use."""
        left = folder.exists()
        settings = replace(self.settings, seed=seed)
        again = partial(
            train, *self.sets, folder, layers=row.name, settings=settings, device=self.device, on_epoch=on_epoch
        )
        try:
            return again()
        except TaggerError:
            if not left:
                raise
        _remove(folder)
        return again()

    def _fine_tuned(
        self, model: Model, grid: Sequence[GridPoint], seeds: Sequence[int], on_run: OnRun | None
    ) -> RowResult:
        """The fine-tuning row: the best point of the grid, with every seed."""
        if model.fingerprint != self.identity.model:
            raise TaggerError(
                f"{model.name} (fingerprint {model.fingerprint[:12]}…) is not the model that made the features, "
                f"{self.sets[0].header.model.name} ({self.identity.model[:12]}…): fine-tune that one"
            )
        train_words, dev_words = (_sentences(features) for features in self.sets)
        test = None if self.test_set is None else _sentences(self.test_set)

        def run(point: GridPoint, seed: int) -> TableRun:
            path = run_path(self.folder, TableRun(FINE_TUNING, seed, 0.0, None, 1, 1, 0.0, point).place)
            kept = self._kept(path)
            if kept is not None:
                return self._told(FINE_TUNED_ROW, (kept.run, True), on_run)
            done = fine_tune(model, train_words, dev_words, test, **asdict(point), seed=seed, device=self.device)
            value = None if done.test is None else done.test.value
            self.measure = "span F1" if done.labels.has_spans else "accuracy"
            made = TableRun(FINE_TUNING, seed, done.dev.value, value, point.epochs, point.epochs, done.seconds, point)
            write_run(self.folder, made, self.measure, self.identity)
            return self._told(FINE_TUNED_ROW, (made, False), on_run)

        points = grid if len(grid) == 1 else [max(grid, key=lambda point: run(point, seeds[0]).dev)]
        return RowResult(FINE_TUNED_ROW, tuple(run(points[0], seed) for seed in seeds))

    def _kept(self, path: Path) -> StoredRun | None:
        kept = read_run(path, self.identity)
        if kept is not None:
            self.measure = kept.measure
        return kept

    def _told(self, row: TableRow, done: tuple[TableRun, bool], on_run: OnRun | None) -> TableRun:
        if on_run is not None:
            on_run(row, *done)
        return done[0]


def _remove(tagger: Path) -> None:
    """Remove a tagger whose scores are kept; first what makes it one, so that no half of it passes for a whole."""
    if tagger.exists():
        remove_tagger(tagger)
        with writing(tagger):
            shutil.rmtree(tagger)


def _sentences(features: FeatureSet) -> list[TaggedSentence]:
    """Words and tags of a feature set.

    Raises:
        TaggerError: it was made with --no-text.
    """
    if "words" not in features.names:
        raise TaggerError(f"{features.folder}: made with --no-text, and fine-tuning needs the words")
    found: list[TaggedSentence] = []
    for batch in features.stream(["words", "tags"]):
        words, tags = batch.column("words").to_pylist(), batch.column("tags").to_pylist()
        found.extend((each, tags[at]) for at, each in enumerate(words) if each)
    return found
