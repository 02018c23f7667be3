"""An S3 server on this machine, moto's, behind a proxy that counts its requests and does harm to them.

::

    with S3Server() as server:
        os.environ.update(server.environment)
        server.make_bucket("books")
        with server.harmed(Faults(seed=1, throttled=0.3, dropped_after=0.1)):
            …
        print(server.count("create"), server.requests[-1])

It needs no pytest. The process of the server ends with the one that started it, however that one ends.
"""

import http.client
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

KEY, SECRET = "bertfeat-tests", "none"

_MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()  # until the process that started this one ends
"""
_ERROR = '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{}</Code><Message>{}</Message></Error>'
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "server", "date"}


@dataclass(frozen=True, slots=True)
class S3Request:
    """A request as the proxy saw it."""

    kind: str  # "list", "get", "range", "head", "put", "create", "replace", "delete" or "other"
    name: str  # of the object: bucket/key
    status: int  # that the client was told; 0 where its connection ended instead
    fault: str = ""  # what was done to it, by the names of :class:`Faults`


@dataclass(frozen=True, slots=True)
class Faults:
    """The harm that is done to requests: shares of them, drawn one by one."""

    seed: int = 0
    throttled: float = 0.0  # answered by 503 SlowDown; the storage did not see them
    dropped_before: float = 0.0  # the connection ends; the storage did not see them
    dropped_after: float = 0.0  # the storage did what they ask, then the connection ends without an answer
    failed_after: float = 0.0  # the storage did what they ask, and the answer is 500 InternalError
    cut: float = 0.0  # the answer ends in the middle of its content
    delay: float = 0.0  # seconds that every answer takes longer
    stalled: float = 0.0  # never answered, until the harm is over
    torn: float = 0.0  # the connection ends in the middle of what they bring; the storage did not see them
    refused: bool = False  # every key is answered by 403 InvalidAccessKeyId
    down: bool = False  # no request is answered
    most: int = 10**9  # so many requests are harmed, the later ones are not
    kinds: frozenset[str] = frozenset()  # of requests that are harmed; all where it is empty
    names: str = ""  # a regular expression: names of objects whose requests are harmed

    def concern(self, kind: str, name: str) -> bool:
        """Whether such requests are harmed."""
        return (not self.kinds or kind in self.kinds) and re.search(self.names, name) is not None


class S3Server:
    """moto's server and the proxy before it; see the head of this file."""

    def __init__(self) -> None:
        self.requests: list[S3Request] = []  # the answered ones, in the order of their answers
        self._faults, self._random, self._harmed = Faults(), random.Random(0), 0
        self._over = threading.Event()  # ends the wait of stalled requests
        self._numbers = count(1)
        self._state = threading.Lock()
        self.writing = threading.Lock()  # moto looks and then writes: conditional puts need an order

    def __enter__(self) -> Self:
        self._moto = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _MOTO],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # a line a request
            text=True,
        )
        assert self._moto.stdout is not None
        self.upstream = int(self._moto.stdout.readline())
        self._proxy = _Proxy(("127.0.0.1", 0), _Handler)
        self._proxy.s3 = self
        threading.Thread(target=self._proxy.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._proxy.shutdown()
        self._proxy.server_close()
        assert self._moto.stdin is not None
        assert self._moto.stdout is not None
        self._moto.stdin.close()
        self._moto.stdout.close()
        self._moto.kill()
        self._moto.wait()

    @property
    def url(self) -> str:
        """The address of the proxy."""
        return f"http://127.0.0.1:{self._proxy.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables by which a process finds the server."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
        }

    def make_bucket(self, name: str = "") -> str:
        """Make an empty bucket, of that name or another one, and return its name. It is not counted."""
        name = name or f"bucket-{next(self._numbers)}"
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=30)
        connection.request("PUT", f"/{name}")
        assert connection.getresponse().status == 200
        connection.close()
        return name

    def count(self, *kinds: str) -> int:
        """How many requests of these kinds were made; of all without a kind."""
        return sum(not kinds or request.kind in kinds for request in self.requests)

    def forget(self) -> None:
        """Count from 0."""
        self.requests.clear()

    @contextmanager
    def harmed(self, faults: Faults) -> Iterator[None]:
        """Harm requests for the time of the block."""
        self.harm(faults)
        try:
            yield
        finally:
            self.harm(Faults())

    def harm(self, faults: Faults) -> None:
        """Harm requests from now on; ``Faults()`` ends it."""
        with self._state:
            self._over.set()
            self._over = threading.Event()
            self._faults, self._random, self._harmed = faults, random.Random(faults.seed), 0

    def draw(self, kind: str, name: str) -> tuple[str, float, threading.Event]:
        """What is done to the next request: a fault or "", seconds of delay, and the end of a stall."""
        shares = ("throttled", "dropped_before", "dropped_after", "failed_after", "cut", "stalled", "torn")
        with self._state:
            faults, fault, drawn = self._faults, "", self._random.random()
            if not faults.concern(kind, name) or self._harmed >= faults.most:
                return "", 0.0, self._over
            for share in shares:
                drawn -= getattr(faults, share)
                if drawn < 0:
                    fault = share
                    break
            fault = "refused" if faults.refused else "dropped_before" if faults.down else fault
            self._harmed += bool(fault)
            return fault, faults.delay, self._over


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    s3: S3Server

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Proxy

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def _serve(self) -> None:
        kind, name = self._kind(), unquote(urlsplit(self.path).path.strip("/"))
        fault, delay, over = self.server.s3.draw(kind, name)
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size // 2 if fault == "torn" else size)
        time.sleep(delay)
        if fault == "stalled":
            over.wait()
        answer = self._answer(fault, body)
        self.server.s3.requests.append(S3Request(kind, name, answer.status if answer else 0, fault))
        if answer:
            self._send(answer, cut=fault == "cut")
        else:
            self._drop()

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _serve  # noqa: N815

    def _kind(self) -> str:
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if self.command == "GET":
            return "list" if "list-type" in query else "range" if "Range" in self.headers else "get"
        if self.command == "PUT" and not query:
            return "replace" if "If-Match" in self.headers else "create" if "If-None-Match" in self.headers else "put"
        return {"HEAD": "head", "DELETE": "delete"}.get(self.command, "other")

    def _answer(self, fault: str, body: bytes) -> "_Answer | None":
        """What the client is told; None: nothing, its connection ends."""
        if fault in ("stalled", "dropped_before", "torn"):
            return None
        if fault == "throttled":
            return _error(503, "SlowDown", "Please reduce your request rate.")
        if fault == "refused":
            return _error(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist.")
        answer = self._ask_upstream(body)
        if fault == "failed_after":
            return _error(500, "InternalError", "We encountered an internal error. Please try again.")
        return None if fault == "dropped_after" else answer

    def _ask_upstream(self, body: bytes) -> "_Answer":
        connection = http.client.HTTPConnection("127.0.0.1", self.server.s3.upstream, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        writes = self.command not in ("GET", "HEAD")
        with self.server.s3.writing if writes else threading.Lock():
            connection.request(self.command, self.path, body=body if writes else None, headers=headers)
            answer = connection.getresponse()
            content = answer.read()
        connection.close()
        kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP_BY_HOP]
        if self.command == "HEAD":
            kept.append(("Content-Length", answer.headers.get("Content-Length", "0")))
        return _Answer(answer.status, kept, content)

    def _send(self, answer: "_Answer", *, cut: bool) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        content = b"" if self.command == "HEAD" else answer.content
        if self.command != "HEAD" and answer.status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self._drop()

    def _drop(self) -> None:
        self.close_connection = True
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: list[tuple[str, str]]
    content: bytes


def _error(status: int, code: str, problem: str) -> _Answer:
    return _Answer(status, [("Content-Type", "application/xml")], _ERROR.format(code, problem).encode())


STORED = Path("/stored")
"""The folder whose events :func:`announce_stored_files` raises; nothing is there."""


def announce_stored_files() -> None:
    """Raise the audit event of an opened file before and after each one that is written or removed in a bucket.

    So they are steps of :mod:`tests.support.steps`, at which a process is stopped or killed. Renewals of a lock are
    none: they come by the clock.
    """
    from bertfeat.io.storage.bucket import Bucket

    def announced(method: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def call(bucket: object, name: str, *arguments: object, **options: object) -> object:
            if kind == "replace" and name.endswith("/lock"):
                return method(bucket, name, *arguments, **options)
            sys.audit("open", str(STORED / kind / name), None, 0)
            result = method(bucket, name, *arguments, **options)
            sys.audit("open", str(STORED / f"{kind} done" / name), None, 0)
            return result

        return call

    for kind in ("put", "replace", "remove"):
        setattr(Bucket, kind, announced(getattr(Bucket, kind), kind))
