"""The folder of a run: the parts that earlier runs left there, and what the run changes of it."""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from bertfeat.core.corpus import Corpus, CorpusFile
from bertfeat.core.extraction.plan import PartLimits, PlannedPart, begins_with, plan_parts, read_part
from bertfeat.core.extraction.resume import ExistingParts, remove_parts
from bertfeat.core.features import (
    SUCCESSOR,
    FeatureSettings,
    PartHeader,
    drop_successor,
    list_parts,
    part_path,
    remove_manifest,
)
from bertfeat.errors import CorpusError, parameter
from bertfeat.io import Location, ResultKind, claim_folder, storage_errors

_SILENT_SECONDS = 5.0  # of reading the corpus, before a message says so
_log = logging.getLogger("bertfeat")


class RunFolder:
    """The folder of a run. Its set is marked as unfinished before the first change; parts are not removed unasked.

    With ``overwrite`` the parts of earlier runs are ignored, and removed before the first change. With ``update`` a set
    with parts stays what it is until a successor is made (:func:`bertfeat.core.features.settle_successor`).
    """

    def __init__(self, place: Location, *, overwrite: bool, update: bool) -> None:
        self.place, self.overwrite, self._update = place, overwrite, update
        self.existing = ExistingParts(place)
        self._made = ExistingParts(place / SUCCESSOR)  # for the successor, by a run that was stopped
        self.changed = False  # whether anything in the folder was changed
        self._planned: dict[int, str] = {}  # the digests of the parts of the plan
        self._checked: frozenset[str] | None = None  # digests of the plan that finished parts were checked against

    def look_through(self, settings: FeatureSettings) -> bool:
        """Look at what earlier runs left, and tell whether there is anything; nothing is touched.

        Raises:
            SettingsDifferError: the parts have other settings.
        """
        if not self.overwrite:
            self.existing = ExistingParts.read(self.place)
            self.existing.check_settings(settings)
        if self.has_successor:
            self._made = ExistingParts.read(self.place / SUCCESSOR)
        return bool(self.existing.headers or self.existing.damaged)

    def follow(self, update: bool) -> None:
        """Do as the first of joined runs does."""
        self._update = update

    @property
    def has_successor(self) -> bool:
        """Whether what is there stays until its successor is made."""
        return self._update and bool(self.existing.files)

    @property
    def target(self) -> Location:
        """The folder that parts are written to."""
        return self._made.folder if self.has_successor else self.place

    @property
    def donors(self) -> tuple[Location, ...]:
        """The parts that features can be copied from."""
        return tuple(path for path, header in self.existing.files.items() if header) if self.has_successor else ()

    def plan_to_check(self, corpus: Corpus, limits: PartLimits) -> Iterator[PlannedPart]:
        """The plan, with rows only for the parts that overlap the last earlier part, which may have grown."""
        last, begin, warned = self.existing.last_rows, time.monotonic(), False
        for part in plan_parts(corpus, limits):
            if not warned and time.monotonic() - begin > _SILENT_SECONDS:
                warned = True
                _log.warning("reading the corpus once to compare it with the finished parts of %s", self.place)
            yield part if part.first_row < last.stop and part.last_row > last.start else part.task
            del part

    def check_plan(self, files: Sequence[CorpusFile], plan: Sequence[PlannedPart]) -> None:
        """Refuse a plan that would remove finished parts, before anything is touched.

        Every way to work through a plan calls this once, wherever there are parts of earlier runs and no successor.

        Raises:
            AnotherCorpusError: the parts have nothing in common with the plan.
            RemovalError: parts would be removed.
        """
        self.existing.check_corpus(plan)

        def has_grown(header: PartHeader) -> bool:
            covering = (part for part in plan if header.first_row <= part.first_row < header.last_row)
            parts = ((part, read_part(files, part) if part.rows is None else part.rows) for part in covering)
            return begins_with(parts, header)

        outside = self.existing.outside(plan, has_grown)
        remedy = f"{parameter('update', True)} makes the set what the corpus is now"
        self.existing.refuse_removal(outside, plan, f"{remedy}, {parameter('overwrite', True)} starts anew")
        self._checked = frozenset(part.digest for part in plan)

    def check_update(self, plan: Iterable[PlannedPart]) -> None:
        """Refuse an update that is none, or would remove files that are not the set's; of the plan the least is read.

        Raises:
            AnotherCorpusError: the parts have nothing in common with the plan.
            FeatureSetError: a copy of a part lies under another name.
        """
        self.existing.check_corpus(plan)
        self.existing.refuse_copies()

    def match(self, part: PlannedPart) -> PlannedPart:
        """The part, marked if an earlier run left one of the same rows.

        Raises:
            CorpusError: the corpus has changed since the plan was checked.
        """
        self._planned[part.number] = part.digest
        if self.existing.has(part) or self._made.has(part):
            return replace(part, exists=True)
        if self._checked is not None and part.number in self.existing.headers and part.digest not in self._checked:
            raise CorpusError(
                "the corpus has changed since the run began",
                where=f"part {part.number}",
                remedy="run the same command again",
            )
        return part

    def begin(self) -> None:
        """Claim the folder, mark the set as unfinished, with ``overwrite`` remove the parts of earlier runs; once.

        A set that will have a successor stays finished.
        """
        if not self.changed:
            claim_folder(self.place, ResultKind.FEATURES)
            if not self.has_successor:
                remove_manifest(self.place)
            elif isinstance(self.place, Path):
                with storage_errors(self.place):
                    (self.place / SUCCESSOR).mkdir(parents=True, exist_ok=True)
            if self.overwrite:
                drop_successor(self.place)
                remove_parts(list_parts(self.place))
            self.changed = True

    def make_room(self, part: PlannedPart) -> None:
        """Remove what lies in the place of a part that is to be made; workers do not replace parts."""
        self.begin()
        (self._made if self.has_successor else self.existing).remove(part.number)

    def kept_of(self, plan: Sequence[PlannedPart]) -> tuple[int, ...]:
        """The numbers of the parts of a plan that a successor takes from the set: whole ones of the same rows."""
        return tuple(part.number for part in plan if self.existing.is_whole(part)) if self.has_successor else ()

    @property
    def plan_digest(self) -> str:
        """The sha256 of the digests of all parts of the plan; empty where there is none."""
        return sha256("".join(self._planned.values()).encode()).hexdigest() if self._planned else ""

    @property
    def has_changed(self) -> bool:
        """Whether a part was made, or the set has parts that the plan has not."""
        there = {number: header.digest for number, header in self.existing.headers.items()}
        return self.changed or (self.has_successor and there != self._planned)

    def successor_parts(self) -> list[Location]:
        """The places of the parts of the plan, each made for the successor or kept; others that were made are removed.

        Empty where the set has no successor.
        """
        if not self.has_successor:
            return []
        self.begin()
        made = ExistingParts.read(self._made.folder)
        chosen = {number for number, header in made.headers.items() if header.digest == self._planned.get(number)}
        parts = [part_path(made.folder if number in chosen else self.place, number) for number in self._planned]
        remove_parts(made.files.keys() - set(parts))
        return parts

    def keep_only(self, files: Sequence[CorpusFile], plan: Sequence[PlannedPart]) -> None:
        """Remove the parts that are not in a plan, or are damaged; refuses what :meth:`check_plan` refuses.

        Those of a set that will have a successor stay.
        """
        if self.has_successor:
            self.check_update(plan)
            self.begin()
        else:
            self.check_plan(files, plan)
            self.begin()
            self.existing.keep_only(plan)
