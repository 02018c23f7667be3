"""The parts that earlier runs left in a folder, and whether they belong to this run."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from bertfeat.errors import AnotherCorpusError, DamagedError, FeatureSetError, SettingsDifferError, parameter
from bertfeat.extraction.plan import PlannedPart
from bertfeat.features import FeatureSettings, PartHeader, check_part, list_parts, part_path, read_header


@dataclass(slots=True)
class ExistingParts:
    """The sound parts of earlier runs, by number."""

    folder: Path
    headers: dict[int, PartHeader] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the header of each part in the folder; damaged parts are noted, to be computed again.

        Raises:
            FeatureSetError: a file that is named like a part is not one, or has a newer format.
        """
        existing = cls(folder)
        for path in list_parts(folder):
            try:
                header = read_header(path)
            except DamagedError as error:
                existing.damaged.append(str(error))
            else:
                existing.headers[header.number] = header
        return existing

    @property
    def settings(self) -> FeatureSettings | None:
        """Settings of the earlier runs; None where there are no parts."""
        return next(iter(self.headers.values())).settings if self.headers else None

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
                    f"{self.folder} was made with other settings (there → here):\n  {listed}\n"
                    f"use the settings it was made with, another {parameter('folder')}, or "
                    f"{parameter('overwrite', True)} to start anew"
                )

    def check_corpus(self, parts: Iterable[PlannedPart]) -> None:
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

    def find(self, part: PlannedPart) -> PartHeader | None:
        """The header of an existing part that is whole and was made from the same rows; else None."""
        header = self.headers.get(part.number)
        if header is None or header.digest != part.digest:
            return None
        try:
            return check_part(part_path(self.folder, part.number))
        except DamagedError as error:
            self.damaged.append(str(error))
            return None

    def surplus(self, parts: int) -> list[Path]:
        """The parts after the end of a plan of so many parts."""
        planned = {part_path(self.folder, number) for number in range(parts)}
        return [path for path in list_parts(self.folder) if path not in planned]


def remove_parts(paths: Iterable[Path]) -> None:
    """Remove parts.

    Raises:
        FeatureSetError: one cannot be removed.
    """
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise FeatureSetError(f"cannot be removed: {error.strerror}", where=path) from error
