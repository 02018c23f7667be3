"""The state of a training between two epochs: one safetensors file, and the JSON that says what it holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
from msgspec import Meta
from torch import Tensor, nn

from bertfeat.errors import TrainingError, parameter
from bertfeat.io import JsonFormat, remove_file, write_json
from bertfeat.training.schedule import EpochRecord, history_problem
from bertfeat.training.settings import LoopSettings
from bertfeat.training.tensors import FileDigest, TensorForm, TensorsError, read_tensors, write_tensors

STATE_NAME = "checkpoint.json"
_FORMAT_VERSION = 1
_MOMENTS = ("exp_avg", "exp_avg_sq")


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
    """Write a checkpoint; until its last byte is there, the one before it counts.

    Raises:
        StorageError: the folder cannot be written.
    """
    path = _weights_path(folder, len(history))
    digest = write_tensors(path, tensors)
    write_json(folder / STATE_NAME, Checkpoint(_FORMAT_VERSION, identity, history, digest))
    _remove_weights(folder, but=path)


_FORMAT = JsonFormat(Checkpoint, _FORMAT_VERSION, error=TrainingError, remedy=lambda: _retrain_remedy())


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Read the description of the last checkpoint; None if there is none.

    Raises:
        TrainingError: it cannot be read, or a newer bertfeat wrote it.
    """
    try:
        return _FORMAT.read(folder / STATE_NAME)
    except (FileNotFoundError, NotADirectoryError):
        return None


def restore(
    folder: Path,
    checkpoint: Checkpoint,
    settings: LoopSettings,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> dict[str, Tensor]:
    """Put a network and its optimizer back into the state of a checkpoint; returns the best weights.

    Raises:
        TrainingError: its history is none of a training with those settings.
        TrainingError: the tensors are not those of this network, or not those that were written.
    """
    if problem := history_problem(checkpoint.history, settings):
        raise TrainingError(f"contradicts itself: {problem}", where=folder / STATE_NAME, remedy=_retrain_remedy())
    path = _weights_path(folder, len(checkpoint.history))
    try:
        tensors = read_tensors(path, _forms(network), checkpoint.weights)
    except (OSError, TensorsError) as error:
        raise TrainingError(
            f"cannot be read as the state of this training ({error})", where=path, remedy=_retrain_remedy()
        ) from error
    groups: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}, "optimizer": {}}
    for name, tensor in tensors.items():
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


def _forms(network: nn.Module) -> dict[str, TensorForm]:
    """The tensors of a checkpoint: those of :func:`training_tensors` after the first epoch."""
    weights = {name: TensorForm.of(tensor) for name, tensor in network.state_dict().items()}
    forms = {f"{kind}.{name}": form for kind in ("now", "best") for name, form in weights.items()}
    for at, weight in enumerate(network.parameters()):
        forms |= {f"optimizer.{at}.{moment}": TensorForm.of(weight) for moment in _MOMENTS}
        forms[f"optimizer.{at}.step"] = TensorForm((), torch.float32)
    return forms
