"""What a folder already holds of a run, and whether it is this run's at all."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bertfeat.errors import AnotherCorpusError, DamagedError, FeatureSetError, SettingsDifferError
from bertfeat.extraction.plan import PlannedPart
from bertfeat.extraction.settings import list_differences
from bertfeat.features import FeatureSettings, PartHeader, check_part, list_parts, part_path, read_header


@dataclass(slots=True)
class Existing:
    """The sound parts of earlier runs, by number."""

    folder: Path
    headers: dict[int, PartHeader] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, folder: Path) -> "Existing":
        """Read what each part of the folder says of itself; damaged parts are noted, to be done again.

        Raises:
            FeatureSetError: a file named like a part is none, or is of a newer format.
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
            SettingsDiffer: with the difference.
        """
        for header in self.headers.values():
            if header.fingerprint != fingerprint:
                listed = "\n  ".join(list_differences(settings, header.settings))
                raise SettingsDifferError(
                    f"{self.folder} was made with other settings (there → here):\n  {listed}\n"
                    f"use the settings it was made with, another folder (-o), or --overwrite to start anew"
                )

    def check_corpus(self, parts: Iterable[PlannedPart]) -> None:
        """Refuse to go on if no part of the corpus has a document in common with what is there.

        Raises:
            AnotherCorpus: nothing in common.
        """
        if not self.headers:
            return
        digests = {header.digest for header in self.headers.values()}
        sketched = {digest for header in self.headers.values() for digest in header.sketch}
        if not sketched:  # only failures and empty texts: nothing to tell corpora apart by
            return
        if any(part.digest in digests or sketched.intersection(part.sketch) for part in parts):
            return
        sources = ", ".join(next(iter(self.headers.values())).sources) or "texts in memory"
        raise AnotherCorpusError(
            f"{self.folder} was made from another corpus ({sources}): it has no document in common with this one; "
            f"use another folder (-o), or --overwrite to start anew"
        )

    def kept(self, part: PlannedPart) -> PartHeader | None:
        """The header of a part that is there, made from the same rows, and whole; else None."""
        header = self.headers.get(part.number)
        if header is None or header.digest != part.digest:
            return None
        try:
            return check_part(part_path(self.folder, part.number))
        except DamagedError as error:
            self.damaged.append(str(error))
            return None

    def surplus(self, parts: int) -> list[Path]:
        """The parts after the end of the plan."""
        plan = {part_path(self.folder, number) for number in range(parts)}
        return [path for path in list_parts(self.folder) if path not in plan]


def remove_parts(paths: Iterable[Path]) -> None:
    """Remove parts.

    Raises:
        FeatureSetError: one cannot be removed.
    """
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise FeatureSetError(f"{path} cannot be removed: {error.strerror}") from error
