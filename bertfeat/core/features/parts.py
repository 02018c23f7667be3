"""The part files of a feature set's folder: list them, read their footers, check that their rows add up, clean up."""

import os
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from bertfeat.core.features.part import UNREADABLE_ERRORS, PartFooter, PartHeader, part_path, read_footer
from bertfeat.errors import DamagedError, FeatureSetError, parameter
from bertfeat.io import (
    STATE_FOLDER,
    Address,
    ContextPool,
    Location,
    Place,
    ResultKind,
    StoredFile,
    explain_absence,
    is_own_part,
    list_files,
    open_file,
    result_kind,
    storage_errors,
)

SUCCESSOR = f"{STATE_FOLDER}/next"
"""The folder of the parts that are made for the successor of a set; see :mod:`bertfeat.core.features.successor`."""

SPOOL_NAME = "stdin"  # file in the state folder that holds standard input while it is read
_AT_ONCE = 16  # footers that are fetched from object storage at the same time
RERUN_REMEDY = "run the same extract command again: it redoes what is missing"
OTHER_MACHINE = "move the wrong parts away, and run the same command again, without the machine that made them"
"""The remedy where the model gave some parts other vectors than others."""


@dataclass(frozen=True, slots=True)
class PartEntry:
    """A part as the manifest lists it."""

    number: int
    name: str
    first_row: int
    last_row: int  # exclusive
    documents: int
    failed: int
    blank: int
    bytes: int
    sha256: str  # PartFooter.sha256
    digest: str  # of the part's input rows


def part_entry(footer: PartFooter) -> PartEntry:
    """The manifest's entry for a part."""
    header = footer.header
    return PartEntry(
        number=header.number,
        name=footer.path.name,
        first_row=header.first_row,
        last_row=header.last_row,
        documents=footer.metadata.num_rows,
        failed=len(header.failures),
        blank=header.blank,
        bytes=footer.size,
        sha256=footer.sha256,
        digest=header.digest,
    )


def list_parts(folder: Place) -> tuple[Place, ...]:
    """Places of the folder's parts, by number.

    Raises:
        FeatureSetError: the folder cannot be read.
    """
    return tuple(folder / file.name for file in list_part_files(folder))


def list_part_files(folder: Location) -> tuple[StoredFile, ...]:
    """The folder's parts, by number, with their sizes, from one listing.

    Raises:
        FeatureSetError: the folder cannot be read.
    """
    try:
        files = list_files(folder, "part-")
    except OSError as error:
        raise FeatureSetError(f"cannot be read: {error.strerror or error}", where=folder) from error
    parts = [file for file in files if file.name.endswith(".parquet") and "/" not in file.name]
    if not isinstance(folder, Address):
        _refuse_irregular_parts(folder, {file.name for file in parts})
    return tuple(sorted(parts, key=lambda file: (len(file.name), file.name)))


def _refuse_irregular_parts(folder: Path, listed: Collection[str]) -> None:
    """Refuse pipes, folders and broken links that are named like parts, which listings leave out."""
    for path in folder.glob("part-*.parquet"):
        # a regular file that is not listed was written since
        if path.name not in listed and os.path.lexists(path) and not path.is_file():
            raise FeatureSetError("this is not a regular file", where=path, remedy="remove it")


def refuse_foreign_parts(folder: Location) -> None:
    """Refuse a folder with files that are named like parts and were not written by bertfeat: they must not be replaced.

    A damaged file counts as a part in a folder that bertfeat wrote, and nowhere else. In object storage, where each
    check of a file is a request, a folder whose marker says that it is a feature set is accepted without checking.

    Raises:
        FeatureSetError: a file is foreign; the message names the first one.
    """
    if isinstance(folder, Address) and result_kind(folder) is ResultKind.FEATURES:
        return
    paths = list_parts(folder)
    strangers = [path for path in paths if not is_own_part(path)]
    ours = result_kind(folder) is ResultKind.FEATURES or len(strangers) < len(paths)
    for path in strangers:
        if not ours or _is_sound_parquet(path):
            raise FeatureSetError(
                "this file was not written by bertfeat extract",
                where=path,
                remedy="move it elsewhere, or name another folder",
            )


