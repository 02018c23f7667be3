"""The sources that a head learns from: corpora and feature sets, opened, checked, and extracted where needed."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TypedDict, cast

from bertfeat.core import (
    BEST_LAYERS,
    Address,
    BlankLine,
    Corpus,
    CorpusSettings,
    Document,
    ExtractionReport,
    Extractor,
    Failure,
    FeatureSet,
    FileCorpus,
    ModelIdentity,
    Pooling,
    ResultKind,
    as_location,
    check_readable,
    find_model,
    find_sources,
    list_parts,
    list_poolings,
    memory_corpus,
    open_corpus,
    quote_names,
    result_kind,
)
from bertfeat.display import format_duration
from bertfeat.errors import CorpusError, HeadError, NotDerivableError, UsageError, did_you_mean, parameter, pluralize
from bertfeat.learning.example_store import describe_source
from bertfeat.learning.inputs import FOLDER_REFUSALS, parse_input
from bertfeat.learning.kinds import HeadKind, PairForm, Work, refuse_unread_options
from bertfeat.learning.settings import GridPoint, HeadSettings
from bertfeat.learning.tables import QUESTION, RIGHT, FeatureTable, label_columns
from bertfeat.learning.tag_files import stdin_copy
from bertfeat.learning.task import Task
from bertfeat.learning.tasks import TASKS, task_of
from bertfeat.learning.tasks.labels import Labels
from bertfeat.learning.tasks.multi_labels import MultiLabels, parse_labels
from bertfeat.progress import AnyProgress, Milestone, ignore_progress

# ── choices ───────────────────────────────────────────────────────────────────────────────────────────────


def choice_corpora(
    questions: Corpus, choices: Sequence[str], label: str | None, form: PairForm
) -> Iterator[tuple[str, Corpus]]:
    """The corpora of the choices of all questions, in memory, each with the suffix of its feature set's name.

    There is one corpus of pairs of question and choice; or, if they are embedded apart, one of questions and one of
    choices. Each row keeps the id of its question and, if there is a column ``label``, whether it is the right choice.
    """
    documents: list[Document] = []
    before = None
    for question in questions.rows():
        made = list(_choice_rows(question, questions, choices, label))
        if made and made[0].id == before:  # the choices of both would be taken for those of one question
            problem, remedy = "it has the id of the one before it", "give each question an id of its own"
            raise HeadError(problem, where=f"{', '.join(questions.sources[:3])}, row {made[0].row}", remedy=remedy)
        before = made[0].id if made else before
        documents += made
    keep = CorpusSettings(keep=(f"{QUESTION}:string", *([] if label is None else [f"{RIGHT}:bool"])))
    if form is PairForm.TOGETHER:
        yield "", memory_corpus(documents, keep)
        return
    yield "", memory_corpus([replace(document, pair=None) for document in documents], keep)
    yield ".second", memory_corpus([Document(row.row, row.id, row.pair or "") for row in documents])


def _choice_rows(
    question: Document | Failure | BlankLine, corpus: Corpus, choices: Sequence[str], label: str | None
) -> Iterator[Document]:
    if isinstance(question, BlankLine):
        return
    where = f"{', '.join(corpus.sources[:3])}, question {question.id}"
    if isinstance(question, Failure):
        raise HeadError(question.reason, where=where)
    values = dict(zip((column.name for column in corpus.kept), question.kept, strict=True))
    for name in choices:
        if not values[name]:
            problem, remedy = f"it has no choice {name!r}", "every question has to have equally many choices"
            raise HeadError(problem, where=where, remedy=remedy)
    right = None if label is None else _right_choice(values[label], choices, where)
    for number, name in enumerate(choices):
        kept = (question.id,) if right is None else (question.id, number == right)
        yield Document(question.row, f"{question.id}:{name}", question.text, str(values[name]), kept=kept)


def _right_choice(label: object, choices: Sequence[str], where: str) -> int:
    """The number of the right choice; the label is this number, counted from 0, or the name of the choice's column."""
    names = {**{str(number): number for number in range(len(choices))}, **{name: n for n, name in enumerate(choices)}}
    text = str(label)
    if text not in names and re.fullmatch(r"[0-9]+\.0*", text):  # a column of numbers with gaps, as pandas writes it
        text = text.partition(".")[0]
    if text not in names:
        raise HeadError(
            f"its label {label!r} names none of its {len(choices)} choices",
            where=where,
            remedy=f"write its number from 0 to {len(choices) - 1}, or one of {quote_names(tuple(choices))}, or name "
            f"another column with {parameter('label')}",
        )
    return names[text]


