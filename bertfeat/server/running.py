"""The server process: uvicorn on one socket, until a signal ends it, and its log as lines of JSON on standard error."""

import asyncio
import contextlib
import gc
import json
import logging
import math
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from types import FrameType

import uvicorn

from bertfeat.arguments import checked
from bertfeat.errors import UsageError, parameter, shorten
from bertfeat.server.app import create_app
from bertfeat.server.connections import bounded_protocol
from bertfeat.server.guard import LOG_FIELDS
from bertfeat.server.service import Service
from bertfeat.server.settings import ServerSettings

_BACKLOG = 2048  # connections that may wait to be accepted
_OTHER_FILES = 256  # files that may be open besides connections
_SWITCH_SECONDS = 0.0003  # longest wait of an encoder, after each product, for the event loop to release the GIL


@checked
def run_server(service: Service, *, on_start: Callable[[str], None] = lambda _: None) -> None:
    """Serve until a signal arrives, and finish the requests in flight; ``on_start`` is called with the address.

    Raises:
        ModelError: a model cannot be loaded.
        UsageError: the server cannot listen on the address.
    """
    settings = service.settings
    listening = _listen(settings)
    try:
        service.load()  # here, so that a model that cannot be loaded is an error of the command
    except BaseException:
        listening.close()
        raise
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
        timeout_graceful_shutdown=math.ceil(settings.grace_seconds),
        # asyncio accepts so many at a time; _Server.startup sets how many may wait
        backlog=max(1, min(_OTHER_FILES, most_connections) // 8),
    )
    sys.setswitchinterval(_SWITCH_SECONDS)
    _Server(config, service).run(sockets=[listening])


class _Server(uvicorn.Server):
    """uvicorn's server, which accepts few connections at a time, so that excess ones are closed in between.

    On SIGHUP it looks for new versions of the service's folders.
    """

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._looks: set[asyncio.Task[bool]] = set()  # that are under way; the loop itself would let them go

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and let more connections wait than are accepted at a time."""
        with contextlib.suppress(AttributeError, NotImplementedError, RuntimeError, ValueError):  # no such signal here
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._look)
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # full collections need not go through the libraries' objects again
        for each in sockets or ():
            each.listen(_BACKLOG)

    def _look(self) -> None:
        """Look for new versions of the folders, as a reload asks for."""
        task = asyncio.create_task(asyncio.to_thread(lambda: self._service.look(at_once=True)))
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Shut down; on a second Ctrl-C at once, without a log line for each request that is cut off."""
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
    except (OSError, OverflowError, TypeError) as error:  # the last two: no port has such a number, no host such a name
        listening.close()
        raise UsageError(
            f"cannot be listened on: {getattr(error, 'strerror', None) or error}",
            where=f"{shorten(settings.host)}:{settings.port}",
            remedy=f"choose another {parameter('port')} or {parameter('host')}",
        ) from error
    return listening


def _raise_file_limit(connections: int) -> int:
    """Raise the limit on open files to that of connections; return how many connections there may be."""
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
    # with a low limit, half of it is for connections
    return max(1, min(connections, soft - min(_OTHER_FILES, soft // 2)))


@checked
def log_as_json(*, requests: bool = True) -> None:
    """Write the log of this process, with warnings and exceptions, to standard error as lines of JSON.

    The line of a request has its id, method, path, status, milliseconds, and the bytes of its body and of the answer;
    without ``requests`` there are none. Files of the page have no lines.
    All other lines have level, logger and message, and a traceback where there is one.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonLine())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in ("bertfeat", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers.clear()  # the command's handlers write plain lines
        logger.propagate = True
    logging.getLogger("bertfeat.server").setLevel(logging.INFO if requests else logging.WARNING)
    log = logging.getLogger("py.warnings")
    warnings.showwarning = lambda message, category, *_, **__: log.warning("%s: %s", category.__name__, message)


class _JsonLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Format a record as JSON in ASCII, so that no character in it ends the line."""
        when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        told = getattr(record, LOG_FIELDS, None)
        if told is None:
            told = {"level": record.levelname.lower(), "logger": record.name, "message": record.getMessage().strip()}
        if record.exc_info and record.exc_info[0] is not None:
            told = told | {"traceback": "".join(traceback.format_exception(*record.exc_info))}
        return json.dumps({"time": when, **told}, default=str)
