"""The rows of a corpus (documents, failures, blank lines), their positions in files, and the interface of a corpus."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from bertfeat.display import displayed

Value = str | int | float | bool | None
"""A value of a kept column."""

MAX_TEXT = 16 * 2**20
"""Most characters of a text; a longer one fails. A whole part holds no more."""

MAX_LINE = 64 * 2**20
"""Most bytes of a line or record; a longer one fails."""


# fmt: off
RESERVED_COLUMNS = (
    "row", "id", "text", "pair", "text_digest", "n_tokens", "n_unk", "n_truncated", "tags",
    "tokens", "token_ids", "token_start", "token_end", "token_segment",
    "words", "word_start", "word_end", "word_segment", "aligned",
)
# fmt: on
"""Names of columns that feature sets have of their own; kept columns must have other names."""


@displayed
@dataclass(frozen=True, slots=True)
class Document:
    """One input text (or pair of texts, or list of words, or of token ids) with an id.

    ``row`` is the 0-based number of the record in the whole corpus, counting blank lines and failures. There are as
    many ``tags`` as ``words``; ``kept`` is in the order of ``Corpus.kept``. ``before`` and ``after`` are the
    neighboring sentences in the same ``-DOCSTART-`` document of a CoNLL file, in reading order.
    """

    row: int
    id: str
    text: str  # if words or ids are given: these joined by single spaces
    pair: str | None = None
    words: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    kept: tuple[Value, ...] = ()
    before: str = ""
    after: str = ""
    ids: tuple[int, ...] | None = None  # token ids, which the model reads as they are
    _digest: bytes = field(default=b"", init=False, repr=False, compare=False)  # of its text, once it was asked for


@displayed
@dataclass(frozen=True, slots=True)
class Failure:
    """A row that could not be read or embedded.

    ``reason`` names file, record and remedy and never quotes the row's text; ``value`` does, shortened.
    """

    row: int
    id: str
    reason: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class BlankLine:
    """A blank line of a file that has one record per line."""

    row: int


Row = Document | Failure | BlankLine


@dataclass(frozen=True, slots=True)
class KeptColumn:
    """A column of the corpus that is stored beside the features."""

    name: str
    type: str  # "string" | "int64" | "float64" | "bool"


@dataclass(frozen=True, slots=True)
class Position:
    """The place in a file where a row begins, and what must be known about the file before it to resume there."""

    offset: int
    """Decompressed bytes of the file before it; for Parquet, records before its row group; for arrays of JSON,
    characters before its element."""

    line: int
    """Lines before ``offset``; for Parquet 0; for arrays of JSON, elements."""

    record: int
    """Rows of the file before it, including those that ``skip`` counts."""

    skip: int = 0
    """Rows to skip after ``offset``: for Parquet, rows of its row group; for SQuAD, rows of its article; for CoNLL, its
    context."""

    span: int = 0
    """Spans to skip of the row that begins there, where texts are split."""


START = Position(0, 0, 0)
"""The beginning of a file."""


class Corpus(Protocol):
    """A corpus that can be read from its start any number of times, one row at a time."""

    @property
    def kept(self) -> tuple[KeptColumn, ...]:
        """The columns that every document's ``kept`` values belong to."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns or fields that there are (for JSONL, in the first 1,000 records)."""

    @property
    def has_pairs(self) -> bool:
        """Whether documents are pairs of texts."""

    @property
    def has_words(self) -> bool:
        """Whether documents bring their own words."""

    @property
    def has_tags(self) -> bool:
        """Whether the words have tags."""

    @property
    def split(self) -> str | None:
        """The rule by which documents are split off texts; None where they are whole texts."""

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the files as the user gave them, for messages and the manifest."""

    @property
    def fraction(self) -> float:
        """The share of the corpus, in bytes on disk, that the latest ``rows()`` has read, from 0 to 1."""

    def rows(self) -> Iterator[Row]:
        """Read the corpus from its start.

        Raises:
            CorpusError: the rest of a file cannot be read; the rows before it have been yielded.
        """


def size_problem(text: str) -> str:
    """Return the reason why a text cannot be read, if it is too large; else an empty string."""
    return "" if len(text) <= MAX_TEXT else f"too large: the text has more than {MAX_TEXT:,} characters; split it"
