"""Places in the files of a corpus at which reading can begin."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Position:
    """The place in a file where a row begins, and what must be known of the file before it to read on from there."""

    offset: int
    """Bytes of the file before it, decompressed; of Parquet: records before its row group; of SQuAD:
    characters before its article."""

    line: int
    """Lines before ``offset``; of Parquet: none; of SQuAD: articles."""

    record: int
    """Rows of the file before it, those that are to be skipped included."""

    skip: int = 0
    """Rows to be passed over from ``offset`` on: of Parquet those of its row group, of SQuAD those of its article, of
    CoNLL its context."""


START = Position(0, 0, 0)
"""The beginning of a file."""
