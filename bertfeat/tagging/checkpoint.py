"""The state of a training between two epochs: one safetensors file and the JSON that names it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from bertfeat.errors import TaggerError
from bertfeat.features.files import atomic, remove

STATE_NAME = "checkpoint.json"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a training has come."""

    identity: Mapping[str, Any]  # settings and data of the training, that another one is refused by
    progress: Mapping[str, Any]  # epochs, scores, learning rate
    tensors: Mapping[str, Tensor]


def training_tensors(
    network: nn.Module, best: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Weights, best weights and the optimizer's moments under names of their own."""
    moments = optimizer.state_dict()["state"]
    return {
        **{f"now.{name}": tensor.contiguous() for name, tensor in network.state_dict().items()},
        **{f"best.{name}": tensor.contiguous() for name, tensor in best.items()},
        **{f"optimizer.{at}.{name}": value for at, state in moments.items() for name, value in state.items()},
    }


def restore(checkpoint: Checkpoint, network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Put a network and its optimizer back into the state of a checkpoint; returns the best weights."""
    groups: dict[str, dict[str, Tensor]] = {"now": {}, "best": {}, "optimizer": {}}
    for name, tensor in checkpoint.tensors.items():
        kind, _, rest = name.partition(".")
        groups[kind][rest] = tensor
    network.load_state_dict(groups["now"])
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in groups["optimizer"].items():
        at, _, moment = name.partition(".")
        moments.setdefault(int(at), {})[moment] = tensor
    optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
    return groups["best"]


def write_checkpoint(folder: Path, checkpoint: Checkpoint, epoch: int) -> None:
    """Write a checkpoint; until its last byte is there, the one before it counts."""
    weights = folder / f"checkpoint-{epoch}.safetensors"
    with atomic(weights) as temporary:
        save_file(dict(checkpoint.tensors), temporary)
    state = {"weights": weights.name, "identity": checkpoint.identity, "progress": checkpoint.progress}
    with atomic(folder / STATE_NAME) as temporary:
        temporary.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
    for path in folder.glob("checkpoint-*.safetensors"):
        if path != weights:
            remove(path)


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Read the last checkpoint; None where there is none.

    Raises:
        TaggerError: it cannot be read.
    """
    path = folder / STATE_NAME
    if not path.exists():
        return None
    try:
        state = json.loads(path.read_bytes())
        return Checkpoint(state["identity"], state["progress"], load_file(folder / state["weights"]))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise TaggerError(f"{path}: cannot be read ({error!r}); train anew with --overwrite") from error


def remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a training that is done."""
    remove(folder / STATE_NAME)
    for path in folder.glob("checkpoint-*.safetensors"):
        remove(path)
