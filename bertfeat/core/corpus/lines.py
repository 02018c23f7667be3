"""Lines of text decoded from blocks of bytes, and their offsets; the lines of a block that fails are decoded singly.

Only a line feed, or carriage return and line feed, ends a line: a lone carriage return, U+0085, U+2028 and the like
are white space inside a text.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import length_hint

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.corpus.document import MAX_LINE, START, Position
from bertfeat.errors import shell_spelling

_SHOWN = 1024  # bytes that are shown of a line that is too long


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be read."""

    reason: str
    text: str  # undecodable bytes written as escapes; of a line that is too long only its beginning


_Line = str | BadLine


@dataclass(frozen=True, slots=True)
class TextEncoding:
    """The encoding of a text file: its codec, and the size of its byte order mark."""

    name: str  # a codec that knows no byte order mark
    mark: int = 0  # bytes of the byte order mark, to be left out

    @property
    def newline(self) -> bytes:
        """The bytes of a line's end; their number is the width of a code unit."""
        return "\n".encode(self.name)

    @property
    def carries_over(self) -> bool:
        """Whether the meaning of bytes can depend on earlier lines; each line is then decoded by itself."""
        return self.name.startswith(("iso2022", "hz"))


class LineBlock:
    """Lines that were read together; iterating gives each of them once."""

    def __init__(
        self, lines: Sequence[_Line], data: bytes, newline: bytes, number: int, offset: int, size: int
    ) -> None:
        self.number = number  # of the lines of the file before the block
        self.offset = offset  # decompressed bytes of the file before the block
        self.size = size  # bytes of the block
        self._data = data  # empty for a line that is too long
        self._newline = newline
        self._count = len(lines)
        self._rest = iter(lines)

    def __iter__(self) -> Iterator[_Line]:
        return self._rest

    @property
    def given(self) -> int:
        """The number of its lines that have been given."""
        return self._count - length_hint(self._rest)

    def offset_of(self, line: int) -> int:
        """Return the offset of the line that has ``line`` lines of the file before it; the block's end has one, too."""
        place = line - self.number
        if place in (0, self._count):
            return self.offset + (self.size if place else 0)
        return self.offset + len(self._newline) * (int(self._ends[place - 1]) + 1)

    @cached_property
    def _ends(self) -> NDArray[np.intp]:
        """The places of the line feeds, in code units."""
        width = len(self._newline)
        units = np.frombuffer(self._data, f"u{width}", len(self._data) // width)
        return np.flatnonzero(units == np.frombuffer(self._newline, units.dtype))


class LineReader:
    """Gives the lines of a file from a position on, a block at a time."""

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


@dataclass(slots=True)
class _OpenLine:
    """The line whose end has not been read yet; of one that is too long only the beginning is held."""

    limit: int
    pieces: list[bytes] = field(default_factory=list)
    length: int = 0

    @property
    def too_long(self) -> bool:
        return self.length > self.limit

    def add(self, piece: bytes) -> None:
        if not piece:
            return
        self.length += len(piece)
        self.pieces.append(piece)
        if self.too_long:
            self.pieces = [b"".join(part[:_SHOWN] for part in self.pieces[:_SHOWN])[:_SHOWN]]

    def take(self) -> bytes:
        taken = b"".join(self.pieces)
        self.pieces, self.length = [], 0
        return taken

    def take_long(self, encoding: TextEncoding, rest: int = 0) -> tuple[Sequence[_Line], bytes, int]:
        """Take a line that is too long, in the form of :func:`_cut_lines`; ``rest`` more bytes of it were not added."""
        size = self.length + rest
        return [_long_line(self.take(), encoding, self.limit)], b"", size


def read_lines(
    blocks: Iterator[bytes],
    encoding: TextEncoding,
    *,
    keep_returns: bool = False,
    limit: int = MAX_LINE,
    start: Position = START,
) -> Iterator[LineBlock]:
    """Read lines without the line feeds (and, unless ``keep_returns``, carriage returns) that end them.

    The blocks are those of a file from ``start`` on. A line of more than ``limit`` bytes becomes a ``BadLine`` without
    being held in memory.
    """
    newline = encoding.newline
    number, offset = start.line, max(start.offset, encoding.mark)
    for lines, data, size in _cut_lines(blocks, encoding, keep_returns, limit, 0 if start.offset else encoding.mark):
        yield LineBlock(lines, data, newline, number, offset, size)
        number += len(lines)
        offset += size


def _cut_lines(
    blocks: Iterator[bytes], encoding: TextEncoding, keep_returns: bool, limit: int, mark: int
) -> Iterator[tuple[Sequence[_Line], bytes, int]]:
    """Yield lines, the bytes that they were decoded from (none for a line that is too long), and their number."""
    newline = encoding.newline
    line = _OpenLine(limit)
    for block in _in_whole_units(blocks, mark, len(newline)):
        end = last_newline(block, newline)
        if end and line.too_long:
            first = _first_newline(block, newline)
            yield line.take_long(encoding, first)
            block, end = block[first:], end - first
        if end:
            data = line.take() + block[:end]
            yield decode_lines(data, encoding, keep_returns, limit), data, len(data)
            block = block[end:]
        line.add(block)
    if line.too_long:
        yield line.take_long(encoding)
    elif line.length:
        data = line.take()
        yield decode_lines(data, encoding, keep_returns, limit), data, len(data)


def decode_lines(
    data: bytes, encoding: TextEncoding, keep_returns: bool = False, limit: int = MAX_LINE
) -> Sequence[_Line]:
    """Decode whole lines: all at once where that is possible, else one by one."""
    if len(data) <= limit and not encoding.carries_over:
        try:
            text = data.decode(encoding.name)
        except UnicodeError:
            pass
        else:
            if not keep_returns and "\r" in text:
                text = text.replace("\r\n", "\n")
            lines = text.split("\n")  # not splitlines, which knows ten more line ends
            if not lines[-1]:
                lines.pop()
            return lines
    return [_decode_line(line, encoding, keep_returns, limit) for line in _split_bytes(data, encoding.newline)]


def last_newline(data: bytes, newline: bytes) -> int:
    """Find the end of the last line that ends in ``data``, its line feed included; 0 if none does."""
    width = len(newline)
    at = data.rfind(newline)
    while at > 0 and at % width:  # half of one character and half of the next
        at = data.rfind(newline, 0, at + width - 1)
    return at + width if at >= 0 else 0


def _first_newline(data: bytes, newline: bytes, start: int = 0) -> int:
    width = len(newline)
    at = data.find(newline, start)
    while at > 0 and at % width:
        at = data.find(newline, at + 1)
    return at + width if at >= 0 else 0


def _in_whole_units(blocks: Iterator[bytes], mark: int, width: int) -> Iterator[bytes]:
    """Yield blocks without the byte order mark, each of whole code units (except the last one).

    ``mark`` is the length in bytes of the mark that stands there, ``width`` that of a code unit.
    """
    rest = b""
    for block in blocks:
        block = rest + block if rest else block
        if mark:
            if len(block) < mark:
                rest = block
                continue
            block, mark = block[mark:], 0
        whole = len(block) - len(block) % width
        block, rest = block[:whole], block[whole:]
        if block:
            yield block
    if rest:
        yield rest


def _split_bytes(data: bytes, newline: bytes) -> Iterator[bytes]:
    start = 0
    while end := _first_newline(data, newline, start):
        yield data[start:end]
        start = end
    if start < len(data):
        yield data[start:]


def _decode_line(line: bytes, encoding: TextEncoding, keep_returns: bool, limit: int) -> _Line:
    if len(line) - len(encoding.newline) > limit:
        return _long_line(line, encoding, limit)
    try:
        text = line.decode(encoding.name)
    except UnicodeError as error:
        at = f" at byte {error.start + 1}" if isinstance(error, UnicodeDecodeError) else ""
        remedy = f"correct the line, or give the file's {shell_spelling('encoding')}"
        return BadLine(f"not {encoding.name}{at}; {remedy}", _escaped(line, encoding))
    if not text.endswith("\n"):
        return text
    return text[:-1] if keep_returns else text[:-1].removesuffix("\r")


def _long_line(beginning: bytes, encoding: TextEncoding, limit: int) -> BadLine:
    size = f"{limit // 2**20} MiB" if limit >= 2**20 else f"{limit} bytes"
    reason = f"too large: the line is longer than {size}; split it into several"
    # no more than is held of every such line, so that the text does not depend on where blocks end
    return BadLine(reason, _escaped(beginning[: min(_SHOWN, limit)], encoding))


def _escaped(line: bytes, encoding: TextEncoding) -> str:
    try:
        return line.decode(encoding.name, "backslashreplace").removesuffix("\n").removesuffix("\r")
    except UnicodeError:  # a codec that knows no error handlers
        return line.decode("ascii", "backslashreplace")
