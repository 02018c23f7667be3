"""Readers of CoNLL files: one word per line; blank lines between sentences, ``-DOCSTART-`` between documents."""

import re
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import ClassVar

from bertfeat.core.corpus.blocks import Meter, changed_error, read_blocks
from bertfeat.core.corpus.document import MAX_TEXT, START, Document, Failure, Position, Row
from bertfeat.core.corpus.input_file import Columns, CorpusFile
from bertfeat.core.corpus.lines import BadLine, LineBlock
from bertfeat.errors import CorpusError, parameter, shell_spelling, shorten

_DOCUMENT_START = "-DOCSTART-"
_NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")  # ranges of words and empty nodes in CoNLL-U
_IS_NUMBER = re.compile(r"[0-9]+")  # the number of a word
_LEAST_WORDS = 5  # with fewer, it is not judged whether the first column holds words
_GLOBAL_COLUMNS = "# global.columns ="  # the first line of a CoNLL-U Plus file

REACH = 4000
"""Most characters of context on either side of a sentence."""

_Cells = list[list[str]]
"""The columns of each word of a sentence."""


@dataclass(slots=True)
class _OpenSentence:
    """The lines of a sentence as far as they have been read."""

    block: LineBlock  # in which it begins
    begin: int  # lines of the file before it
    first_line: int = 0
    cells: _Cells = field(default_factory=list)
    size: int = 0  # characters
    signs: int = 0  # how many of its lines begin with #
    problem: str = ""
    value: str = ""

    @property
    def begun(self) -> bool:
        return bool(self.cells or self.problem)

    @property
    def has_words(self) -> bool:
        """Whether at least one of its lines is certainly not a comment."""
        return bool(self.problem) or len(self.cells) > self.signs

    def add(self, line: str, number: int) -> None:
        self.first_line = self.first_line or number
        self.size += len(line)
        if self.size > MAX_TEXT:
            self.cells.clear()
            self.fail(number, "too large: no blank line ends the sentence; split it", line)
        elif not self.problem:
            self.cells.append(_split_columns(line))
            self.signs += line.startswith("#")

    def fail(self, number: int, problem: str, value: str) -> None:
        self.first_line = self.first_line or number
        if not self.problem:
            self.problem, self.value = f"line {number}: {problem}", value

    def leave_comments_out(self, width: int) -> None:
        """Leave out the lines that begin with ``#`` and have another number of columns than its words.

        ``width``: the number of columns of the file's words, or 0 if unknown; it decides if all lines of the sentence
        begin with ``#``.
        """
        if not self.signs:
            return
        width = next((len(line) for line in self.cells if not line[0].startswith("#")), width)
        if width:
            self.cells = [line for line in self.cells if not line[0].startswith("#") or len(line) == width]


@dataclass(slots=True)  # not frozen, which would take twice the time
class _Sentence:
    """A row of a file, and where in the file it begins."""

    row: Row
    block: LineBlock
    line: int  # lines of the file before it


