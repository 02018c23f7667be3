"""Checkpoints: the state of a training in a sealed file."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import file_digest, sha256
from os import fstat
from pathlib import Path
from typing import Annotated

import torch
from msgspec import Meta
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from bertfeat.errors import TrainingError, parameter
from bertfeat.io import JsonFormat, atomic, open_regular, remove_file, write_json
from bertfeat.learning.schedule import EpochRecord, history_problem
from bertfeat.learning.settings import HeadSettings

# ── sealed tensors ────────────────────────────────────────────────────────────────────────────────────────


_MOST_HEADER = 16 << 20  # bytes of a safetensors file that are no tensor


class TensorsError(ValueError):
    """A file does not hold the expected tensors. The message says why; the caller adds the remedy."""


@dataclass(frozen=True, slots=True)
class FileDigest:
    """The size and digest of a file, as another file records them."""

    bytes: Annotated[int, Meta(ge=0)]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class TensorForm:
    """The shape and type of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @classmethod
    def of(cls, tensor: Tensor) -> "TensorForm":
        """The form of a tensor."""
        return cls(tuple(tensor.shape), tensor.dtype)

    @property
    def bytes(self) -> int:
        """Size of the values."""
        count = self.dtype.itemsize
        for size in self.shape:
            count *= size
        return count

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} of shape {list(self.shape)}"


def digest_file(path: Path) -> FileDigest:
    """The size and digest of a file.

    Raises:
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        digest = file_digest(file, "sha256")
        return FileDigest(fstat(file.fileno()).st_size, digest.hexdigest())


def check_recorded_files(folder: Path, digests: Mapping[str, FileDigest]) -> None:
    """Read every byte of a folder's files and compare it with what was recorded of them, by name.

    Raises:
        TensorsError: names the first file that is missing, or holds something else.
    """
    for name, recorded in digests.items():
        try:
            size = (folder / name).stat().st_size  # first, so that a huge file in its place is not read
            found = digest_file(folder / name) if size == recorded.bytes else FileDigest(size, "")
        except OSError as error:
            raise TensorsError(f"{name} is missing or cannot be read ({error.strerror or error})") from error
        if found.bytes != recorded.bytes:
            raise TensorsError(f"{name} has {found.bytes:,} bytes, and had {recorded.bytes:,} when it was written")
        if found != recorded:
            raise TensorsError(f"{name} was changed after it was written: its sha256 differs")


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> FileDigest:
    """Write tensors under their names, whole or not at all; equal tensors give equal bytes."""
    # not by save_file, which reports a full disk as a mistake in the file
    data = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    with atomic(path) as temporary:
        temporary.write_bytes(data)
    return FileDigest(len(data), sha256(data).hexdigest())


def read_tensors(path: Path, forms: Mapping[str, TensorForm], digest: FileDigest) -> dict[str, Tensor]:
    """Read exactly the tensors of those names and forms; ``digest`` is what the file was recorded to hold."""
    data = _read_payload(path, sum(form.bytes for form in forms.values()), digest)
    try:
        tensors = load(data)
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise TensorsError(f"no safetensors file ({error})") from None
    if lacking := sorted(forms.keys() - tensors.keys()):
        raise TensorsError(f"it lacks {lacking[0]!r}" + _and_more(lacking))
    if strange := sorted(tensors.keys() - forms.keys()):
        raise TensorsError(f"{strange[0]!r} does not belong in it" + _and_more(strange))
    for name, form in forms.items():
        _check_tensor(name, tensors[name], form)
    return tensors


def _read_payload(path: Path, payload: int, digest: FileDigest) -> bytes:
    """Read the file if it has the expected size, so that a huge file in its place does not fill the memory."""
    with open_regular(path) as file:
        size = fstat(file.fileno()).st_size
        if size != digest.bytes:
            raise TensorsError(f"it has {size:,} bytes, and had {digest.bytes:,} when it was written")
        if size > payload + _MOST_HEADER:
            raise TensorsError(f"it has {size:,} bytes, and {payload:,} are what its tensors take")
        data = file.read(size)
    if sha256(data).hexdigest() != digest.sha256:
        raise TensorsError("it is not the file that was written: its sha256 differs")
    return data


def _check_tensor(name: str, tensor: Tensor, form: TensorForm) -> None:
    if TensorForm.of(tensor) != form:
        raise TensorsError(f"{name!r} is {TensorForm.of(tensor)}, and has to be {form}")
    if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
        raise TensorsError(f"{name!r} holds values that are no finite numbers")


def _and_more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if len(names) > 1 else ""


# ── checkpoints ───────────────────────────────────────────────────────────────────────────────────────────


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
    """Write a checkpoint; until its last byte is there, the one before it counts."""
    path = _weights_path(folder, len(history))
    digest = write_tensors(path, tensors)
    write_json(folder / STATE_NAME, Checkpoint(_FORMAT_VERSION, identity, history, digest))
    _remove_weights(folder, but=path)


_FORMAT = JsonFormat(Checkpoint, _FORMAT_VERSION, error=TrainingError, remedy=lambda: _retrain_remedy())


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """Read the description of the last checkpoint; None if there is none."""
    try:
        return _FORMAT.read(folder / STATE_NAME)
    except (FileNotFoundError, NotADirectoryError):
        return None


def restore(
    folder: Path,
    checkpoint: Checkpoint,
    settings: HeadSettings,
    network: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> dict[str, Tensor]:
    """Put a network and its optimizer back into the state of a checkpoint; returns the best weights."""
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
