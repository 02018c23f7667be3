"""The settings for streaming a feature set for training."""

from dataclasses import dataclass
from typing import Literal, TypedDict

from bertfeat.arguments import checked
from bertfeat.errors import UsageError, parameter

STREAM_MEMORY = 1 << 30
"""Bytes of vectors that a stream holds at once, where nothing else is said."""


@checked
@dataclass(frozen=True, kw_only=True, slots=True)
class StreamSettings:
    """The settings for streaming the vectors of a column: the keywords of :meth:`FeatureSet.vectors`.

    The order depends on ``shuffle``, ``seed``, ``epoch``, ``shard`` and ``memory``, and on nothing else but the set and
    the column.

    Raises:
        UsageError: a number that cannot be right, or an unknown dtype.
    """

    batch: int = 65_536
    """Vectors in a batch; the last one may have less."""
    shuffle: bool = True
    """Whether the order is one that ``seed`` and ``epoch`` decide, or the stored one."""
    seed: int = 0
    epoch: int = 0
    start: int = 0
    """Number of the batch to begin with; what comes before it is not read."""
    shard: tuple[int, int] = (0, 1)
    """The number of the shard, and how many shards there are; together they give each vector once."""
    drop_last: bool = False
    """Whether a last batch that is not full is left out; all shards have equally many batches then."""
    dtype: Literal["float16", "float32"] | None = None
    """Type of the values; None: as they are stored, and float32 where something is computed with them."""
    memory: int = STREAM_MEMORY
    """Bytes of vectors that are held: half of them are shuffled among each other while the other half is read."""
    origins: bool = False
    """Whether a batch says of each vector which row, token or word it is of."""
    unaligned: bool = False
    """Whether words without a vector of their own are given, as zeros, and not left out."""

    def __post_init__(self) -> None:
        for name, least in {"batch": 1, "seed": 0, "epoch": 0, "start": 0, "memory": 1}.items():
            if getattr(self, name) < least:
                raise UsageError(parameter(name, getattr(self, name)), remedy=f"give a whole number from {least} on")
        index, count = self.shard
        if not 0 <= index < count:
            remedy = "give which one, counted from 0, and of how many: (0, 4) to (3, 4)"
            raise UsageError(parameter("shard", self.shard), remedy=remedy)


class StreamOptions(TypedDict, total=False):
    """The fields of :class:`StreamSettings` as keywords."""

    batch: int
    shuffle: bool
    seed: int
    epoch: int
    start: int
    shard: tuple[int, int]
    drop_last: bool
    dtype: Literal["float16", "float32"] | None
    memory: int
    origins: bool
    unaligned: bool
