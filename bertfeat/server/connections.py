"""An HTTP connection, with limits on clients that send nothing, send slowly, send without end, or do not read."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bertfeat.server.guard import MOST_HEADERS, head_too_large
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.settings import ServerSettings

_LOOK_SECONDS = 5.0  # at most, from one check of a connection to the next
_START_BYTES = 64  # of a request, kept for its path, which decides the form of an error
_MOST_HELD = 64 * 2**10  # bytes that wait to be parsed; with more of them nothing is read
_PIECE = 2**10  # bytes of heads and chunks that are parsed at a time
_HEAD_END = b"\r\n\r\n"
_BLANKS = b" \t"  # optional white space around the value of a field (RFC 9110, section 5.5)


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is closed when it has no request in flight, or its answer is not read, for too long.

    uvicorn itself has a limit for connections that are silent after an answer, and none for those that send half a
    request head, the rest of a body that was refused, or read nothing. It also parses as many requests as a client
    sends ahead of the answers (pipelining), some kilobytes of objects each. Here one request is parsed at a time:
    those behind it stay bytes until it is answered, and with too many bytes the connection is not read.
    """

    most_connections: int
    idle_seconds: float  # without a request in flight, or without anything read of an answer
    answer_seconds: float  # until an answer has been read

    _timer: asyncio.TimerHandle | None = None
    _idle_since = 0.0
    _unread_since: float | None = None
    _read_at, _unread = 0.0, 0  # when some of the answer was read last, and what was left then
    _start = b""  # the first bytes of the request that the client is sending
    _head_bytes: int | None = 0  # of the head that it is sending; None while it sends a body
    _body_left: int | None = None  # bytes of that body; None for one in chunks

    def connection_made(self, transport: Any) -> None:
        """Take a connection; where there are too many, in the place of the one that has been idle longest."""
        super().connection_made(transport)
        self._held = bytearray()  # bytes that are not parsed yet
        self.flow = _BoundedFlow(transport, lambda: len(self._held) > _MOST_HELD)
        self._idle_since = time.monotonic()
        if len(self.connections) > self.most_connections:
            _longest_idle(self.connections, self).transport.abort()
        if not transport.is_closing():
            self._look_later()

    @property
    def is_idle(self) -> bool:
        """Whether no request is in flight."""
        cycle: Any = self.cycle  # None until a request head is there, whatever uvicorn's types say
        return cycle is None or cycle.response_complete

    @property
    def idle_since(self) -> float:
        """The time at which the last request was answered."""
        return self._idle_since

    @property
    def held_bytes(self) -> int:
        """The bytes that were received and are not parsed yet."""
        return len(self._held)

    def data_received(self, data: bytes) -> None:
        """Take some bytes, and parse what belongs to the request whose turn it is."""
        self._held += data
        self._parse()
        if self.held_bytes > _MOST_HELD:
            self.flow.pause_reading()

    def _parse(self) -> None:
        """Parse up to the end of a request that is not answered yet; its head may not have too many bytes."""
        while self._held and (self._head_bytes is None or self.is_idle) and not self.transport.is_closing():
            piece = self._take_piece()
            if self._head_bytes is not None:
                self._head_bytes += len(piece)
                self._start += piece[: _START_BYTES - len(self._start)]
            super().data_received(piece)
            if self._head_bytes is not None and self._head_bytes > MOST_HEADERS and not self.transport.is_closing():
                self._refuse(head_too_large())

    def _take_piece(self) -> bytes:
        """Take bytes with the end of at most one request; short pieces, of odd heads and of chunks, may have more."""
        length = _PIECE
        if self._head_bytes is None:
            length = self._body_left or _PIECE
        elif (end := self._held.find(_HEAD_END, 0, _PIECE)) >= 0:
            length = end + len(_HEAD_END)
        piece = bytes(self._held[:length])
        del self._held[:length]
        return piece

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those that come after a body, which nobody reads, are not kept."""
        if self._head_bytes is not None:
            super().on_header(name, value.strip(_BLANKS))

    def on_headers_complete(self) -> None:
        """Begin the body of a request, whose head is complete."""
        headers = dict(self.headers)
        length = headers.get(b"content-length", b"")
        self._head_bytes = None
        self._body_left = int(length) if length.isdigit() and b"transfer-encoding" not in headers else None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take some of a body."""
        if self._body_left is not None:
            self._body_left -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request, after which another head may come."""
        self._head_bytes, self._start = 0, b""
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Go on with the next request, or begin to wait for it."""
        self._idle_since = time.monotonic()
        super().on_response_complete()
        self._parse()
        self.flow.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking, and forget what was not parsed."""
        if self._timer is not None:
            self._timer.cancel()
        self._held.clear()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not valid HTTP."""
        self._refuse(Problem(Kind.MALFORMED, "the request is no HTTP that can be read"))

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem, in the form of the route, and end the connection once whole requests are answered."""
        cycle = self.cycle
        if problem.kind is Kind.MALFORMED and not self.is_idle and self._head_bytes is not None:
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if self.is_idle or not (cycle.response_started or self.pipeline):
            _, _, target = self._start.partition(b" ")
            status, content = problem.answer(target.decode("latin-1"))
            body = json.dumps(content).encode()
            head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[status] + head.encode() + body)
        self.transport.close()

    def _look_later(self) -> None:
        self._timer = self.loop.call_later(min(_LOOK_SECONDS, self.idle_seconds / 4), self._look)

    def _look(self) -> None:
        now = time.monotonic()
        if self._is_stuck(now):
            self.transport.abort()  # close() would wait until everything is read
        elif self.is_idle and not self._unread and now - self._idle_since > self.idle_seconds:
            self.transport.close()
        else:
            self._look_later()

    def _is_stuck(self, now: float) -> bool:
        """Whether the client has not read for too long, or reads too slowly."""
        unread = self.transport.get_write_buffer_size()
        if not unread:
            self._unread_since = None
        elif self._unread_since is None:
            self._unread_since = self._read_at = now
        elif unread < self._unread:
            self._read_at = now
        self._unread = unread
        if self._unread_since is None:
            return False
        return now - self._read_at > self.idle_seconds or now - self._unread_since > self.answer_seconds


class _BoundedFlow(FlowControl):
    """Flow control that resumes reading only while there is room for more bytes."""

    def __init__(self, transport: asyncio.Transport, is_full: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._is_full = is_full

    def resume_reading(self) -> None:
        """Read on, unless enough waits to be parsed."""
        if not self._is_full() and not self._transport.is_closing():
            super().resume_reading()


def bounded_protocol(settings: ServerSettings, *, most_connections: int | None = None) -> type[BoundedProtocol]:
    """The protocol with the limits of a server."""

    class Protocol(BoundedProtocol):
        idle_seconds, answer_seconds = settings.body_seconds, settings.request_seconds

    Protocol.most_connections = most_connections or settings.most_connections
    return Protocol


def _longest_idle(connections: Iterable[object], new: BoundedProtocol) -> BoundedProtocol:
    """The connection without a request that has been so longest; the new one itself, if it is the only one."""
    idle = [each for each in connections if isinstance(each, BoundedProtocol) and each.is_idle]
    return min(
        (each for each in idle if not each.transport.is_closing()), key=lambda each: each.idle_since, default=new
    )
