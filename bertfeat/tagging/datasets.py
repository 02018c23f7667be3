"""Feature sets for tagging: given as such, or extracted from a corpus into a set beside it."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from bertfeat.corpus import ENDINGS, CorpusSettings, open_corpus
from bertfeat.corpus.compression import COMPRESSIONS
from bertfeat.corpus.sources import find_sources
from bertfeat.derivation import derive
from bertfeat.errors import BertfeatError, CorpusError, NotDerivableError, TaggerError, UsageError
from bertfeat.extraction import ExtractionReport, Extractor, OnProgress
from bertfeat.extraction.plan import plan_parts
from bertfeat.extraction.settings import NUMERICS_VERSION, RunSettings
from bertfeat.features import FeatureSet, list_parts, read_manifest
from bertfeat.models import find_model
from bertfeat.recipe import Pooling
from bertfeat.tagging.layer_input import DEFAULT_LAYERS, parse_input


@dataclass(frozen=True, slots=True)
class Prepared:
    """A feature set to learn from, and how it was made where that was only now."""

    features: FeatureSet
    report: ExtractionReport | None


def is_feature_set(path: Path) -> bool:
    """Whether a folder holds a feature set, finished or not."""
    return path.is_dir() and (read_manifest(path) is not None or bool(list_parts(path)))


def features_beside(corpus: Path) -> Path:
    """Where the features of a corpus file are kept: ``news/train.conll.gz`` → ``news/train.features``.

    An ending that names no format stays, so that ``eng.train`` and ``eng.testa`` are kept apart.

    Raises:
        UsageError: it is no file's name.
    """
    if not corpus.name:
        raise UsageError(f"{corpus}: a folder, and features are kept beside a file; name a CoNLL file")
    name = Path(corpus.stem if corpus.suffix in COMPRESSIONS else corpus.name)
    return corpus.with_name((name.stem if name.suffix in ENDINGS else name.name) + ".features")


def prepared(
    given: Path,
    *,
    layers: str | None = None,
    reading: CorpusSettings | None = None,
    like: FeatureSet | None = None,
    folder: Path | None = None,
    progress: OnProgress | None = None,
    **extractor: Any,
) -> Prepared:
    """Open a feature set, or extract a corpus into one in ``folder`` (default: beside it).

    ``layers`` are what the set has to hold; a set that is there and holds more is used as it is, after a look at
    whether the corpus changed. ``like`` is a set whose model and settings the new one takes over, else ``extractor``
    are the arguments of :class:`bertfeat.Extractor`.

    Raises:
        UsageError: a corpus that is no file.
        BertfeatError: the corpus cannot be extracted, or the set is there and was made in another way.
    """
    if is_feature_set(given):
        return Prepared(FeatureSet(given), None)
    if not given.exists():
        raise CorpusError(f"{given}: no such file or feature set; check the path")
    if given.is_dir():
        raise UsageError(f"{given}: a folder that is no feature set; give a CoNLL file or what bertfeat extract wrote")
    reading = reading or CorpusSettings()
    _refuse_untagged(given, reading)
    folder = folder or features_beside(given)
    made = _extractor(layers, reading, like, folder, extractor)
    try:
        report = made.extract(given, folder, corpus_settings=reading, keep_text=_keeps_text(folder), progress=progress)
    except CorpusError as error:
        raise type(error)(str(error) if str(given) in str(error) else f"{given}: {error}") from error
    if not report.counts.documents:
        raise TaggerError(f"{given}: there is no sentence in it, or none that could be read; nothing can be learnt")
    return Prepared(_opened(folder, made), report)


def _refuse_untagged(given: Path, reading: CorpusSettings) -> None:
    """Tell of a corpus that can have no tags before it is extracted."""
    (source,) = find_sources([given], reading.format)
    if not reading.has_tags(source.format):
        raise TaggerError(
            f"{given}: a {source.format} file has no tags; CoNLL files bring them, and JSONL, CSV or Parquet by "
            f"--pretokenized --tag-column COL"
        )


def stored_features(
    given: Path, *, layers: str, reading: CorpusSettings | None = None, like: FeatureSet | None = None, **extractor: Any
) -> FeatureSet | None:
    """The feature set beside a corpus, if it can stand for one that would be extracted now; nothing is written.

    It can if it is finished, holds ``layers`` and the words themselves, was made by the same model in the same way, and
    its parts are those of the corpus as it is now. ``like`` and ``extractor`` are as of :func:`prepared`.

    Raises:
        BertfeatError: the corpus or the model cannot be read.
    """
    reading = reading or CorpusSettings()
    made = _recorded(like, reading, extractor) if like is not None else _new(layers, extractor)
    wanted = [parse_input(spec, made.model.num_layers) for spec in layers.split(",")]
    try:
        there = FeatureSet(features_beside(given))
        for each in wanted:
            derive(each.recipe, Pooling.WORD, there.columns)
    except BertfeatError:
        return None
    settings = there.header.settings
    expected = _settings(made, reading) | {"special_tokens": made.token_settings.special_tokens}
    expected |= {"dtype": made.columns[0].dtype, "numerics": NUMERICS_VERSION, "text": True}
    if "tags" not in there.names or not _made_alike(there, made, expected):
        return None
    corpus = open_corpus([given], reading)
    plain = RunSettings(
        model=there.header.model,
        columns=there.columns,
        tokens=made.token_settings,
        precision=settings["precision"],
        document_context=reading.document_context,
        keep=corpus.kept,
        keep_text=True,
        batch_tokens=1,
        part_rows=settings["part_rows"],
    )
    planned = plan_parts(
        corpus,
        part_rows=plain.part_rows,
        bytes_per_row=plain.bytes_per_row,
        bytes_per_character=plain.bytes_per_character,
    )
    same = all(None not in pair and pair[0].digest == pair[1].digest for pair in zip_longest(planned, there.parts))
    return there if same else None


def _opened(folder: Path, made: Extractor) -> FeatureSet:
    """Open what was extracted, unless another run has been at it since."""
    try:
        features = FeatureSet(folder)
    except BertfeatError as error:
        raise TaggerError(f"{folder} was changed by another run after it was made: {error}") from error
    if (features.header.model, features.columns) != (made.identity, made.columns):
        raise TaggerError(f"{folder} was changed by another run after it was made; run the same command again")
    return features


def _extractor(
    layers: str | None,
    reading: CorpusSettings,
    like: FeatureSet | None,
    folder: Path,
    arguments: dict[str, Any],
) -> Extractor:
    if like is not None:
        return _recorded(like, reading, arguments)
    made = _new(layers, arguments)
    there = _usable(folder, made, layers, reading)
    if there is None:
        return made
    header, device = there.header, arguments.get("device")
    return Extractor.recorded(header.model, header.settings, header.columns, name=arguments.get("model"), device=device)


def _recorded(like: FeatureSet, reading: CorpusSettings, arguments: dict[str, Any]) -> Extractor:
    """The extractor that made another set."""
    words = [column for column in like.columns if column.pooling is Pooling.WORD]
    if not words:
        raise NotDerivableError(f"{like.folder} holds no features of words; extract it again, with --pooling word")
    if like.header.settings["document_context"] != reading.document_context:
        raise UsageError(
            f"{like.folder} was extracted {'with' if not reading.document_context else 'without'} "
            f"--document-context; the other set has to be, too"
        )
    return Extractor.recorded(like.header.model, like.header.settings, words, device=arguments.get("device"))


def _new(layers: str | None, arguments: dict[str, Any]) -> Extractor:
    files = find_model(arguments.get("model"), revision=arguments.get("revision"))
    wanted = [parse_input(spec, files.num_layers) for spec in (layers or DEFAULT_LAYERS).split(",")]
    return Extractor(layers=[each.extracted for each in wanted], pooling="word", **arguments)


def _usable(folder: Path, made: Extractor, layers: str | None, reading: CorpusSettings) -> FeatureSet | None:
    """The feature set that is there already, if it was made in the same way and holds the layers."""
    wanted = [parse_input(spec, made.model.num_layers) for spec in (layers or DEFAULT_LAYERS).split(",")]
    try:
        there = FeatureSet(folder, allow_unfinished=True)
        for each in wanted:
            derive(each.recipe, Pooling.WORD, there.columns)
    except BertfeatError:
        return None
    return there if _made_alike(there, made, _settings(made, reading)) else None


def _settings(made: Extractor, reading: CorpusSettings) -> dict[str, Any]:
    """The settings of a feature set that decide what its words' features are."""
    tokens = made.token_settings
    return {
        "long": str(tokens.long),
        "max_length": tokens.max_length,
        "prompt": tokens.prompt,
        "subword": str(tokens.subword),
        "document_context": reading.document_context,
        "precision": made.precision.value,
    }


def _made_alike(there: FeatureSet, made: Extractor, expected: Mapping[str, Any]) -> bool:
    settings = there.header.settings
    same = all(settings.get(name) == value for name, value in expected.items())
    return same and there.header.model.fingerprint == made.model.fingerprint


def _keeps_text(folder: Path) -> bool:
    try:
        return bool(FeatureSet(folder, allow_unfinished=True).header.settings["text"])
    except BertfeatError:
        return True
