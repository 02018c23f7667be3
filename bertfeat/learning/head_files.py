"""A saved head on disk: its weights, or a fine-tuned model, and ``head.json``, which describes them and comes last."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from safetensors.torch import load
from torch import Tensor

from bertfeat.display import displayed
from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.io import (
    FileDigest,
    JsonFormat,
    digest_file,
    explain_absence,
    remove_file,
    storage_errors,
    sync,
    write_json,
)
from bertfeat.learning.checkpoint import write_tensors
from bertfeat.learning.networks import HeadNetwork
from bertfeat.learning.record import HeadRecord
from bertfeat.learning.task import HeadScores
from bertfeat.learning.tasks import task_of
from bertfeat.learning.trainer import FineTuned
from bertfeat.models import Model

FORMAT_VERSION = 1
"""Version of a head's format that this bertfeat writes; newer ones are refused."""

RECORD_NAME = "head.json"
WEIGHTS_NAME = "head.safetensors"
MODEL_NAME = "model"  # folder of a fine-tuned model
PICTURE_NAME = "curves.png"


@displayed
@dataclass(frozen=True, slots=True)
class HeadReport:
    """The result of a training."""

    folder: Path
    record: HeadRecord
    scores: HeadScores | None  # on the development set; None where nothing was left to do
    seconds: float
    resumed: int = 0  # epochs that an earlier run had done
    warnings: tuple[str, ...] = ()
    failed: int = 0  # rows of the corpora that were read, of which nothing could be learned


def write_head(folder: Path, record: HeadRecord, tensors: Mapping[str, Tensor] | None) -> HeadRecord:
    """Save a head; until the last byte of ``head.json`` is there, the folder holds none."""
    if tensors is not None:
        record = replace(record, weights=write_tensors(folder / WEIGHTS_NAME, tensors))
    write_json(folder / RECORD_NAME, record)
    return record


def remove_head(folder: Path) -> None:
    """Remove a saved head, its record first: without it the folder holds no head."""
    for name in (RECORD_NAME, WEIGHTS_NAME, PICTURE_NAME):
        remove_file(folder / name)
    with storage_errors(folder):
        shutil.rmtree(folder / MODEL_NAME, ignore_errors=True)


def has_head(folder: Path) -> bool:
    """Whether a folder holds a finished head, sound or not."""
    return (folder / RECORD_NAME).exists()


def read_head_record(folder: Path) -> HeadRecord:
    """Read ``head.json``."""
    path = folder / RECORD_NAME
    record = _FORMAT.read(path)
    if record is None:
        problem = f"this is no finished head: it has no {RECORD_NAME}"
        problem, remedy = explain_absence(folder, problem, "bertfeat classify train makes one")
        raise HeadError(problem, where=folder, remedy=remedy)
    try:
        task_of(record.kind, record.training.task)
    except UsageError as error:  # it is of a package that is not installed
        raise HeadError(f"cannot be read ({error})", where=path, remedy=_copy_head_remedy()) from error
    return record


def read_head_weights(folder: Path, record: HeadRecord) -> dict[str, Tensor]:
    """Read the weights that belong to a record, every byte of them."""
    assert record.network is not None
    assert record.weights is not None
    problem = f"these are not the weights of {RECORD_NAME}"
    _FORMAT.check_files(folder, {WEIGHTS_NAME: record.weights}, problem)
    tensors = load((folder / WEIGHTS_NAME).read_bytes())
    with torch.device("meta"):  # which takes no memory, whatever shape is recorded
        network = HeadNetwork(record.network).state_dict()
    if {name: each.shape for name, each in tensors.items()} != {name: each.shape for name, each in network.items()}:
        raise HeadError(f"{problem}: they do not fit its network", where=folder, remedy=_copy_head_remedy())
    return tensors


def save_tuned_model(folder: Path, model: Model, tuned: FineTuned) -> dict[str, FileDigest]:
    """Save a fine-tuned model in the place of an unfinished one, bring it onto the disk, and return its digests."""
    place = folder / MODEL_NAME
    with storage_errors(folder):
        shutil.rmtree(place, ignore_errors=True)  # of another model, it may have files that this one does not replace
        tuned.save(model, place)
        files = sorted(path for path in place.iterdir() if path.is_file())
        for path in files:
            sync(path)
        return {path.name: digest_file(path) for path in files}


def check_tuned_model(folder: Path, record: HeadRecord) -> None:
    """Check that the files of a fine-tuned model are those that were saved."""
    problem = f"this is not the model that {RECORD_NAME} describes"
    _FORMAT.check_files(folder / MODEL_NAME, record.files or {}, problem)


def _copy_head_remedy() -> str:
    again = f"train it again with {parameter('overwrite', True)}"
    return f"copy the whole head again from where it was made, or {again}"


_FORMAT = JsonFormat(HeadRecord, FORMAT_VERSION, error=HeadError, remedy=_copy_head_remedy)
