"""The folder that a pre-training writes: a model of Hugging Face, and ``pretraining.json``, which is written last."""

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.errors import PretrainingError, parameter
from bertfeat.io import JsonFormat, remove_file, storage_errors, sync, write_json
from bertfeat.models import Model
from bertfeat.pretraining.material import TOKENIZER_FILES
from bertfeat.pretraining.report import PretrainingRecord
from bertfeat.training import library_disk_errors

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FORMAT_VERSION = 1
RECORD_NAME = "pretraining.json"
PICTURE_NAME = "curves.png"
_SENTENCE_FILES = ("modules.json", "config_sentence_transformers.json", "sentence_bert_config.json")
_MODEL_FILES = ("config.json", "generation_config.json", "model.safetensors")
_WRITTEN = (RECORD_NAME, PICTURE_NAME, *_MODEL_FILES, *_SENTENCE_FILES, *TOKENIZER_FILES)
_ONE_FILE = "1000GB"  # weights are never cut into several files

_FORMAT = JsonFormat(
    PretrainingRecord,
    FORMAT_VERSION,
    error=PretrainingError,
    remedy=lambda: f"train anew with {parameter('overwrite', True)}",
    digest_from=0,
)


def read_record(folder: Path) -> PretrainingRecord | None:
    """Read the record of a finished pre-training; None where there is none.

    Raises:
        PretrainingError: it cannot be read, or a newer bertfeat wrote it.
    """
    try:
        return _FORMAT.read(folder / RECORD_NAME)
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_sentence_model(model: Model) -> bool:
    """Whether sentence-transformers trained the model: it has a configuration of its modules."""
    return (model.folder / _SENTENCE_FILES[0]).is_file()


def write_result(
    folder: Path,
    scratch: Path,
    module: "PreTrainedModel",
    tokenizer: Path,
    model: Model | None,
    record: PretrainingRecord,
) -> None:
    """Write the model's files, and then its record; ``scratch`` is a folder beside them for what is half written.

    Raises:
        StorageError: the folder cannot be written.
    """
    with library_disk_errors(folder):
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        module.save_pretrained(scratch, max_shard_size=_ONE_FILE)
        for path in tokenizer.iterdir():
            shutil.copyfile(path, scratch / path.name)
        if model is not None:
            _copy_sentence_files(model, scratch)
        for path in sorted(scratch.rglob("*")):
            if path.is_file():
                place = folder / path.relative_to(scratch)
                place.parent.mkdir(parents=True, exist_ok=True)
                sync(path)
                os.replace(path, place)
        sync(folder)
    write_json(folder / RECORD_NAME, record)


def _copy_sentence_files(model: Model, folder: Path) -> None:
    """Copy sentence-transformers' own files: its modules, their settings, and the weights of later ones."""
    for name in _SENTENCE_FILES:
        if (model.folder / name).is_file():
            shutil.copyfile(model.folder / name, folder / name)
    for number in range(10):
        for module in model.folder.glob(f"{number}_*"):
            if module.is_dir() and not module.is_symlink():
                shutil.copytree(module, folder / module.name)


def remove_result(folder: Path) -> None:
    """Remove a model that was written, its record first.

    Raises:
        StorageError: the folder cannot be written.
    """
    for name in _WRITTEN:
        remove_file(folder / name)
    with storage_errors(folder):
        for module in folder.glob("[0-9]_*"):
            if module.is_dir() and not module.is_symlink():
                shutil.rmtree(module)
