"""The plan: a corpus cut into parts, in input order and always in the same way.

It has two levels. Each file is cut into spans by itself, so that files can be scanned anywhere and several at once;
then row numbers follow by summing up. A part is one span of a large file, or several whole small files. The digest of
its rows shows whether an existing part is the planned one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from heapq import nsmallest
from itertools import chain
from typing import Protocol

from bertfeat.core.corpus import (
    MAX_TEXT,
    START,
    BlankLine,
    Corpus,
    CorpusFile,
    Document,
    FileCorpus,
    Position,
    Row,
    Value,
    encode_lossless,
    text_digest,
    write_string,
)
from bertfeat.core.features import PartHeader
from bertfeat.errors import CorpusError, UsageError, parameter

PLAN_VERSION = 2
"""Raised whenever the same corpus would be cut in another way, or have other digests."""

PART_BYTES = 256 * 2**20
"""A part ends where its estimated output would pass this."""

PART_CHARACTERS = MAX_TEXT
"""A part ends where its input would pass this, so that none is hours of work."""

SKETCH_SIZE = 16
"""Digests of documents in a sketch, at most."""


@dataclass(frozen=True, slots=True)
class PartLimits:
    """The limits of a part's size.

    A part has at most ``part_rows`` rows, blank lines and failures counted too. It ends earlier where ``bytes_per_row +
    bytes_per_character * characters``, summed over its documents, would pass 256 MiB, or where what is read for them
    (context and kept strings too) would pass 16 Mi characters; it has one row at least.
    """

    part_rows: int
    bytes_per_row: float
    bytes_per_character: float

    def __post_init__(self) -> None:
        if self.part_rows < 1:
            raise UsageError("a part has at least one row", where=parameter("part_rows", self.part_rows))

    def costs(self, row: Row) -> tuple[float, int]:
        """Return a row's share of a part's limits: bytes of features, and characters."""
        if not isinstance(row, Document):
            return 0.0, 0
        length = len(row.text) if row.pair is None else len(row.text) + len(row.pair)
        read = length + _other_characters(row) if row.kept or row.before or row.after else length
        return self.bytes_per_row + self.bytes_per_character * length, read

    def hold(self, rows: int, size: float, characters: int) -> bool:
        """Whether a part may have this number of rows, bytes and characters."""
        return rows <= self.part_rows and size <= PART_BYTES and characters <= PART_CHARACTERS


@dataclass(frozen=True, slots=True)
class Span:
    """A contiguous range of the rows of one file."""

    file: int  # its number in the corpus
    start: Position
    first_row: int  # in the file
    rows: int
    size: float  # estimated bytes of its features
    characters: int
    digest: str  # of every field of every row; rows are numbered within the file
    sketch: tuple[str, ...]
    ends_file: bool

    @property
    def is_whole_file(self) -> bool:
        """Whether it has all rows of its file."""
        return self.first_row == 0 and self.ends_file


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A contiguous range of a corpus: the unit of work, of resume and of distribution."""

    number: int
    first_row: int
    row_count: int
    spans: tuple[Span, ...]
    digest: str  # of every field of every row
    sketch: tuple[str, ...]  # see _digest_rows; documents without text are left out
    share: float  # of the corpus, 0 to 1
    rows: tuple[Row, ...] | None = None  # where they have just been read
    exists: bool = False  # whether an earlier run left a part that seems to be this one
    damage: str = ""  # what is wrong with that one

    @property
    def last_row(self) -> int:
        """The number after that of its last row."""
        return self.first_row + self.row_count

    @property
    def task(self) -> "PlannedPart":
        """The part as another process gets it, which reads the rows by itself."""
        return replace(self, rows=None)


class Reading(Protocol):
    """The rows of a file, one after the other."""

    @property
    def row_position(self) -> Position:
        """The position right before the row that was given last."""

    def __iter__(self) -> Iterator[Row]: ...


def plan_parts(corpus: Corpus, limits: PartLimits) -> Iterator[PlannedPart]:
    """Cut a corpus into parts, lazily, and give each with its rows. Memory: two parts.

    Raises:
        CorpusError: the corpus cannot be read on.
    """
    numbering = PartNumbering(limits)
    for span, rows, share in _spans_of_corpus(corpus, limits):
        yield from numbering.add(span, rows, share)
        del rows  # freed with the part
    yield from numbering.end()