# ── datasets ──────────────────────────────────────────────────────────────────────────────────────────────


HeadSource = str | Path | Address | FeatureSet | tuple[FeatureSet, FeatureSet]
"""Examples: a corpus file, a feature set or its folder, or two sets of the first and the second texts."""

OpenSets = tuple[FeatureSet, ...] | Path
"""An opened source: its feature sets, or the path of a corpus."""

STDIN = "-"
ALL_LAYERS = "all"
"""The specification of every single layer, from which all rows of a table are derived."""


class ExtractorArguments(TypedDict, total=False):
    """Arguments of :class:`bertfeat.Extractor`, for corpora whose features are not extracted yet."""

    model: str | Path | None
    revision: str | None
    precision: str
    device: str | None
    batch_tokens: int | None


class LearningArguments(ExtractorArguments, total=False):
    """Arguments of every function that trains a head: what to predict, and how to read examples and learn from them."""

    label: str | None
    choices: tuple[str, ...]
    pooling: str | None
    embed_pairs: PairForm | str | None
    settings: HeadSettings | None
    corpus_settings: CorpusSettings | None


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


_SEPARATOR = ","  # separates the folders of two feature sets in one string


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """The task of a head, how to learn it, how to read its corpora, and which features to extract from them."""

    task: Task
    settings: HeadSettings = field(default_factory=HeadSettings)
    layers: str | None = None
    pooling: str | None = None
    pairs: PairForm | None = None  # None: apart, where there are pairs
    label: str | None = None  # column that holds what is to be predicted
    choices: tuple[str, ...] = ()  # columns of the choices
    reading: CorpusSettings = field(default_factory=CorpusSettings)
    extractor: ExtractorArguments = field(default_factory=ExtractorArguments)
    tell: Callable[[AnyProgress], None] = ignore_progress
    with_gold: bool = True  # whether gold values, which are to be predicted, are read from sources that have them
    needs_gold: bool = True  # whether a source without gold values is refused
    columns_of: Path | None = None  # a saved head whose record names the columns that are not given
    source_name: str | None = None  # name of a corpus in messages, if its file is a copy
    document_context: bool | None = None  # whether a saved head's features were made with it; None: as in ``reading``

    @property
    def kind(self) -> HeadKind:
        """The verb of the task."""
        return self.task.kind

    def gold_columns(self, known: Collection[str]) -> tuple[str, ...]:
        """The columns among ``known`` with what is to be predicted; none if it is not read, or no column is named."""
        return self.task.gold_columns(self.label, known) if self.with_gold else ()

    @property
    def pair_form(self) -> PairForm | None:
        """The form in which pairs are embedded; None for single texts."""
        if self.kind is HeadKind.ANSWER:
            return PairForm.TOGETHER
        if self.kind is HeadKind.CHOOSE or self.reading.has_pairs:
            return self.pairs or PairForm.APART
        return None


def open_sets(source: HeadSource) -> OpenSets:
    """Open the feature sets that a source names; any other path stays a path."""
    if isinstance(source, tuple):
        return source
    if isinstance(source, str) and _SEPARATOR in source and not Path(source).exists():
        folders = source.split(_SEPARATOR)
        if len(folders) == 2 and all(map(is_feature_set, folders)):
            return tuple(FeatureSet(folder) for folder in folders)
    if isinstance(source, FeatureSet):
        return (source,)
    place = as_location(source)
    if is_feature_set(place):
        return (FeatureSet(place),)
    if isinstance(place, Address):
        remedy = "extract the corpus to an address, or give a file of this machine"
        raise UsageError("there is no feature set at this address", where=place, remedy=remedy)
    return place


def is_feature_set(source: str | Path | Address) -> bool:
    """Whether a folder holds a feature set, finished or not."""
    place = as_location(source)
    return result_kind(place) is ResultKind.FEATURES and bool(list_parts(place))


def open_request(
    kind: HeadKind | str, sources: Mapping[str, HeadSource | None], layers: str | None, arguments: LearningArguments
) -> tuple[dict[str, OpenSets], HeadOptions]:
    """Open the sources of a training that are given, and make the options of its head from the arguments."""
    opened = {name: open_sets(source) for name, source in sources.items() if source is not None}
    settings, reading = (
        arguments.get("settings") or HeadSettings(),
        arguments.get("corpus_settings") or CorpusSettings(),
    )
    label, form = arguments.get("label"), arguments.get("embed_pairs")
    task = _choose_task(HeadKind(kind), settings.task, label, opened["train"], reading)
    extractor = {name: value for name, value in arguments.items() if name in ExtractorArguments.__annotations__}
    options = HeadOptions(
        task,
        replace(settings, task=task.name),
        layers,
        arguments.get("pooling"),
        None if form is None else PairForm(form),
        label,
        arguments.get("choices", ()),
        reading,
        cast("ExtractorArguments", extractor),
    )
    return opened, options


