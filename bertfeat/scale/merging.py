"""The merging of shards: their parts are put into one folder, which becomes the feature set of a single run."""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.core import (
    FAILURES_NAME,
    SKETCH_SIZE,
    Address,
    ContextPool,
    ExistingParts,
    FolderLock,
    Location,
    Manifest,
    PartHeader,
    ResultKind,
    as_location,
    check_derived,
    check_part,
    claim_folder,
    create_file,
    folder_lock,
    list_part_files,
    open_file,
    part_path,
    read_footer,
    read_manifest,
    read_shard,
    refuse_foreign_parts,
    refuse_other_kind,
    releasing_if_failed,
    remove_leftovers,
    remove_manifest,
    remove_stored,
    store_of,
    write_manifest,
)
from bertfeat.display import displayed
from bertfeat.errors import DamagedError, FeatureSetError, parameter
from bertfeat.progress import OnStep, ProgressOption, StepProgress, telling
from bertfeat.scale.shard_folders import ShardFolder, ShardPart, collect_parts, open_shards, refuse_shard_place

_AT_ONCE = 8  # parts that are read or transferred at the same time if object storage is involved
_BLOCK = 16 << 20  # bytes of them that are fetched at once


@displayed
@dataclass(frozen=True, slots=True)
class MergeReport:
    """The result of a merge: what the whole feature set holds."""

    folder: Location
    shards: int
    documents: int
    failed: int
    blank: int
    parts: int
    kept_parts: int  # that an earlier merge had put there
    bytes: int
    warnings: tuple[str, ...]

    @property
    def nothing_to_do(self) -> bool:
        """Whether all parts were there already."""
        return self.parts == self.kept_parts

    @property
    def failure_list(self) -> Location:
        """The file that lists the rows that failed in all shards; it exists if there are any."""
        return self.folder / FAILURES_NAME


@checked
def merge_features(
    folders: Sequence[str | Path | Address],
    output: str | Path | Address,
    *,
    overwrite: bool = False,
    progress: ProgressOption[StepProgress] = None,
) -> MergeReport:
    """Put the parts of all shards of one run together; the result is the feature set of a single run.

    ``folders`` are those of the shards, in any order; they are not changed. Every part is checked to be as it was
    written, and the rows of the corpus to be complete, each once. On one local file system parts are hard links, which
    take no additional space. Merging again redoes what has changed since. ``overwrite`` replaces another feature set in
    ``output``.

    Raises:
        FeatureSetError: a shard is missing, unfinished, or of another run; or ``output`` holds something else.
        DamagedError: a part is missing or damaged.
        FolderLockedError: a run is at work on ``output``.
    """
    target = as_location(output)
    shards = open_shards([as_location(folder) for folder in folders])
    refuse_shard_place(target, shards)
    with releasing_if_failed(target), folder_lock(target) as lock, telling(progress) as tell:
        return _Merge(shards, target, lock, tell).execute(overwrite=overwrite)


