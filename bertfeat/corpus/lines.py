"""Lines of text from blocks of bytes, each line decoded by itself where a block does not decode.

Only a line feed, or carriage return and line feed, ends a line: a lone carriage return, U+0085, U+2028 and the like
are white space inside a text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from bertfeat.corpus.document import MAX_LINE
from bertfeat.errors import shell_spelling

_SHOWN = 1024  # bytes that are shown of a line that is too long


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that cannot be read."""

    reason: str
    text: str  # undecodable bytes written as escapes; of a line that is too long only its beginning


Line = str | BadLine


@dataclass(frozen=True, slots=True)
class TextEncoding:
    """How the bytes of a file become lines of text."""

    name: str  # a codec that knows no byte order mark
    mark: int = 0  # bytes of the byte order mark, to be left out

    @property
    def newline(self) -> bytes:
        """The bytes of a line's end; their number is the width of a code unit."""
        return "\n".encode(self.name)


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


def read_lines(
    blocks: Iterator[bytes], encoding: TextEncoding, *, keep_returns: bool = False, limit: int = MAX_LINE
) -> Iterator[Sequence[Line]]:
    """Read lists of lines without the line feeds (and, but for ``keep_returns``, carriage returns) that end them.

    A line of more than ``limit`` bytes becomes a ``BadLine`` without being held in memory.
    """
    newline = encoding.newline
    line = _OpenLine(limit)
    for block in _in_whole_units(blocks, encoding.mark, len(newline)):
        end = last_newline(block, newline)
        if end and line.too_long:
            first = _first_newline(block, newline)
            yield [_long_line(line.take(), encoding, limit)]
            block, end = block[first:], end - first
        if end:
            yield decode_lines(line.take() + block[:end], encoding, keep_returns, limit)
            block = block[end:]
        line.add(block)
    if line.too_long:
        yield [_long_line(line.take(), encoding, limit)]
    elif line.length:
        yield decode_lines(line.take(), encoding, keep_returns, limit)


def decode_lines(
    data: bytes, encoding: TextEncoding, keep_returns: bool = False, limit: int = MAX_LINE
) -> Sequence[Line]:
    """Decode whole lines: at once where that goes well, else one by one."""
    if len(data) <= limit:
        try:
            text = data.decode(encoding.name)
        except UnicodeError:
            pass
        else:
            return _split_lines(text if keep_returns or "\r" not in text else text.replace("\r\n", "\n"))
    return [_decode_line(line, encoding, keep_returns, limit) for line in _split_bytes(data, encoding.newline)]


def last_newline(data: bytes, newline: bytes) -> int:
    """Where the last line that ends in ``data`` ends, its line feed included; 0 if none does."""
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
    """Blocks without the byte order mark that end where a code unit ends (but for the last)."""
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


def _split_lines(text: str) -> list[str]:
    lines = text.split("\n")  # not splitlines, which knows ten more line ends
    if not lines[-1]:
        lines.pop()
    return lines


def _split_bytes(data: bytes, newline: bytes) -> Iterator[bytes]:
    start = 0
    while end := _first_newline(data, newline, start):
        yield data[start:end]
        start = end
    if start < len(data):
        yield data[start:]


def _decode_line(line: bytes, encoding: TextEncoding, keep_returns: bool, limit: int) -> Line:
    if len(line) - len(encoding.newline) > limit:
        return _long_line(line[:_SHOWN], encoding, limit)
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
    return BadLine(reason, _escaped(beginning, encoding))


def _escaped(line: bytes, encoding: TextEncoding) -> str:
    try:
        return line.decode(encoding.name, "backslashreplace").removesuffix("\n").removesuffix("\r")
    except UnicodeError:  # a codec that knows no error handlers
        return line.decode("ascii", "backslashreplace")
