"""The folders of all shards of one run: checks that they are complete and of one run, and the parts that they hold."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Self

from bertfeat.core import (
    Address,
    Canary,
    CanaryGroups,
    Location,
    PartEntry,
    PartHeader,
    ResultKind,
    ShardRecord,
    check_accounting,
    list_parts,
    part_entry,
    part_footers,
    part_path,
    read_manifest,
    read_shard,
    real_path,
    refuse_other_kind,
)
from bertfeat.errors import DamagedError, FeatureSetError, UsageError, parameter, shell_value


@dataclass(frozen=True, slots=True)
class ShardPart:
    """A part in the folder of a shard."""

    path: Location
    entry: PartEntry
    canary: Canary | None


@dataclass(frozen=True, slots=True)
class ShardFolder:
    """The folder of a finished shard."""

    folder: Location
    record: ShardRecord

    @classmethod
    def open(cls, folder: Location) -> Self:
        """Read the record of a shard."""
        refuse_other_kind(folder, ResultKind.FEATURES)
        record = read_shard(folder)
        if read_manifest(folder) is not None:
            raise FeatureSetError(
                "this is a whole feature set and no shard",
                where=folder,
                remedy="bertfeat index, for one, takes several sets: bertfeat index A B -o DIR",
            )
        if record is None:
            raise FeatureSetError(
                "this shard is not finished" if list_parts(folder) else "this folder holds no shard",
                where=folder,
                remedy="run its command, again if need be: "
                f"bertfeat extract CORPUS --shard I/N -o {shell_value(folder)} …",
            )
        return cls(folder, record)

    @property
    def remedy(self) -> str:
        """The remedy in errors about the shard: to run its command again, which makes it anew or repairs it."""
        return f"run its command again: {_shard_command(self.record, self.record.index)} -o {self.folder} …"

    def headers(self) -> Iterator[PartHeader]:
        """The headers of its parts."""
        if list_parts(self.folder):
            yield from (footer.header for footer in part_footers(self.folder))

    def parts(self) -> list[ShardPart]:
        """Its parts; the footer of each is checked, and the account of its rows."""
        there = list_parts(self.folder)
        self._check_names(there)
        found = []
        for footer in part_footers(self.folder) if there else ():
            if footer.header.fingerprint != self.record.settings.fingerprint:
                raise DamagedError("made with other settings than its shard", where=footer.path, remedy=self.remedy)
            found.append(ShardPart(footer.path, part_entry(footer), footer.header.model.canary))
        check_accounting(self.folder, [part.entry for part in found], gaps=True)
        return found

    def _check_names(self, there: Sequence[Location]) -> None:
        named = {path.name for path in there}
        for number in self.record.numbers:
            path = part_path(self.folder, number)
            if path.name not in named:
                raise DamagedError("this part of the shard is missing", where=path, remedy=self.remedy)
            named.remove(path.name)
        if named:
            raise DamagedError(f"this is no part of {self.record}", where=self.folder / min(named), remedy=self.remedy)


def open_shards(folders: Sequence[Location]) -> list[ShardFolder]:
    """Open all shards of one run, by index.

    Raises:
        UsageError: there are none, or a folder is named twice.
        FeatureSetError: a folder holds no finished shard, one of another run, or one that another holds too; or a shard
            is missing.
    """
    if not folders:
        raise UsageError("name the folders of the shards")
    _refuse_repeated(folders)
    shards = sorted(map(ShardFolder.open, folders), key=lambda shard: shard.record.index)
    _refuse_other_count(shards)
    _refuse_repeated_index(shards)
    _refuse_missing(shards)
    _refuse_another_run(shards)
    return shards


def collect_parts(shards: Sequence[ShardFolder]) -> list[ShardPart]:
    """The parts of all shards, sorted by number and checked to have every row of the corpus once.

    Raises:
        DamagedError: they do not, or a part is missing or not its shard's.
        FeatureSetError: the model gave other vectors on one shard's machine than on another's.
    """
    found = [(part, shard) for shard in shards for part in shard.parts()]
    found.sort(key=lambda pair: pair[0].entry.number)
    row, plan, groups = 0, sha256(), CanaryGroups()
    for part, shard in found:
        groups.add(part.entry.number, part.canary)
        if part.entry.first_row != row:
            raise DamagedError(
                f"begins with row {part.entry.first_row} where row {row} is expected",
                where=part.path,
                remedy=shard.remedy,
            )
        row = part.entry.last_row
        plan.update((part.entry.digest or "").encode())
    record = shards[0].record
    if (row, plan.hexdigest()) != (record.rows, record.plan):
        raise DamagedError(
            "the parts of these shards are not those of the plan that the shards had",
            remedy="run the command of each shard again: it redoes what is concerned",
        )
    if problem := groups.problem():
        again = parameter("overwrite", True)
        raise FeatureSetError(
            problem, remedy=f"run the commands of the shards with the wrong ones on another machine, with {again}"
        )
    return [part for part, _ in found]


def refuse_shard_place(target: Location, shards: Sequence[ShardFolder]) -> None:
    """Refuse to merge into the folder of a shard, in it, or around it, where readers would find parts twice."""
    for shard in shards:
        one, other = _own_name(shard.folder), _own_name(target)
        if one == other:
            problem = f"it holds {shard.record}"
        elif _is_below(one, other):
            problem = f"it holds {shard.folder}, which is to be read"
        elif _is_below(other, one):
            problem = f"it lies in {shard.folder}, which is to be read"
        else:
            continue
        raise UsageError(problem, where=target, remedy=f"name another {parameter('output')}")


def _own_name(folder: Location) -> Location:
    """The canonical name of a folder, which is the same for any two names of one folder."""
    return folder if isinstance(folder, Address) else real_path(folder)


def _is_below(place: Location, folder: Location) -> bool:
    if isinstance(place, Address) or isinstance(folder, Address):
        return str(place).startswith(f"{folder}/")
    return folder in place.parents


# ── of one run ──────────────────────────────────────────────────────────────────────────────────────────────


def _refuse_repeated(folders: Sequence[Location]) -> None:
    named: dict[Location, Location] = {}
    for folder in folders:
        other = named.setdefault(_own_name(folder), folder)
        if other is not folder:
            raise UsageError(f"the same folder as {other}", where=folder, remedy="name each once")


def _refuse_other_count(shards: Sequence[ShardFolder]) -> None:
    most = _most_common(shards, lambda record: record.count)
    for shard in shards:
        if shard.record.count != most.record.count:
            raise FeatureSetError(
                f"this is {shard.record}, and {most.folder} is {most.record}",
                where=shard.folder,
                remedy="merge all shards of one run, and no others",
            )


def _refuse_repeated_index(shards: Sequence[ShardFolder]) -> None:
    for one, other in pairwise(shards):
        if one.record.index == other.record.index:
            raise FeatureSetError(
                f"this is {other.record}, as {one.folder} is", where=other.folder, remedy="leave one of them out"
            )


def _refuse_missing(shards: Sequence[ShardFolder]) -> None:
    record = shards[0].record
    there = {shard.record.index for shard in shards}
    missing = next((index for index in range(record.count) if index not in there), None)
    if missing is not None:
        raise FeatureSetError(
            f"there are {len(shards)} of {record.count} shards; {missing}/{record.count} is missing",
            remedy=f"name its folder too; {_shard_command(record, missing)} -o DIR … makes it",
        )


def _refuse_another_run(shards: Sequence[ShardFolder]) -> None:
    most = _most_common(shards, lambda record: record.settings.fingerprint)
    for shard in shards:
        if differences := shard.record.settings.differences(most.record.settings):
            listed = "\n  ".join(f"{pair.name}: {pair.ours!r}, there {pair.theirs!r}" for pair in differences)
            raise FeatureSetError(
                f"{shard.record} was made with other settings than {most.folder}:\n  {listed}\n",
                where=shard.folder,
                remedy="make it anew with the settings of the others",
            )
    most = _most_common(shards, _plan_of)
    for shard in shards:
        if _plan_of(shard.record) != _plan_of(most.record):
            raise FeatureSetError(
                f"{shard.record} was made from another corpus than {most.folder}, or from another state of it: "
                f"{_size(shard.record)}, there {_size(most.record)}",
                where=shard.folder,
                remedy=f"run the commands of all shards again over one corpus ({_shard_command(shard.record, 0)} …): "
                "they redo what is concerned",
            )


def _most_common(shards: Sequence[ShardFolder], of: Callable[[ShardRecord], Hashable]) -> ShardFolder:
    """A shard with the most common value of ``of``, which should be the same for all shards."""
    counts = Counter(of(shard.record) for shard in shards)
    return max(shards, key=lambda shard: counts[of(shard.record)])


def _plan_of(record: ShardRecord) -> tuple[int, int, str]:
    return record.parts, record.rows, record.plan


def _size(record: ShardRecord) -> str:
    return f"{record.rows:,} rows in {record.parts:,} parts"


def _shard_command(record: ShardRecord, index: int) -> str:
    """The command that makes a shard of the same run, as far as it is known."""
    first, *more = record.sources or ("CORPUS",)
    return f"bertfeat extract {shell_value(first)}{' …' if more else ''} --shard {index}/{record.count}"
