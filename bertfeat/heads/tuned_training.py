"""Fine-tuning a head: from texts to a saved model and its ``head.json``."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path

from bertfeat.encoder import resolve_device
from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.extraction import Embedder
from bertfeat.features import ModelIdentity
from bertfeat.heads.datasets import HeadOptions, OpenSets, head_corpora
from bertfeat.heads.examples import learn_outputs
from bertfeat.heads.fine_tuning import fine_tuned_head
from bertfeat.heads.gold import read_gold
from bertfeat.heads.guesses import HeadScores, measure_of, score_by_own_threshold, threshold_of
from bertfeat.heads.head_files import (
    FORMAT_VERSION,
    MODEL_NAME,
    TUNED_WEIGHTS_NAME,
    has_head,
    read_head_record,
    remove_head,
    write_head,
)
from bertfeat.heads.kinds import PairForm
from bertfeat.heads.settings import ExampleColumns, HeadRecord, HeadSettings, Outputs
from bertfeat.heads.tables import CorpusTable, ExampleTable, FeatureTable
from bertfeat.heads.texts import HeadTexts, read_texts
from bertfeat.io import canonical_json, to_plain
from bertfeat.models import Model
from bertfeat.training import GridPoint, OnStep, digest_file, remove_checkpoint, tuning_precision

_TUNED_SETTINGS = {"seed", "regression", "max_answer"}  # those that fine-tuning has a use for


def refuse_frozen_options(options: HeadOptions, settings: HeadSettings) -> None:
    """Refuse what says how a head learns from stored features, beside fine-tuning, which reads texts.

    Raises:
        UsageError: names it.
    """
    usual, arguments = HeadSettings(), options.extractor
    given = {"layers": options.layers, "pooling": options.pooling, "batch_tokens": arguments.get("batch_tokens")}
    given |= {"embed_pairs": options.pairs if options.pairs is PairForm.APART else None}
    names = [name for name, value in given.items() if value is not None]
    names += [
        known.name
        for known in fields(HeadSettings)
        if known.name not in _TUNED_SETTINGS and getattr(settings, known.name) != getattr(usual, known.name)
    ]
    if names:
        listed = ", ".join(map(parameter, names))
        remedy = f"leave it out; {parameter('grid')} has the settings of fine-tuning"
        raise UsageError(f"{listed}: of heads on stored features, and the whole model is fine-tuned", remedy=remedy)


def tune_head(
    folder: Path,
    sources: Mapping[str, OpenSets],
    options: HeadOptions,
    settings: HeadSettings,
    point: GridPoint,
    *,
    overwrite: bool = False,
    on_step: OnStep | None = None,
) -> tuple[HeadRecord, HeadScores | None, float]:
    """Fine-tune a model for a head and save it, in a folder that :func:`hold_result_folder` holds.

    Returns the record, the scores on the development set (None where nothing was left to do), and the seconds.

    Raises:
        HeadError: examples that nothing can be learnt from, or a folder with another training.
    """
    begun = time.perf_counter()
    tables = {name: open_table(source, options) for name, source in sources.items()}
    texts = {name: _known_texts(table, options, settings) for name, table in tables.items()}
    train, dev = texts["train"], texts["dev"]
    outputs = learn_outputs(options.kind, train.gold, tables["train"].where, regression=settings.regression)
    model, identity = _model_to_tune(sources["train"], options)
    data = {name: _texts_digest(listed) for name, listed in texts.items()}
    device, asked = options.extractor.get("device"), options.extractor.get("precision", "auto")
    precision = tuning_precision(asked, resolve_device(device))
    record = replace(_tuned_record(options, settings, point, identity, outputs, data), precision=precision)
    if overwrite:
        remove_head(folder)
        remove_checkpoint(folder)
    if has_head(folder):
        return _same_record(folder, record), None, 0.0
    with fine_tuned_head(
        model,
        train,
        outputs,
        point,
        seed=settings.seed,
        device=device,
        precision=precision,
        on_step=on_step,
        max_answer=settings.max_answer,
    ) as tuned:
        scores = score_by_own_threshold(
            dev.kind, dev.gold, tuned.guesses(dev), regression=settings.regression, passages=dev.passages
        )
        tuned.save(folder / MODEL_NAME)
        weights = digest_file(folder / MODEL_NAME / TUNED_WEIGHTS_NAME)
        record = replace(
            record, weights=weights, score=scores.value, threshold=threshold_of(scores), seconds=tuned.seconds
        )
    return write_head(folder, record, None), scores, time.perf_counter() - begun


def open_table(source: OpenSets, options: HeadOptions) -> ExampleTable:
    """The rows of feature sets, or of a corpus file, pairs of it together.

    Raises:
        CorpusError: the corpus cannot be read.
    """
    if not isinstance(source, Path):
        return FeatureTable(source)
    _, corpus = next(iter(head_corpora(source, options, form=PairForm.TOGETHER)))
    return CorpusTable(corpus)


def _known_texts(table: ExampleTable, options: HeadOptions, settings: HeadSettings) -> HeadTexts:
    """Examples of which is known what is to be predicted."""
    gold = read_gold(options.kind, table, options.label, regression=settings.regression)
    if not gold:
        remedy = f"name the column with {parameter('label')}"
        raise HeadError("it does not say what is to be predicted", where=table.where, remedy=remedy)
    return read_texts(options.kind, table, gold)


def _model_to_tune(source: OpenSets, options: HeadOptions) -> tuple[Model, ModelIdentity]:
    """The model that made the features, or the one that is named."""
    arguments = dict(options.extractor)
    if not isinstance(source, Path) and arguments.get("model") is None:
        recorded = source[0].header.model
        arguments |= {"model": recorded.name, "revision": recorded.revision}
    embedder = Embedder(arguments.get("model"), revision=arguments.get("revision"))  # type: ignore[arg-type]
    return embedder.model, embedder.identity


def _tuned_record(
    options: HeadOptions,
    settings: HeadSettings,
    point: GridPoint,
    model: ModelIdentity,
    outputs: Outputs,
    data: Mapping[str, str],
) -> HeadRecord:
    """What is known of a head before it is fine-tuned."""
    reading = options.reading
    return HeadRecord(
        format_version=FORMAT_VERSION,
        kind=options.kind,
        approach="fine-tuned",
        model=model,
        pairs=options.pair_form and PairForm.TOGETHER,
        outputs=outputs,
        training=settings,
        columns=ExampleColumns(reading.text_columns, reading.pair_column, options.label, options.choices),
        measure=measure_of(options.kind, regression=settings.regression),
        score=0.0,
        threshold=None,
        seconds=0.0,
        data=data,
        versions={name: version(name) for name in ("bertfeat", "torch", "transformers")},
        point=point,
    )


def _same_record(folder: Path, wanted: HeadRecord) -> HeadRecord:
    """The head that is there already.

    Raises:
        HeadError: it was made in another way.
    """
    record = read_head_record(folder)
    names = ("kind", "approach", "model", "outputs", "training", "data", "point", "precision")
    if differ := [name for name in names if getattr(record, name) != getattr(wanted, name)]:
        raise HeadError(
            f"{folder} holds a head that was trained in another way (they differ in: {', '.join(differ)})",
            remedy=f"name another folder with {parameter('folder')}, or start anew with {parameter('overwrite', True)}",
        )
    return record


def _texts_digest(texts: HeadTexts) -> str:
    """What identifies examples: their texts and what is to be predicted."""
    gold = [to_plain(value) for value in texts.gold]
    return hashlib.sha256(canonical_json([texts.texts, texts.others, gold])).hexdigest()
