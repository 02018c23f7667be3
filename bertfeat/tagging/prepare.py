"""Feature sets for tagging: given as such, or extracted from a corpus into a set beside it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertfeat.corpus import CorpusSettings
from bertfeat.corpus.compression import COMPRESSIONS
from bertfeat.errors import BertfeatError, CorpusError, NotDerivable, TaggerError, UsageError
from bertfeat.extraction import ExtractionReport, Extractor, OnProgress
from bertfeat.features import FeatureSet, list_parts, read_manifest
from bertfeat.models import find_model
from bertfeat.recipe import Pooling, derive
from bertfeat.tagging.inputs import DEFAULT_LAYERS, TaggerInput, parse_input


@dataclass(frozen=True, slots=True)
class Prepared:
    """A feature set to learn from, and how it was made where that was only now."""

    features: FeatureSet
    report: ExtractionReport | None


def is_feature_set(path: Path) -> bool:
    """Whether a folder holds a feature set, finished or not."""
    return path.is_dir() and (read_manifest(path) is not None or bool(list_parts(path)))


def features_beside(corpus: Path) -> Path:
    """Where the features of a corpus file are kept: ``news/train.conll.gz`` → ``news/train.features``."""
    name = corpus.stem if corpus.suffix in COMPRESSIONS else corpus.name
    return corpus.with_name(Path(name).stem + ".features")


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
    folder = folder or features_beside(given)
    made = _extractor(layers, reading, like, folder, extractor)
    try:
        report = made.extract(given, folder, corpus_settings=reading, keep_text=_keeps_text(folder), progress=progress)
    except CorpusError as error:
        raise type(error)(str(error) if str(given) in str(error) else f"{given}: {error}") from error
    if not report.counts.documents:
        raise TaggerError(f"{given}: there is no sentence in it, or none that could be read; nothing can be learnt")
    return Prepared(FeatureSet(folder), report)


def _extractor(
    layers: str | None,
    reading: CorpusSettings,
    like: FeatureSet | None,
    folder: Path,
    arguments: dict[str, Any],
) -> Extractor:
    name, device = arguments.get("model"), arguments.get("device")
    if like is not None:
        words = [column for column in like.columns if column.pooling is Pooling.WORD]
        if not words:
            raise NotDerivable(f"{like.folder} holds no features of words; extract it again, with --pooling word")
        if like.header.settings["document_context"] != reading.document_context:
            raise UsageError(
                f"{like.folder} was extracted {'with' if not reading.document_context else 'without'} "
                f"--document-context; the other set has to be, too"
            )
        return Extractor.recorded(like.header.model, like.header.settings, words, device=device)
    files = find_model(name, revision=arguments.get("revision"))
    wanted = [parse_input(spec, files.num_layers) for spec in (layers or DEFAULT_LAYERS).split(",")]
    made = Extractor(layers=[each.extracted for each in wanted], pooling="word", **arguments)
    there = _usable(folder, made, wanted, reading)
    if there is None:
        return made
    header = there.header
    return Extractor.recorded(header.model, header.settings, header.columns, name=name, device=device)


def _usable(folder: Path, made: Extractor, wanted: list[TaggerInput], reading: CorpusSettings) -> FeatureSet | None:
    """The feature set that is there already, if it was made in the same way and holds the layers."""
    try:
        there = FeatureSet(folder, allow_unfinished=True)
        for each in wanted:
            derive(each.recipe, Pooling.WORD, there.columns)
    except BertfeatError:
        return None
    tokens, settings = made.token_settings, there.header.settings
    asked = {
        "long": str(tokens.long),
        "max_length": tokens.max_length,
        "prompt": tokens.prompt,
        "subword": str(tokens.subword),
        "document_context": reading.document_context,
    }
    same = all(settings[name] == value for name, value in asked.items())
    alike = there.header.model.fingerprint == made.files.fingerprint and settings["precision"] == made.precision.value
    return there if same and alike else None


def _keeps_text(folder: Path) -> bool:
    try:
        return bool(FeatureSet(folder, allow_unfinished=True).header.settings["text"])
    except BertfeatError:
        return True