class ConllReader:
    """Reads CoNLL files, with words in the first column and tags in the last, or as the settings say.

    Columns are separated by tabs, or by spaces in a line without tabs.
    """

    universal: ClassVar[bool] = False  # whether it is CoNLL-U

    def __init__(self, file: CorpusFile, start: Position, meter: Meter) -> None:
        self._file, self._start = file, start
        word, tag, self._number = self._usual_places()
        self._word = _place(file.settings.word_column) if file.settings.word_column else word
        self._tag = _place(file.settings.tag_column) if file.settings.tag_column else tag
        # the number of columns that a line must have
        self._needed = [place + 1 if place >= 0 else -place for place in (self._word, self._tag)]
        self._lines = file.lines(start, meter)
        self._context = _ContextReader() if file.settings.document_context else None
        self._given = start.record  # sentences of the file before the next one
        self._last: _Sentence | None = None  # the sentence given last; not used with context

    @classmethod
    def look(cls, file: CorpusFile, sample_size: int) -> Columns:
        """Find the columns of the first sentences, which have numbers as names unless the file names them."""
        if file.settings.document_context:
            _require_document_starts(file)
        names = _global_columns(file) if cls.universal else ()
        sample = cls(replace(file, columns=names), START, Meter())._sample(sample_size)
        if not cls.universal and file.settings.word_column is None:
            _require_words(file.name, sample)
        width = next((len(line) for cells in sample for line in cells), 0)
        return Columns(file.name, names or tuple(map(str, range(1, width + 1))))

    def rows(self, row: int) -> Generator[Row, None, None]:
        """Read the rows, one per sentence, numbered from ``row``."""
        skip = self._start.skip
        sentences = self._sentences(row - skip)
        rows = self._context.rows(sentences) if self._context else self._rows(sentences)
        if sum(1 for _ in islice(rows, skip)) < skip:
            raise changed_error(self._file.name)
        for one in rows:
            self._given += 1
            yield one

    def position(self, *, last: bool) -> Position:
        """The position of the sentence given last if ``last``, else of the one after it; its context is read again."""
        if self._given == self._start.record:
            return self._start
        begin, skip = self._context.begin(last=last) if self._context else (self._last if last else None, 0)
        block, line = (begin.block, begin.line) if begin else (self._lines.newest, self._lines.given)
        return Position(block.offset_of(line), line, self._given - last, skip)

    def _rows(self, sentences: Iterator[_Sentence | None]) -> Iterator[Row]:
        for sentence in sentences:
            if sentence is not None:
                self._last = sentence
                yield sentence.row

    def _sentences(self, row: int) -> Iterator[_Sentence | None]:
        """The sentences, with None for each line between documents."""
        first = row - self._start.record + self._start.skip
        for sentence in self._open_sentences():
            if sentence is None:
                yield None
                continue
            yield _Sentence(self._row(row, row - first + 1, sentence), sentence.block, sentence.begin)
            row += 1

    def _open_sentences(self) -> Iterator[_OpenSentence | None]:
        """The lines of each sentence, with None for each line between documents."""
        lines, width = self._lines, len(self._file.columns)
        number = lines.given
        sentence = _OpenSentence(lines.newest, number)
        for line in (line for some in lines for line in some):
            number += 1
            if isinstance(line, BadLine):
                sentence.fail(number, line.reason, line.text)
            elif line.startswith(_DOCUMENT_START) or not line or line.isspace():
                sentence.leave_comments_out(width)
                if sentence.begun:
                    yield sentence
                sentence = _OpenSentence(lines.newest, number)
                if line.startswith(_DOCUMENT_START):
                    yield None
            elif not self._is_comment(line, sentence):
                sentence.add(line, number)
        sentence.leave_comments_out(width)
        if sentence.begun:
            yield sentence

    def _sample(self, size: int) -> list[_Cells]:
        """The first sentences, as far as they can be read; damage is met again when the file is read."""
        sample = []
        with suppress(CorpusError):
            for sentence in islice(self._open_sentences(), size):
                if sentence is not None and sentence.has_words:
                    sample.append(sentence.cells)
        return sample

    def _is_comment(self, line: str, sentence: _OpenSentence) -> bool:
        """Whether a line is a comment whatever columns the words have.

        In CoNLL-U that is every line that begins with ``#``, and elsewhere lines such as ``# text = a`` and
        ``# id a<TAB>b=c`` before a sentence.
        """
        if not line.startswith("#") or self.universal:
            return line.startswith("#")
        first, tab, _ = line.partition("\t")
        return not sentence.has_words and (first.rstrip().startswith("# ") if tab else " = " in line)

    def _row(self, row: int, number: int, sentence: _OpenSentence) -> Row:
        name = f"{self._file.id_prefix}{number}"
        cells = sentence.cells
        if (at := self._number) is not None:
            cells = [line for line in cells if len(line) <= at or not _NO_WORD.fullmatch(line[at])]
        problem = sentence.problem or self._problem(cells, f"sentence of line {sentence.first_line}")
        if problem:
            value = sentence.value or " ".join(line[0] for line in cells[:80])
            return Failure(row, name, f"{self._file.name}, {problem}", shorten(value))
        words = tuple([line[self._word] for line in cells])
        return Document(row, name, " ".join(words), words=words, tags=tuple([line[self._tag] for line in cells]))

    def _problem(self, cells: _Cells, where: str) -> str:
        width = len(cells[0]) if cells else 0
        needed = self._needed
        if not cells:
            return f"{where}: no words; leave the sentence out"
        if any(len(line) != width for line in cells):
            short = next(i for i, line in enumerate(cells) if len(line) != width)
            return f"{where}: {width} columns at first but {len(cells[short])} for word {short + 1}; correct the line"
        if (at := self._number) is not None and at < width:
            odd = next((i for i, line in enumerate(cells) if not _IS_NUMBER.fullmatch(line[at])), None)
            if odd is not None:
                return f"{where}: {cells[odd][at]!r} in place of the number of word {odd + 1}; correct the line"
        if width < needed[0] and self._file.settings.word_column:
            return f"{where}: no column {self._file.settings.word_column} for its words ({width} columns)"
        if width < max(needed) or (self._tag == -1 and width == 1):
            remedy = f"add them, or name their column with {shell_spelling('tag_column')}"
            return f"{where}: words but no tags ({width} columns); {remedy}"
        if any(not line[self._word] or not line[self._tag] for line in cells):
            return f"{where}: an empty word or tag; correct the line"
        return ""

    def _usual_places(self) -> tuple[int, int, int | None]:
        """The indices of the columns of words, of tags and of the words' numbers, where the settings name no others."""
        return 0, -1, None


