"""Result folders: held by one run at a time, and their pictures."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bertfeat.errors import BertfeatError, StorageError, parameter
from bertfeat.io import (
    STATE_FOLDER,
    ResultKind,
    claim_folder,
    folder_lock,
    releasing_if_failed,
    result_kind,
    storage_errors,
)

# ── locks ─────────────────────────────────────────────────────────────────────────────────────────────────


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
            names = set(os.listdir(folder)) - _HARMLESS.get(kind, set())
        foreign = sorted(name for name in names if not name.startswith("."))
        if foreign:
            remedy = f"name another folder with {parameter('folder')}, or an empty one"
            raise StorageError(f"{folder} holds {foreign[0]!r} and is not {kind.noun}", remedy=remedy)


def _remove_half_written(folder: Path) -> None:
    """Remove the temporary files of :func:`bertfeat.io.atomic`, whose writers are dead."""
    with storage_errors(folder):
        for pattern in _HALF_WRITTEN:
            for path in folder.glob(pattern):
                path.unlink(missing_ok=True)


_HARMLESS = {
    ResultKind.TABLE7: {"features"},
    ResultKind.HEAD: {"features"},
}  # which may be in the folder before the first run

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


# ── pictures ──────────────────────────────────────────────────────────────────────────────────────────────


def draw_if_possible(draw: Callable[[], object]) -> tuple[str, ...]:
    """Draw a picture; returns a warning if something that it needs is missing.

    Raises:
        StorageError: the file cannot be written.
    """
    try:
        draw()
    except StorageError:
        raise
    except BertfeatError as error:
        return (f"no picture: {error}",)
    return ()
