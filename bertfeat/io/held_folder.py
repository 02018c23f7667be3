"""A result folder that one run holds, from before its first file until it is done."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bertfeat.errors import StorageError, parameter
from bertfeat.io.atomic import storage_errors
from bertfeat.io.lock import folder_lock
from bertfeat.io.result_folder import STATE_FOLDER, ResultKind, claim_folder, releasing_if_failed, result_kind

_FEATURES = "features"  # of corpora, in folders of heads and tables; it may be there before the first run

_HALF_WRITTEN = (
    ".head.*.tmp",
    ".checkpoint*.tmp",
    ".curves.*.tmp",
    "._settings.json.tmp",
    ".table7.*.tmp",
    ".pretraining.*.tmp",
    "runs/*/.*.json.tmp",
    f"{STATE_FOLDER}/.kind.*.tmp",
)
"""Temporary files of :func:`bertfeat.io.atomic` in folders of heads, tables and models."""


@contextmanager
def hold_result_folder(folder: Path, kind: ResultKind) -> Iterator[None]:
    """Hold a folder, made if need be, for results of that kind; everything read and written in it goes inside.

    Temporary files of a killed run are removed. When the block fails and nothing was written, the folder is as it was
    before: not there, or without a marker.

    Raises:
        FolderLockedError: another run is at work on the folder.
        StorageError: it holds something else, or cannot be written.
    """
    with releasing_if_failed(folder), folder_lock(folder):
        _refuse_other_files(folder, kind)
        claim_folder(folder, kind)
        _remove_half_written(folder)
        yield


def _refuse_other_files(folder: Path, kind: ResultKind) -> None:
    """Refuse a folder with files of others, which a run might take for its own and replace or remove."""
    if result_kind(folder) is None:
        with storage_errors(folder):
            names = sorted(os.listdir(folder))
        allowed = _FEATURES if kind in (ResultKind.HEAD, ResultKind.TABLE7) else None
        foreign = [name for name in names if not name.startswith(".") and name != allowed]
        if foreign:
            remedy = f"name another folder with {parameter('folder')}, or an empty one"
            raise StorageError(f"{folder} holds {foreign[0]!r} and is not {kind.noun}", remedy=remedy)


def _remove_half_written(folder: Path) -> None:
    """Remove the temporary files of :func:`bertfeat.io.atomic`, whose writers are dead."""
    with storage_errors(folder):
        for pattern in _HALF_WRITTEN:
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)