def scan_file(file: CorpusFile, number: int, limits: PartLimits) -> tuple[Span, ...]:
    """Cut one file of a corpus, the ``number``-th, into spans. Memory: one span's rows.

    Raises:
        CorpusError: the file cannot be read on.
    """
    return tuple(span for span, _ in _cut_spans(file.read(0), number, 0, limits))


def read_part(files: Sequence[CorpusFile], part: PlannedPart) -> tuple[Row, ...]:
    """Read the rows of a part again, each of its spans from where it begins.

    Raises:
        CorpusError: a file cannot be read, or has changed since the plan was made.
    """
    rows: list[Row] = []
    for span in part.spans:
        base = part.first_row + len(rows) - span.first_row
        read = list(files[span.file].read(base + span.first_row, start=span.start, rows=span.rows))
        if len(read) != span.rows or _digest_rows(read, base)[0] != span.digest:
            raise CorpusError(
                "the file has changed since the run began",
                where=files[span.file].source.name,
                remedy="run the same command again: it redoes the parts concerned",
            )
        rows.extend(read)
    return tuple(rows)


def begins_with(parts: Iterable[tuple[PlannedPart, Sequence[Row]]], earlier: PartHeader) -> bool:
    """Whether the rows of planned parts begin with those of an earlier part.

    ``parts`` follow one another, each with its rows, from the first row of the earlier part on.
    """
    spans: list[tuple[int, int, list[Row]]] = []  # of the earlier part, one per file: its number, first row and rows
    row = earlier.first_row
    for part, rows in parts:
        taken = 0
        for span in part.spans:
            chosen = rows[taken : taken + min(span.rows, earlier.last_row - row)]
            taken, row = taken + span.rows, row + len(chosen)
            if not chosen:
                break
            if spans and spans[-1][0] == span.file:
                spans[-1][2].extend(chosen)
            else:
                spans.append((span.file, span.first_row, list(chosen)))
    if row != earlier.last_row:
        return False
    digests: list[tuple[int, str]] = []
    row = earlier.first_row
    for _, span_row, rows_of_file in spans:
        digests.append((span_row, _digest_rows(rows_of_file, row - span_row)[0]))
        row += len(rows_of_file)
    return _part_digest(earlier.first_row, digests) == earlier.digest


class PartNumbering:
    """Joins the spans of all files, in order, into parts, and numbers the parts and their rows.

    Small files are put together as long as a part holds them whole.
    """

    def __init__(self, limits: PartLimits) -> None:
        self._limits = limits
        self._number = self._row = 0
        self._clear()

    def _clear(self) -> None:
        self._spans: list[Span] = []
        self._rows: list[tuple[Row, ...]] = []
        self._count, self._size, self._characters, self._share = 0, 0.0, 0, 0.0

    def add(self, span: Span, rows: tuple[Row, ...] | None, share: float) -> Iterator[PlannedPart]:
        """Add the next span, with its rows if they have been read, and its share of the corpus; yield full parts."""
        fits = self._limits.hold(self._count + span.rows, self._size + span.size, self._characters + span.characters)
        if not (span.is_whole_file and fits):
            yield from self.end()
        self._spans.append(span)
        if rows is not None:
            self._rows.append(rows)
        self._count += span.rows
        self._size += span.size
        self._characters += span.characters
        self._share += share
        if not span.is_whole_file:
            yield from self.end()

    def end(self) -> Iterator[PlannedPart]:
        """The last part, if any rows are left for it."""
        if not self._spans:
            return
        spans, first = tuple(self._spans), self._row
        digest = _part_digest(first, ((span.first_row, span.digest) for span in spans))
        sketch = sorted({one for span in spans for one in span.sketch})[:SKETCH_SIZE]
        rows = tuple(chain.from_iterable(self._rows)) if self._rows else None
        part = PlannedPart(self._number, first, self._count, spans, digest, tuple(sketch), self._share, rows)
        self._number, self._row = self._number + 1, first + self._count
        self._clear()
        yield part


