"""The results of a pre-training: its scores and records, and the folder that it writes.

The folder holds a model of Hugging Face, and ``pretraining.json``, which is written last. The record of a training that
was only begun is ``plan.json`` in the folder's state: what was decided before the first step, and the digests of what
was prepared.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.arguments import checked
from bertfeat.core import Model
from bertfeat.display import displayed
from bertfeat.errors import PretrainingError, parameter
from bertfeat.io import (
    FileDigest,
    JsonFormat,
    decode_json,
    digest_file,
    encode_json,
    read_regular,
    remove_file,
    sync,
    write_json,
)
from bertfeat.learning import library_disk_errors
from bertfeat.pretraining.settings import PretrainingSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class HeldOutScores:
    """Scores of a model on the sequences that are held out, with the same masks each time."""

    loss: float  # mean over the predicted pieces
    unigram_loss: float  # of guesses by the pieces' frequencies in the training part (add-one), on the same pieces
    copying_loss: float  # of guesses by these frequencies and the piece seen in the place, which may be unchanged
    accuracy: float  # of the predicted pieces
    copying_accuracy: float  # of the likeliest pieces by the guesses of copying_loss
    predicted: int  # pieces
    next_accuracy: float | None  # of next sentences; None without pairs
    sequences: int
    perplexity: float | None  # of a left-to-right model


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """Means over the steps since the last point."""

    step: int
    words: float  # loss of the predicted pieces
    pairs: float | None  # loss of next sentences
    anchor: float | None  # distance from the old vectors
    rate: float  # learning rate after the step


@dataclass(frozen=True, slots=True)
class PretrainingIdentity:
    """Everything that decides the result: on one machine, pre-trainings of equal identity give equal models."""

    settings: PretrainingSettings
    model: str | None  # fingerprint of the starting model
    corpus: str  # digest of the texts, and of where documents begin


@dataclass(frozen=True, slots=True)
class CorpusFigures:
    """The counts of a tokenized corpus."""

    documents: int
    sentences: int
    pieces: int
    held_out_pieces: int
    held_out: str  # what is held out
    sequences: int  # of an epoch
    failed: int  # rows that cannot be read
    first_failure: str  # why the first of them cannot
    unknown: int  # pieces that the vocabulary does not know


@displayed
@dataclass(frozen=True, slots=True)
class PretrainingRecord:
    """The record of a pre-training, as ``pretraining.json`` holds it."""

    format_version: int
    identity: PretrainingIdentity
    model: str | None  # name of the starting model
    sources: tuple[str, ...]
    stamps: tuple[str, ...]  # of the sources
    figures: CorpusFigures
    steps: int
    history: tuple[HistoryPoint, ...]
    before: HeldOutScores | None
    after: HeldOutScores | None
    tokens: int  # in all steps, special ones included, padding not
    seconds: float  # of training alone
    versions: Mapping[str, str]
    files: Mapping[str, FileDigest]  # of the model, by their names in its folder


@displayed
@dataclass(frozen=True, slots=True)
class PretrainingReport:
    """The result of a pre-training."""

    folder: Path
    record: PretrainingRecord
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    resumed: int  # steps that an earlier run had done
    trained: bool  # False where nothing was left to do
    seconds: float  # of this run in all


# ── the folder ──────────────────────────────────────────────────────────────────────────────────────────────


FORMAT_VERSION = 1
_RECORD_NAME = "pretraining.json"
PLAN_NAME = "plan.json"
PICTURE_NAME = "curves.png"
_MODULES = "modules.json"


@checked
def read_record(folder: str | Path) -> PretrainingRecord | None:
    """Read the record of a finished pre-training; None where there is none.

    Raises:
        PretrainingError: it cannot be read, or a newer bertfeat wrote it.
    """
    return _RECORD_FORMAT.read(Path(folder) / _RECORD_NAME)


def read_plan(state: Path) -> PretrainingRecord | None:
    """Read what a training that was begun decided; None where none was."""
    return PLAN_FORMAT.read(state / PLAN_NAME)


def anew_remedy() -> str:
    """Remedy for a training that cannot go on."""
    return f"train anew with {parameter('overwrite', True)}"


def _copy_model_remedy() -> str:
    return f"copy the whole model again from where it was made, or train it anew with {parameter('overwrite', True)}"


_RECORD_FORMAT = JsonFormat(PretrainingRecord, FORMAT_VERSION, error=PretrainingError, remedy=_copy_model_remedy)
PLAN_FORMAT = JsonFormat(PretrainingRecord, FORMAT_VERSION, error=PretrainingError, remedy=anew_remedy)
"""The format of a training that was begun: the record of the model it is to become."""


def is_sentence_model(model: Model) -> bool:
    """Whether sentence-transformers trained the model: it has a configuration of its modules."""
    return (model.sentence_folder / _MODULES).is_file()


def write_result(
    folder: Path,
    scratch: Path,
    module: "PreTrainedModel",
    tokenizer: Path,
    model: Model | None,
    record: PretrainingRecord,
) -> PretrainingRecord:
    """Write the model's files, and then its record, which names them with their digests; return the record.

    ``scratch`` is a folder beside them for what is half written.
    """
    with library_disk_errors(folder):
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        module.save_pretrained(scratch, max_shard_size="1000GB")  # in one file
        for path in tokenizer.iterdir():
            shutil.copyfile(path, scratch / path.name)
        if model is not None:
            _copy_sentence_files(model, scratch)
        names = sorted(str(path.relative_to(scratch)) for path in scratch.rglob("*") if path.is_file())
        record = replace(record, files={name: digest_file(scratch / name) for name in names})
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            sync(scratch / name)
            os.replace(scratch / name, folder / name)
        sync(folder)
    write_json(folder / _RECORD_NAME, record)
    return record


def check_model_files(folder: Path, record: PretrainingRecord) -> None:
    """Check that every file of a model is the one that was written with its record."""
    _RECORD_FORMAT.check_files(folder, record.files, "this is not the model that was trained")


def _copy_sentence_files(model: Model, folder: Path) -> None:
    """Copy sentence-transformers' own files: its settings, the list of modules, and the folders of the later ones.

    An encoder that lies in a folder of its own in the starting model lies beside them in ``folder``.
    """
    source = model.sentence_folder
    for path in (source / "config_sentence_transformers.json", model.folder / "sentence_bert_config.json"):
        if path.is_file():
            shutil.copyfile(path, folder / path.name)
    if is_sentence_model(model):
        modules = decode_json(read_regular(source / _MODULES), list[dict[str, object]])
        placed = [module | {"path": ""} if model.home and not at else module for at, module in enumerate(modules)]
        (folder / _MODULES).write_text(encode_json(placed), "utf-8")
    for module in source.glob("[0-9]_*"):
        if module.is_dir() and not module.is_symlink() and not module.samefile(model.folder):
            shutil.copytree(module, folder / module.name)


_MODEL_FILES = (
    *("config.json", "generation_config.json", "model.safetensors"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt"),
)
"""Files that are removed where a model's record is missing: left behind, they could be read as another model's."""


def remove_result(folder: Path) -> None:
    """Remove the files of a model that was written, its record first; what others put beside them stays."""
    try:
        record = read_record(folder)
    except PretrainingError:
        record = None
    for name in (_RECORD_NAME, PICTURE_NAME, *(_MODEL_FILES if record is None else record.files)):
        remove_file(folder / name)


# ── verification ────────────────────────────────────────────────────────────────────────────────────────────


@displayed
@dataclass(frozen=True, slots=True)
class PretrainedVerifyReport:
    """The result of verifying a sound model: what was read, and the steps of its training."""

    folder: Path
    format_version: int
    files: int
    bytes: int
    steps: int


@checked
def verify_pretrained(folder: str | Path) -> PretrainedVerifyReport:
    """Read every file of a pre-trained model, and compare it with the size and digest in ``pretraining.json``.

    Raises:
        PretrainingError: the folder holds no finished model, or a file is not the one that was written.
    """
    folder = Path(folder)
    record = read_record(folder)
    if record is None:
        problem = f"this is no finished model: it has no {_RECORD_NAME}"
        raise PretrainingError(problem, where=folder, remedy="run the bertfeat pretrain command that began it again")
    check_model_files(folder, record)
    size = sum(file.bytes for file in record.files.values())
    return PretrainedVerifyReport(folder, record.format_version, len(record.files), size, record.steps)
