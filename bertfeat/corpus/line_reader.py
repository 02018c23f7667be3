"""The lines of a file from a position on, and the positions of those that have been given."""

import sys
from collections import deque
from collections.abc import Callable, Iterator

from bertfeat.corpus.document import MAX_LINE
from bertfeat.corpus.lines import LineBlock, TextEncoding, read_lines
from bertfeat.corpus.positions import Position


class LineReader:
    """Gives lines, a block at a time, and knows where they began."""

    def __init__(
        self,
        open_blocks: Callable[[], Iterator[bytes]],
        encoding: TextEncoding,
        start: Position,
        *,
        keep_returns: bool = False,
    ) -> None:
        self._open_blocks = open_blocks  # opened when lines are asked for, and closed with their iterator
        self._encoding = encoding
        self._start = start
        self._keep_returns = keep_returns
        self._blocks: deque[LineBlock] = deque()
        self.needed = sys.maxsize  # lines before the first whose position may yet be asked; else only of newest ones

    def __iter__(self) -> Iterator[LineBlock]:
        blocks = self._blocks
        for block in read_lines(
            self._open_blocks(), self._encoding, keep_returns=self._keep_returns, limit=MAX_LINE, start=self._start
        ):
            while blocks and blocks[0].last_line <= self.needed:
                blocks.popleft()
            blocks.append(block)
            yield block

    @property
    def given(self) -> int:
        """How many lines of the file, those before the start included, have been given."""
        return self._blocks[-1].number + self._blocks[-1].given if self._blocks else self._start.line

    def position(self, line: int, record: int, skip: int = 0) -> Position:
        """The position of the line that has so many lines and rows before it, ``skip`` of these to be passed over."""
        if line == self._start.line:
            return Position(self._start.offset, line, record, skip)
        block = next(block for block in self._blocks if line <= block.last_line)
        return Position(block.offset_of(line), line, record, skip)