def _choose_task(
    kind: HeadKind, name: str | None, label: str | None, source: OpenSets, reading: CorpusSettings
) -> Task:
    """The task by its name; by default the multi-label one, if ``label`` is several columns of the source, or lists."""
    task = task_of(kind, name)
    if name is None and task.name == Labels.name and label and _has_many(label, source, reading):
        return TASKS[MultiLabels.name]
    return task


def _has_many(label: str, source: OpenSets, reading: CorpusSettings) -> bool:
    """Whether a label is several columns of a source, or one whose first value is a list."""
    rows: Iterator[object] = iter(())
    if isinstance(source, Path):
        if str(source) == STDIN or not source.is_file():
            return False
        corpus = open_corpus([source], reading)
        columns = corpus.columns
        if label in columns:
            corpus = open_corpus([source], replace(reading, keep=(f"{label}:string",)))
        rows = (row.kept[-1] for row in islice(corpus.rows(), 100) if isinstance(row, Document) and row.kept)
    else:
        columns = tuple(column.name for column in source[0].kept)
        if label in columns:
            rows = (value for _, value in FeatureTable(source).column(label))
    return len(label_columns(label, columns)) > 1 or parse_labels(next(rows, None)) is not None


def recorded_model(sources: Mapping[str, OpenSets]) -> ModelIdentity | None:
    """The model that made the first feature set among the sources; None where all are corpora."""
    return next((source[0].header.model for source in sources.values() if not isinstance(source, Path)), None)


def check_examples(
    options: HeadOptions,
    sources: Mapping[str, OpenSets],
    *,
    stored: bool = True,
    tuning: bool = False,
    epochs: bool = True,
    grid: tuple[GridPoint, ...] = (),
) -> None:
    """Check options and sources before any source is extracted.

    Options that the work on these sources does not read are refused, see :func:`refuse_unread_options`, and so are
    sources without what is to be predicted.
    """
    options.task.check_settings(options.settings)
    if tuning and options.task.architecture is None:
        problem = f"the task {options.task.name} is learned from stored features alone; transformers has no model"
        raise UsageError(problem, where=parameter("fine_tune", True), remedy="leave it out")
    pairs = options.pair_form is not None
    predicted = options.kind.predicted
    work = Work.on(sources.values(), stored=stored, tuning=tuning, pairs=pairs, epochs=epochs, predicted=predicted)
    refuse_unread_options(
        work,
        reading=options.reading,
        training=options.settings,
        extractor=options.extractor,
        layers=options.layers,
        pooling=options.pooling,
        embed_pairs=options.pairs,
        grid=grid,
        label=options.label,
        choices=options.choices,
    )
    for source in sources.values():
        check_gold(source, options)


def check_gold(source: OpenSets, options: HeadOptions) -> None:
    """Refuse a source without what is to be predicted, if that is needed; only its beginning is read."""
    if isinstance(source, Path):
        chooses = options.kind is HeadKind.CHOOSE
        if options.task.reads is Pooling.WORD:
            opened = _open_words(source, options)
        else:
            opened = _open_with_gold(source, choice_reading(options) if chooses else options.reading, options)
        next(check_readable(opened.rows(), opened), None)
    elif options.needs_gold and options.task.reads is Pooling.WORD:
        if "tags" not in source[0].names:
            raise _untagged_error("its words have no tags", describe_source(source[0]))
    elif options.needs_gold:
        kept = tuple(each.name for each in source[0].kept)
        needed = (QUESTION, RIGHT) if options.kind is HeadKind.CHOOSE else options.gold_columns(kept)
        if not needed:
            raise _unnamed_error(options)
        for column in needed[-1:] if options.kind is HeadKind.CHOOSE else needed:
            if column in kept:
                continue
            remedy = f"give the corpus, or extract it with {parameter('keep', needed)}"
            problem = f"there is no column {column!r}; kept are {quote_names(kept)}"
            raise HeadError(problem, where=describe_source(source[0]), remedy=f"{did_you_mean(column, kept)}{remedy}")


