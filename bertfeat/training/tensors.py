"""Tensors in safetensors files: written whole or not at all, and checked against their recorded form when read."""

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
from torch import Tensor

from bertfeat.io import atomic, open_regular

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
    """Write tensors under their names, whole or not at all; equal tensors give equal bytes.

    Raises:
        StorageError: the folder cannot be written.
    """
    # not by save_file, which reports a full disk as a mistake in the file
    data = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()})
    with atomic(path) as temporary:
        temporary.write_bytes(data)
    return FileDigest(len(data), sha256(data).hexdigest())


def read_tensors(path: Path, forms: Mapping[str, TensorForm], digest: FileDigest) -> dict[str, Tensor]:
    """Read exactly the tensors of those names and forms; ``digest`` is what the file was recorded to hold.

    Raises:
        TensorsError: it holds something else, or a value that is no finite number.
        OSError: it cannot be read.
    """
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
