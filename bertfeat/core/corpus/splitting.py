"""Texts split into spans, each a document of its own that is embedded alone."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bertfeat.core.corpus.document import BlankLine, Document, Failure, KeptColumn, Position, Row
from bertfeat.core.spans import SpanRule
from bertfeat.errors import UsageError, parameter, quote_names, shorten

if TYPE_CHECKING:
    from bertfeat.core.corpus.input_file import RowReader

TEXT_ID = "text_id"
"""The kept column of a split corpus that has the id of the text that a span is of."""

SPLIT_COLUMNS = (
    KeptColumn(TEXT_ID, "string"),
    KeptColumn("position", "int64"),  # which span of the text, from 0
    KeptColumn("start", "int64"),  # characters of the text
    KeptColumn("end", "int64"),
)
"""The kept columns that a split corpus has besides its own."""


@dataclass(frozen=True, slots=True)
class Splitting:
    """A rule that splits the texts of a corpus, and the columns that are read and kept for it."""

    rule: SpanRule
    kept: tuple[KeptColumn, ...]  # the corpus's own
    read: tuple[KeptColumn, ...]  # these, and the column that lists spans

    @classmethod
    def of(
        cls,
        split: str | None,
        kept: Sequence[KeptColumn],
        listed: Sequence[KeptColumn],
        of_files: Sequence[KeptColumn] = (),
    ) -> "Splitting | None":
        """The splitting by a rule, as it is written; None for no rule.

        ``kept`` are the columns that texts keep, ``listed`` the one that lists their spans if it is none of these, and
        ``of_files`` those that are the same for every text of a file.

        Raises:
            UsageError: a kept column has the name of one of ``SPLIT_COLUMNS``.
        """
        rule = SpanRule.of(split)
        if rule is None:
            return None
        own = [column.name for column in SPLIT_COLUMNS]
        if taken := tuple(column.name for column in (*kept, *of_files) if column.name in own):
            raise UsageError(
                f"what is split has its own columns {quote_names(own)}",
                where=parameter("keep", taken),
                remedy="rename it in the input, or keep only others",
            )
        return cls(rule, tuple(kept), (*kept, *listed))

    @property
    def columns(self) -> tuple[KeptColumn, ...]:
        """The kept columns of the spans."""
        return (*self.kept, *SPLIT_COLUMNS)

    def split(self, text: Row, row: int, where: Callable[[], str]) -> Sequence[Row]:
        """The spans of a text as documents, numbered from ``row``; a blank line for a text without any.

        Their ids are the text's with ``#0``, ``#1``, …; ``where`` names the place of the text for a failure's reason.
        What is no document stays what it is.
        """
        if not isinstance(text, Document):
            return [replace(text, row=row)]
        try:
            spans = self.rule.split(text.text, listed=self._listed(text))
        except ValueError as error:
            reason = f"{where()}: field '{self.rule.column}': {error}; correct it"
            return [Failure(row, text.id, reason, shorten(self._listed(text) or ""))]
        own = text.kept[: len(self.kept)]
        places = enumerate(zip(spans.start.tolist(), spans.end.tolist(), strict=True))
        documents = [
            Document(
                row + number,
                f"{text.id}#{number}",
                text.text[start:end],
                kept=(*own, text.id, number, start, end),
            )
            for number, (start, end) in places
        ]
        return documents or [BlankLine(row)]

    def _listed(self, text: Document) -> str | None:
        if self.rule.kind != "column":
            return None
        place = next(number for number, column in enumerate(self.read) if column.name == self.rule.column)
        value = text.kept[place]
        return None if value is None else str(value)


class SplitReader:
    """Reads the spans of each text of a file as rows of their own, from any span on."""

    def __init__(self, reader: "RowReader", splitting: Splitting, start: Position, name: str) -> None:
        self._reader, self._splitting, self._start, self._name = reader, splitting, start, name
        self._given: tuple[int, int] | None = None  # which span was given last, and how many its text has

    def rows(self, row: int) -> Generator[Row, None, None]:
        """Read the rows, numbered from ``row``."""
        passed = self._start.span  # spans of the first text that are before the start
        with closing(self._reader.rows(row)) as texts:
            for text in texts:
                spans = self._splitting.split(text, row - passed, self._place)
                for span in range(passed, len(spans)):
                    self._given = span, len(spans)
                    yield spans[span]
                row, passed = row + len(spans) - passed, 0

    def position(self, *, last: bool) -> Position:
        """The position of the row given last if ``last``, else of the one after it."""
        if self._given is None:
            return self._start
        span, spans = self._given
        if not last and span + 1 == spans:
            return self._reader.position(last=False)
        return replace(self._reader.position(last=True), span=span if last else span + 1)

    def _place(self) -> str:
        """The place of the text that was read last."""
        return f"{self._name}, record {self._reader.position(last=True).record + 1}"
