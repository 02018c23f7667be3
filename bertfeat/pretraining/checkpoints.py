"""The checkpoints of a training: folders that transformers' Trainer writes, and a file that is written last.

The Trainer itself would go on from any folder that is there. One without that file was left half written by a run that
was killed, and is removed; the file has the digests of the others, so that one that changed later is noticed.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bertfeat.errors import PretrainingError
from bertfeat.io import (
    FileDigest,
    JsonFormat,
    digest_file,
    storage_errors,
    sync,
    write_json,
)
from bertfeat.pretraining.result_files import anew_remedy

_FORMAT_VERSION = 1
_SEAL = "sealed.json"


@dataclass(frozen=True, slots=True)
class _Seal:
    format_version: int
    seconds: float
    files: Mapping[str, FileDigest]  # by name


@dataclass(frozen=True, slots=True)
class SealedCheckpoint:
    """A checkpoint that is whole."""

    folder: Path
    seconds: float  # of training up to it


_FORMAT = JsonFormat(_Seal, _FORMAT_VERSION, error=PretrainingError, remedy=anew_remedy)


def seal_checkpoint(folder: Path, seconds: float) -> None:
    """Bring a checkpoint that the Trainer has written onto the disk, seal it, and remove those before it."""
    with storage_errors(folder):
        files = sorted(path for path in folder.iterdir() if path.is_file())
        for path in files:
            sync(path)
        digests = {path.name: digest_file(path) for path in files}
    write_json(folder / _SEAL, _Seal(_FORMAT_VERSION, seconds, digests))
    for other in folder.parent.glob("checkpoint-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)


def newest_checkpoint(folder: Path) -> SealedCheckpoint | None:
    """The newest whole checkpoint in a folder, None where there is none; half-written ones are removed."""
    for checkpoint in sorted(folder.glob("checkpoint-*"), key=_by_step, reverse=True):
        seal = _FORMAT.read(checkpoint / _SEAL)
        if seal is None:
            shutil.rmtree(checkpoint, ignore_errors=True)
            continue
        _FORMAT.check_files(checkpoint, seal.files, "this checkpoint is not as it was written")
        return SealedCheckpoint(checkpoint, seal.seconds)
    return None


def _by_step(checkpoint: Path) -> tuple[int, str]:
    """The key that sorts checkpoints by their steps: of two numbers the longer one is greater."""
    return len(checkpoint.name), checkpoint.name
