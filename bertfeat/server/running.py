"""The server process: uvicorn, with limits on connections that send nothing, send slowly, or do not read."""

import asyncio
import contextlib
import json
import logging
import socket
import sys
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import uvicorn
from h11 import IDLE, SEND_RESPONSE, Data, EndOfMessage, Response
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from bertfeat.errors import UsageError, parameter
from bertfeat.server.app import create_app
from bertfeat.server.guard import MOST_HEADERS, is_openai_path
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.service import Service
from bertfeat.server.settings import ServerSettings

_BACKLOG = 2048
_OTHER_FILES = 256  # that are open besides connections
_LOOK_SECONDS = 5.0  # at the longest, from one look at a connection to the next


def run_server(service: Service, *, on_start: Callable[[str], None] = lambda _: None) -> None:
    """Serve until a signal ends it; what is in flight is finished. ``on_start`` is told the address once it listens.

    Raises:
        UsageError: the address cannot be listened on.
    """
    settings = service.settings
    listening = _listen(settings)
    host, port = listening.getsockname()[:2]
    shown = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    on_start(f"{shown}{settings.prefix}/")
    most_connections = _raise_file_limit(settings.most_connections)
    config = uvicorn.Config(
        create_app(service),
        http=bounded_protocol(settings, most_connections=most_connections),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_keep_alive=max(1, round(settings.body_seconds)),
        timeout_graceful_shutdown=int(settings.grace_seconds),
        backlog=max(1, min(_OTHER_FILES, most_connections) // 8),
        h11_max_incomplete_event_size=MOST_HEADERS,
    )
    _Server(config).run(sockets=[listening])


class _Server(uvicorn.Server):
    """uvicorn's server, which accepts few connections at a time, so that those too many are closed between."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Have more of them wait than are accepted at a time."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_BACKLOG)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; at a second Ctrl-C at once, without a word about each request that is cut off."""
        super().handle_exit(sig, frame)
        if self.force_exit:
            logging.getLogger("uvicorn.error").disabled = True


def _listen(settings: ServerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise UsageError(
            f"cannot be listened on: {error.strerror or error}",
            where=f"{settings.host}:{settings.port}",
            remedy=f"choose another {parameter('port')} or {parameter('host')}",
        ) from error
    return listening


def _raise_file_limit(connections: int) -> int:
    """Have the process open as many files as it has connections, and say how many connections there may be."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    return max(1, min(connections, soft - min(_OTHER_FILES, soft // 2)))


class BoundedProtocol(H11Protocol):
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
        """Note how a request begins, for the form of an error, and go on."""
        if self.is_idle and len(self._start) < 64:
            self._start = (self._start + data)[:64]
        super().data_received(data)

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._idle_since, self._start = time.monotonic(), b""
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop looking."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, in the form that its route has, and end the connection."""
        hint = getattr(sys.exception(), "error_status_hint", 400)
        kind = Kind.HEADERS_TOO_LARGE if hint == Kind.HEADERS_TOO_LARGE.status else Kind.MALFORMED
        problem = Problem(kind, "the request is no HTTP that can be read" if kind is Kind.MALFORMED else TOO_LONG_HEAD)
        if self.conn.our_state in (IDLE, SEND_RESPONSE):
            _, _, target = self._start.partition(b" ")
            openai = is_openai_path(target.decode("latin-1"))
            body = json.dumps(problem.openai_body() if openai else problem.tei_body()).encode()
            headers = [
                ("Content-Type", "application/json"),
                ("Content-Length", str(len(body))),
                ("Connection", "close"),
            ]
            answer = Response(status_code=kind.status, headers=headers, reason=STATUS_PHRASES[kind.status])
            for event in (answer, Data(data=body), EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
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


TOO_LONG_HEAD = f"the head of a request has at most {MOST_HEADERS:,} bytes"


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