# ── spans ───────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _CorpusReading:
    """A corpus that is not made of files, as one file whose rows cannot be found again."""

    corpus: Corpus
    row_position: Position = START

    def __iter__(self) -> Iterator[Row]:
        return self.corpus.rows()


def _spans_of_corpus(corpus: Corpus, limits: PartLimits) -> Iterator[tuple[Span, tuple[Row, ...], float]]:
    before, row = 0.0, 0
    whole: tuple[Callable[[int], Reading], ...] = (lambda _row: _CorpusReading(corpus),)
    for number, read in enumerate(corpus.readings() if isinstance(corpus, FileCorpus) else whole):
        first = row
        for span, rows in _cut_spans(read(first), number, first, limits):
            row += span.rows
            fraction = corpus.fraction
            yield span, rows, fraction - before
            before = fraction


def _cut_spans(reading: Reading, file: int, base: int, limits: PartLimits) -> Iterator[tuple[Span, tuple[Row, ...]]]:
    """Cut the rows of a file, which are numbered from ``base``, into spans."""
    rows: list[Row] = []
    start, first = START, 0
    size, characters = 0.0, 0
    for row in reading:
        cost, read = limits.costs(row)
        if rows and not limits.hold(len(rows) + 1, size + cost, characters + read):
            yield _make_span(file, start, first, base, rows, size, characters, ends_file=False)
            start, first = reading.row_position, first + len(rows)
            rows, size, characters = [], 0.0, 0
        rows.append(row)
        size += cost
        characters += read
    if rows:
        yield _make_span(file, start, first, base, rows, size, characters, ends_file=True)


def _make_span(
    file: int,
    start: Position,
    first: int,
    base: int,
    rows: list[Row],
    size: float,
    characters: int,
    *,
    ends_file: bool,
) -> tuple[Span, tuple[Row, ...]]:
    digest, sketch = _digest_rows(rows, base)
    return Span(file, start, first, len(rows), size, characters, digest, sketch, ends_file), tuple(rows)


def _other_characters(document: Document) -> int:
    """The number of characters that a document has besides its texts."""
    kept = sum([len(value) for value in document.kept if isinstance(value, str)])
    return kept + len(document.before) + len(document.after)


# ── digests of rows: equal only for equal rows, every field of them ─────────────────────────────────────────
# Every field has its length before it, or a fixed one, so that no two different rows are written alike.


def _digest_rows(rows: Sequence[Row], base: int = 0) -> tuple[str, tuple[str, ...]]:
    """The digest of rows, numbered from ``base``, and their sketch.

    The sketch holds the smallest of the documents' text digests, at most ``SKETCH_SIZE``: if two sketches share a
    digest, their rows have a text in common, even if lines were inserted before it.
    """
    written: list[bytes] = []
    texts: set[bytes] = set()
    for row in rows:
        if isinstance(row, Document):
            text = text_digest(row)
            if row.text:  # empty texts are in every corpus
                texts.add(text)
            written += (encode_lossless(_place_of(row, base)), text)
        elif isinstance(row, BlankLine):
            written.append(b"B%d;" % (row.row - base))
        else:
            said = f"{write_string(row.id)}{write_string(row.reason)}{write_string(row.value)}"
            written.append(encode_lossless(f"F{row.row - base};{said}"))
    sketch = tuple(digest.hex() for digest in nsmallest(SKETCH_SIZE, texts))
    return blake2b(b"".join(written), digest_size=32).hexdigest(), sketch


def _part_digest(first_row: int, spans: Iterable[tuple[int, str]]) -> str:
    """The digest of a part: of its first row's number, and of each span's first row (in its file) and digest."""
    digest = blake2b(f"{first_row};".encode(), digest_size=32)
    for span_row, span_digest in spans:
        digest.update(f"{span_row};{span_digest};".encode())
    return digest.hexdigest()


def _place_of(document: Document, base: int) -> str:
    """The fields of a document that its features do not depend on, as text: its row, id and kept columns."""
    place = f"D{document.row - base};{write_string(document.id)}"
    if document.kept:
        place += f"k{len(document.kept)};{''.join(map(_write_value, document.kept))}"
    return place


def _write_value(value: Value) -> str:
    return f"s{write_string(value)}" if isinstance(value, str) else f"{type(value).__name__}{value!r};"
