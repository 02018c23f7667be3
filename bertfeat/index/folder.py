"""The folder of an index: it appears whole or not at all, and says when a file of it is not what was written."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from bertfeat.errors import FolderLocked, IndexFolderError
from bertfeat.features import FeatureSet, locked
from bertfeat.features.files import writing
from bertfeat.index.engine import LISTS_NAME
from bertfeat.index.settings import SETTINGS_NAME, FileState, IndexSettings, SourceSet, read_settings, write_settings
from bertfeat.index.store import DOCUMENTS_NAME, PIECES_NAME

FAISS_NAME = "index.faiss"
REMOVED_NAME = "removed.npy"
_NAMES = {FAISS_NAME, LISTS_NAME, DOCUMENTS_NAME, PIECES_NAME, REMOVED_NAME, SETTINGS_NAME}


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give an empty folder to build in; when the block is done it takes the place of ``folder``.

    Killed at any moment, the old index stays (or comes back when it is opened next). What a killed build left
    behind is removed by the next one.

    Raises:
        IndexFolderError: ``folder`` holds something that is no index.
        FolderLocked: another build is at work on it.
        FeatureSetError: the folder cannot be written.
    """
    folder = folder.absolute()
    recover(folder)
    _refuse_foreign(folder)
    work = _work_folder(folder)
    try:
        with locked(work), writing(folder.parent):
            fresh = work / "new"
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir()
            try:
                yield fresh
                _exchange(folder, fresh, work / "old")
            finally:
                shutil.rmtree(fresh, ignore_errors=True)
                if folder.exists():
                    shutil.rmtree(work / "old", ignore_errors=True)
    finally:
        with suppress(OSError):  # the next build is using it already
            work.rmdir()


def recover(folder: Path) -> None:
    """Put the old index back where a build was killed between moving it away and moving the new one in."""
    work = _work_folder(folder.absolute())
    if folder.exists() or not (work / "old").is_dir():
        return
    with suppress(FolderLocked), locked(work):  # locked: it is being moved in at this moment
        os.rename(work / "old", folder)


def finish(settings: IndexSettings, folder: Path) -> IndexSettings:
    """Record every file's size and checksum, write ``index.json``, and bring all of it onto the disk."""
    paths = [path for path in sorted(folder.iterdir()) if path.name != SETTINGS_NAME]
    settings = replace(settings, files={path.name: _state(path) for path in paths})
    write_settings(settings, folder)
    for path in (*paths, folder / SETTINGS_NAME, folder):
        _sync(path)
    return settings


def open_folder(folder: Path) -> IndexSettings:
    """Read the settings and see that every file is there in the size in which it was written.

    Raises:
        IndexFolderError: it is no index, or a file is missing or of another size.
    """
    recover(folder)
    settings = read_settings(folder)
    for name, state in settings.files.items():
        path = folder / name
        if not path.is_file():
            raise IndexFolderError(f"{path} is missing; copy the whole folder, or build the index again")
        if (size := path.stat().st_size) != state.bytes:
            raise IndexFolderError(
                f"{path} has {size:,} bytes, but {state.bytes:,} were written: it was cut off or replaced; "
                f"build the index again"
            )
    return settings


def check_folder(folder: Path) -> IndexSettings:
    """Read every file against its checksum.

    Raises:
        IndexFolderError: a file is not what was written.
    """
    settings = open_folder(folder)
    for name, state in settings.files.items():
        if _state(folder / name) != state:
            raise IndexFolderError(f"{folder / name} was changed after it was written; build the index again")
    return settings


def source_of(features: FeatureSet) -> SourceSet:
    """What an index remembers of a feature set."""
    digest = hashlib.sha256()
    for entry in features.entries:
        digest.update(f"{entry.name} {entry.sha256}\n".encode())
    return SourceSet(str(features.folder.absolute()), len(features), digest.hexdigest())


def check_sources(settings: IndexSettings, folder: Path) -> None:
    """See that the feature sets, where they still are in their places, are those that the index was made from.

    Raises:
        IndexFolderError: one was changed since.
    """
    for source in settings.sources:
        if not Path(source.path).is_dir():
            continue
        features = FeatureSet(source.path)
        if source_of(features).digest != source.digest:
            raise IndexFolderError(
                f"{source.path} changed since the index {folder} was made from it ({source.documents:,} documents "
                f"then, {len(features):,} now); build it again: bertfeat index {source.path} -o {folder}"
            )


def _work_folder(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.building")


def _refuse_foreign(folder: Path) -> None:
    """A folder is only ever replaced if it is an index, or empty."""
    if not folder.exists():
        return
    strangers = {path.name for path in folder.iterdir()} - _NAMES if folder.is_dir() else {folder.name}
    if strangers:
        raise IndexFolderError(f"{folder}: {min(strangers)} is no file of an index; choose another folder with -o")


def _exchange(folder: Path, fresh: Path, old: Path) -> None:
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.rename(folder, old)
    os.rename(fresh, folder)
    _sync(folder.parent)


def _state(path: Path) -> FileState:
    with path.open("rb") as file:
        return FileState(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