@contextmanager
def file_source(corpus: Path) -> Iterator[Path]:
    """Yield a corpus file; standard input (``-``) is copied to a file first, since it may be read twice."""
    if str(corpus) != STDIN:
        yield corpus
        return
    with stdin_copy("stdin.txt") as path:
        yield path


def extract_sets(
    corpus: Path, options: HeadOptions, extractor: Extractor, folder: Path, name: str, *, overwrite: bool | None = None
) -> tuple[FeatureSet, ...]:
    """Extract a corpus into the one or two feature sets that a head reads.

    They are ``folder/name.features`` and, for second texts that are embedded apart, ``folder/name.second.features``.
    Existing sets are continued; those of another corpus, or made with other settings, are replaced if ``overwrite``
    (None: the caller has no such option, so that the error does not name it).
    """
    sets = []
    for suffix, rows in head_corpora(corpus, options):
        place = folder / f"{name}{suffix}.features"
        try:
            report = extractor.extract(rows, place, progress=options.tell)
        except FOLDER_REFUSALS as error:
            if not overwrite:
                ways = "remove that one" if overwrite is None else f"start anew with {parameter('overwrite', True)}"
                error.remedy = f"name another folder with {parameter('folder')}, or {ways}"
                raise
            report = extractor.extract(rows, place, progress=options.tell, overwrite=True)
        if not report.counts.documents:
            raise HeadError("there is no row in it that could be embedded", where=corpus)
        features = FeatureSet(place)
        options.tell(DatasetReport(str(corpus), features, report, options.task.row_noun))
        sets.append(features)
    return tuple(sets)


def head_extractor(options: HeadOptions, like: FeatureSet | None) -> Extractor:
    """The extractor for a head's corpora, with the settings of the feature set ``like``, or of the options."""
    reads = options.task.reads
    if like is not None:
        columns = [column for column in like.columns if reads is None or column.pooling is reads]
        if not columns and reads is Pooling.WORD:
            remedy = f"extract it with {parameter('pooling', str(reads))}"
            raise NotDerivableError("it holds no features of words", where=like.folder, remedy=remedy)
        settings, given = like.header.settings, options.reading.document_context
        if settings.document_context != given:
            made = f"was extracted {'without' if given else 'with'} {parameter('document_context')}"
            raise UsageError(f"{like.folder} {made}", remedy="the other set has to be, too")
        device = options.extractor.get("device")
        return Extractor.from_record(
            like.header.model, settings, columns or like.columns, device=device, where=like.folder
        )
    pooling = reads or options.pooling
    arguments = options.extractor
    layers = options.layers or BEST_LAYERS["heads"]
    num_layers = find_model(arguments.get("model"), revision=arguments.get("revision")).num_layers
    extracted = (
        [layers] if layers == ALL_LAYERS else [parse_input(spec, num_layers).extracted for spec in layers.split(",")]
    )
    extractor = Extractor(layers=extracted, pooling=None if pooling is None else str(pooling), **arguments)
    if reads is None and not extractor.columns[0].pooling.per_document:
        problem = f"{options.kind.noun} reads one vector a text"
        remedy = f"give one of {list_poolings()}"
        raise UsageError(problem, where=parameter("pooling", options.pooling), remedy=remedy)
    return extractor


def head_corpora(corpus: Path, options: HeadOptions, *, form: PairForm | None = None) -> Iterator[tuple[str, Corpus]]:
    """The corpora to extract from one corpus file, each with the suffix of its feature set's name."""
    reading = options.reading
    form = options.pair_form and (form or options.pair_form)
    if options.task.reads is Pooling.WORD:
        yield "", _open_words(corpus, options)
    elif options.kind is HeadKind.CHOOSE:
        assert form is not None
        questions = _open_with_gold(corpus, choice_reading(options), options)
        label = options.label if options.label in {column.name for column in questions.kept} else None
        yield from choice_corpora(questions, options.choices, label, form)
    elif form is PairForm.APART:
        if reading.pair_column is None:
            raise UsageError(f"pairs of lines have no labels: name columns with {parameter('pair_column')}")
        first = replace(reading, pair_column=None, pairs=False)
        yield "", _open_with_gold(corpus, first, options)
        second = replace(first, text_columns=(reading.pair_column,))
        yield ".second", open_corpus([corpus], second, name=options.source_name)
    else:
        yield "", _open_with_gold(corpus, reading, options)


