"""The folder of a head: a checkpoint while it is trained; then its weights, or a fine-tuned model, and ``head.json``.

``head.json`` describes the other files, with their digests, and is written last.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
from msgspec import Meta
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from bertfeat.arguments import checked
from bertfeat.core import Model
from bertfeat.display import displayed
from bertfeat.errors import HeadError, TrainingError, UsageError, parameter
from bertfeat.io import (
    FileDigest,
    JsonFormat,
    atomic,
    digest_file,
    explain_absence,
    remove_file,
    storage_errors,
    sync,
    write_json,
)
from bertfeat.learning.inputs import FeaturesState, features_state
from bertfeat.learning.kinds import HeadKind
from bertfeat.learning.networks import HeadNetwork
from bertfeat.learning.record import HeadRecord
from bertfeat.learning.schedule import EpochRecord
from bertfeat.learning.task import HeadScores
from bertfeat.learning.tasks import task_of
from bertfeat.learning.trainer import FineTuned
from bertfeat.study import ChosenLayers

# ── saved heads ─────────────────────────────────────────────────────────────────────────────────────────────


FORMAT_VERSION = 1
"""Version of the format of heads that this bertfeat writes; newer ones are refused."""

_RECORD_NAME = "head.json"
_WEIGHTS_NAME = "head.safetensors"
MODEL_NAME = "model"  # folder of a fine-tuned model
PICTURE_NAME = "curves.png"


@displayed
@dataclass(frozen=True, slots=True)
class HeadReport:
    """The result of training a head."""

    folder: Path
    record: HeadRecord
    scores: HeadScores | None  # on the development set; None where the head had been trained already
    seconds: float
    resumed: int = 0  # epochs that an earlier run had done
    warnings: tuple[str, ...] = ()
    failed: int = 0  # rows of the corpora that could not be read or embedded
    choice: ChosenLayers | None = None  # of the layers, where several were given


def write_head(folder: Path, record: HeadRecord, tensors: Mapping[str, Tensor] | None) -> HeadRecord:
    """Save a head; until the last byte of ``head.json`` is there, the folder holds none."""
    if tensors is not None:
        record = replace(record, weights=_write_tensors(folder / _WEIGHTS_NAME, tensors))
    write_json(folder / _RECORD_NAME, record)
    return record


def remove_head(folder: Path) -> None:
    """Remove a saved head, its record first: without it the folder holds no head."""
    for name in (_RECORD_NAME, _WEIGHTS_NAME, PICTURE_NAME):
        remove_file(folder / name)
    with storage_errors(folder):
        shutil.rmtree(folder / MODEL_NAME, ignore_errors=True)


def has_head(folder: Path) -> bool:
    """Whether a folder holds a finished head, sound or not."""
    return (folder / _RECORD_NAME).exists()


def read_head_record(folder: Path) -> HeadRecord:
    """Read ``head.json``."""
    path = folder / _RECORD_NAME
    record = _FORMAT.read(path)
    if record is None:
        problem = f"this is no finished head: it has no {_RECORD_NAME}"
        problem, remedy = explain_absence(folder, problem, "bertfeat classify train makes one")
        raise HeadError(problem, where=folder, remedy=remedy)
    try:
        task_of(record.kind, record.training.task)
    except UsageError as error:  # the task comes from a package that is not installed
        raise HeadError(f"cannot be read ({error})", where=path, remedy=_copy_head_remedy()) from error
    return record


def read_head_weights(folder: Path, record: HeadRecord) -> dict[str, Tensor]:
    """Read the weights that belong to a record, and check every byte of them against its digest."""
    assert record.network is not None
    assert record.weights is not None
    problem = f"these are not the weights of {_RECORD_NAME}"
    _FORMAT.check_files(folder, {_WEIGHTS_NAME: record.weights}, problem)
    try:
        tensors = load((folder / _WEIGHTS_NAME).read_bytes())
    except SafetensorError as error:
        raise HeadError(f"{problem}: {error}", where=folder, remedy=_copy_head_remedy()) from error
    with torch.device("meta"):  # takes no memory, however large the recorded shape is
        network = HeadNetwork(record.network).state_dict()
    if _kinds(tensors) != _kinds(network):
        raise HeadError(f"{problem}: they do not fit its network", where=folder, remedy=_copy_head_remedy())
    return tensors


def _kinds(tensors: Mapping[str, Tensor]) -> dict[str, tuple[torch.Size, torch.dtype]]:
    """The shape and the format of each tensor."""
    return {name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()}


def save_tuned_model(folder: Path, model: Model, tuned: FineTuned) -> dict[str, FileDigest]:
    """Save a fine-tuned model in place of an unfinished one, sync its files to disk, and return their digests."""
    place = folder / MODEL_NAME
    with storage_errors(folder):
        shutil.rmtree(place, ignore_errors=True)  # another model may have left files that this one does not replace
        tuned.save(model, place)
        files = sorted(path for path in place.iterdir() if path.is_file())
        for path in files:
            sync(path)
        return {path.name: digest_file(path) for path in files}


def check_tuned_model(folder: Path, record: HeadRecord) -> None:
    """Check that the files of a fine-tuned model are those that were saved."""
    problem = f"this is not the model that {_RECORD_NAME} describes"
    _FORMAT.check_files(folder / MODEL_NAME, record.files or {}, problem)


def _copy_head_remedy() -> str:
    again = f"train it again with {parameter('overwrite', True)}"
    return f"copy the whole head again from where it was made, or {again}"


_FORMAT = JsonFormat(HeadRecord, FORMAT_VERSION, error=HeadError, remedy=_copy_head_remedy)


def _write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> FileDigest:
    """Write tensors under their names, whole or not at all; equal tensors give equal bytes."""
    # not by save_file, which reports a full disk as a mistake in the file
    data = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    with atomic(path) as temporary:
        temporary.write_bytes(data)
        return digest_file(temporary)


# ── checkpoints ─────────────────────────────────────────────────────────────────────────────────────────────


STATE_NAME = "checkpoint.json"
_CHECKPOINT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The progress of a training; :func:`training_tensors` has its tensors."""

    format_version: int
    identity: Mapping[str, object]
    history: Annotated[tuple[EpochRecord, ...], Meta(min_length=1)]
    weights: FileDigest


