"""The folder of a run: the parts that earlier runs left there, and what the run changes of it."""

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bertfeat.core.corpus import Corpus, CorpusFile
from bertfeat.core.extraction.plan import PartLimits, PlannedPart, begins_with, plan_parts, read_part
from bertfeat.core.extraction.resume import ExistingParts, remove_parts
from bertfeat.core.features import FeatureSettings, PartHeader, list_parts, remove_manifest
from bertfeat.errors import CorpusError, parameter
from bertfeat.io import Location, ResultKind, claim_folder

_SILENT_SECONDS = 5.0  # of reading the corpus, before a message says so
_log = logging.getLogger("bertfeat")


class RunFolder:
    """The folder of a run. Its set is marked as unfinished before the first change; parts are not removed unasked.

    With ``overwrite`` the parts of earlier runs are ignored, and removed before the first change; with ``prune`` those
    are removed whose rows the corpus no longer has.
    """

    def __init__(self, place: Location, *, overwrite: bool, prune: bool) -> None:
        self.place, self.overwrite, self._prune = place, overwrite, prune
        self.existing = ExistingParts(place)
        self.changed = False  # whether anything in the folder was changed
        self._checked: frozenset[str] | None = None  # digests of the plan that finished parts were checked against

    def look_through(self, settings: FeatureSettings) -> bool:
        """Look at what earlier runs left, and tell whether there is anything; nothing is touched.

        Raises:
            SettingsDifferError: the parts have other settings.
        """
        if not self.overwrite:
            self.existing = ExistingParts.read(self.place)
            self.existing.check_settings(settings)
        return bool(self.existing.headers or self.existing.damaged)

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
        """Refuse a plan that would remove finished parts, before anything is touched; with ``prune``, remove them.

        Every way to work through a plan calls this once, wherever there are parts of earlier runs.

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
        if not self._prune:
            remedy = f"{parameter('prune', True)} removes what is outside of it and keeps the rest"
            self.existing.refuse_removal(outside, plan, f"{remedy}, {parameter('overwrite', True)} starts anew")
        elif outside:
            self.begin()
            self.existing.drop(outside, plan)
            _log.warning("removed %d parts that are outside of the corpus", len(outside))
        self._checked = frozenset(part.digest for part in plan)

    def match(self, part: PlannedPart) -> PlannedPart:
        """The part, marked if an earlier run left one of the same rows.

        Raises:
            CorpusError: the corpus has changed since the plan was checked.
        """
        if self.existing.has(part):
            return replace(part, exists=True)
        if self._checked is not None and part.number in self.existing.headers and part.digest not in self._checked:
            raise CorpusError(
                "the corpus has changed since the run began",
                where=f"part {part.number}",
                remedy="run the same command again",
            )
        return part

    def begin(self) -> None:
        """Claim the folder, mark the set as unfinished, with ``overwrite`` remove the parts of earlier runs; once."""
        if not self.changed:
            claim_folder(self.place, ResultKind.FEATURES)
            remove_manifest(self.place)
            if self.overwrite:
                remove_parts(list_parts(self.place))
            self.changed = True

    def make_room(self, part: PlannedPart) -> None:
        """Remove what lies in the place of a part that is to be made; workers do not replace parts."""
        self.begin()
        self.existing.remove(part.number)

    def keep_only(self, files: Sequence[CorpusFile], plan: Sequence[PlannedPart]) -> None:
        """Remove the parts that are not in a plan, or are damaged; refuses what :meth:`check_plan` refuses."""
        self.check_plan(files, plan)
        self.begin()
        self.existing.keep_only(plan)
