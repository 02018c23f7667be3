"""The record of a finished shard: which parts of whose plan lie in a folder that is no whole feature set."""

from collections.abc import Mapping
from dataclasses import dataclass

from bertfeat.errors import DamagedError, FeatureSetError
from bertfeat.features.settings import FeatureSettings
from bertfeat.io import STATE_FOLDER, JsonFormat, Location, write_json

SHARD_NAME = f"{STATE_FOLDER}/shard.json"
_VERSION = 1
_MOST_ROWS = 1 << 62
_REMEDY = "run the shard's extract command again: it writes a new one"


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A finished shard: it has those parts of a plan whose number, divided by ``count``, leaves ``index``."""

    index: int
    count: int
    parts: int  # of the whole plan
    rows: int  # of the whole corpus
    plan: str  # sha256 of the digests of all parts: equal where the same rows were cut in the same way
    settings: FeatureSettings
    run: str  # as in the manifest of a whole set
    sources: tuple[str, ...]
    times: Mapping[str, object]
    versions: Mapping[str, str]
    format_version: int = _VERSION

    def __str__(self) -> str:
        return f"shard {self.index}/{self.count}"

    @property
    def numbers(self) -> range:
        """The numbers of its parts; a shard may have none."""
        return range(self.index, self.parts, self.count)


_FORMAT = JsonFormat(ShardRecord, _VERSION, error=DamagedError, refusal=FeatureSetError, remedy=_REMEDY)


def read_shard(folder: Location) -> ShardRecord | None:
    """Read the record of a shard; None where the folder holds no finished shard.

    Raises:
        FeatureSetError: written by a newer bertfeat.
        DamagedError: cannot be read as such a record, or was changed after it was written.
    """
    record = _FORMAT.read(folder / SHARD_NAME)
    if record is not None and not (0 <= record.index < record.count and 0 < record.parts <= record.rows < _MOST_ROWS):
        raise DamagedError(
            f"{record} of {record.parts} parts and {record.rows} rows cannot be",
            where=folder / SHARD_NAME,
            remedy=_REMEDY,
        )
    return record


def write_shard(folder: Location, record: ShardRecord) -> None:
    """Finish a shard, all of whose parts are there.

    Raises:
        StorageError: the folder cannot be written.
    """
    write_json(folder / SHARD_NAME, record)


def refuse_shard(folder: Location) -> None:
    """Refuse a folder that holds a shard, where a whole feature set is wanted.

    Raises:
        FeatureSetError: it does.
    """
    if (record := read_shard(folder)) is not None:
        raise FeatureSetError(
            f"this is {record} of a feature set, not the whole of it",
            where=folder,
            remedy="put all shards together: bertfeat merge SHARD... -o DIR (or read what this one holds: "
            "FeatureSet(folder, allow_unfinished=True))",
        )