def training_tensors(
    network: nn.Module, best: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Weights, best weights and the optimizer's moments under names of their own."""
    moments = optimizer.state_dict()["state"]
    return {
        **{f"now.{name}": tensor for name, tensor in network.state_dict().items()},
        **{f"best.{name}": tensor for name, tensor in best.items()},
        **{f"optimizer.{at}.{name}": value for at, state in moments.items() for name, value in state.items()},
    }


def write_checkpoint(
    folder: Path, identity: Mapping[str, object], history: tuple[EpochRecord, ...], tensors: Mapping[str, Tensor]
) -> None:
    """Write a checkpoint; until it is complete, the previous one remains valid."""
    path = _weights_path(folder, len(history))
    digest = _write_tensors(path, tensors)
    write_json(folder / STATE_NAME, Checkpoint(_CHECKPOINT_VERSION, identity, history, digest))
    _remove_weights(folder, but=path)


_CHECKPOINT_FORMAT = JsonFormat(
    Checkpoint,
    _CHECKPOINT_VERSION,
    error=TrainingError,
    remedy=lambda: f"train anew with {parameter('overwrite', True)}",
)


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Read the description of the last checkpoint; None if there is none."""
    return _CHECKPOINT_FORMAT.read(folder / STATE_NAME)


def restore(
    folder: Path, checkpoint: Checkpoint, network: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Put a network and its optimizer back into the state of a checkpoint; returns the best weights.

    Tensors are called ``now.WEIGHT``, ``best.WEIGHT`` and ``optimizer.PARAMETER.MOMENT``.
    """
    path = _weights_path(folder, len(checkpoint.history))
    _CHECKPOINT_FORMAT.check_files(folder, {path.name: checkpoint.weights}, "this is not the state of this training")
    groups: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}, "optimizer": {}}
    for name, tensor in load(path.read_bytes()).items():
        kind, _, rest = name.partition(".")
        groups[kind][rest] = tensor
    network.load_state_dict(groups["now"])
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in groups["optimizer"].items():
        at, _, moment = name.partition(".")
        moments.setdefault(int(at), {})[moment] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    return groups["best"]


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a training that is done."""
    remove_file(folder / STATE_NAME)
    _remove_weights(folder)


def _weights_path(folder: Path, epochs: int) -> Path:
    """The file of a checkpoint's tensors; its name follows from the epochs, so that no record can point elsewhere."""
    return folder / f"checkpoint-{epochs}.safetensors"


def _remove_weights(folder: Path, but: Path | None = None) -> None:
    for path in folder.glob("checkpoint-*.safetensors"):
        if path != but:
            remove_file(path)


# ── verification ────────────────────────────────────────────────────────────────────────────────────────────


@displayed
@dataclass(frozen=True, slots=True)
class HeadVerifyReport:
    """A sound head: what was read, and the state of its features."""

    folder: Path
    format_version: int
    head: HeadKind
    bytes: int  # that were read
    tensors: int
    labels: int
    epochs: int
    features: Mapping[str, FeaturesState]  # of train and dev; those that changed do not make the head unsound


@checked
def verify_head(folder: str | Path) -> HeadVerifyReport:
    """Read every byte of a head, or of a fine-tuned model, and compare it with the recorded digests.

    The features that it was trained on are looked for in their recorded places.

    Raises:
        HeadError: there is no finished head, or a file of it was changed since.
    """
    folder = Path(folder)
    record = read_head_record(folder)
    places, tensors, names = record.places or {}, 0, [_RECORD_NAME]
    if record.network is None:  # it was fine-tuned on texts
        check_tuned_model(folder, record)
        names += [f"{MODEL_NAME}/{name}" for name in record.files or {}]
    else:
        tensors = len(read_head_weights(folder, record))
        names.append(_WEIGHTS_NAME)
    return HeadVerifyReport(
        folder=folder,
        format_version=record.format_version,
        head=record.kind,
        bytes=sum((folder / name).stat().st_size for name in names),
        tensors=tensors,
        labels=len(record.outputs.labels),
        epochs=len(record.history),
        features={name: features_state(folder, listed, record.data[name]) for name, listed in places.items()},
    )
