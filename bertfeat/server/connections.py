"""A connection, with limits on clients that send nothing, send slowly, send heads without end, or do not read."""

import asyncio
import json
import time
from collections.abc import Iterable
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from bertfeat.server.guard import MOST_HEADERS, head_too_large, is_openai_path
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.settings import ServerSettings

_LOOK_SECONDS = 5.0  # at the longest, from one look at a connection to the next
_START_BYTES = 64  # that tell the form of an error


class BoundedProtocol(HttpToolsProtocol):
    """A connection that is closed when it has no request in flight, or its answer is not read, for too long.

    uvicorn itself has a limit for connections that are silent after an answer, and none for those that send half a
    request head, the rest of a body that was refused, or read nothing.
    """

    most_connections: int
    idle_seconds: float  # without a request in flight, or without anything read of an answer
    answer_seconds: float  # until an answer has been read

    _timer: asyncio.TimerHandle | None = None
    _idle_since = 0.0
    _unread_since: float | None = None
    _read_at, _unread = 0.0, 0  # when some of the answer was read last, and what was left then
    _start = b""  # of what the client is sending
    _head_bytes: int | None = 0  # of the head that it is sending; None while it sends a body

    def connection_made(self, transport: Any) -> None:
        """Take a connection; where there are too many, in the place of the one that has been idle longest."""
        super().connection_made(transport)
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

    def data_received(self, data: bytes) -> None:
        """Take some bytes, as long as the head of a request has not too many."""
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            self._start += data[: _START_BYTES - len(self._start)]
        super().data_received(data)
        if self._head_bytes is not None and self._head_bytes > MOST_HEADERS and not self.transport.is_closing():
            self._refuse(head_too_large())

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those that come after a body, which nobody reads, are not kept."""
        if self._head_bytes is not None:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin with a request."""
        self._head_bytes = None
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """End with a request, after which another head may come."""
        self._head_bytes, self._start = 0, b""
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._idle_since = time.monotonic()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        self._refuse(Problem(Kind.MALFORMED, "the request is no HTTP that can be read"))

    def _refuse(self, problem: Problem) -> None:
        """Answer, in the form that the route has, and end the connection, after the answers to whole requests."""
        cycle = self.cycle
        if problem.kind is Kind.MALFORMED and not self.is_idle and self._head_bytes is not None:
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if self.is_idle or not (cycle.response_started or self.pipeline):
            _, _, target = self._start.partition(b" ")
            openai = is_openai_path(target.decode("latin-1"))
            body = json.dumps(problem.openai_body() if openai else problem.tei_body()).encode()
            head = f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            self.transport.write(STATUS_LINE[problem.kind.status] + head.encode() + body)
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


def bounded_protocol(settings: ServerSettings, *, most_connections: int | None = None) -> type[BoundedProtocol]:
    """The protocol with the limits of a server."""

    class Protocol(BoundedProtocol):
        idle_seconds, answer_seconds = settings.body_seconds, settings.request_seconds

    Protocol.most_connections = most_connections or settings.most_connections
    return Protocol


def _longest_idle(connections: Iterable[Any], new: BoundedProtocol) -> BoundedProtocol:
    """The connection without a request that has been so longest; the new one itself, if it is the only one."""
    idle = [each for each in connections if isinstance(each, BoundedProtocol) and each.is_idle]
    return min(
        (each for each in idle if not each.transport.is_closing()), key=lambda each: each.idle_since, default=new
    )
