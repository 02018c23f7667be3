"""Records with named fields, and the making of documents from them, for JSON, CSV, Parquet, SQuAD and mappings alike.

The reader of each format yields records from a position on; the code common to all turns them into rows.
"""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np

from bertfeat.core.corpus.blocks import Meter
from bertfeat.core.corpus.columns import ConversionError, convert_values, id_column, sample_columns
from bertfeat.core.corpus.document import START, BlankLine, Document, Failure, KeptColumn, Position, Row, size_problem
from bertfeat.core.corpus.input_file import Columns, CorpusFile
from bertfeat.core.corpus.lines import BadLine
from bertfeat.core.corpus.settings import CorpusSettings
from bertfeat.core.spans import SpanRule
from bertfeat.errors import did_you_mean, quote_names, shell_spelling, shorten


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be read, and why."""

    where: str  # "line 3", "record 3"
    reason: str
    value: str
    id: str | None = None  # where it is known


_MOST_ID = 2**31 - 1
_ID_NUMBERS = f"token ids are numbers from 0 to {_MOST_ID:,}"

Fields = Mapping[str, object]
"""The fields of a record by name."""

Record = Fields | BadRecord | None
"""Fields; or what is wrong; or None, for a blank line."""


def named_fields(settings: CorpusSettings) -> tuple[str, ...]:
    """The fields that settings name, of those to keep with and without the type that may stand behind them."""
    rule = SpanRule.of(settings.split)
    single = (settings.pair_column, settings.id_column, settings.tag_column, rule and rule.column)
    kept = (name for item in settings.keep for name in (item, item.rpartition(":")[0]))
    return tuple(dict.fromkeys(name for name in (*settings.texts, *single, *kept) if name))


def paths_of(names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The steps to fields within objects, by names such as ``labels.label``."""
    return {name: name.split(".") for name in names if "." in name}


def with_inner(record: Fields, paths: Mapping[str, Sequence[str]]) -> Fields:
    """A record with the values at some paths, where it has no field of such a name itself."""
    found = dict[str, object]()
    for name, path in paths.items():
        value: object = record
        for key in path:
            if not isinstance(value, Mapping) or key not in value:
                break
            value = value[key]
        else:
            found.setdefault(name, record.get(name, value))
    return {**record, **found} if found else record


def look_at_records(name: str, records: Iterable[Record], settings: CorpusSettings, size: int) -> Columns:
    """The fields of the first ``size`` records of a file, and of those within objects the ones that settings name."""
    paths = paths_of(named_fields(settings))
    sample = sample_columns((with_inner(each, paths) if isinstance(each, Mapping) else each for each in records), size)
    columns = tuple(column for column in sample.columns if is_storable(column))
    return Columns(name, columns, sample.types, seen=sample.seen, sampled=sample.count)