def _is_sound_parquet(path: Location) -> bool:
    try:
        with open_file(path) as file:
            pq.read_metadata(file)
    except UNREADABLE_ERRORS:
        return False
    return True


def part_footers(folder: Location, parts: Sequence[Location] | None = None) -> Iterator[PartFooter]:
    """The footers of the parts (default: all in the folder), in that order; those in object storage are fetched ahead.

    Raises:
        FeatureSetError: there is no part; or two parts were made with different settings.
        DamagedError: a part's footer is damaged.
    """
    paths = list_parts(folder) if parts is None else parts
    if not paths:
        problem, remedy = explain_absence(folder, "this folder holds no feature set", "bertfeat extract makes one")
        raise FeatureSetError(problem, where=folder, remedy=remedy)
    first: PartHeader | None = None
    for footer in _fetched_footers(paths) if isinstance(folder, Address) else map(read_footer, paths):
        first = first or footer.header
        if footer.header.fingerprint != first.fingerprint:
            differ = sorted(difference.name for difference in footer.header.settings.differences(first.settings))
            raise FeatureSetError(
                f"made with other settings than part {first.number} (they differ in {', '.join(differ)}), so parts of "
                f"two feature sets lie in one folder",
                where=footer.path,
                remedy=f"move this one away, or extract anew with {parameter('overwrite', True)}",
            )
        yield footer


def _fetched_footers(paths: Sequence[Location]) -> Iterator[PartFooter]:
    """The footers in the order of the paths; several are fetched at the same time, ahead of the consumer."""
    pending: deque[Future[PartFooter]] = deque()
    pool = ContextPool(_AT_ONCE, "bertfeat-footers")
    try:
        for path in paths:
            if len(pending) == 2 * _AT_ONCE:
                yield pending.popleft().result()
            pending.append(pool.submit(copy_context().run, read_footer, path))
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def remove_leftovers(folder: Location) -> None:
    """Remove the temporary files that killed runs left behind; call it with the folder locked.

    In object storage there are none: objects appear whole.
    """
    if isinstance(folder, Address):
        return
    with storage_errors(folder):
        for path in (
            *folder.glob(".*.tmp"),
            *folder.glob(f"{STATE_FOLDER}/.*.tmp"),
            *folder.glob(f"{SUCCESSOR}/.*.tmp"),
            folder / STATE_FOLDER / SPOOL_NAME,
        ):
            if path.name.startswith(".part-") or path.parent != folder:
                path.unlink(missing_ok=True)


def check_accounting(folder: Location, parts: Sequence[PartEntry], *, gaps: bool = False) -> None:
    """Check that each part's input rows are its documents, failed and blank rows, and that no part is missing.

    ``gaps`` allows missing parts, for an unfinished set.

    Raises:
        DamagedError: the numbers do not add up; the message names the part.
    """
    for part in parts:
        if part.last_row - part.first_row != part.documents + part.failed + part.blank:
            raise DamagedError(
                f"rows {part.first_row} to {part.last_row} are not {part.documents} documents, "
                f"{part.failed} failed and {part.blank} blank rows",
                where=folder / part.name,
                remedy=RERUN_REMEDY,
            )
    for path, problem in _sequence_problems(folder, parts, gaps):
        raise DamagedError(problem, where=path, remedy=RERUN_REMEDY)


def _sequence_problems(folder: Location, parts: Sequence[PartEntry], gaps: bool) -> Iterator[tuple[Location, str]]:
    number, row = 0, 0
    for part in parts:
        if part.name != part_path(folder, part.number).name:
            yield folder / part.name, f"says of itself that it is part {part.number}"
        if part.number != number and not gaps:
            yield part_path(folder, number), "this part is missing"
        if part.first_row < row or (part.first_row != row and not gaps):
            yield folder / part.name, f"begins with row {part.first_row} where row {row} is expected"
        number, row = part.number + 1, part.last_row
