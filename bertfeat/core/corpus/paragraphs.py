"""A reader of running text: a document is a paragraph, which ends at a blank line; its lines are joined by spaces."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field

from bertfeat.core.corpus.document import MAX_TEXT, Position, Row, size_problem
from bertfeat.core.corpus.lines import BadLine, LineBlock
from bertfeat.core.corpus.text import TextReader


@dataclass(slots=True)
class _OpenParagraph:
    """The lines of a paragraph as far as they have been read, and where the first of them lies."""

    block: LineBlock
    line: int  # lines of the file before it
    lines: list[str] = field(default_factory=list)
    size: int = 0
    problem: tuple[int, BadLine] | None = None  # the first line that cannot be read, and its number

    @property
    def begun(self) -> bool:
        return bool(self.lines or self.problem)

    @property
    def text(self) -> str:
        return " ".join(self.lines)

    def add(self, line: str | BadLine, number: int) -> None:
        if isinstance(line, BadLine):
            self.problem = self.problem or (number, line)
        elif self.size <= MAX_TEXT + 1:  # one space is behind the last line; of a longer text no more is held
            self.lines.append(" ".join(line.split()))
            self.size += len(self.lines[-1]) + 1


class ParagraphReader(TextReader):
    """Reads a text file whose paragraphs are separated by blank lines; white space within one is a single space."""

    _begin: tuple[LineBlock, int]  # of the paragraph given last: its block, and the lines of the file before it
    _given = 0

    def position(self, *, last: bool) -> Position:
        """The position of the paragraph given last if ``last``, else of the one after it."""
        if not self._given:
            return self._start
        block, line = self._begin if last else (self._lines.newest, self._lines.given)
        return Position(block.offset_of(line), line, self._start.record + self._given - last)

    def rows(self, row: int) -> Generator[Row, None, None]:
        """Read the rows, numbered from ``row``."""
        for paragraph in self._paragraphs():
            self._given += 1
            self._begin = paragraph.block, paragraph.line
            yield self._row(row, self._start.record + self._given, paragraph)
            row += 1

    def _paragraphs(self) -> Iterator[_OpenParagraph]:
        number = self._start.line
        paragraph = _OpenParagraph(self._lines.newest, number)
        for lines in self._lines:
            for line in lines:
                if not isinstance(line, BadLine) and (not line or line.isspace()):
                    if paragraph.begun:
                        yield paragraph
                        paragraph = _OpenParagraph(lines, number)
                else:
                    if not paragraph.begun:
                        paragraph = _OpenParagraph(lines, number)
                    paragraph.add(line, number + 1)
                number += 1
        if paragraph.begun:
            yield paragraph

    def _row(self, row: int, number: int, paragraph: _OpenParagraph) -> Row:
        if paragraph.problem is not None:
            at, bad = paragraph.problem
            return self._failure(row, number, bad.reason, bad.text, line=at)
        text = paragraph.text
        if problem := size_problem(text):
            return self._failure(row, number, problem, text, line=paragraph.line + 1)
        return self._make(row, number, text)
