"""Checkpoints: the history and the tensors of a training, with their digest."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from msgspec import Meta
from safetensors.torch import load, save
from torch import Tensor, nn

from bertfeat.errors import TrainingError, parameter
from bertfeat.io import (
    FileDigest,
    JsonFormat,
    atomic,
    digest_file,
    remove_file,
    write_json,
)
from bertfeat.learning.schedule import EpochRecord

# ── sealed tensors ────────────────────────────────────────────────────────────────────────────────────────


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> FileDigest:
    """Write tensors under their names, whole or not at all; equal tensors give equal bytes."""
    # not by save_file, which reports a full disk as a mistake in the file
    data = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    with atomic(path) as temporary:
        temporary.write_bytes(data)
        return digest_file(temporary)


# ── checkpoints ───────────────────────────────────────────────────────────────────────────────────────────


STATE_NAME = "checkpoint.json"
_FORMAT_VERSION = 1


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
    """Write a checkpoint; until its last byte is there, the one before it counts."""
    path = _weights_path(folder, len(history))
    digest = write_tensors(path, tensors)
    write_json(folder / STATE_NAME, Checkpoint(_FORMAT_VERSION, identity, history, digest))
    _remove_weights(folder, but=path)


_FORMAT = JsonFormat(Checkpoint, _FORMAT_VERSION, error=TrainingError, remedy=lambda: _retrain_remedy())


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Read the description of the last checkpoint; None if there is none."""
    return _FORMAT.read(folder / STATE_NAME)


def restore(
    folder: Path, checkpoint: Checkpoint, network: nn.Module, optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Put a network and its optimizer back into the state of a checkpoint; returns the best weights."""
    path = _weights_path(folder, len(checkpoint.history))
    _FORMAT.check_files(folder, {path.name: checkpoint.weights}, "this is not the state of this training")
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


def _retrain_remedy() -> str:
    return f"train anew with {parameter('overwrite', True)}"


def _weights_path(folder: Path, epochs: int) -> Path:
    """The name follows from the number of epochs, so that no file can name another one."""
    return folder / f"checkpoint-{epochs}.safetensors"


def _remove_weights(folder: Path, but: Path | None = None) -> None:
    for path in folder.glob("checkpoint-*.safetensors"):
        if path != but:
            remove_file(path)