class ConlluReader(ConllReader):
    """Reads CoNLL-U files: words in the second column, tags in the fourth; multiword and empty tokens are left out.

    In CoNLL-U Plus words are the column FORM and tags UPOS (where there is none, the last), as its first line says.
    """

    universal = True

    def _usual_places(self) -> tuple[int, int, int | None]:
        names = self._file.columns
        if "FORM" not in names:
            return 1, 3, 0
        number = names.index("ID") if "ID" in names else None
        return names.index("FORM"), names.index("UPOS") if "UPOS" in names else -1, number


def _split_columns(line: str) -> list[str]:
    if "\t" in line:
        return [cell.strip(" ") for cell in line.split("\t")]
    return [cell for cell in line.split(" ") if cell]


def _place(column: str) -> int:
    """The index of a column that is counted from 1, or negative from the end."""
    number = int(column)
    return number - 1 if number > 0 else number


def _global_columns(file: CorpusFile) -> tuple[str, ...]:
    """The names of the columns in the first line of a CoNLL-U Plus file; none in others."""
    line = next((line for some in file.lines(START, Meter()) for line in some), "")
    if isinstance(line, BadLine) or not line.startswith(_GLOBAL_COLUMNS):
        return ()
    names = tuple(line.removeprefix(_GLOBAL_COLUMNS).split())
    if "FORM" not in names:
        raise CorpusError("its first line names no column FORM, which holds the words", where=file.name)
    return names


def _require_words(name: str, sample: Sequence[_Cells]) -> None:
    """Refuse a file whose first column holds no words: it numbers them, or is the same for all words of a sentence."""
    lines = [*chain.from_iterable(sample)]
    width = min(map(len, lines), default=0)
    columns = [*zip(*lines, strict=False)]
    if len(lines) < _LEAST_WORDS or width < 2:
        return
    if all(_counts(line[0] for line in cells) for cells in sample) and max(map(len, sample)) > 2:
        problem = "its first column has numbers in place of words"
    elif all(len({line[0] for line in cells}) == 1 for cells in sample) and any(map(_varies_inside, sample)):
        problem = "its first column is the same for all words of a sentence"
    else:
        return
    # the first other column that varies and has letters in more than half of its cells
    letters = [sum(any(map(str.isalpha, cell)) for cell in column) for column in columns]
    likely = next((n for n, c in enumerate(columns) if n and letters[n] * 2 > len(lines) and len(set(c)) > 1), 1)
    named = parameter("word_column", str(likely + 1))
    remedy = f"name the column of the words, such as {named}, and, where it is not the last, {parameter('tag_column')}"
    if width == 10:  # the number of columns of CoNLL-U
        remedy = f"if it is CoNLL-U, give {parameter('format', 'conllu')}; else {remedy}"
    raise CorpusError(problem, where=name, remedy=remedy)


