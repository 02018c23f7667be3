"""The parts of a folder, what they account for, and the leftovers of runs that were killed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from bertfeat.errors import DamagedError, FeatureSetError, parameter
from bertfeat.features.header import PartHeader
from bertfeat.features.part import UNREADABLE_ERRORS, PartFooter, part_path, read_footer
from bertfeat.io import STATE_FOLDER, ResultKind, is_own_part, open_regular, result_kind, storage_errors

SPOOL_NAME = "stdin"  # in the state folder: standard input, while it is read
RERUN_REMEDY = "run the same extract command again: it redoes what is missing"


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
        bytes=footer.path.stat().st_size,
        sha256=footer.sha256,
    )


def list_parts(folder: Path) -> tuple[Path, ...]:
    """Paths of the folder's parts, by number.

    Raises:
        FeatureSetError: there is no such folder.
    """
    try:
        return tuple(sorted(folder.glob("part-*.parquet"), key=lambda path: (len(path.name), path.name)))
    except OSError as error:
        raise FeatureSetError(f"cannot be read: {error.strerror or error}", where=folder) from error


def refuse_foreign_parts(folder: Path) -> None:
    """Refuse a folder with files that are named like parts and were not written by bertfeat: they must not be replaced.

    A damaged file counts as a part in a folder that bertfeat wrote, and nowhere else.

    Raises:
        FeatureSetError: names the first of them.
    """
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


def _is_sound_parquet(path: Path) -> bool:
    try:
        with open_regular(path) as file:
            pq.read_metadata(file)
    except UNREADABLE_ERRORS:
        return False
    return True


def part_footers(folder: Path) -> Iterator[PartFooter]:
    """The footers of all parts, by number.

    Raises:
        FeatureSetError: there is no part; or two parts were made with different settings.
        DamagedError: a part's footer is damaged.
    """
    paths = list_parts(folder)
    if not paths:
        raise FeatureSetError("this folder holds no feature set", where=folder, remedy="bertfeat extract makes one")
    first: PartHeader | None = None
    for path in paths:
        footer = read_footer(path)
        first = first or footer.header
        _refuse_other_settings(path, footer.header, first)
        yield footer


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed runs left behind; call it with the folder locked."""
    with storage_errors(folder):
        for path in (
            *folder.glob(".*.tmp"),
            *folder.glob(f"{STATE_FOLDER}/.*.tmp"),
            folder / STATE_FOLDER / SPOOL_NAME,
        ):
            if path.name.startswith((".part-", "._")) or path.parent.name == STATE_FOLDER:
                path.unlink(missing_ok=True)


def check_accounting(folder: Path, parts: Sequence[PartEntry], *, gaps: bool = False) -> None:
    """Check that rows in are rows out, failed and blank, and that the parts follow one another without gap.

    Raises:
        DamagedError: names the part that breaks the account; ``gaps`` allows missing parts (an unfinished set).
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


def _refuse_other_settings(path: Path, header: PartHeader, first: PartHeader) -> None:
    if header.fingerprint == first.fingerprint:
        return
    differ = sorted(difference.name for difference in header.settings.differences(first.settings))
    raise FeatureSetError(
        f"made with other settings than part {first.number} (they differ in {', '.join(differ)}), so parts of two "
        f"feature sets lie in one folder",
        where=path,
        remedy=f"move this one away, or extract anew with {parameter('overwrite', True)}",
    )


def _sequence_problems(folder: Path, parts: Sequence[PartEntry], gaps: bool) -> Iterator[tuple[Path, str]]:
    number, row = 0, 0
    for part in parts:
        if part.name != part_path(folder, part.number).name:
            yield folder / part.name, f"says of itself that it is part {part.number}"
        if part.number != number and not gaps:
            yield part_path(folder, number), "this part is missing"
        if part.first_row < row or (part.first_row != row and not gaps):
            yield folder / part.name, f"begins with row {part.first_row} where row {row} is expected"
        number, row = part.number + 1, part.last_row
