"""Document context: each sentence with the text of its neighbours in the same document."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from bertfeat.corpus.document import Document, Row
from bertfeat.corpus.line_reader import LineReader

REACH = 4000
"""Most characters of context on either side of a sentence."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A row, and the number of lines before it and what belongs to it alone."""

    row: Row
    line: int


class ContextReader:
    """Fills ``before`` and ``after`` of the sentences of each document, reading ahead no more than needed."""

    def __init__(self, lines: LineReader) -> None:
        self._lines = lines
        self._before: deque[Sentence] = deque()  # those before the waiting ones that are in their context
        self._size = 0  # characters of the texts in it
        self._waiting: deque[Sentence] = deque()
        self._begin: Sentence | None = None  # of the context of the sentence given last: its first, or itself
        self._given: Sentence | None = None

    def rows(self, events: Iterator[Sentence | None]) -> Iterator[Row]:
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

    def place(self, *, last: bool) -> tuple[int, int] | None:
        """Where to begin to read the sentence given last, or else the one after it, with the same context.

        The number of lines before that, and the number of sentences from there on that are only context. None where the
        sentence has no context before it, and no other waits: where the lines are.
        """
        begin, goal = self._begin, self._given
        if not last:
            if not self._waiting:
                return None
            goal = self._waiting[0]
            begin = self._before[0] if self._before else goal
        assert begin is not None
        assert goal is not None
        return begin.line, goal.row.row - begin.row.row

    def _release(self, count: int) -> Iterator[Row]:
        before, waiting = self._before, self._waiting
        for _ in range(count):
            sentence = self._given = waiting.popleft()
            self._begin = before[0] if before else sentence
            self._lines.needed = self._begin.line
            if not isinstance(sentence.row, Document):
                yield sentence.row
                continue
            row = replace(sentence.row, before=_before(before), after=_after(waiting))
            before.append(sentence)
            self._size += len(row.text)
            while len(before) > 1 and self._size - _length(before[0]) >= REACH:
                self._size -= _length(before.popleft())
            yield row


def _length(sentence: Sentence) -> int:
    return len(sentence.row.text) if isinstance(sentence.row, Document) else 0


def _before(sentences: Iterable[Sentence]) -> str:
    text = _join(sentences)
    if len(text) <= REACH:
        return text
    return text[-REACH:].partition(" ")[2] or text[-REACH:]  # from the beginning of a word


def _after(sentences: Iterable[Sentence]) -> str:
    text = _join(sentences)
    if len(text) <= REACH:
        return text
    return text[:REACH].rpartition(" ")[0] or text[:REACH]


def _join(sentences: Iterable[Sentence]) -> str:
    return " ".join([sentence.row.text for sentence in sentences if isinstance(sentence.row, Document)])
