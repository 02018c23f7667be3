"""The checkpoints of a training: folders that transformers' Trainer writes, and a file that is written last.

A folder without that file was left half written by a run that was killed, and is removed. The file has the digests of
the others, so that one that changed later is noticed.
"""

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bertfeat.errors import PretrainingError, parameter
from bertfeat.io import JsonFormat, storage_errors, sync, write_json
from bertfeat.pretraining.report import HistoryPoint
from bertfeat.training import digest_file

_FORMAT_VERSION = 1
_SEAL = "sealed.json"


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """What a training has behind it, beside its weights."""

    step: int
    seconds: float
    tokens: int
    history: tuple[HistoryPoint, ...]


@dataclass(frozen=True, slots=True)
class _Seal:
    format_version: int
    progress: TrainingProgress
    files: Mapping[str, str]  # sha256 by name


@dataclass(frozen=True, slots=True)
class SealedCheckpoint:
    """A checkpoint that is whole."""

    folder: Path
    progress: TrainingProgress


_FORMAT = JsonFormat(_Seal, _FORMAT_VERSION, error=PretrainingError, remedy=lambda: _start_anew(), digest_from=0)


def seal_checkpoint(folder: Path, progress: TrainingProgress) -> None:
    """Bring a checkpoint that the Trainer has written onto the disk, seal it, and remove those before it.

    Raises:
        StorageError: the folder cannot be written.
    """
    with storage_errors(folder):
        files = sorted(path for path in folder.iterdir() if path.is_file())
        for path in files:
            sync(path)
        digests = {path.name: digest_file(path).sha256 for path in files}
    write_json(folder / _SEAL, _Seal(_FORMAT_VERSION, progress, digests))
    for other in _folders(folder.parent):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)


def newest_checkpoint(folder: Path) -> SealedCheckpoint | None:
    """The newest whole checkpoint in a folder, None where there is none; half-written ones are removed.

    Raises:
        PretrainingError: a checkpoint was changed after it was sealed.
    """
    for checkpoint in sorted(_folders(folder), key=_step, reverse=True):
        try:
            seal = _FORMAT.read(checkpoint / _SEAL)
        except (FileNotFoundError, NotADirectoryError):
            shutil.rmtree(checkpoint, ignore_errors=True)
            continue
        _check_sealed_files(checkpoint, seal.files)
        return SealedCheckpoint(checkpoint, seal.progress)
    return None


def _check_sealed_files(checkpoint: Path, digests: Mapping[str, str]) -> None:
    for name, digest in digests.items():
        try:
            sound = digest_file(checkpoint / name).sha256 == digest
        except OSError:
            sound = False
        if not sound:
            problem = "this file of a checkpoint was changed or lost after it was written"
            raise PretrainingError(problem, where=checkpoint / name, remedy=_start_anew())


def _folders(folder: Path) -> list[Path]:
    return [path for path in folder.glob("checkpoint-*") if path.is_dir() and _STEP.search(path.name)]


def _step(folder: Path) -> int:
    match = _STEP.search(folder.name)
    return int(match[1]) if match else 0


_STEP = re.compile(r"-(\d+)$")


def _start_anew() -> str:
    return f"train anew with {parameter('overwrite', True)}"
