"""The result folders that bertfeat writes, and how they are recognized: each has a folder ``.bertfeat`` inside.

It holds a marker with the kind of the result, the lock of a run that is at work, and files that only bertfeat reads.
Parquet readers that take all files of a folder (DuckDB, pandas, Spark, Hugging Face datasets) do not look into it;
polars looks into every subfolder, hidden or not, and needs a pattern for the parts.

In object storage a folder is only a common beginning of file names, so none has to be made.
"""

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TypeVar

from bertfeat.errors import StorageError, did_you_mean, parameter
from bertfeat.io.json_file import JsonError, decode_json
from bertfeat.io.output import storage_errors
from bertfeat.io.storage.address import Address, Location
from bertfeat.io.storage.files import open_file, put_file, read_file, remove_stored, store_of

STATE_FOLDER = ".bertfeat"
_MARKER = "kind"
_PART_KEY = b"\x18\x08bertfeat\x18"  # in the footer of every part: the key, and the beginning of its value, in Thrift
_MOST_FOOTER = 1 << 30  # bytes of a footer that are read at most
_MOST_NAMES = 1000  # names by which the content of a folder in object storage is recognized: those of one request


Place = TypeVar("Place", Path, Address, Location)
"""A path or an address; a function that takes one gives back the same kind."""


class ResultKind(StrEnum):
    """The kind of result that a folder holds."""

    FEATURES = "features"
    INDEX = "index"
    TABLE7 = "table7"
    HEAD = "head"
    MODEL = "model"

    @property
    def noun(self) -> str:
        """The name of the kind in messages."""
        nouns = {"features": "a feature set", "index": "an index"}
        nouns |= {"head": "a head", "model": "a model"}
        return nouns.get(self, "a Table 7")


def explain_absence(folder: Location, problem: str, remedy: str) -> tuple[str, str]:
    """The problem and remedy for a place without a result: a missing folder and a similar name, or those given."""
    if isinstance(folder, Address) or os.path.lexists(folder):
        return problem, remedy
    beside = [str(path) for path in folder.parent.glob("*") if path.is_dir()]
    return "there is no such folder", did_you_mean(str(folder), beside).rstrip() or remedy


def make_state_folder(folder: Place) -> Place:
    """Make the folder ``.bertfeat`` of a result folder, which is made too, and return it.

    Raises:
        StorageError: it cannot be made, or something else has its name.
    """
    if isinstance(folder, Address):
        return folder / STATE_FOLDER
    state = folder / STATE_FOLDER
    with storage_errors(folder):
        state.mkdir(parents=True, exist_ok=True)
        if not stat.S_ISDIR(os.lstat(state).st_mode):  # nothing is written through a link in its place
            raise NotADirectoryError(20, os.strerror(20), str(state))
    return state


def refuse_other_kind(folder: Location, kind: ResultKind) -> None:
    """Refuse a folder that holds another kind of result.

    Raises:
        StorageError: names what it holds.
    """
    existing = result_kind(folder)
    if existing is not None and existing is not kind:
        remedy = f"name another folder with {parameter('folder')}"
        raise StorageError(f"{folder} holds {existing.noun}", remedy=remedy)


def claim_folder(folder: Location, kind: ResultKind) -> None:
    """Mark a folder with the kind of result that it is to hold, before anything else is written into it.

    Raises:
        StorageError: it holds another kind of result, or cannot be written.
    """
    refuse_other_kind(folder, kind)
    marker = make_state_folder(folder) / _MARKER
    put_file(marker, f"{kind}\n".encode("ascii"), if_absent=True)


