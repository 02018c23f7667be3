"""The plan: a corpus cut into parts, in input order, lazily and always in the same way."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from heapq import nsmallest

from bertfeat.corpus import MAX_TEXT, BlankLine, Corpus, Document, Row, Value
from bertfeat.errors import UsageError, parameter

PART_BYTES = 256 * 2**20
"""A part ends where its estimated output would pass this."""

PART_CHARACTERS = MAX_TEXT
"""A part ends where its input would pass this, so that none is hours of work."""

SKETCH_SIZE = 16


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """A contiguous range of a corpus: the unit of work, of resume and of distribution.

    The sketch holds the smallest digests of its documents' contents, row numbers and ids left out: where two sketches
    meet, the parts have a document in common, though lines may have been put in before it.
    """

    number: int
    first_row: int
    rows: tuple[Row, ...]
    digest: str  # of every field of every row
    sketch: tuple[str, ...]  # at most SKETCH_SIZE; of documents without text there are none
    fraction: float  # how much of the corpus had been read when the part ended, 0 to 1


def plan_parts(
    corpus: Corpus, *, part_rows: int, bytes_per_row: float, bytes_per_character: float
) -> Iterator[PlannedPart]:
    """Cut a corpus into parts of at most ``part_rows`` rows, blank lines and failures counted too.

    A part ends earlier where ``bytes_per_row + bytes_per_character * characters``, summed over its documents, would
    pass 256 MiB, or where what is read for them (context and kept strings too) would pass 16 Mi characters; it has one
    row at least. Memory: one part.

    Raises:
        UsageError: ``part_rows`` below 1.
        CorpusError: the corpus cannot be read on.
    """
    if part_rows < 1:
        raise UsageError("a part has at least one row", where=parameter("part_rows", part_rows))
    number = 0
    rows: list[Row] = []
    size, characters = 0.0, 0
    for row in corpus.rows():
        cost, read = 0.0, 0
        if isinstance(row, Document):
            length = len(row.text) if row.pair is None else len(row.text) + len(row.pair)
            cost = bytes_per_row + bytes_per_character * length
            read = length + _extra(row) if row.kept or row.before or row.after else length
        if rows and (len(rows) >= part_rows or size + cost > PART_BYTES or characters + read > PART_CHARACTERS):
            yield _make_part(number, rows, corpus.fraction)
            number, rows, size, characters = number + 1, [], 0.0, 0
        rows.append(row)
        size += cost
        characters += read
    if rows:
        yield _make_part(number, rows, corpus.fraction)


def _extra(document: Document) -> int:
    """Characters that come with a document beside its texts."""
    kept = sum([len(value) for value in document.kept if isinstance(value, str)])
    return kept + len(document.before) + len(document.after)


def _make_part(number: int, rows: list[Row], fraction: float) -> PlannedPart:
    digest, sketch = _digest_rows(rows)
    return PlannedPart(number, rows[0].row, tuple(rows), digest, sketch, fraction)


# ── digests: every field has its length before it, so that no two different rows are written alike ─────────────────


def _digest_rows(rows: list[Row]) -> tuple[str, tuple[str, ...]]:
    written: list[bytes] = []
    contents: set[bytes] = set()
    for row in rows:
        if isinstance(row, Document):
            content = blake2b(_encode(_content_of(row)), digest_size=16).digest()
            if row.text:  # empty texts are in every corpus
                contents.add(content)
            written.append(_encode(_place_of(row)))
            written.append(content)
        elif isinstance(row, BlankLine):
            written.append(b"B%d;" % row.row)
        else:
            written.append(
                _encode(f"F{row.row};{_write_string(row.id)}{_write_string(row.reason)}{_write_string(row.value)}")
            )
    sketch = tuple(digest.hex() for digest in nsmallest(SKETCH_SIZE, contents))
    return blake2b(b"".join(written), digest_size=32).hexdigest(), sketch


def _place_of(document: Document) -> str:
    """Where a document stands: what an insertion before it changes."""
    place = f"D{document.row};{len(document.id)}:{document.id}"
    if document.before or document.after:
        place += f"c{_write_string(document.before)}{_write_string(document.after)}"
    return place


def _content_of(document: Document) -> str:
    content = f"{len(document.text)}:{document.text}"
    if document.pair is not None:
        content += f"p{_write_string(document.pair)}"
    if document.words is not None:
        content += f"w{_write_strings(document.words)}"
    if document.tags is not None:
        content += f"t{_write_strings(document.tags)}"
    if document.kept:
        content += f"k{len(document.kept)};{''.join(map(_write_value, document.kept))}"
    return content


def _write_value(value: Value) -> str:
    return f"s{_write_string(value)}" if isinstance(value, str) else f"{type(value).__name__}{value!r};"


def _write_strings(strings: tuple[str, ...]) -> str:
    return f"{len(strings)};{''.join(map(_write_string, strings))}"


def _write_string(text: str) -> str:
    return f"{len(text)}:{text}"


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
