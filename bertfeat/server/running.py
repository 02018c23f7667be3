"""The server process: uvicorn, with limits on connections that send nothing."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from bertfeat.errors import UsageError, parameter
from bertfeat.server.app import create_app
from bertfeat.server.service import Service
from bertfeat.server.settings import ServerSettings

_MOST_HEADERS = 64 * 2**10  # bytes
_BACKLOG = 2048


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
    config = uvicorn.Config(
        create_app(service),
        http=_protocol(settings),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=int(settings.grace_seconds),
        h11_max_incomplete_event_size=_MOST_HEADERS,
    )
    uvicorn.Server(config).run(sockets=[listening])


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


def _protocol(settings: ServerSettings) -> type[asyncio.Protocol]:
    """A protocol that closes connections without a whole request head, and those beyond the most there may be."""

    class BoundedProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            if len(self.connections) > settings.most_connections:
                transport.abort()
                return
            self._timer = self.loop.call_later(settings.body_seconds, self._close_if_silent)

        def _close_if_silent(self) -> None:
            cycle: object = self.cycle  # None until a request head is there, whatever uvicorn's types say
            if cycle is None and not self.transport.is_closing():
                self.transport.close()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)

    return BoundedProtocol
