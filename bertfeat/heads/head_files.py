"""A saved head on disk: its weights, or a fine-tuned model, and ``head.json``, which describes them and comes last."""

import shutil
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch import Tensor

from bertfeat.errors import HeadError, UsageError, parameter
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.networks import HeadNetwork, HeadShape
from bertfeat.heads.settings import HeadRecord
from bertfeat.io import JsonError, JsonFormat, remove_file, storage_errors, write_json
from bertfeat.training import TensorForm, TensorsError, digest_file, read_tensors, write_tensors

FORMAT_VERSION = 1
"""Version of a head's format that this bertfeat writes; newer ones are refused."""

RECORD_NAME = "head.json"
WEIGHTS_NAME = "head.safetensors"
MODEL_NAME = "model"  # folder of a fine-tuned model
TUNED_WEIGHTS_NAME = "model.safetensors"  # in it
PICTURE_NAME = "curves.png"


def head_forms(shape: HeadShape) -> dict[str, TensorForm]:
    """The tensors of a head's network, without making it."""
    with torch.device("meta"):
        network = HeadNetwork(shape)
    return {name: TensorForm.of(tensor) for name, tensor in network.state_dict().items()}


def write_head(folder: Path, record: HeadRecord, tensors: Mapping[str, Tensor] | None) -> HeadRecord:
    """Save a head; until the last byte of ``head.json`` is there, the folder holds none.

    Raises:
        StorageError: the folder cannot be written.
    """
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
    """Read ``head.json``.

    Raises:
        HeadError: there is none, it cannot be read or contradicts itself, or a newer bertfeat wrote it.
    """
    path = folder / RECORD_NAME
    try:
        record = _FORMAT.read(path)
        if problem := _record_problem(record):
            raise HeadError(f"contradicts itself: {problem}", where=path, remedy=_copy_head_remedy())
    except (FileNotFoundError, NotADirectoryError) as error:
        problem, remedy = f"this is no finished head: it has no {RECORD_NAME}", "bertfeat classify train makes one"
        raise HeadError(problem, where=folder, remedy=remedy) from error
    except (JsonError, UsageError) as error:
        raise HeadError(f"cannot be read ({error})", where=path, remedy=_copy_head_remedy()) from error
    return record


def read_head_weights(folder: Path, record: HeadRecord) -> dict[str, Tensor]:
    """Read the weights that belong to a record, every byte of them.

    Raises:
        HeadError: they are not those that the record describes.
    """
    path = folder / WEIGHTS_NAME
    assert record.network is not None
    try:
        return read_tensors(path, head_forms(record.network), record.weights)
    except (OSError, TensorsError) as error:
        problem = f"these are not the weights of {RECORD_NAME}: {error}"
        raise HeadError(problem, where=path, remedy=_copy_head_remedy()) from error


def check_tuned_weights(folder: Path, record: HeadRecord) -> None:
    """Check that the weights of a fine-tuned model are those that were saved.

    Raises:
        HeadError: they are not.
    """
    path = folder / MODEL_NAME / TUNED_WEIGHTS_NAME
    try:
        same = digest_file(path) == record.weights
    except OSError as error:
        raise HeadError(f"cannot be read ({error})", where=path, remedy=_copy_head_remedy()) from error
    if not same:
        problem = f"these are not the weights that {RECORD_NAME} describes"
        raise HeadError(problem, where=path, remedy=_copy_head_remedy())


def _record_problem(record: HeadRecord) -> str | None:
    """What in a record contradicts the rest, if anything does."""
    if record.approach == "fine-tuned":
        told = record.point is not None and record.weights is not None
        return None if told else "it does not say how it was fine-tuned"
    if record.network is None or record.extraction is None or record.pooling is None or record.weights is None:
        return "it does not say what it reads"
    if record.kind is HeadKind.CLASSIFY and bool(record.outputs.labels) == record.training.regression:
        return "a classifier has either labels or numbers to predict"
    wanted = asdict(record.reads().shape(record.kind, record.training, record.outputs))
    differ = [name for name, value in asdict(record.network).items() if value != wanted[name]]
    return f"its network has another {differ[0]} than follows from the rest" if differ else None


def _copy_head_remedy() -> str:
    again = f"train it again with {parameter('overwrite', True)}"
    return f"copy the whole head again from where it was made, or {again}"


_FORMAT = JsonFormat(HeadRecord, FORMAT_VERSION, error=HeadError, remedy=_copy_head_remedy, digest_from=1)
