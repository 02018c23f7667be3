"""Shards: runs that divide the parts of one corpus among them by number, each with a folder of its own.

They need not know of each other, so any scheduler can start them; :mod:`bertfeat.scale.merging` puts their parts
together.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Self

from bertfeat.arguments import checked
from bertfeat.core import (
    FolderLock,
    Location,
    PlannedPart,
    PlanSize,
    ShardRecord,
    SharedRun,
    Sharing,
    folder_lock,
    list_parts,
    part_path,
    read_manifest,
    read_shard,
    remove_manifest,
    write_shard,
)
from bertfeat.errors import CorpusError, DamagedError, FeatureSetError, UsageError, parameter

_WRITTEN = re.compile(r"([0-9]{1,100})/([0-9]{1,100})")
_MOST_SHARDS = 1_000_000
_NUMBER = re.compile(r"part-([0-9]{5,18})\.parquet")


class Shard(Sharing):
    """The sharing of one shard's run: of ``count`` runs over one corpus, each makes every ``count``-th part.

    ``index`` goes from 0 to ``count - 1``, as in the job arrays of schedulers. Each run reads the whole corpus, to know
    where parts begin, but computes only its own parts. All have the same settings; each has a folder of its own.
    """

    is_alone = False

    @checked
    def __init__(self, index: int, count: int) -> None:
        _check_shard(index, count)
        self.index, self.count = index, count
        self._run: SharedRun | None = None
        self._lock: FolderLock | None = None
        self._plan = sha256()

    @classmethod
    @checked
    def parse(cls, text: str) -> Self:
        """Read ``0/3``: the first of three shards.

        Raises:
            UsageError: it is not written so, or there is no such shard.
        """
        match = _WRITTEN.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                "a shard is written index/count", where=parameter("shard", text), remedy="0/3 is the first of three"
            )
        index, count = int(match[1]), int(match[2])
        _check_shard(index, count)  # as it is written, however long
        return cls(index, count)

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def __repr__(self) -> str:
        return f"Shard({self.index}, {self.count})"

    @contextmanager
    def hold(self, folder: Location) -> Iterator[None]:
        """Keep other runs out of the folder."""
        with folder_lock(folder) as self._lock:
            yield

    def takes(self, part: PlannedPart) -> bool:
        """Whether it is one of this shard's parts; asked about every part of the plan, in order."""
        self._plan.update(part.digest.encode())
        return part.number % self.count == self.index

    def agenda(self, run: SharedRun) -> None:
        """Check the folder; the run plans its own tasks.

        Raises:
            FeatureSetError: the folder holds another shard, or something that is not a shard.
        """
        folder = run.job.folder
        if not run.overwrite and (there := _other_content(folder, self)):
            raise FeatureSetError(
                f"it holds {there}, and this run makes shard {self}",
                where=folder,
                remedy=f"give each shard another {parameter('folder')}, or start anew with "
                f"{parameter('overwrite', True)}",
            )
        self._run, self._plan = run, sha256()

    def finish(self, folder: Location, size: PlanSize, finish: Callable[[], None]) -> None:
        """Record the shard, instead of finishing a set.

        Raises:
            CorpusError: the corpus has no rows.
        """
        del finish
        run, lock = self._run, self._lock
        assert run is not None
        assert lock is not None
        if not size.parts:
            raise CorpusError("the corpus has no rows, so its shards have no parts", where=", ".join(run.job.sources))
        record = self._record(run, size)
        planned = {part_path(folder, number) for number in record.numbers}
        if planned.issuperset(list_parts(folder)) and _is_recorded(folder, record):
            return
        lock.check()
        run.begin()
        remove_manifest(folder)
        write_shard(folder, record)

    def _record(self, run: SharedRun, size: PlanSize) -> ShardRecord:
        facts = run.facts()
        return ShardRecord(
            index=self.index,
            count=self.count,
            parts=size.parts,
            rows=size.rows,
            plan=self._plan.hexdigest(),
            settings=run.job.settings,
            run=run.identity,
            sources=run.job.sources,
            times=facts.times,
            versions=facts.versions,
        )


def _check_shard(index: int, count: int) -> None:
    if not 0 <= index < count:
        raise UsageError(
            f"of {count} shards there is no number {index}" if count > 0 else "there is one shard at least",
            where=parameter("shard", f"{index}/{count}"),
            remedy=f"count from 0 to {count - 1}" if count > 0 else "write 0/3 for the first of three",
        )
    if count > _MOST_SHARDS:
        where = parameter("shard", f"{index}/{count}")
        raise UsageError(f"a run is shared out among {_MOST_SHARDS:,} shards at most", where=where)


def _other_content(folder: Location, shard: Shard) -> str:
    """Describe the content of a folder that does not belong to the shard; empty if there is none."""
    try:
        record = read_shard(folder)
        if record is None and read_manifest(folder) is not None:
            return "a whole feature set"
    except DamagedError:
        record = None  # its parts show which shard it is
    if record is not None:
        return "" if (record.index, record.count) == (shard.index, shard.count) else str(record)
    for path in list_parts(folder):
        number = _NUMBER.fullmatch(path.name)
        if number is None or int(number[1]) % shard.count != shard.index:
            return f"{path.name}, which is a part of another shard or of a run that was not shared out"
    return ""


def _is_recorded(folder: Location, record: ShardRecord) -> bool:
    """Whether an earlier run has left this record; when and where it ran does not matter."""
    try:
        there = read_shard(folder)
    except DamagedError:
        return False
    return there is not None and replace(there, times=record.times, versions=record.versions) == record
