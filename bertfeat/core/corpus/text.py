"""A reader of text files: one document per line."""

from collections.abc import Callable, Generator

from bertfeat.core.corpus.blocks import Meter
from bertfeat.core.corpus.document import BlankLine, Document, Failure, Position, Row, size_problem
from bertfeat.core.corpus.input_file import Columns, CorpusFile
from bertfeat.core.corpus.lines import BadLine
from bertfeat.errors import shell_spelling, shorten

SEPARATOR = " ||| "
"""The separator of the two texts of a pair; if a line has several, the last one counts."""


class TextReader:
    """Reads a text file; white space within a line, at its ends too, belongs to the document."""

    def __init__(self, file: CorpusFile, start: Position, meter: Meter) -> None:
        self._name, self._prefix = file.name, file.id_prefix
        self._lines = file.lines(start, meter)
        self._start = start
        settings = file.settings
        self._make: Callable[[int, int, str], Row] = (
            self._words if settings.pretokenized else self._pair if settings.pairs else self._text
        )

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """Text has no columns."""
        return Columns(file.name)

    def position(self, *, last: bool) -> Position:
        """The position of the line given last if ``last``, else of the one after it."""
        line = max(self._start.line, self._lines.given - last)
        return Position(self._lines.newest.offset_of(line), line, line)

    def rows(self, row: int) -> Generator[Row, None, None]:
        """Read the rows, numbered from ``row``."""
        make = self._make
        shift = row - self._start.line - 1  # the difference between a row's number and its line's number
        for lines in self._lines:
            for line in lines:
                if isinstance(line, BadLine):
                    yield self._failure(row, row - shift, line.reason, line.text)
                elif not line or line.isspace():
                    yield BlankLine(row)
                elif problem := size_problem(line):
                    yield self._failure(row, row - shift, problem, line)
                else:
                    yield make(row, row - shift, line)
                row += 1

    def _text(self, row: int, number: int, line: str) -> Row:
        return Document(row, f"{self._prefix}{number}", line)

    def _words(self, row: int, number: int, line: str) -> Row:
        words = tuple(line.split())
        return Document(row, f"{self._prefix}{number}", " ".join(words), words=words)

    def _pair(self, row: int, number: int, line: str) -> Row:
        text, separator, pair = line.rpartition(SEPARATOR)
        if not separator:
            reason = f"no '{SEPARATOR}' in the line, as {shell_spelling('pairs', True)} asks: write 'a ||| b'"
            return self._failure(row, number, reason, line)
        return Document(row, f"{self._prefix}{number}", text, pair)

    def _failure(self, row: int, number: int, reason: str, value: str, *, line: int | None = None) -> Failure:
        where = f"{self._name}, line {line or number}"
        return Failure(row, f"{self._prefix}{number}", f"{where}: {reason}", shorten(value))
