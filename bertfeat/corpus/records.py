"""From a record with named fields to a document: one way for JSONL, CSV, Parquet, SQuAD and lists of mappings."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from bertfeat.corpus.columns import ConversionError, convert_values
from bertfeat.corpus.document import Document, Failure, KeptColumn, Value, size_problem
from bertfeat.corpus.settings import CorpusSettings
from bertfeat.errors import did_you_mean, shell_spelling
from bertfeat.io import quote_names, shorten


@dataclass(frozen=True, slots=True)
class BadRecord:
    """A record that cannot be read, and why."""

    where: str  # "line 3", "record 3"
    reason: str
    value: str
    id: str | None = None  # where it is known


Fields = Mapping[str, object]
"""The fields of a record by name."""

Record = Fields | BadRecord | None
"""Fields; or what is wrong; or None, for a blank line."""


class _BadFieldError(Exception):
    """Ends the reading of a record: what is wrong with a field, and its value."""

    def __init__(self, reason: str, value: object = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.value = value


@dataclass(frozen=True, slots=True)
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
        try:
            name = self._id(fields, number)
            words = self._words(fields) if self.words else None
            text = self._text(fields) if words is None else " ".join(words)
            pair = None if self.pair is None else _string_field(fields, self.pair, "pair_column")
            for part in (text, pair or ""):
                if problem := size_problem(part):
                    raise _BadFieldError(problem, part)
            tags = None if self.tags is None or words is None else self._tags(fields, self.tags, len(words))
            kept = self._kept(fields) if self.kept else ()
            return Document(row, name, text, pair, words, tags, kept)
        except _BadFieldError as bad:
            return Failure(row, name, bad.reason, shorten(bad.value))

    def _id(self, fields: Fields, number: str) -> str:
        if self.id is None:
            return number
        value = fields.get(self.id)
        if type(value) is str:
            return value
        if is_null(value) and not self.needs_id:
            return number
        if is_null(value) or isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _BadFieldError(_field_problem(fields, self.id, "a string or a number", "id_column"), _display(value))
        return str(value)

    def _text(self, fields: Fields) -> str:
        if len(self.texts) == 1:
            return _string_field(fields, self.texts[0], "text_columns")
        parts = [_string_field(fields, name, "text_columns") for name in self.texts]
        return " ".join([part for part in parts if part])

    def _words(self, fields: Fields) -> tuple[str, ...]:
        return tuple([word for name in self.texts for word in self._list(fields, name, "text_columns")])

    def _tags(self, fields: Fields, name: str, count: int) -> tuple[str, ...]:
        tags = self._list(fields, name, "tag_column")
        if len(tags) != count:
            raise _BadFieldError(f"{count} words but {len(tags)} tags in '{name}'; make them as many")
        return tuple(tags)

    def _list(self, fields: Fields, name: str, option: str) -> list[str]:
        value = fields.get(name)
        if self.cells and isinstance(value, str):
            return value.split()
        if not isinstance(value, list | tuple):
            expected = f"a list of strings (as {shell_spelling('pretokenized', True)} asks)"
            raise _BadFieldError(_field_problem(fields, name, expected, option), _display(value))
        if option == "tag_column":  # data sets number their tags
            value = [str(tag) if isinstance(tag, int) else tag for tag in value]
        for place, item in enumerate(value, 1):
            if not isinstance(item, str) or not item:
                what = "empty" if item == "" else f"{type_name(item)}, not a string"
                raise _BadFieldError(f"item {place} of '{name}' is {what}; correct the list", _display(value))
        return list(value)

    def _kept(self, fields: Fields) -> tuple[Value, ...]:
        try:
            return convert_values(self.kept, fields)
        except ConversionError as error:
            raise _BadFieldError(str(error), _display([fields.get(column.name) for column in self.kept])) from None


def is_null(value: object) -> bool:
    """Whether a value is missing: null, or NaN, which pandas makes of it among numbers."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def is_storable(value: object) -> bool:
    """Whether a value can be written as UTF-8: JSON and Python strings may hold half of a surrogate pair."""
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        return False
    return True


def id_column(settings: CorpusSettings, columns: tuple[str, ...]) -> str | None:
    """The column of the ids: as the settings name it, else ``id`` or ``_id`` where there is one."""
    if settings.id_column is not None:
        return settings.id_column
    return next((name for name in ("id", "_id") if name in columns), None)


def _string_field(fields: Fields, name: str, option: str) -> str:
    value = fields.get(name)
    if isinstance(value, str):
        return value
    reason = _field_problem(fields, name, "a string", option)
    if isinstance(value, list):
        reason += f"; {shell_spelling('pretokenized', True)} takes lists of words"
    raise _BadFieldError(reason, _display(value))


def _field_problem(fields: Fields, name: str, expected: str, field_of_settings: str) -> str:
    option = shell_spelling(field_of_settings)
    if name not in fields:
        known = tuple(map(str, fields))
        return f"no field '{name}'; {did_you_mean(name, known)}there are {quote_names(known)}: name one with {option}"
    if is_null(fields[name]):
        return f"field '{name}' is null; fill it, or name another with {option}"
    return f"field '{name}' is {type_name(fields[name])}, not {expected}; correct it, or name another with {option}"


def type_name(value: object) -> str:
    """Return JSON's name of the type of a value, for messages."""
    names = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a list"}
    names |= {dict: "an object", type(None): "null", bytes: "bytes"}
    return names.get(type(value), type(value).__name__)


def _display(value: object) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)[:1000]