def _varies_inside(cells: _Cells) -> bool:
    """Whether the words of a sentence differ in a column between the first and the last."""
    return len(cells) > 1 and any(len(set(column)) > 1 for column in [*zip(*cells, strict=False)][1:-1])


def _counts(cells: Iterable[str]) -> bool:
    """Whether cells count from 0 or 1 on, apart from CoNLL-U's ranges (1-2) and empty nodes (1.1)."""
    numbers = [cell for cell in cells if not _NO_WORD.fullmatch(cell)]
    return any(numbers == [str(number) for number in range(first, first + len(numbers))] for first in (0, 1))


def _require_document_starts(file: CorpusFile) -> None:
    start = f"\n{_DOCUMENT_START}".encode(file.encoding.name)
    tail = file.encoding.newline
    for block in read_blocks(file.source, Meter(), file.encoding.mark):
        tail += block
        if start in tail:
            return
        tail = tail[-len(start) :]
    context = parameter("document_context", True)
    problem = f"{context} needs lines '{_DOCUMENT_START}' between documents; there is none"
    raise CorpusError(problem, where=file.name)


# ── the context of a sentence in its document ─────────────────────────────────────────────────────────────────


class _ContextReader:
    """Fills ``before`` and ``after`` of the sentences of each document, reading ahead no more than needed."""

    def __init__(self) -> None:
        self._before: deque[_Sentence] = deque()  # sentences before the waiting ones, as far as they are context
        self._size = 0  # characters of their texts
        self._waiting: deque[_Sentence] = deque()
        self._last: _Sentence | None = None  # the sentence given last
        self._begin: _Sentence | None = None  # the first sentence of the context before it, or itself

    def rows(self, events: Iterator[_Sentence | None]) -> Iterator[Row]:
        """Read the rows of sentences, with None where one document ends and the next begins."""
        waiting = self._waiting
        ahead = 0  # characters of the waiting sentences
        for event in events:
            if event is None:
                yield from self._release(len(waiting))
                self._before.clear()
                self._size = ahead = 0
                continue
            waiting.append(event)
            ahead += _length(event) + 1
            while ahead - _length(waiting[0]) - 1 >= REACH:
                ahead -= _length(waiting[0]) + 1
                yield from self._release(1)
        yield from self._release(len(waiting))

    def begin(self, *, last: bool) -> tuple[_Sentence | None, int]:
        """Find where to begin reading so that the sentence given last, or else the one after it, has the same context.

        Returns a sentence, and the number of sentences from it on that are only context; no sentence (None) means after
        all that was read.
        """
        begin, goal = self._begin, self._last
        if not last:
            goal = self._waiting[0] if self._waiting else None
            begin = self._before[0] if self._before else goal
        if begin is None or goal is None:
            return None, 0
        return begin, goal.row.row - begin.row.row

    def _release(self, count: int) -> Iterator[Row]:
        before, waiting = self._before, self._waiting
        for _ in range(count):
            sentence = self._last = waiting.popleft()
            self._begin = before[0] if before else sentence
            if not isinstance(sentence.row, Document):
                yield sentence.row
                continue
            row = replace(sentence.row, before=_before(before), after=_after(waiting))
            before.append(sentence)
            self._size += len(row.text)
            while len(before) > 1 and self._size - _length(before[0]) >= REACH:
                self._size -= _length(before.popleft())
            yield row


def _length(sentence: _Sentence) -> int:
    return len(sentence.row.text) if isinstance(sentence.row, Document) else 0


def _before(sentences: Iterable[_Sentence]) -> str:
    text = _join(sentences)
    if len(text) <= REACH:
        return text
    return text[-REACH:].partition(" ")[2] or text[-REACH:]  # from the beginning of a word


def _after(sentences: Iterable[_Sentence]) -> str:
    text = _join(sentences)
    if len(text) <= REACH:
        return text
    return text[:REACH].rpartition(" ")[0] or text[:REACH]


def _join(sentences: Iterable[_Sentence]) -> str:
    return " ".join([sentence.row.text for sentence in sentences if isinstance(sentence.row, Document)])
