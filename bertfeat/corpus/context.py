"""Document context: each sentence with the text of its neighbors in the same document."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from bertfeat.corpus.document import Document, Row
from bertfeat.corpus.lines import LineBlock

REACH = 4000
"""Most characters of context on either side of a sentence."""


@dataclass(slots=True)  # not frozen, which would take twice the time
class Sentence:
    """A row of a file, and where in the file it begins."""

    row: Row
    block: LineBlock
    line: int  # lines of the file before it


class ContextReader:
    """Fills ``before`` and ``after`` of the sentences of each document, reading ahead no more than needed."""

    def __init__(self) -> None:
        self._before: deque[Sentence] = deque()  # those before the waiting ones that are in their context
        self._size = 0  # characters of the texts in it
        self._waiting: deque[Sentence] = deque()
        self._last: Sentence | None = None  # given
        self._begin: Sentence | None = None  # the first of the context before it, or itself

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

    def begin(self, *, last: bool) -> tuple[Sentence | None, int]:
        """Find where to begin reading so that the sentence given last, or else the one after it, has the same context.

        Returns a sentence, and the number of sentences from it on that are only context; None where no sentence waits:
        after all that was read.
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