def _open_words(corpus: Path, options: HeadOptions) -> FileCorpus:
    """Open a corpus of single texts whose words have tags, if these are needed; CoNLL files may lack them otherwise."""
    reading = options.reading
    _check_file(corpus)
    (source,) = find_sources([corpus], reading.format)
    if options.needs_gold and not reading.has_tags(source.format):
        raise _untagged_error(f"a {source.format.name} file has no tags", str(corpus))
    if options.document_context is False and reading.document_context:
        raise UsageError(f"the tagger was trained without {parameter('document_context')}", remedy="leave it out")
    if options.document_context and not source.format.brings_tags:
        problem = "the tagger was trained with document context, so its input has to be CoNLL with -DOCSTART- lines"
        raise UsageError(problem, where=options.columns_of)
    if source.format.brings_tags and not options.with_gold and reading.tag_column is None:
        reading = replace(reading, tag_column="1")  # a first column always exists; its content is not used
    if options.document_context is not None:
        reading = replace(reading, document_context=options.document_context)
    opened = open_corpus([corpus], reading, name=options.source_name)
    if opened.has_pairs:
        problem = "a tagger reads single texts, and these are pairs"
        raise UsageError(problem, where=corpus, remedy="read one text of each")
    return opened


def _check_file(corpus: Path) -> None:
    """Refuse a path that is not a file."""
    if corpus.is_dir():
        remedy = "give a corpus file or what bertfeat extract wrote"
        raise UsageError("a folder that is no feature set", where=corpus, remedy=remedy)
    if not corpus.is_file():
        raise CorpusError("no such file or feature set", where=corpus, remedy="check the path")


def _untagged_error(problem: str, where: str) -> HeadError:
    settings = f"{parameter('pretokenized', True)} with {parameter('tag_column')}"
    return HeadError(problem, where=where, remedy=f"CoNLL files bring them, and JSONL, CSV or Parquet by {settings}")


def choice_reading(options: HeadOptions) -> CorpusSettings:
    """The settings for reading the corpus of a chooser, which keep the columns of the choices."""
    if len(options.choices) < 2:
        problem = "a chooser needs the columns of the choices, at least two"
        raise UsageError(problem, remedy=f"name them with {parameter('choices')}")
    return replace(options.reading, keep=tuple(f"{name}:string" for name in options.choices))


def _open_with_gold(corpus: Path, reading: CorpusSettings, options: HeadOptions) -> FileCorpus:
    """Open a corpus that keeps the columns with what is to be predicted; they may be missing if they are not needed."""
    _check_file(corpus)
    plain = open_corpus([corpus], reading, name=options.source_name)
    columns = options.gold_columns(plain.columns)
    lacking = [column for column in columns if column not in plain.columns]
    file_format = plain.files[0].source.format
    if options.kind is HeadKind.ANSWER and not plain.has_pairs:
        held, named = "which column holds the passages is not said", f"name it with {parameter('pair_column')}"
        if not file_format.records:
            held, named = f"a {file_format.name} file has no column of passages", "give JSONL, CSV or Parquet"
        raise HeadError(held, where=corpus, remedy=named)
    if lacking or not columns:
        if options.needs_gold:
            raise _no_column_error(corpus, plain, lacking[0], options) if lacking else _unnamed_error(options)
        return plain
    # labels are compared as text: 1.1 and 1.10 are different ones
    kind = ":string" if options.kind is HeadKind.ANSWER or file_format.cells else ""
    keep = tuple(f"{column}{kind}" for column in columns)
    return open_corpus([corpus], replace(reading, keep=(*reading.keep, *keep)), name=options.source_name)


def _unnamed_error(options: HeadOptions) -> HeadError:
    held = "right choices" if options.kind is HeadKind.CHOOSE else "labels"
    problem = f"which column holds the {held} is not said"
    if options.columns_of:
        problem += f", nor does the head {options.columns_of} say it"
    return HeadError(problem, remedy=f"name it with {parameter('label')}")


def _no_column_error(corpus: Path, opened: FileCorpus, column: str, options: HeadOptions) -> HeadError:
    file_format = opened.files[0].source.format
    if not file_format.records:
        problem, remedy = f"a {file_format.name} file has no column {column!r}", "give JSONL, CSV or Parquet"
        return HeadError(problem, where=corpus, remedy=remedy)
    remedy = f"{did_you_mean(column, opened.columns)}name it with {parameter('label')}"
    if options.kind is HeadKind.ANSWER:
        remedy = 'it has to hold the answers as JSON lists: [{"text": "in May", "start": 17}], or [] for none'
    named = f", from which the head {options.columns_of} learned" if options.columns_of else ""
    problem = f"there is no column {column!r}{named}; there are {quote_names(opened.columns)}"
    return HeadError(problem, where=corpus, remedy=remedy)
