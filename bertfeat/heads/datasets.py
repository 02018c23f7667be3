"""The feature sets of a head: those that are given, or extracted from a corpus file into the head's folder."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from bertfeat.corpus import FORMATS, Corpus, CorpusSettings, open_corpus
from bertfeat.errors import AnotherCorpusError, CorpusError, HeadError, SettingsDifferError, UsageError, parameter
from bertfeat.extraction import Extractor, OnProgress
from bertfeat.features import FeatureSet
from bertfeat.heads.choices import choice_corpora
from bertfeat.heads.gold import ANSWERS
from bertfeat.heads.kinds import HeadKind, PairForm
from bertfeat.io import Address
from bertfeat.models import find_model
from bertfeat.recipe import Pooling
from bertfeat.tagging import DatasetReport, ExtractorArguments, OnDataset, is_feature_set, open_source, stdin_copy
from bertfeat.training import DEFAULT_LAYERS, parse_input

HeadSource = str | Path | Address | FeatureSet | tuple[FeatureSet, FeatureSet]
"""Examples: a corpus file, a feature set or its folder, or two sets of the first and the second texts."""

OpenSets = tuple[FeatureSet, ...] | Path
"""A source whose feature sets, if it is such, are open; else the path of a corpus."""

STDIN = "-"
ALL_LAYERS = "all"
"""The specification of every single layer, from which all rows of a table are derived."""

_SEPARATOR = ","  # of the folders of two sets in one string


@dataclass(frozen=True, slots=True)
class HeadOptions:
    """What the corpora of a head become, and how they are read."""

    kind: HeadKind
    layers: str | None = None
    pooling: str | None = None
    pairs: PairForm | None = None  # None: apart, where there are pairs
    label: str | None = None  # column of what is to be predicted
    choices: tuple[str, ...] = ()  # columns of the choices
    reading: CorpusSettings = field(default_factory=CorpusSettings)
    extractor: ExtractorArguments = field(default_factory=ExtractorArguments)
    progress: OnProgress | None = None
    on_dataset: OnDataset | None = None

    @property
    def pair_form(self) -> PairForm | None:
        """How pairs are embedded; None for single texts."""
        if self.kind is HeadKind.ANSWER:
            return PairForm.TOGETHER
        if self.kind is HeadKind.CHOOSE or self.reading.has_pairs:
            return self.pairs or PairForm.APART
        return None


def open_sets(source: HeadSource) -> OpenSets:
    """Open the feature sets that a source names; any other path stays a path.

    Raises:
        BertfeatError: a feature set that is not sound.
    """
    if isinstance(source, tuple):
        return source
    if isinstance(source, str) and _SEPARATOR in source and not Path(source).exists():
        folders = source.split(_SEPARATOR)
        if len(folders) == 2 and all(map(is_feature_set, folders)):
            return tuple(FeatureSet(folder) for folder in folders)
    opened = open_source(source)
    return (opened,) if isinstance(opened, FeatureSet) else opened


@contextmanager
def file_source(corpus: Path, reading: CorpusSettings) -> Iterator[Path]:
    """A corpus file; standard input (``-``) as a file, since it may be read twice."""
    if str(corpus) != STDIN:
        yield corpus
        return
    with stdin_copy("stdin" + (FORMATS[reading.format].endings[0] if reading.format else ".txt")) as path:
        yield path


def extract_sets(
    corpus: Path, options: HeadOptions, extractor: Extractor, folder: Path, name: str, *, overwrite: bool = False
) -> tuple[FeatureSet, ...]:
    """Extract a corpus into the feature sets that a head of the kind reads: ``folder/name.features``, perhaps another.

    Sets that are there go on; those of another corpus, or made in another way, are replaced if ``overwrite``.

    Raises:
        CorpusError: there is no such file, or it cannot be read.
        HeadError: no row of it could be embedded.
    """
    if not corpus.is_file():
        raise CorpusError("no such file or feature set", where=corpus, remedy="check the path")
    sets = []
    for suffix, rows in head_corpora(corpus, options):
        place = folder / f"{name}{suffix}.features"
        try:
            report = extractor.extract(rows, place, progress=options.progress)
        except (AnotherCorpusError, SettingsDifferError):
            if not overwrite:
                raise
            report = extractor.extract(rows, place, progress=options.progress, overwrite=True)
        if not report.counts.documents:
            raise HeadError("there is no row in it that could be embedded", where=corpus)
        features = FeatureSet(place)
        if options.on_dataset is not None:
            options.on_dataset(DatasetReport(str(corpus), features, report))
        sets.append(features)
    return tuple(sets)


def head_extractor(options: HeadOptions, like: FeatureSet | None) -> Extractor:
    """The extractor of a head's corpora: as another set was made, or as the options say.

    Raises:
        ModelError: the model cannot be found.
    """
    if like is not None:
        device = options.extractor.get("device")
        return Extractor.from_record(like.header.model, like.header.settings, like.columns, device=device)
    pooling = Pooling.TOKEN if options.kind is HeadKind.ANSWER else options.pooling
    arguments = options.extractor
    layers = options.layers or DEFAULT_LAYERS
    num_layers = find_model(arguments.get("model"), revision=arguments.get("revision")).num_layers
    extracted = (
        [layers] if layers == ALL_LAYERS else [parse_input(spec, num_layers).extracted for spec in layers.split(",")]
    )
    extractor = Extractor(layers=extracted, pooling=None if pooling is None else str(pooling), **arguments)
    if options.kind is not HeadKind.ANSWER and not extractor.columns[0].pooling.per_document:
        problem = f"{options.kind.noun} reads one vector a text"
        raise UsageError(problem, where=parameter("pooling", options.pooling), remedy="give mean, cls or max")
    return extractor


def head_corpora(corpus: Path, options: HeadOptions, *, form: PairForm | None = None) -> Iterator[tuple[str, Corpus]]:
    """The corpora of the feature sets of one corpus file, each with what its set's name has after the corpus's."""
    reading = options.reading
    form = options.pair_form and (form or options.pair_form)
    if options.kind is HeadKind.CHOOSE:
        assert form is not None
        questions = _kept_if_there(corpus, choice_reading(options), options.label)
        label = options.label if options.label in {column.name for column in questions.kept} else None
        yield from choice_corpora(questions, options.choices, label, form)
    elif options.kind is HeadKind.ANSWER:
        yield "", _kept_if_there(corpus, reading, ANSWERS, ":string")
    elif form is PairForm.APART:
        if reading.pair_column is None:
            raise UsageError(f"pairs of lines have no labels: name columns with {parameter('pair_column')}")
        first = replace(reading, pair_column=None, pairs=False)
        yield "", _kept_if_there(corpus, first, options.label)
        yield ".second", open_corpus([corpus], replace(first, text_columns=(reading.pair_column,)))
    else:
        yield "", _kept_if_there(corpus, reading, options.label)


def choice_reading(options: HeadOptions) -> CorpusSettings:
    """How the corpus of a chooser is read: its choices are kept columns.

    Raises:
        UsageError: no choices are named.
    """
    if len(options.choices) < 2:
        problem = "a chooser needs the columns of the choices, at least two"
        raise UsageError(problem, remedy=f"name them with {parameter('choices')}")
    return replace(options.reading, keep=tuple(f"{name}:string" for name in options.choices))


def _kept_if_there(corpus: Path, reading: CorpusSettings, column: str | None, kind: str = "") -> Corpus:
    """A corpus that keeps a column where it has it: what is only predicted need not have it."""
    plain = open_corpus([corpus], reading)
    if column is None or column not in plain.columns:
        return plain
    return open_corpus([corpus], replace(reading, keep=(*reading.keep, f"{column}{kind}")))
