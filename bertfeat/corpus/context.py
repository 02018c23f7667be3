"""Document context: each sentence with the text of its neighbours in the same document."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from bertfeat.corpus.document import Document, Row

REACH = 4000
"""Most characters of context on either side of a sentence."""


@dataclass(frozen=True, slots=True)
class DocumentStart:
    """Where one document ends and the next begins."""


def add_context(events: Iterator[Row | DocumentStart]) -> Iterator[Row]:
    """Fill ``before`` and ``after`` of the sentences of each document, reading ahead no more than needed."""
    before: deque[str] = deque()  # texts of the sentences before the waiting ones
    waiting: deque[Row] = deque()
    ahead = 0  # characters of the waiting sentences
    for event in events:
        if isinstance(event, DocumentStart):
            yield from _release(waiting, before, len(waiting))
            before.clear()
            ahead = 0
            continue
        waiting.append(event)
        ahead += _length(event)
        while ahead - _length(waiting[0]) >= REACH:
            ahead -= _length(waiting[0])
            yield from _release(waiting, before, 1)
    yield from _release(waiting, before, len(waiting))


def _release(waiting: deque[Row], before: deque[str], count: int) -> Iterator[Row]:
    for _ in range(count):
        row = waiting.popleft()
        if not isinstance(row, Document):
            yield row
            continue
        yield replace(row, before=_before(before), after=_after(waiting))
        before.append(row.text)
        while len(before) > 1 and sum(map(len, before)) - len(before[0]) >= REACH:
            before.popleft()


def _length(row: Row) -> int:
    return len(row.text) + 1 if isinstance(row, Document) else 1


def _before(texts: deque[str]) -> str:
    text = " ".join(texts)
    if len(text) <= REACH:
        return text
    return text[-REACH:].partition(" ")[2] or text[-REACH:]  # from the beginning of a word


def _after(waiting: deque[Row]) -> str:
    text = " ".join([row.text for row in waiting if isinstance(row, Document)])
    if len(text) <= REACH:
        return text
    return text[:REACH].rpartition(" ")[0] or text[:REACH]
