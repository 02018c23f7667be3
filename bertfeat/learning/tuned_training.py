"""Fine-tuning a head: from texts to a saved model and its ``head.json``."""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from bertfeat.encoder import resolve_device
from bertfeat.errors import HeadError, parameter
from bertfeat.extraction import Embedder
from bertfeat.features import ModelIdentity
from bertfeat.io import canonical_json, installed_versions, to_plain
from bertfeat.learning.checkpoint import remove_checkpoint
from bertfeat.learning.datasets import HeadOptions, OpenSets, head_corpora
from bertfeat.learning.fine_tuning import fine_tuned_head
from bertfeat.learning.head_files import (
    FORMAT_VERSION,
    check_tuned_model,
    has_head,
    read_head_record,
    remove_head,
    save_tuned_model,
    write_head,
)
from bertfeat.learning.kinds import PairForm
from bertfeat.learning.record import ExampleColumns, HeadRecord, Outputs
from bertfeat.learning.settings import GridPoint, HeadSettings
from bertfeat.learning.tables import CorpusTable, ExampleTable, FeatureTable
from bertfeat.learning.task import HeadScores, HeadTexts, own_scores
from bertfeat.learning.trainer import tuning_precision
from bertfeat.models import Model
from bertfeat.progress import OnStep, ignore_progress


def tune_head(
    folder: Path,
    sources: Mapping[str, OpenSets],
    options: HeadOptions,
    settings: HeadSettings,
    point: GridPoint,
    *,
    overwrite: bool = False,
    on_step: OnStep = ignore_progress,
) -> tuple[HeadRecord, HeadScores | None, float, int]:
    """Fine-tune a model for a head and save it, in a folder that :func:`hold_result_folder` holds.

    Returns the record, the scores on the development set (None where nothing was left to do), the seconds, and the
    number of rows of the corpora that failed.
    """
    begun = time.perf_counter()
    tables = {name: open_table(source, options) for name, source in sources.items()}
    train = known_texts(tables["train"], options)
    outputs = options.task.learn_outputs(train.gold, tables["train"].where, settings)
    dev = known_texts(tables["dev"], options, outputs)
    options.task.check_dev(dev.gold, outputs, tables["dev"].where)
    failed = sum(len(tables[name].failures) for name, source in sources.items() if isinstance(source, Path))
    model, identity = _model_to_tune(sources["train"], options)
    data = {"train": _texts_digest(train), "dev": _texts_digest(dev)}
    device, asked = options.extractor.get("device"), options.extractor.get("precision", "auto")
    precision = tuning_precision(asked, resolve_device(device))
    record = replace(_tuned_record(options, settings, point, identity, outputs, data), precision=precision)
    if overwrite:
        remove_head(folder)
        remove_checkpoint(folder)
    if has_head(folder):
        return _same_record(folder, record), None, 0.0, failed
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
        scores, threshold = own_scores(options.task, dev.gold, tuned.guesses(dev), outputs, dev.passages)
        files = save_tuned_model(folder, tuned)
        record = replace(record, files=files, score=scores.value, threshold=threshold, seconds=tuned.seconds)
    return write_head(folder, record, None), scores, time.perf_counter() - begun, failed


def open_table(source: OpenSets, options: HeadOptions) -> ExampleTable:
    """The rows of feature sets, or of a corpus file, pairs of it together."""
    if not isinstance(source, Path):
        return FeatureTable(source)
    _, corpus = next(iter(head_corpora(source, options, form=PairForm.TOGETHER)))
    return CorpusTable(corpus)


def known_texts(table: ExampleTable, options: HeadOptions, known: Outputs | None = None) -> HeadTexts:
    """The examples of a table with their gold values; labels are spelled as those that are ``known``."""
    task = options.task
    gold = task.read_gold(table, options.label, known) if task.has_gold(table, options.label) else ()
    if not gold:
        raise HeadError("there is no example in it", where=table.where)
    return task.read_texts(table, gold)


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
    """The record of a head before it is fine-tuned."""
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
        measure=options.task.measure_of(outputs),
        score=0.0,
        threshold=None,
        seconds=0.0,
        data=data,
        versions=installed_versions("bertfeat", "torch", "transformers"),
        point=point,
    )


def _same_record(folder: Path, wanted: HeadRecord) -> HeadRecord:
    """The head that is there already."""
    record = read_head_record(folder)
    names = ("kind", "approach", "model", "outputs", "training", "data", "point", "precision")
    if differ := [name for name in names if getattr(record, name) != getattr(wanted, name)]:
        raise HeadError(
            f"{folder} holds a head that was trained in another way (they differ in: {', '.join(differ)})",
            remedy=f"name another folder with {parameter('folder')}, or start anew with {parameter('overwrite', True)}",
        )
    check_tuned_model(folder, record)  # one that is reported as finished must be sound
    return record


def _texts_digest(texts: HeadTexts) -> str:
    """The digest that identifies examples: of their texts and gold values."""
    gold = [to_plain(value) for value in texts.gold]
    return hashlib.sha256(canonical_json([texts.texts, texts.others, gold])).hexdigest()
