"""The reader of files that are one JSON text with an array, of which one element is decoded at a time.

The array is the whole text, and each element a record, as in KLUE's files; or, for SQuAD, it is the value of a key.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar

from bertfeat.core.corpus.blocks import Meter, changed_error, read_blocks
from bertfeat.core.corpus.document import START, Position
from bertfeat.core.corpus.input_file import Columns, CorpusFile
from bertfeat.core.corpus.records import (
    TORN,
    BadRecord,
    Record,
    RecordReader,
    are_storable,
    look_at_records,
    type_name,
)
from bertfeat.errors import CorpusError, parameter, shorten

MAX_FILE = 256 * 2**20
"""Most bytes of a file, decompressed, since it is held in memory as a whole. (SQuAD 2.0's own file has 42 million.)"""

_MOST_SHOWN = 1000  # characters of what is no record
_MOST_DIGITS = 4000  # of a whole number; more of them are a text


def _read_digits(digits: str) -> int | str:
    return int(digits) if len(digits) <= _MOST_DIGITS else digits


_decode = json.JSONDecoder(parse_int=_read_digits).raw_decode
_BLANKS = re.compile(r"[ \t\n\r]*")


class JsonArrayReader(RecordReader):
    """Reads a file that is one JSON array of objects, from any of them on; the last of a field that comes twice counts.

    Damage in the text, and what is nested too deeply, is an error only after the elements before it. A library that
    decodes the whole file would refuse all of it for half a surrogate pair in one element, and name no line; of an
    object whose array has a key, it would take the last of two such keys in silence.
    """

    key: ClassVar[str | None] = None  # of the object whose value is the array; None where the text is the array
    format_name: ClassVar[str] = "a JSON array"
    form: ClassVar[str] = "an array of objects"
    smaller: ClassVar[str] = "make JSONL of it, an object a line, for example with jq -c '.[]'"  # if it is too large
    element_name: ClassVar[str] = "record"  # what an element is called
    record_name: ClassVar[str] = "record"

    _element = Position(0, 0, 0)  # where the newest one begins

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """The fields of the first records."""
        cls._check_beginning(file)
        records = _before_damage(cls(file, START, Meter()).records(()))
        return look_at_records(file.name, records, file.settings, sample_size)

    @classmethod
    def _check_beginning(cls, file: CorpusFile) -> None:
        """Refuse a file whose first element cannot be reached.

        Raises:
            CorpusError: it is not such JSON.
        """
        try:
            next(cls._elements(_read_text(file, cls.smaller)), None)
        except _BadJsonError as error:
            remedy = f"it is {cls.form}; correct it, or name its {parameter('format')}"
            raise CorpusError(f"not {cls.format_name}: {error}", where=file.name, remedy=remedy) from None

    def read(self, element: object, number: int) -> Sequence[Record]:
        """The records of an element; ``number`` counts from 1."""
        if isinstance(element, dict):
            return [element]
        problem = f'{type_name(element)}, not an object such as {{"text": "…"}}; correct it'
        return [BadRecord(f"{self.element_name} {number}", problem, json.dumps(element)[:_MOST_SHOWN])]

    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Read the records."""
        text = _read_text(self.file, self.smaller)
        may_be_torn = "\\ud" in text or "\\uD" in text
        number, skip = self.start.record - self.start.skip, self.start.skip
        for elements, (element, begin, end) in enumerate(self._from_start(text), self.start.line):
            records = self.read(element, elements + 1)
            if len(records) < skip:
                raise changed_error(self.file.name)
            if len(records) > skip:
                self._element = Position(begin, elements, number)
            for record in records[skip:]:
                yield self._refuse_torn(record, elements + 1, names) if may_be_torn else record
            number, skip = number + len(records), 0
            self.meter.read += self.file.source.size * (end - begin) // len(text)

    def _refuse_torn(self, record: Record, number: int, names: Sequence[str]) -> Record:
        """A record as it is, or a bad record if one of the fields ``names`` has half of a surrogate pair."""
        if not isinstance(record, Mapping) or are_storable(record, names):
            return record
        name = record.get(self.file.settings.id_column or "id")
        name = shorten(name) if isinstance(name, str) else None
        where = f"{self.element_name} {number}" if name is None else f"{self.record_name} '{name}'"
        return BadRecord(where, f"{TORN}: correct it", "", name)

    def position_of(self, record: int, *, last: bool) -> Position:
        """The position of a record in its element."""
        begin = self._element
        return Position(begin.offset, begin.line, record, record - begin.record)

    def _from_start(self, text: str) -> Iterator[tuple[object, int, int]]:
        """The elements from the start on, each with the places where it begins and ends."""
        begin, elements = self.start.offset, self.start.line
        try:
            for item in self._elements(text, begin):
                yield item
                elements += 1
        except _BadJsonError as error:
            if begin and elements == self.start.line:  # it could be read when the position was taken
                raise changed_error(self.file.name) from None
            problem = f"cannot be read on after {self.element_name} {elements:,}: {error}"
            raise CorpusError(problem, where=self.file.name) from None

    @classmethod
    def _elements(cls, text: str, begin: int = 0) -> Iterator[tuple[object, int, int]]:
        """Decode the elements, from the one that begins at ``begin`` on, or all; with the places of each."""
        scan = _Scanner(text, begin)
        if begin == 0:
            _enter_array(scan, cls.key)
        if begin or scan.peek() != "]":
            while True:
                scan.peek()
                first = scan.at
                yield scan.take_value(), first, scan.at
                if scan.take(",]") == "]":
                    break
        else:
            scan.take("]")
        _leave_array(scan, cls.key)


def _before_damage(records: Iterator[Record]) -> Iterator[Record]:
    """The records up to damage, which is met again when the file is read."""
    with suppress(CorpusError):
        yield from records


def _read_text(file: CorpusFile, smaller: str) -> str:
    """The whole text of a file."""
    data = bytearray()
    for block in read_blocks(file.source, Meter()):
        data += block
        if len(data) > MAX_FILE:
            problem = f"larger than {MAX_FILE // 2**20} MiB, the most that is read of a file that is one JSON text"
            raise CorpusError(problem, where=file.name, remedy=smaller)
    encoding = file.encoding
    try:
        return str(memoryview(data)[encoding.mark :], encoding.name)
    except UnicodeError as error:
        at = f" at byte {encoding.mark + error.start + 1:,}" if isinstance(error, UnicodeDecodeError) else ""
        remedy = f"correct it, or give the file's {parameter('encoding')}"
        raise CorpusError(f"not {encoding.name}{at}", where=file.name, remedy=remedy) from None


# ── the JSON text ───────────────────────────────────────────────────────────────────────────────────────────


class _BadJsonError(Exception):
    """A text is not JSON, or has no array where it should; says what, and where."""


class _Scanner:
    """A scanner of a JSON text, which takes one value or one sign (a single character) at a time."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self.at = at

    def peek(self) -> str:
        """Skip blanks, and return the next sign without taking it; an empty string at the end."""
        blanks = _BLANKS.match(self._text, self.at)
        assert blanks is not None
        self.at = blanks.end()
        return self._text[self.at : self.at + 1]

    def take(self, signs: str) -> str:
        """Take and return the next sign, which must be one of ``signs``."""
        sign = self.peek()
        if not sign or sign not in signs:
            raise self.error(f"{' or '.join(map(repr, signs))} expected")
        self.at += 1
        return sign

    def take_value(self) -> object:
        """Take and return a value."""
        self.peek()
        try:
            value, self.at = _decode(self._text, self.at)
        except json.JSONDecodeError as error:
            self.at = error.pos
            raise self.error(error.msg) from None
        except RecursionError:
            raise self.error("nested too deeply") from None
        return value

    def take_key(self) -> object:
        """Take a key and its colon, and return the key."""
        if self.peek() != '"':
            raise self.error("a key expected")
        key = self.take_value()
        self.take(":")
        return key

    def error(self, problem: str) -> _BadJsonError:
        """Return the error of a problem at this place, with its line and column."""
        line = self._text.count("\n", 0, self.at) + 1
        column = self.at - self._text.rfind("\n", 0, self.at)
        return _BadJsonError(f"{problem}, line {line}, column {column}")


def _enter_array(scan: _Scanner, key: str | None) -> None:
    """Go past the ``[`` of the array, whatever other keys stand before it."""
    if key is None:
        if scan.peek() != "[":
            raise scan.error("a list expected")
        scan.take("[")
        return
    if scan.peek() != "{":
        raise scan.error("an object expected")
    scan.take("{")
    if scan.peek() == "}":
        raise _BadJsonError(f'the object has no "{key}"')
    while scan.take_key() != key:
        scan.take_value()
        if scan.take(",}") == "}":
            raise _BadJsonError(f'the object has no "{key}"')
    if scan.peek() != "[":
        raise scan.error(f'"{key}" is not a list')
    scan.take("[")


def _leave_array(scan: _Scanner, key: str | None) -> None:
    """Go from the end of the array to the end of the text."""
    while key is not None and scan.take(",}") == ",":
        if scan.take_key() == key:
            raise scan.error(f'a second "{key}"')
        scan.take_value()
    if scan.peek():
        raise scan.error(f"something follows the {'list' if key is None else 'object'}")
