"""Digests of rows: equal only for equal rows, every field of them."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from heapq import nsmallest

from bertfeat.corpus import BlankLine, Document, Row, Value

SKETCH_SIZE = 16

# Every field has its length before it, so that no two different rows are written alike.


def digest_rows(rows: Sequence[Row], base: int = 0) -> tuple[str, tuple[str, ...]]:
    """The digest of rows, numbered from ``base``, and their sketch.

    The sketch holds the smallest digests of the documents' contents, row numbers and ids left out: where two sketches
    meet, they have a document in common, though lines may have been put in before it. It has at most ``SKETCH_SIZE``.
    """
    written: list[bytes] = []
    contents: set[bytes] = set()
    for row in rows:
        if isinstance(row, Document):
            content = blake2b(_encode(_content_of(row)), digest_size=16).digest()
            if row.text:  # empty texts are in every corpus
                contents.add(content)
            written.append(_encode(_place_of(row, base)))
            written.append(content)
        elif isinstance(row, BlankLine):
            written.append(b"B%d;" % (row.row - base))
        else:
            said = f"{_write_string(row.id)}{_write_string(row.reason)}{_write_string(row.value)}"
            written.append(_encode(f"F{row.row - base};{said}"))
    sketch = tuple(digest.hex() for digest in nsmallest(SKETCH_SIZE, contents))
    return blake2b(b"".join(written), digest_size=32).hexdigest(), sketch


def part_digest(first_row: int, spans: Iterable[tuple[int, str]]) -> str:
    """The digest of a part: of its first row's number, and of each span's first row (in its file) and digest."""
    digest = blake2b(f"{first_row};".encode(), digest_size=32)
    for span_row, span_digest in spans:
        digest.update(f"{span_row};{span_digest};".encode())
    return digest.hexdigest()


def _place_of(document: Document, base: int) -> str:
    """Return the place and context of a document as text: the fields that an insertion before it changes."""
    place = f"D{document.row - base};{len(document.id)}:{document.id}"
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