@contextmanager
def releasing_if_failed(folder: Location) -> Iterator[None]:
    """Leave a folder as it was when the block fails before anything is written: not there, or without a marker.

    The lock is taken inside the block, as it makes the folder. At an address others may have claimed the folder
    meanwhile, so a marker stays there.
    """
    before: set[str] | None = None
    if isinstance(folder, Path):
        with suppress(OSError):  # the block raises the error of a folder that cannot be read
            before = set() if folder.exists() else None
            before = set(os.listdir(folder))
    try:
        yield
    except BaseException:
        if isinstance(folder, Path) and (before is None or STATE_FOLDER not in before):
            release_folder(folder, before)
        raise


def release_folder(folder: Location, before: Collection[str] | None = None) -> None:
    """Remove a claimed folder into which nothing was written; any other stays as it is.

    ``before`` are the names that were in it when it was claimed; None if it did not exist. A folder that existed stays.
    """
    if isinstance(folder, Address):
        with suppress(StorageError):
            if first_names(folder) <= {f"{STATE_FOLDER}/{_MARKER}"}:
                remove_stored(folder / STATE_FOLDER / _MARKER)
        return
    with suppress(OSError):
        written = set(os.listdir(folder)) - {STATE_FOLDER} - set(before or ())
        if not written and set(os.listdir(folder / STATE_FOLDER)) <= {_MARKER}:
            (folder / STATE_FOLDER / _MARKER).unlink(missing_ok=True)
            (folder / STATE_FOLDER).rmdir()
    if before is None:
        with suppress(OSError):
            folder.rmdir()


def result_kind(folder: Location) -> ResultKind | None:
    """The kind of result that a folder holds, finished or not; None for any other folder.

    It is recognized by its marker, or else by its content, since copies may lack the marker.

    Raises:
        StorageError: object storage that cannot be reached.
    """
    if not isinstance(folder, Address) and not folder.is_dir():
        return None
    try:
        return ResultKind(read_file(folder / STATE_FOLDER / _MARKER).decode("ascii").strip())
    except (OSError, ValueError):
        names = _entries(folder)
    for kind, needed in _CONTENTS.items():
        if needed <= names and (kind is not ResultKind.TABLE7 or _is_table(folder / "_settings.json")):
            return kind
    parts = {name for name in names if name.startswith("part-") and name.endswith(".parquet")}
    others = {name for name in names - parts if not name.startswith((".", "_"))}
    return ResultKind.FEATURES if parts and not others and is_own_part(folder / min(parts)) else None


def is_own_part(path: Location) -> bool:
    """Whether a file is a Parquet part that ``bertfeat extract`` wrote.

    Raises:
        StorageError: object storage that cannot be reached.
    """
    try:
        with open_file(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 8))
            length = int.from_bytes(file.read(4), "little")
            start = file.seek(max(0, size - 8 - min(length, _MOST_FOOTER)))
            return _PART_KEY in file.read(size - start)
    except OSError:
        return False


def _entries(folder: Location) -> set[str]:
    """The names of files and folders in a folder, and those in its state folder."""
    if isinstance(folder, Address):
        names = first_names(folder)
        state = {name for name in names if name.startswith(f"{STATE_FOLDER}/")}
        return state | {name.partition("/")[0] for name in names}
    found: set[str] = set()
    with suppress(OSError):
        found |= set(os.listdir(folder))
        found |= {f"{STATE_FOLDER}/{name}" for name in os.listdir(folder / STATE_FOLDER)}
    return found


def first_names(folder: Address) -> set[str]:
    """The names of the first thousand files at an address and below it, which tell what is there."""
    store, name = store_of(folder)
    return {file.name for file in islice(store.list(name), _MOST_NAMES)}


def _is_table(path: Location) -> bool:
    try:
        settings = decode_json(read_file(path), dict[str, object])
    except (OSError, JsonError):
        return False
    return "identity" in settings


_CONTENTS = {
    ResultKind.INDEX: {f"{STATE_FOLDER}/index.json"},
    ResultKind.TABLE7: {"_settings.json", "runs"},
    ResultKind.HEAD: {"head.json"},
    ResultKind.MODEL: {"pretraining.json", "config.json"},
}
