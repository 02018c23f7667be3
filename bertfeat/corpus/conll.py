"""CoNLL files: a word a line with its columns, blank lines between sentences, ``-DOCSTART-`` between documents."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar

from bertfeat.corpus.blocks import Meter, changed_error, read_blocks
from bertfeat.corpus.context import ContextReader, Sentence
from bertfeat.corpus.document import MAX_TEXT, Document, Failure, Row
from bertfeat.corpus.input_file import Columns, CorpusFile
from bertfeat.corpus.lines import BadLine
from bertfeat.corpus.positions import Position
from bertfeat.errors import CorpusError, parameter, shell_spelling
from bertfeat.io import shorten

DOCUMENT_START = "-DOCSTART-"


@dataclass(slots=True)
class _OpenSentence:
    """The lines of a sentence as far as they have been read."""

    first_line: int = 0
    cells: list[list[str]] = field(default_factory=list)
    size: int = 0  # characters
    problem: str = ""
    value: str = ""

    @property
    def begun(self) -> bool:
        return bool(self.cells or self.problem)

    def add(self, line: str, number: int) -> None:
        self.first_line = self.first_line or number
        self.size += len(line)
        if self.size > MAX_TEXT:
            self.cells.clear()
            self.fail(number, "too large: no blank line ends the sentence; split it", line)
        elif not self.problem:
            self.cells.append(_split_columns(line))

    def fail(self, number: int, problem: str, value: str) -> None:
        self.first_line = self.first_line or number
        if not self.problem:
            self.problem, self.value = f"line {number}: {problem}", value


class ConllReader:
    """Reads CoNLL files, their words in the first column and their tags in the last, or as ``tag_column`` says.

    Columns are separated by tabs, or by spaces in a line without tabs.
    """

    universal: ClassVar[bool] = False  # whether it is CoNLL-U
    word_column: ClassVar[int] = 0
    tag_column: ClassVar[int] = -1  # where the settings name no other; counted from 1, or negative from the end

    def __init__(self, file: CorpusFile, start: Position, meter: Meter) -> None:
        self._file, self._start = file, start
        tag = int(file.settings.tag_column or self.tag_column)
        self._tag = tag - 1 if tag > 0 else tag
        self._lines = file.lines(start, meter)
        self._context = ContextReader() if file.settings.document_context else None
        self._given = start.record  # sentences of the file
        self._last: Sentence | None = None  # given; without context

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """CoNLL has no named columns; where context is asked for, there must be documents."""
        if file.settings.document_context:
            _require_document_starts(file)
        return Columns(file.name)

    def rows(self, row: int) -> Generator[Row, None, None]:
        """Read the rows, a sentence each, numbered from ``row``."""
        skip = self._start.skip
        sentences = self._sentences(row - skip)
        rows = self._context.rows(sentences) if self._context else self._rows(sentences)
        if sum(1 for _ in islice(rows, skip)) < skip:
            raise changed_error(self._file.name)
        for one in rows:
            self._given += 1
            yield one

    def position(self, *, last: bool) -> Position:
        """The position of the sentence that was given last, or else of the one after it, with what is before it."""
        if self._given == self._start.record:
            return self._start
        begin, skip = self._context.begin(last=last) if self._context else (self._last if last else None, 0)
        block, line = (begin.block, begin.line) if begin else (self._lines.newest, self._lines.given)
        return Position(block.offset_of(line), line, self._given - last, skip)

    def _rows(self, sentences: Iterator[Sentence | None]) -> Iterator[Row]:
        for sentence in sentences:
            if sentence is not None:
                self._last = sentence
                yield sentence.row

    def _sentences(self, row: int) -> Iterator[Sentence | None]:
        """The sentences, with None for each line between documents."""
        lines = self._lines
        first = row - self._start.record + self._start.skip
        block, begin = lines.newest, lines.given
        number = begin
        sentence = _OpenSentence()
        for line in (line for some in lines for line in some):
            number += 1
            if isinstance(line, BadLine):
                sentence.fail(number, line.reason, line.text)
            elif line.startswith(DOCUMENT_START) or not line or line.isspace():
                if sentence.begun:
                    yield Sentence(self._row(row, row - first + 1, sentence), block, begin)
                    row, sentence = row + 1, _OpenSentence()
                    block, begin = lines.newest, number
                if line.startswith(DOCUMENT_START):
                    yield None
            elif sentence.begun or not self._is_comment(line):
                sentence.add(line, number)
        if sentence.begun:
            yield Sentence(self._row(row, row - first + 1, sentence), block, begin)

    def _is_comment(self, line: str) -> bool:
        """Comments stand before a sentence; elsewhere, and with a tab, ``#`` is a word."""
        if not line.startswith("#") or "\t" in line:
            return False
        return self.universal or " = " in line

    def _row(self, row: int, number: int, sentence: _OpenSentence) -> Row:
        name = f"{self._file.id_prefix}{number}"
        cells = sentence.cells
        if self.universal:
            cells = [line for line in cells if line[0].isdecimal()]  # not the ranges 1-2 and the empty nodes 1.1
        problem = sentence.problem or self._problem(cells, sentence.first_line)
        if problem:
            value = sentence.value or " ".join(line[0] for line in cells[:80])
            return Failure(row, name, f"{self._file.name}, {problem}", shorten(value))
        words = tuple([line[self.word_column] for line in cells])
        return Document(row, name, " ".join(words), words=words, tags=tuple([line[self._tag] for line in cells]))

    def _problem(self, cells: list[list[str]], first_line: int) -> str:
        width = len(cells[0]) if cells else 0
        place = self._tag + 1 if self._tag >= 0 else -self._tag
        where = f"sentence of line {first_line}"
        if not cells:
            return f"{where}: no words; leave the sentence out"
        if any(len(line) != width for line in cells):
            short = next(i for i, line in enumerate(cells) if len(line) != width)
            return f"{where}: {width} columns at first but {len(cells[short])} for word {short + 1}; correct the line"
        if width <= self.word_column or width < place or (self._tag == -1 and width == 1):
            remedy = f"add them, or name their column with {shell_spelling('tag_column')}"
            return f"{where}: words but no tags ({width} columns); {remedy}"
        if any(not line[self.word_column] or not line[self._tag] for line in cells):
            return f"{where}: an empty word or tag; correct the line"
        if not self.universal and width == 10 and [line[0] for line in cells] == [*map(str, range(1, len(cells) + 1))]:
            return f"{where}: numbers in place of words: this is CoNLL-U; give {shell_spelling('format', 'conllu')}"
        return ""


class ConlluReader(ConllReader):
    """Reads CoNLL-U files: words in the second column, tags in the fourth; multiword and empty tokens are left out."""

    universal = True
    word_column = 1
    tag_column = 4


def _split_columns(line: str) -> list[str]:
    if "\t" in line:
        return [cell.strip(" ") for cell in line.split("\t")]
    return [cell for cell in line.split(" ") if cell]


def _require_document_starts(file: CorpusFile) -> None:
    start = DOCUMENT_START.encode(file.encoding.name)
    tail = b""
    for block in read_blocks(file.source, Meter()):
        tail += block
        if start in tail:
            return
        tail = tail[-len(start) :]
    context = parameter("document_context", True)
    problem = f"{context} needs lines '{DOCUMENT_START}' between documents; there is none"
    raise CorpusError(problem, where=file.name)
