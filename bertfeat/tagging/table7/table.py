"""Table 7 of the BERT paper on one's own data: which layers make the best features for tagging.

Every row is trained from the same stored layers, once for each seed; results are kept by row and seed, so that what was
done is not done again.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from bertfeat.errors import TaggerError, TrainingError, parameter
from bertfeat.features import FeatureSet
from bertfeat.io import storage_errors
from bertfeat.models import Model
from bertfeat.tagging.report import TrainingReport
from bertfeat.tagging.settings import TrainingSettings
from bertfeat.tagging.table7.finetune import TaggedSentence, fine_tune_model
from bertfeat.tagging.table7.report import RowResult, Table7, write_table7
from bertfeat.tagging.table7.rows import FINE_TUNED_ROW, FINE_TUNING, TableRow
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
from bertfeat.tagging.training import train_tagger
from bertfeat.training import PAPER_GRID, GridPoint, OnEpoch, check_same_features, describe_source

OnRun = Callable[[TableRow, TableRun, bool], None]
"""Called after each run; the last argument says whether it was there already."""


class Table7Training:
    """The trainings of one table, in a folder that :func:`hold_result_folder` holds.

    Raises:
        TaggerError: the folder holds a table of other data or settings, or the sets are not alike.
    """

    def __init__(
        self,
        datasets: Mapping[str, FeatureSet],  # train, dev and perhaps test
        folder: Path,
        settings: TrainingSettings,
        device: str | None,
        on_run: OnRun | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> None:
        self.datasets, self.folder, self.settings, self.device = datasets, folder, settings, device
        self._on_run, self._on_epoch = on_run, on_epoch
        self.measure: Measure = "span F1"
        self.identity = self._identity()

    def run(
        self,
        rows: Sequence[TableRow],
        seeds: Sequence[int],
        *,
        tuned: Model | None = None,
        grid: Sequence[GridPoint] = PAPER_GRID,
    ) -> Table7:
        """Train the missing runs of those rows and seeds, and write ``table7.json`` and ``table7.md``."""
        results = []
        for row in rows:
            runs = [self._report(row, *self._train_row(row, seed)) for seed in seeds]
            results.append(RowResult(row, tuple(runs)))
        if tuned is not None:
            results.append(self._fine_tune(tuned, grid, seeds))
        table = Table7(self.datasets["train"].header.model.name, self.measure, self.identity, tuple(results))
        write_table7(self.folder, table)
        return table

    def _identity(self) -> TableIdentity:
        """Settle what all runs have in common, and refuse a folder with runs of another table."""
        train = self.datasets["train"]
        for features in self.datasets.values():
            if "tags" not in features.names:
                remedy = "extract a corpus that has them, as CoNLL"
                raise TaggerError("its words have no tags", where=describe_source(features), remedy=remedy)
        identity = TableIdentity.of(self.folder, self.datasets, self.settings)
        assert identity.extraction is not None  # of this format
        for name, features in self.datasets.items():
            if name != "train":
                check_same_features(features, train.header.model, identity.extraction, str(train.folder))
        existing = read_identity(self.folder)
        if existing is not None:
            is_current = existing.format_version >= FORMAT_VERSION
            comparable = identity if is_current else identity.in_first_format(self.datasets)
            if differences := comparable.differences(existing):
                raise TaggerError(
                    f"{self.folder} holds a table with other {' and '.join(differences)}",
                    remedy=f"name another folder with {parameter('folder')}, or remove that one",
                )
        if existing != identity:
            write_identity(self.folder, identity)
        return identity

    def _train_row(self, row: TableRow, seed: int) -> tuple[TableRun, bool]:
        """One row with one seed, and whether it was there already."""
        path = run_path(self.folder, TableRun(row.name, seed, 0.0, None, 1, 1, 0.0).place)
        tagger_folder = path.with_suffix(".tagger")
        stored = self._read_stored(path)
        if stored is None:
            report = self._train_tagger(row, seed, tagger_folder)
            tagger = Tagger(tagger_folder, device=self.device)
            self.measure = "span F1" if tagger.labels.has_spans else "accuracy"
            test_set, settings = self.datasets.get("test"), report.settings
            test = None if test_set is None else tagger.score(test_set, memory=self.settings.memory).value
            epochs, seconds = len(settings.history), sum(epoch["seconds"] for epoch in settings.history)
            run = TableRun(row.name, seed, settings.score, test, settings.best_epoch, epochs, seconds)
            write_run(self.folder, run, self.measure, self.identity)
        else:
            run = stored.run
        _remove_run_tagger(tagger_folder)  # also the tagger that a killed run left
        return run, stored is not None

    def _train_tagger(self, row: TableRow, seed: int, folder: Path) -> TrainingReport:
        """Resume the training of a killed run, if it is the same one; else start over."""
        existed = folder.exists()
        train = partial(
            train_tagger,
            self.datasets["train"],
            self.datasets["dev"],
            folder,
            layers=row.name,
            settings=replace(self.settings, seed=seed),
            picture=False,
            on_epoch=self._on_epoch,
            device=self.device,
        )
        try:
            return train()
        except TrainingError:
            if not existed:
                raise
        _remove_run_tagger(folder)
        return train()

    def _fine_tune(self, model: Model, grid: Sequence[GridPoint], seeds: Sequence[int]) -> RowResult:
        """The fine-tuning row: the best point of the grid, with every seed."""
        if model.fingerprint != self.identity.model:
            name = self.datasets["train"].header.model.name
            raise TaggerError(
                f"{model.name} (fingerprint {model.fingerprint[:12]}…) is not the model that made the features, {name} "
                f"({self.identity.model[:12]}…)",
                remedy="fine-tune that one",
            )
        sentences = {name: _read_sentences(features) for name, features in self.datasets.items()}
        tune = partial(self._fine_tune_point, model, sentences)
        points = grid if len(grid) == 1 else [max(grid, key=lambda point: tune(point, seeds[0]).dev)]
        return RowResult(FINE_TUNED_ROW, tuple(tune(points[0], seed) for seed in seeds))

    def _fine_tune_point(
        self, model: Model, sentences: Mapping[str, list[TaggedSentence]], point: GridPoint, seed: int
    ) -> TableRun:
        path = run_path(self.folder, TableRun(FINE_TUNING, seed, 0.0, None, 1, 1, 0.0, point).place)
        stored = self._read_stored(path)
        if stored is not None:
            return self._report(FINE_TUNED_ROW, stored.run, True)
        train, dev, test = sentences["train"], sentences["dev"], sentences.get("test")
        report = fine_tune_model(model, train, dev, test, **asdict(point), seed=seed, device=self.device)
        score = None if report.test is None else report.test.value
        self.measure = "span F1" if report.labels.has_spans else "accuracy"
        run = TableRun(FINE_TUNING, seed, report.dev.value, score, point.epochs, point.epochs, report.seconds, point)
        write_run(self.folder, run, self.measure, self.identity)
        return self._report(FINE_TUNED_ROW, run, False)

    def _read_stored(self, path: Path) -> StoredRun | None:
        stored = read_run(path, self.identity)
        if stored is not None:
            self.measure = stored.measure
        return stored

    def _report(self, row: TableRow, run: TableRun, was_stored: bool) -> TableRun:
        if self._on_run is not None:
            self._on_run(row, run, was_stored)
        return run


def _remove_run_tagger(tagger: Path) -> None:
    """Remove a tagger whose scores are kept; first what makes it one, so that no half of it passes for a whole."""
    if tagger.exists():
        remove_tagger(tagger)
        with storage_errors(tagger):
            shutil.rmtree(tagger)


def _read_sentences(features: FeatureSet) -> list[TaggedSentence]:
    """Words and tags of a feature set.

    Raises:
        TaggerError: it does not hold its words.
    """
    if "words" not in features.names:
        problem = f"made with {parameter('keep_text', False)}, and fine-tuning needs the words"
        raise TaggerError(problem, where=features.folder)
    sentences: list[TaggedSentence] = []
    for batch in features.stream(["words", "tags"]):
        words, tags = batch.column("words").to_pylist(), batch.column("tags").to_pylist()
        sentences.extend((sentence, tags[at]) for at, sentence in enumerate(words) if sentence)
    return sentences
