"""Feature sets for tagging: existing ones, or extracted from a corpus into a set beside it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from bertfeat.corpus import COMPRESSIONS, ENDINGS, CorpusSettings, find_sources
from bertfeat.errors import BertfeatError, CorpusError, SettingsDifferError, TaggerError, UsageError, parameter
from bertfeat.extraction import ExtractionReport, Extractor, OnProgress
from bertfeat.features import FeatureSet, list_parts
from bertfeat.io import Address, ResultKind, as_location, real_path, result_kind
from bertfeat.tagging.dataset_extractors import (
    ExtractorArguments,
    new_extractor,
    open_with_layers,
    recorded_extractor,
    was_made_by,
)

SentenceSource = str | Path | Address | FeatureSet
"""Sentences with tags: a feature set, its folder, or a corpus file."""

OpenSource = Path | FeatureSet
"""A source whose feature set, if it is one, is open; else the path of a corpus."""

_EXTRACTOR_DEFAULTS = {"model": None, "revision": None, "precision": "auto", "batch_tokens": None}


@dataclass(frozen=True, slots=True)
class DatasetReport:
    """A feature set that is ready to be learnt from."""

    source: str
    features: FeatureSet
    extraction: ExtractionReport | None  # None: the features beside the corpus were used as they are


OnDataset = Callable[[DatasetReport], None]
"""Called after each corpus whose features were extracted or found."""


@dataclass(frozen=True, slots=True)
class DatasetOptions:
    """How corpora become feature sets."""

    layers: str | None = None  # what the sets have to hold
    corpus_settings: CorpusSettings = field(default_factory=CorpusSettings)
    extractor: ExtractorArguments = field(default_factory=ExtractorArguments)
    progress: OnProgress | None = None  # of the extraction
    on_dataset: OnDataset | None = None


def is_feature_set(source: SentenceSource) -> bool:
    """Whether it is a feature set, or a folder that holds one, finished or not."""
    if isinstance(source, FeatureSet):
        return True
    place = as_location(source)
    return result_kind(place) is ResultKind.FEATURES and bool(list_parts(place))


def open_source(source: SentenceSource) -> OpenSource:
    """Open a folder that holds a feature set; any other path stays a path.

    Raises:
        FeatureSetError: the feature set is not sound, or not finished.
        UsageError: there is no feature set at an address.
    """
    if isinstance(source, FeatureSet):
        return source
    place = as_location(source)
    if is_feature_set(place):
        return FeatureSet(place)
    if isinstance(place, Address):
        remedy = "extract the corpus to an address, or give a file of this machine"
        raise UsageError("there is no feature set at this address", where=place, remedy=remedy)
    return place


def features_beside(corpus: Path) -> Path:
    """Where the features of a corpus file are kept: ``news/train.conll.gz`` → ``news/train.features``.

    An ending that names no format stays, so that ``eng.train`` and ``eng.testa`` are kept apart.

    Raises:
        UsageError: it is no file's name.
    """
    if not corpus.name:
        raise UsageError("a folder, and features are kept beside a file", where=f"{corpus}", remedy="name a CoNLL file")
    name = Path(corpus.stem if corpus.suffix in COMPRESSIONS else corpus.name)
    return corpus.with_name((name.stem if name.suffix in ENDINGS else name.name) + ".features")


def open_datasets(sources: Mapping[str, OpenSource], options: DatasetOptions) -> dict[str, FeatureSet]:
    """Extract the corpora among the sources, each into a feature set beside it.

    If some are feature sets, the corpora are extracted as the first of them was.

    Raises:
        UsageError: two corpora whose features would be kept in one folder; or see :func:`open_dataset`.
        BertfeatError: see :func:`open_dataset`.
    """
    refuse_shared_folder(sources)
    datasets: dict[str, FeatureSet] = {}
    for name in features_first(sources):
        datasets[name] = open_dataset(sources[name], options, like=first_given(sources, datasets))
    return datasets


def open_dataset(
    source: OpenSource, options: DatasetOptions, *, like: FeatureSet | None = None, folder: Path | None = None
) -> FeatureSet:
    """Return a feature set as it is, or extract a corpus into one in ``folder`` (default: beside it).

    A set that is there and holds the layers is used as it is, after a look at whether the corpus changed. ``like`` is a
    set whose model and settings the new one takes over.

    Raises:
        UsageError: a corpus that is no file.
        BertfeatError: the corpus cannot be extracted, or the set is there and was made in another way.
    """
    if isinstance(source, FeatureSet):
        return source
    corpus = source
    if not corpus.exists():
        raise CorpusError("no such file or feature set", where=corpus, remedy="check the path")
    if corpus.is_dir():
        remedy = "give a CoNLL file or what bertfeat extract wrote"
        raise UsageError("a folder that is no feature set", where=corpus, remedy=remedy)
    _refuse_untagged(corpus, options.corpus_settings)
    folder = folder or features_beside(corpus)
    extractor, keep_text = _choose_extractor(folder, options, like)
    report = _extract(extractor, corpus, folder, options, keep_text)
    features = _open_extracted(folder, extractor)
    if options.on_dataset is not None:
        options.on_dataset(DatasetReport(str(source), features, report))
    return features


def features_first(sources: Mapping[str, OpenSource]) -> list[str]:
    """The names of the sources, feature sets before corpora: they say how the corpora are extracted."""
    return sorted(sources, key=lambda name: isinstance(sources[name], Path))


def first_given(sources: Mapping[str, OpenSource], datasets: Mapping[str, FeatureSet]) -> FeatureSet | None:
    """The first open set that was given as a feature set."""
    return next((datasets[name] for name in datasets if isinstance(sources[name], FeatureSet)), None)


# ── extraction ──────────────────────────────────────────────────────────────────────────────────────────────


def _choose_extractor(folder: Path, options: DatasetOptions, like: FeatureSet | None) -> tuple[Extractor, bool]:
    """The extractor for a folder, and whether texts are stored: as in the existing set, if it can be used."""
    arguments = options.extractor
    if like is not None:
        extractor = recorded_extractor(like, options.corpus_settings, arguments.get("device"))
        return extractor, _stores_text(folder)
    extractor = new_extractor(options.layers, arguments)
    existing = open_with_layers(folder, extractor, options.layers, allow_unfinished=True)
    if existing is None:
        return extractor, _stores_text(folder)
    header, keep_text = existing.header, existing.header.settings.text
    if not was_made_by(existing, extractor, options.corpus_settings):
        return extractor, keep_text
    model, device = arguments.get("model"), arguments.get("device")
    return Extractor.from_record(header.model, header.settings, header.columns, name=model, device=device), keep_text


def _stores_text(folder: Path) -> bool:
    try:
        return FeatureSet(folder, allow_unfinished=True).header.settings.text
    except BertfeatError:
        return True


def _extract(
    extractor: Extractor, corpus: Path, folder: Path, options: DatasetOptions, keep_text: bool
) -> ExtractionReport:
    try:
        report = extractor.extract(
            corpus,
            folder,
            corpus_settings=options.corpus_settings,
            keep_text=keep_text,
            progress=options.progress,
        )
    except SettingsDifferError as error:
        error.remedy = f"remove it, or extract {corpus} into another folder and give that in its place"
        raise
    except CorpusError as error:
        if str(corpus) in str(error):
            raise
        raise error.within(corpus) from error
    if not report.counts.documents:
        raise TaggerError("there is no sentence in it, or none that could be read; nothing can be learnt", where=corpus)
    return report


def _open_extracted(folder: Path, extractor: Extractor) -> FeatureSet:
    """Open what was extracted, unless another run has changed it since."""
    changed = f"{folder} was changed by another run after it was made"
    try:
        features = FeatureSet(folder)
    except BertfeatError as error:
        raise TaggerError(f"{changed}: {error}") from error
    if (features.header.model, features.columns) != (extractor.identity, extractor.columns):
        raise TaggerError(changed, remedy="run the same command again")
    return features


# ── refusals ───────────────────────────────────────────────────────────────────────────────────────────────


def refuse_corpus_settings(settings: CorpusSettings, reason: str) -> None:
    """Refuse settings that say how a corpus is read, if no corpus is read.

    Raises:
        UsageError: names them.
    """
    default = CorpusSettings()
    names = [
        option.name
        for option in fields(CorpusSettings)
        if getattr(settings, option.name) != getattr(default, option.name)
    ]
    if names:
        raise UsageError(f"{_listed_parameters(names)}: for corpora, and {reason}", remedy="leave it out")


def refuse_unused_options(
    sources: Mapping[str, OpenSource], options: DatasetOptions, *, but: Collection[str] = ()
) -> None:
    """Refuse options of extraction beside a feature set, which records its own; ``but`` names arguments that stay.

    Raises:
        UsageError: names them.
    """
    opened = [isinstance(source, FeatureSet) for source in sources.values()]
    if any(opened):
        arguments = {**_EXTRACTOR_DEFAULTS, **options.extractor}
        names = [name for name, usual in _EXTRACTOR_DEFAULTS.items() if name not in but and arguments[name] != usual]
        if names:
            remedy = "the feature set that is given records its own"
            raise UsageError(f"{_listed_parameters(names)}: for corpora", remedy=remedy)
    if all(opened):
        refuse_corpus_settings(options.corpus_settings, "all sets are features")


def refuse_shared_folder(sources: Mapping[str, OpenSource]) -> None:
    """Refuse two corpora whose features would be kept in one folder.

    Raises:
        UsageError: names both.
    """
    corpora: dict[Path, Path] = {}
    for corpus in sources.values():
        if isinstance(corpus, FeatureSet):
            continue
        other = corpora.setdefault(real_path(features_beside(corpus)), corpus)
        if real_path(other) != real_path(corpus):
            raise UsageError(
                f"the features of {other} and {corpus} would both be kept in {features_beside(corpus)}",
                remedy="rename one of them, or extract one into a folder of another name",
            )


def _refuse_untagged(corpus: Path, settings: CorpusSettings) -> None:
    """Refuse a corpus that can have no tags before it is extracted."""
    (source,) = find_sources([corpus], settings.format)
    if not settings.has_tags(source.format):
        raise TaggerError(
            f"a {source.format.name} file has no tags",
            where=corpus,
            remedy=f"CoNLL files bring them, and JSONL, CSV or Parquet by {parameter('pretokenized', True)} with "
            f"{parameter('tag_column')}",
        )


def _listed_parameters(names: Collection[str]) -> str:
    return ", ".join(parameter(name) for name in names)