class RecordReader(ABC):
    """Reads a file, from a position on, as records with named fields, and makes rows of them."""

    def __init__(self, file: CorpusFile, start: Position, meter: Meter) -> None:
        self.file, self.start, self.meter = file, start, meter
        self._number = start.record  # of the record given last, counted from 1

    @classmethod
    @abstractmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """Find the columns of a file, and their types in its first ``sample_size`` records."""

    @abstractmethod
    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Read the records from the start on; the fields ``names`` are needed."""

    @abstractmethod
    def position_of(self, record: int, *, last: bool) -> Position:
        """The position of the record given last if ``last``, else of the next one; ``record`` records are before it."""

    def position(self, *, last: bool) -> Position:
        """The position of the row given last if ``last``, else of the one after it."""
        if self._number == self.start.record:
            return self.start
        return self.position_of(self._number - last, last=last)

    def rows(self, row: int) -> Generator[Row, None, None]:
        """Read the rows, numbered from ``row``."""
        file = self.file
        shape = RecordShape.of(file.settings, file.columns, file.kept, cells=file.source.format.cells)
        prefix, name, read = file.id_prefix, file.name, shape.read
        for number, record in enumerate(self.records(shape.used), self.start.record + 1):
            self._number = number
            if record is None:
                yield BlankLine(row)
            elif isinstance(record, BadRecord):
                reason = f"{name}, {record.where}: {record.reason}"
                name_of_row = f"{prefix}{number}" if record.id is None else record.id
                yield Failure(row, name_of_row, reason, shorten(record.value))
            else:
                result = read(row, record, f"{prefix}{number}")
                if isinstance(result, Failure):
                    result = replace(result, reason=f"{name}, record {number}: {result.reason}")
                yield result
            row += 1


class LineRecordReader(RecordReader):
    """Reads a text file in which each line is a record."""

    def __init__(self, file: CorpusFile, start: Position, meter: Meter) -> None:
        super().__init__(file, start, meter)
        self._lines = file.lines(start, meter)

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """The fields of the first records."""
        return look_at_records(file.name, cls(file, START, Meter()).records(()), file.settings, sample_size)

    @abstractmethod
    def record(self, line: str, number: int, names: Sequence[str]) -> Record:
        """The record of a line, of which the fields ``names`` are needed; a blank line is None. Lines count from 1.

        Raises:
            ValueError: the line is not a record; it becomes a failed row with the error's text as the reason.
        """

    def records(self, names: Sequence[str]) -> Iterator[Record]:
        """Read the records from the start on."""
        number = self.start.line
        for lines in self._lines:
            for line in lines:
                number += 1
                if isinstance(line, BadLine):
                    yield BadRecord(f"line {number}", line.reason, line.text)
                    continue
                try:
                    record = self.record(line, number, names)
                except ValueError as error:
                    record = BadRecord(f"line {number}", str(error), line)
                yield record

    def position_of(self, record: int, *, last: bool) -> Position:
        """The position of a record, which is a line."""
        return Position(self._lines.newest.offset_of(record), record, record)


# ── from a record to a document ───────────────────────────────────────────────────────────────────────────────


class _BadFieldError(Exception):
    """An error that ends the reading of a record: the problem of a field, and its value."""

    def __init__(self, reason: str, value: object = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.value = value


@dataclass(frozen=True)
class RecordShape:
    """The fields of a record that make the document."""

    texts: tuple[str, ...]
    pair: str | None
    id: str | None
    needs_id: bool
    tags: str | None
    words: bool
    cells: bool  # fields are strings always (CSV): words and tags are separated by white space
    kept: tuple[KeptColumn, ...]

    @cached_property
    def _paths(self) -> Mapping[str, Sequence[str]]:
        """The steps to the fields that it reads within objects."""
        return paths_of(self.used)

    @classmethod
    def of(
        cls, settings: CorpusSettings, columns: tuple[str, ...], kept: tuple[KeptColumn, ...], *, cells: bool = False
    ) -> "RecordShape":
        """The shape that the settings ask for, of records with these columns."""
        return cls(
            texts=settings.texts,
            pair=settings.pair_column,
            id=id_column(settings, columns),
            needs_id=settings.id_column is not None,
            tags=settings.tag_column,
            words=settings.pretokenized,
            cells=cells,
            kept=kept,
        )

    @property
    def used(self) -> tuple[str, ...]:
        """Every field that is read."""
        single = [name for name in (self.pair, self.id, self.tags) if name is not None]
        return tuple(dict.fromkeys([*self.texts, *single, *(column.name for column in self.kept)]))

    def read(self, row: int, fields: Fields, number: str) -> Document | Failure:
        """Make a document of a record, or a failure whose reason still lacks the place of the record.

        ``number`` is the id where the record has none.
        """
        name = number
        if self._paths:
            fields = with_inner(fields, self._paths)
        try:
            name = self._id(fields, number)
            words = ids = None
            if self.words:
                ids = self._token_ids(fields)
                words = None if ids is not None else self._words(fields)
            text = self._text(fields) if not self.words else " ".join(words or map(str, ids or ()))
            pair = None if self.pair is None else _string_field(fields, self.pair, "pair_column")
            for part in (text, pair or ""):
                if problem := size_problem(part):
                    raise _BadFieldError(problem, part)
            tags = None
            if self.tags is not None and words is not None:
                tags = tuple(self._list(fields, self.tags, "tag_column"))
                if len(tags) != len(words):
                    problem = f"{len(words)} words but {len(tags)} tags in '{self.tags}'; make them as many"
                    raise _BadFieldError(problem)
            kept = convert_values(self.kept, fields) if self.kept else ()
            return Document(row, name, text, pair, words, tags, kept, ids=ids)
        except _BadFieldError as bad:
            return Failure(row, name, bad.reason, shorten(bad.value))
        except ConversionError as error:
            value = _display([fields.get(column.name) for column in self.kept])
            return Failure(row, name, str(error), shorten(value))

    def _id(self, fields: Fields, number: str) -> str:
        if self.id is None:
            return number
        value = fields.get(self.id)
        if type(value) is str:
            return value
        if _is_null(value) and not self.needs_id:
            return number
        if _is_null(value) or isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _BadFieldError(_field_problem(fields, self.id, "a string or a number", "id_column"), _display(value))
        return str(value)

    def _text(self, fields: Fields) -> str:
        if len(self.texts) == 1:
            return _string_field(fields, self.texts[0], "text_columns")
        parts = [_string_field(fields, name, "text_columns") for name in self.texts]
        return " ".join([part for part in parts if part])

    def _words(self, fields: Fields) -> tuple[str, ...]:
        return tuple([word for column in self.texts for word in self._list(fields, column, "text_columns")])

    def _token_ids(self, fields: Fields) -> tuple[int, ...] | None:
        """The token ids of a record whose columns hold lists of numbers; None for other records."""
        lists = {name: as_list(fields.get(name)) for name in self.texts}
        first = next((item for each in lists.values() for item in each or () if item is not None), "")
        if not isinstance(first, int | float | np.number):
            return None
        ids = [item for each in lists.values() for item in each or ()]
        for name in (name for name, each in lists.items() if each is None):
            raise _BadFieldError(_field_problem(fields, name, "a list of token ids", "text_columns"))
        if self.tags is not None:
            raise _BadFieldError(f"'{self.texts[0]}' has token ids, and tags in '{self.tags}' are of words")
        for place, item in enumerate(ids, 1):
            if not is_token_id(item):
                problem = f"item {place} of '{', '.join(self.texts)}' is {_as_json(item)}, and {_ID_NUMBERS}"
                raise _BadFieldError(f"{problem}; correct the list", _display(ids))
        return tuple(int(item) for item in cast("list[int]", ids))

    def _list(self, fields: Fields, name: str, option: str) -> list[str]:
        value = fields.get(name)
        if self.cells and isinstance(value, str):
            return value.split()
        if not isinstance(value, list | tuple):
            expected = f"a list of strings (as {shell_spelling('pretokenized', True)} asks)"
            raise _BadFieldError(_field_problem(fields, name, expected, option), _display(value))
        if option == "tag_column":  # some data sets have numbers for tags
            value = [str(tag) if isinstance(tag, int) else tag for tag in value]
        for place, item in enumerate(value, 1):
            if not isinstance(item, str) or not item:
                what = "empty" if item == "" else f"{type_name(item)}, not a string"
                raise _BadFieldError(f"item {place} of '{name}' is {what}; correct the list", _display(value))
        return list(value)


def is_token_id(value: object) -> bool:
    """Whether a value may be the number of a token in a vocabulary."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and 0 <= int(value) <= _MOST_ID


