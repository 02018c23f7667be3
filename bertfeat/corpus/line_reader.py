"""The lines of a file from a position on, and where they begin."""

from collections.abc import Callable, Iterator

from bertfeat.corpus.document import MAX_LINE
from bertfeat.corpus.lines import LineBlock, TextEncoding, read_lines
from bertfeat.corpus.positions import Position


class LineReader:
    """Gives lines, a block at a time."""

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
        self.newest = LineBlock([], b"", encoding.newline, start.line, start.offset, 0)

    def __iter__(self) -> Iterator[LineBlock]:
        for block in read_lines(
            self._open_blocks(), self._encoding, keep_returns=self._keep_returns, limit=MAX_LINE, start=self._start
        ):
            self.newest = block
            yield block

    @property
    def given(self) -> int:
        """The number of lines of the file that have been given, those before the start included."""
        return self.newest.number + self.newest.given
