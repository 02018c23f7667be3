"""The parts that earlier runs left in a folder, and whether they belong to a run."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from bertfeat.core.extraction.plan import PlannedPart
from bertfeat.core.features import (
    FeatureSettings,
    PartHeader,
    list_parts,
    part_path,
    read_header,
    sound_header,
)
from bertfeat.errors import (
    AnotherCorpusError,
    DamagedError,
    FeatureSetError,
    RemovalError,
    SettingsDifferError,
    parameter,
    pluralize,
)
from bertfeat.io import Address, ContextPool, Location, remove_stored

_THREADS = 16  # that read headers from object storage at once


@dataclass(slots=True)
class ExistingParts:
    """The parts of earlier runs: the sound ones by number, and the damaged ones."""

    folder: Location
    headers: dict[int, PartHeader] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    files: dict[Location, PartHeader | None] = field(default_factory=dict)  # all parts; None for damaged ones

    @classmethod
    def read(cls, folder: Location) -> Self:
        """Read the header of each part in the folder; damaged parts are noted, to be computed again.

        Raises:
            FeatureSetError: a file that is named like a part is not one, or has a newer format.
        """
        paths = list_parts(folder)
        existing = cls(folder)
        if isinstance(folder, Address):
            with ContextPool(_THREADS, "bertfeat-headers") as pool:
                headers = list(pool.map(_header_or_problem, paths))
        else:
            headers = [_header_or_problem(path) for path in paths]
        for path, header in zip(paths, headers, strict=True):
            if isinstance(header, PartHeader):
                existing.files[path] = existing.headers[header.number] = header
            else:
                existing.files[path] = None
                existing.damaged.append(header)
        return existing

    def check_settings(self, settings: FeatureSettings) -> None:
        """Refuse to go on with other settings.

        Raises:
            SettingsDifferError: the parts have other settings; the error lists the differences.
        """
        for header in self.headers.values():
            if header.fingerprint != settings.fingerprint:
                differences = settings.differences(header.settings)
                listed = "\n  ".join(f"{pair.name}: {pair.theirs!r} → {pair.ours!r}" for pair in differences)
                raise SettingsDifferError(
                    f"{self.folder} was made with other settings (there → here):\n  {listed}",
                    remedy=f"use the settings it was made with, another {parameter('folder')}, or "
                    f"{parameter('overwrite', True)} to start anew",
                )

    def check_corpus(self, parts: Iterable[PlannedPart | PartHeader]) -> None:
        """Refuse to go on if no part of the corpus has a document in common with what is there.

        Raises:
            AnotherCorpusError: nothing in common.
        """
        if not self.headers:
            return
        digests = {header.digest for header in self.headers.values()}
        sketched = {digest for header in self.headers.values() for digest in header.sketch}
        if not sketched:  # only failures and empty texts, which do not identify a corpus
            return
        if any(part.digest in digests or sketched.intersection(part.sketch) for part in parts):
            return
        sources = ", ".join(next(iter(self.headers.values())).sources) or "texts in memory"
        raise AnotherCorpusError(
            f"{self.folder} was made from another corpus ({sources}): it has no document in common with this one",
            remedy=f"use another {parameter('folder')}, or {parameter('overwrite', True)} to start anew",
        )

    @property
    def last_rows(self) -> range:
        """The range of rows of the last part: the only part that grows when rows are appended to the corpus."""
        headers = self.headers.values()
        last = max(headers, key=lambda header: header.last_row, default=None)
        return range(0) if last is None else range(last.first_row, last.last_row)

    def outside(
        self, plan: Sequence[PlannedPart | PartHeader], has_grown: Callable[[PartHeader], bool]
    ) -> list[Location]:
        """The parts whose rows a plan does not have in the same place; a run of the plan would remove or replace them.

        ``has_grown`` says of the last part whether the planned rows in its place begin with its own. A damaged part in
        the place of a planned one holds nothing that would be lost. Links are not replaced.
        """
        planned = {part_path(self.folder, part.number): part for part in plan}
        return [path for path, header in self.files.items() if not self._is_inside(path, header, planned, has_grown)]

    def _is_inside(
        self,
        path: Location,
        header: PartHeader | None,
        planned: Mapping[Location, PlannedPart | PartHeader],
        has_grown: Callable[[PartHeader], bool],
    ) -> bool:
        if (part := planned.get(path)) is None:
            return False
        if header is not None and (header.number, header.digest) == (part.number, part.digest):
            return True
        if isinstance(path, Path) and path.is_symlink():
            return False
        if header is None:
            return True
        home = planned.get(part_path(self.folder, header.number))
        if home is not None and home.digest == header.digest:  # a copy under the name of another part
            return True
        is_last = range(header.first_row, header.last_row) == self.last_rows
        return is_last and (part.number, part.first_row) == (header.number, header.first_row) and has_grown(header)

    def refuse_removal(
        self, outside: Sequence[Location], plan: Sequence[PlannedPart | PartHeader], remedy: str
    ) -> None:
        """Refuse to remove finished parts.

        Raises:
            RemovalError: parts would be removed; the error says how many parts and rows.
        """
        if not outside:
            return
        headers = [header for path in outside if (header := self.files[path])]
        rows = sum(header.last_row - header.first_row for header in headers)
        raise RemovalError(
            f"of its {pluralize(len(self.files), 'finished part')} this run would remove {len(outside):,} "
            f"({outside[0].name}{' …' if len(outside) > 1 else ''}) with {pluralize(rows, 'row')}, which the corpus "
            f"({pluralize(plan[-1].last_row if plan else 0, 'row')} in {pluralize(len(plan), 'part')}) does not have "
            "in that place",
            where=self.folder,
            remedy=f"see that all of the corpus is there (a file gone, a disk not mounted?); {remedy}",
        )

    def refuse_copies(self) -> None:
        """Refuse to remove a copy of a part that lies under another name.

        Raises:
            FeatureSetError: names the first one.
        """
        for path, header in self.files.items():
            if header is not None and path != part_path(self.folder, header.number):
                raise FeatureSetError("this copy of a part would be removed", where=path, remedy="move it elsewhere")

    def has(self, part: PlannedPart) -> bool:
        """Whether there is a part of that number from the same rows; it may be damaged, which only reading it shows."""
        header = self.headers.get(part.number)
        return header is not None and header.digest == part.digest

    def remove(self, number: int) -> None:
        """Remove a damaged part, or one whose number the plan gives to other rows; workers do not replace parts."""
        if (path := part_path(self.folder, number)) in self.files:
            remove_parts([path])

    def keep_only(self, plan: Sequence[PlannedPart]) -> None:
        """Remove the parts that are not in a plan, or are damaged."""
        kept = {part_path(self.folder, part.number) for part in plan if self.is_whole(part)}
        remove_parts(path for path in list_parts(self.folder) if path not in kept)

    def is_whole(self, part: PlannedPart) -> bool:
        """Whether there is a part of that number from the same rows that agrees with its checksums."""
        if not self.has(part):
            return False
        try:
            sound_header(part_path(self.folder, part.number))
        except DamagedError as error:
            self.damaged.append(str(error))
            return False
        return True


def remove_parts(paths: Iterable[Location]) -> None:
    """Remove parts.

    Raises:
        FeatureSetError: one cannot be removed.
    """
    for path in paths:
        try:
            remove_stored(path)
        except OSError as error:
            raise FeatureSetError(f"cannot be removed: {error.strerror}", where=path) from error


def _header_or_problem(path: Location) -> PartHeader | str:
    try:
        return read_header(path)
    except DamagedError as error:
        return str(error)