class _Merge:
    """One merge, in a locked folder."""

    def __init__(self, shards: Sequence[ShardFolder], folder: Location, lock: FolderLock, progress: OnStep) -> None:
        self._shards, self._folder, self._lock, self._progress = shards, folder, lock, progress
        self._parts = collect_parts(shards)
        records = [shard.record for shard in shards]
        self._sources = tuple(dict.fromkeys(source for record in records for source in record.sources))
        runs = {record.run for record in records}
        self._run = runs.pop() if len(runs) == 1 else ""

    def execute(self, *, overwrite: bool) -> MergeReport:
        """Check everything, then put in place what is not there yet."""
        refuse_other_kind(self._folder, ResultKind.FEATURES)
        refuse_foreign_parts(self._folder)
        if not overwrite:
            self._refuse_another_set()
        remove_leftovers(self._folder)
        there = {file.name: file.stamp.size for file in list_part_files(self._folder)}
        kept = self._each(
            "checked", self._is_there, [part for part in self._parts if there.get(part.entry.name) == part.entry.bytes]
        )
        missing = [part for part in self._parts if part.entry.number not in kept]
        self._each("checked", lambda part: bool(check_part(part.path)), missing)
        surplus = sorted(there.keys() - {part.entry.name for part in self._parts})
        manifest = None if missing or surplus else self._sound_manifest()
        return self._report(manifest or self._put(missing, surplus), len(kept))

    def _refuse_another_set(self) -> None:
        if (record := read_shard(self._folder)) is not None:
            raise FeatureSetError(
                f"it holds {record}", where=self._folder, remedy=f"name another {parameter('output')}"
            )
        existing = ExistingParts.read(self._folder)
        existing.check_settings(self._shards[0].record.settings)
        headers = sorted((header for shard in self._shards for header in shard.headers()), key=lambda one: one.number)
        existing.check_corpus(headers)

        def has_grown(earlier: PartHeader) -> bool:
            later = next(header for header in headers if header.number == earlier.number)
            smallest = set(later.sketch)
            missing = [digest for digest in earlier.sketch if digest not in smallest]
            # a sketch holds the smallest digests: what is missing among them must have been too large
            is_full = len(later.sketch) == SKETCH_SIZE
            return later.last_row >= earlier.last_row and (not missing or (is_full and min(missing) > max(smallest)))

        remedy = f"{parameter('overwrite', True)} replaces what is there"
        existing.refuse_removal(existing.outside(headers, has_grown), headers, remedy)

    # ── the parts ───────────────────────────────────────────────────────────────────────────────────────────

    def _is_there(self, part: ShardPart) -> bool:
        """Whether an earlier merge has put this very part in its place."""
        path = part_path(self._folder, part.entry.number)
        try:
            if read_footer(path).sha256 != part.entry.sha256:
                return False
            if not isinstance(path, Address):  # object storage keeps what was written, or reports an error
                check_part(path)
        except (FeatureSetError, FileNotFoundError):
            return False
        return True

    def _put(self, missing: Sequence[ShardPart], surplus: Iterable[str]) -> Manifest:
        self._lock.check()
        claim_folder(self._folder, ResultKind.FEATURES)
        remove_manifest(self._folder)
        self._each("merged", self._put_part, missing)
        for name in surplus:
            remove_stored(self._folder / name)
        self._lock.check()
        times = _times_of(self._shards)
        versions = {name: ", ".join(values) for name, values in _all_versions(self._shards).items()}
        manifest = write_manifest(self._folder, sources=self._sources, times=times, versions=versions, run=self._run)
        if manifest.parts != tuple(part.entry for part in self._parts):
            remove_manifest(self._folder)
            raise DamagedError(
                "a shard was changed while it was merged",
                where=self._folder,
                remedy="merge again when all are finished",
            )
        return manifest

    def _put_part(self, part: ShardPart) -> bool:
        target = part_path(self._folder, part.entry.number)
        if isinstance(part.path, Address):
            with create_file(target) as new, open_file(part.path) as file, new.path.open("wb") as copy:
                shutil.copyfileobj(file, copy, _BLOCK)
        elif isinstance(target, Address):
            store, name = store_of(target)
            store.put(name, part.path)
        else:
            with create_file(target) as new:
                _link_or_copy(part.path, new.path)
        return True

    def _each(self, step: str, do: Callable[[ShardPart], bool], parts: Sequence[ShardPart]) -> set[int]:
        """Call ``do`` for each part, several at once in object storage; returns the numbers of those it holds for."""
        remote = isinstance(self._folder, Address) or any(isinstance(part.path, Address) for part in parts)
        held, pool = set[int](), ContextPool(_AT_ONCE if remote else 1, "bertfeat-merge")
        try:
            for done, (part, holds) in enumerate(zip(parts, pool.map(do, parts), strict=True), 1):
                if holds:
                    held.add(part.entry.number)
                self._progress(StepProgress(step, done, len(parts), "parts"))
        finally:
            pool.shutdown(cancel_futures=True)
        return held

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────

    def _sound_manifest(self) -> Manifest | None:
        """The manifest of an earlier merge, if it and the list of failures are as they would be written now."""
        try:
            manifest = read_manifest(self._folder)
            if manifest is None or (manifest.sources, manifest.run) != (self._sources, self._run):
                return None
            check_derived(self._folder, manifest)
        except DamagedError:
            return None
        return manifest

    def _report(self, manifest: Manifest, kept: int) -> MergeReport:
        return MergeReport(
            folder=self._folder,
            shards=len(self._shards),
            documents=manifest.counts.documents,
            failed=manifest.failed,
            blank=manifest.blank,
            parts=len(manifest.parts),
            kept_parts=kept,
            bytes=sum(part.bytes for part in manifest.parts),
            warnings=_version_warnings(self._shards),
        )


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(os.path.realpath(source), target)
    except OSError:  # another file system, one without links, or another user's file
        shutil.copyfile(source, target)


# ── the facts of a merged set ───────────────────────────────────────────────────────────────────────────────


def _times_of(shards: Sequence[ShardFolder]) -> dict[str, object]:
    """Return the time when the last shard ended, the seconds of all together, and their devices."""
    times = [shard.record.times for shard in shards]
    seconds = [value for each in times if isinstance(value := each.get("seconds"), int | float)]
    return {
        "finished": max(str(each.get("finished", "")) for each in times),
        "seconds": round(sum(seconds), 3),
        "device": ", ".join(dict.fromkeys(str(each["device"]) for each in times if "device" in each)),
    }


def _version_warnings(shards: Sequence[ShardFolder]) -> tuple[str, ...]:
    """Return a warning if versions differ, with which parts may differ from those of a single run by rounding."""
    differing = {
        name: values
        for name, values in _all_versions([shard for shard in shards if shard.record.numbers]).items()
        if len(values) > 1
    }
    if not differing:
        return ()
    listed = "; ".join(f"{name} {', '.join(values)}" for name, values in differing.items())
    return (f"the shards were not made alike ({listed}): equal texts have equal vectors up to rounding only",)


def _all_versions(shards: Sequence[ShardFolder]) -> dict[str, list[str]]:
    """The versions with which the shards were made; several of a library where they differ."""
    names = dict.fromkeys(name for shard in shards for name in shard.record.versions)
    return {name: list(dict.fromkeys(shard.record.versions.get(name, "none") for shard in shards)) for name in names}
