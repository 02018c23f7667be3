"""The parts that earlier runs left in a folder, and whether they belong to this run."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self

from bertfeat.errors import AnotherCorpusError, DamagedError, FeatureSetError, SettingsDifferError, parameter
from bertfeat.extraction.plan import PlannedPart
from bertfeat.features import (
    FeatureSettings,
    PartHeader,
    check_part,
    list_parts,
    part_number,
    part_path,
    read_header,
)
from bertfeat.io import Address, Location, remove_stored

_THREADS = 16  # that read headers from object storage at once


@dataclass(slots=True)
class ExistingParts:
    """The sound parts of earlier runs, by number."""

    folder: Location
    headers: dict[int, PartHeader] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    numbers: frozenset[int] = frozenset()  # of all parts, those that are damaged too

    @classmethod
    def read(cls, folder: Location) -> Self:
        """Read the header of each part in the folder; damaged parts are noted, to be computed again.

        Raises:
            FeatureSetError: a file that is named like a part is not one, or has a newer format.
        """
        paths = list_parts(folder)
        numbers = (part_number(path.name) for path in paths)
        existing = cls(folder, numbers=frozenset(number for number in numbers if number is not None))
        if isinstance(folder, Address):
            with ThreadPoolExecutor(_THREADS, "bertfeat-headers") as pool:
                headers = list(pool.map(_header_or_problem, paths))
        else:
            headers = [_header_or_problem(path) for path in paths]
        for header in headers:
            if isinstance(header, PartHeader):
                existing.headers[header.number] = header
            else:
                existing.damaged.append(header)
        return existing

    def check_settings(self, settings: FeatureSettings) -> None:
        """Refuse to go on with other settings.

        Raises:
            SettingsDifferError: with the difference.
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

    def has(self, part: PlannedPart) -> bool:
        """Whether there is a part of that number from the same rows; it may be damaged, which only reading it shows."""
        header = self.headers.get(part.number)
        return header is not None and header.digest == part.digest

    def remove(self, number: int) -> None:
        """Remove a part that is another one in the plan, or damaged; workers do not replace parts."""
        if number in self.numbers:
            remove_parts([part_path(self.folder, number)])

    def keep_only(self, plan: Sequence[PlannedPart]) -> None:
        """Remove the parts that are not those of a plan."""
        kept = {part_path(self.folder, part.number) for part in plan if self.has(part) and self._is_whole(part)}
        remove_parts(path for path in list_parts(self.folder) if path not in kept)

    def _is_whole(self, part: PlannedPart) -> bool:
        """Whether a part holds what its checksums say; object storage keeps what was written, and is not read again."""
        path = part_path(self.folder, part.number)
        try:
            if not isinstance(path, Address):
                check_part(path)
        except DamagedError as error:
            self.damaged.append(str(error))
            return False
        return True

    def surplus(self, parts: int) -> list[Location]:
        """The parts after the end of a plan of so many parts."""
        planned = {part_path(self.folder, number) for number in range(parts)}
        return [path for path in list_parts(self.folder) if path not in planned]


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
