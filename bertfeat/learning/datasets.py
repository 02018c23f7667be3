"""A training that was asked for: its task, its sources, opened and checked, and the features extracted from corpora."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from bertfeat.core import (
    BEST_LAYERS,
    Document,
    ExtractionReport,
    Extractor,
    FeatureSet,
    ModelIdentity,
    Pooling,
    find_model,
    list_poolings,
    open_corpus,
)
from bertfeat.display import format_duration
from bertfeat.errors import HeadError, NotDerivableError, UsageError, parameter, pluralize
from bertfeat.learning.inputs import FOLDER_REFUSALS, parse_input
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.settings import HeadSettings, LearningSettings
from bertfeat.learning.sources import STDIN, HeadSource, OpenSource, SourceReading, is_inner_field, open_head_source
from bertfeat.learning.tables import FeatureTable, label_columns
from bertfeat.learning.task import Task
from bertfeat.learning.tasks import TASKS, task_of
from bertfeat.learning.tasks.labels import Labels
from bertfeat.learning.tasks.multi_labels import MultiLabels, parse_labels
from bertfeat.learning.work import Work, refuse_unread_settings
from bertfeat.progress import AnyProgress, Milestone

ALL_LAYERS = "all"
"""The specification of every single layer, from which all rows of a table are derived."""


# ── trainings ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Training:
    """A training that was asked for: its task, its sources, opened, and how it learns from them."""

    asked: LearningSettings
    task: Task
    settings: HeadSettings  # those that were asked for, with the name of the task
    sources: Mapping[str, OpenSource]  # train, dev and perhaps test

    @classmethod
    def open(
        cls, kind: HeadKind | str, sources: Mapping[str, HeadSource | None], asked: LearningSettings
    ) -> "Training":
        """Open the sources that are given, and choose the task.

        By default it is the first one of its kind; or the multi-label one, if the label is several columns of the
        training set, or one of lists.
        """
        opened = {name: open_head_source(source) for name, source in sources.items() if source is not None}
        task = task_of(HeadKind(kind), asked.training.task)
        if asked.training.task is None and task.name == Labels.name and _has_many_labels(opened["train"], asked):
            task = TASKS[MultiLabels.name]
        return cls(asked, task, replace(asked.training, task=task.name), opened)

    @property
    def how(self) -> SourceReading:
        """The way in which the sources are read."""
        asked = self.asked
        return SourceReading(asked.reading, asked.label, tuple(asked.choices), asked.pair_form)

    @property
    def corpora(self) -> Mapping[str, Path]:
        """The sources that are corpora."""
        return {name: source for name, source in self.sources.items() if isinstance(source, Path)}

    @property
    def sets(self) -> Mapping[str, tuple[FeatureSet, ...]]:
        """The sources that are feature sets."""
        return {name: source for name, source in self.sources.items() if not isinstance(source, Path)}

    @property
    def recorded_model(self) -> ModelIdentity | None:
        """The model that made the first feature set; None where all sources are corpora."""
        return next((sets[0].header.model for sets in self.sets.values()), None)

    def check(
        self, *, layers: str | None = None, stored: bool = True, tuning: bool = False, epochs: bool = True
    ) -> None:
        """Check settings and sources before any source is extracted.

        Refuses settings that the work on these sources does not read, and sources without what is to be predicted.
        """
        self.task.check_settings(self.settings)
        if tuning and self.task.architecture is None:
            problem = f"the task {self.task.name} is learned from stored features alone; transformers has no model"
            raise UsageError(problem, where=parameter("fine_tune", True), remedy="leave it out")
        pairs = self.task.pair_form(self.how) is not None
        work = Work(list(self.sources.values()), self.task.kind, pairs, stored, tuning, epochs)
        refuse_unread_settings(work, self.asked, layers=layers)
        for source in self.sources.values():
            self.task.check_source(source, self.how)

    def extractor(self, layers: str | None) -> Extractor:
        """The extractor for corpora, with the settings of the first feature set, or of those that were asked for."""
        sets = next(iter(self.sets.values()), None)
        return _extractor_for(self, layers) if sets is None else _extractor_like(self, sets[0])


def _has_many_labels(train: OpenSource, asked: LearningSettings) -> bool:
    """Whether the label is several columns of a training set, or one whose first value is a list."""
    label, reading = asked.label, asked.reading
    if not label:
        return False
    rows: Iterator[object] = iter(())
    if isinstance(train, Path):
        if str(train) == STDIN or not train.is_file():
            return False
        corpus = open_corpus([train], reading)
        columns = corpus.columns
        if label in columns or is_inner_field(label, train, reading):
            corpus = open_corpus([train], replace(reading, keep=(f"{label}:string",)))
        rows = (row.kept[-1] for row in islice(corpus.rows(), 100) if isinstance(row, Document) and row.kept)
    else:
        columns = tuple(column.name for column in train[0].kept)
        if label in columns:
            rows = (value for _, value in FeatureTable(train).column(label))
    return len(label_columns(label, columns)) > 1 or parse_labels(next(rows, None)) is not None


# ── extraction ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class DatasetReport(Milestone):
    """A feature set that was extracted from a corpus and is ready for learning."""

    source: str
    features: FeatureSet
    extraction: ExtractionReport
    noun: str  # the name of a row in messages: "sentence" or "row"

    @property
    def fraction(self) -> float:
        """All of it is done."""
        return 1.0

    def __str__(self) -> str:
        extraction = self.extraction
        done = "nothing to do" if extraction.nothing_to_do else format_duration(extraction.seconds)
        return f"{extraction.folder}: {pluralize(extraction.counts.documents, self.noun)}, {done}"


def extracted_sets(
    training: Training,
    layers: str | None,
    folder: Path,
    tell: Callable[[AnyProgress], None],
    *,
    overwrite: bool | None = None,
) -> dict[str, tuple[FeatureSet, ...]]:
    """The feature sets of a training's sources; corpora are extracted into ``folder``, into one or two sets each.

    These are ``features/NAME.features`` and, for second texts that are embedded apart,
    ``features/NAME.second.features``. Existing sets are continued; those of another corpus, or made with other
    settings, are replaced if ``overwrite`` (None: the caller has no such option, so that the error does not name it).
    """
    sets = dict(training.sets)
    extractor = training.extractor(layers) if training.corpora else None
    for name, corpus in training.corpora.items():
        assert extractor is not None
        made = []
        for suffix, rows in training.task.open_corpora(corpus, training.how):
            place = folder / "features" / f"{name}{suffix}.features"
            try:
                report = extractor.extract(rows, place, progress=tell)
            except FOLDER_REFUSALS as error:
                if not overwrite:
                    ways = "remove that one" if overwrite is None else f"start anew with {parameter('overwrite', True)}"
                    error.remedy = f"name another folder with {parameter('folder')}, or {ways}"
                    raise
                report = extractor.extract(rows, place, progress=tell, overwrite=True)
            if not report.counts.documents:
                raise HeadError("there is no row in it that could be embedded", where=corpus)
            features = FeatureSet(place)
            tell(DatasetReport(str(corpus), features, report, training.task.row_noun))
            made.append(features)
        sets[name] = tuple(made)
    return sets


def _extractor_like(training: Training, features: FeatureSet) -> Extractor:
    """The extractor that made a feature set, for the columns that the task reads."""
    reads, given = training.task.reads, training.asked.reading.document_context
    columns = [column for column in features.columns if reads is None or column.pooling is reads]
    if not columns and reads is Pooling.WORD:
        remedy = f"extract it with {parameter('pooling', str(reads))}"
        raise NotDerivableError("it holds no features of words", where=features.folder, remedy=remedy)
    settings = features.header.settings
    if settings.document_context != given:
        made = f"was extracted {'without' if given else 'with'} {parameter('document_context')}"
        raise UsageError(f"{features.folder} {made}", remedy="the other set has to be, too")
    return Extractor.from_record(
        features.header.model,
        settings,
        columns or features.columns,
        device=training.asked.device,
        where=features.folder,
    )


def _extractor_for(training: Training, layers: str | None) -> Extractor:
    """The extractor of the layers and the pooling that were asked for."""
    asked, reads = training.asked, training.task.reads
    pooling, layers = reads or asked.pooling, layers or BEST_LAYERS["heads"]
    num_layers = find_model(asked.model, revision=asked.revision).num_layers
    extractor = Extractor(
        asked.model,
        precision=asked.precision,
        revision=asked.revision,
        device=asked.device,
        batch_tokens=asked.batch_tokens,
        layers=[layers]
        if layers == ALL_LAYERS
        else [parse_input(spec, num_layers).extracted for spec in layers.split(",")],
        pooling=None if pooling is None else str(pooling),
    )
    if reads is None and not extractor.columns[0].pooling.per_document:
        problem = f"{training.task.kind.noun} reads one vector a text"
        raise UsageError(problem, where=parameter("pooling", asked.pooling), remedy=f"give one of {list_poolings()}")
    return extractor