def as_list(value: object) -> Sequence[object] | None:
    """The items of a list, tuple or array; None for anything else."""
    if isinstance(value, np.ndarray):
        value = value.tolist()  # whose numbers are Python's
    return value if isinstance(value, list | tuple) else None


def _as_json(value: object) -> str:
    return json.dumps(value, default=str)


def _is_null(value: object) -> bool:
    """Whether a value is missing: null, or NaN, which pandas writes for null in a column of numbers."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_storable(value: object) -> bool:
    """Whether a value can be written as UTF-8: JSON and Python strings may hold half of a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True


def are_storable(record: Fields, names: Iterable[str]) -> bool:
    """Whether those fields of a record, and objects that they are within, can be written as UTF-8."""
    return all(is_storable(record.get(name)) for name in {*names, *(name.partition(".")[0] for name in names)})


TORN = "half of a surrogate pair (such as \\ud83d alone) in a field; it cannot be stored"
"""The problem of a record of which :func:`are_storable` is not so."""


def _string_field(fields: Fields, name: str, option: str) -> str:
    value = fields.get(name)
    if isinstance(value, str):
        return value
    reason = _field_problem(fields, name, "a string", option)
    if isinstance(value, list):
        reason += f"; {shell_spelling('pretokenized', True)} takes lists of words or of token ids"
    raise _BadFieldError(reason, _display(value))


def _field_problem(fields: Fields, name: str, expected: str, field_of_settings: str) -> str:
    option = shell_spelling(field_of_settings)
    if name not in fields:
        known = tuple(map(str, fields))
        return f"no field '{name}'; {did_you_mean(name, known)}there are {quote_names(known)}: name one with {option}"
    if _is_null(fields[name]):
        return f"field '{name}' is null; fill it, or name another with {option}"
    return f"field '{name}' is {type_name(fields[name])}, not {expected}; correct it, or name another with {option}"


def type_name(value: object) -> str:
    """Return JSON's name of the type of a value, for messages."""
    names = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a list"}
    names |= {dict: "an object", type(None): "null", bytes: "bytes"}
    return names.get(type(value), type(value).__name__)


def _display(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)[:1000]
