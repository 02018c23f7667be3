"""A server on a thread, over real sockets, and what tests send to it and expect of it."""

import contextlib
import io
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from http.client import BadStatusLine, HTTPConnection, HTTPResponse, IncompleteRead, RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from bertfeat import Extractor
from bertfeat.server import create_app
from bertfeat.server.connections import bounded_protocol
from bertfeat.server.service import Service
from tests.support.waiting import wait_for

ROOT = Path(__file__).parents[2]
TEXTS = ("He sat on the bank of the river.", "The bank lends money.", "Water runs under the old mill.")
MOST_BODY = 4 * 2**20
BODY_SECONDS = 1.0
GONE = (ConnectionError, BadStatusLine, RemoteDisconnected, IncompleteRead, TimeoutError)


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int
    headers: Message
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    port: int

    def connect(self, seconds: float = 20.0) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), seconds)

    def raw(self, *parts: bytes) -> Reply:
        """Send bytes as they are, even to one that answers before it has all of them, and read an answer."""
        with self.connect() as connection:
            with contextlib.suppress(ConnectionError):
                for part in parts:
                    connection.sendall(part)
            return read_reply(connection)

    def post(self, path: str, body: Any, **headers: str) -> Reply:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, content, {"Content-Type": "application/json", **headers})
        try:
            answer = connection.getresponse()
            return Reply(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return self.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{lines}\r\n".encode())

    def is_well(self) -> bool:
        """Whether it embeds a text."""
        return self.post("/embed", {"inputs": "a river"}).status == 200


class Replies:
    """The answers on a connection, one after the other."""

    class _File(io.BufferedReader):
        def close(self) -> None:
            """Stay open, for the next answer."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = self._File(socket.SocketIO(connection, "r"))

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return self._file

    def next(self) -> Reply:
        answer = HTTPResponse(self)  # type: ignore[arg-type]
        answer.begin()
        return Reply(answer.status, answer.headers, answer.read())

    def is_over(self) -> bool:
        return self._file.read(1) == b""


def read_reply(connection: socket.socket) -> Reply:
    answer = HTTPResponse(connection)
    answer.begin()
    return Reply(answer.status, answer.headers, answer.read())


def head(path: str, length: int | str, *more: str, method: str = "POST") -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {length}",
        *more,
    ]
    return "\r\n".join([*lines, "", ""]).encode()


def assert_refused(reply: Reply, path: str, *statuses: int) -> None:
    """One of the statuses, the form of the route, and nothing of the server's inside."""
    assert reply.status in statuses, (reply.status, reply.body[:300])
    body = reply.json()
    if path.startswith("/v1/"):
        assert set(body["error"]) == {"message", "type", "param", "code"}, body
        message = body["error"]["message"]
    else:
        assert set(body) == {"error", "error_type"}, body
        message = body["error"]
    assert 0 < len(message) <= 1000
    assert not any(inside in message for inside in ("Traceback", 'File "', ".py", "site-packages", "attacked")), message


@dataclass(frozen=True)
class Live(Address):
    """A server on a thread."""

    service: Service
    server: uvicorn.Server

    def wait_until_idle(self) -> None:
        """Wait until nothing waits, and nothing of a request is held."""
        wait_for(lambda: not self.service.batcher.requests and not self.service.batcher.waiting_tokens)


@contextlib.contextmanager
def serving(service: Service) -> Iterator[Live]:
    """Serve as the command does, but on a thread."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    config = uvicorn.Config(
        create_app(service),
        http=bounded_protocol(service.settings),
        ws="none",
        log_config=None,
        access_log=False,
        timeout_keep_alive=max(1, round(service.settings.body_seconds)),
        timeout_graceful_shutdown=min(5, round(service.settings.grace_seconds)),
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    wait_for(lambda: server.started or not thread.is_alive())
    assert thread.is_alive()
    try:
        yield Live(listening.getsockname()[1], service, server)
    finally:
        server.should_exit = True
        thread.join(15)
        assert not thread.is_alive()


def answered(client: Any, path: str, **params: str) -> Any:
    """The answer of a route that computes beside requests, once it is no longer "not yet" (202)."""

    def ask() -> Any:
        answer = client.get(path, params=params)
        if answer.status_code != 202:
            return answer
        assert answer.headers["retry-after"] == "1"
        return None

    return wait_for(ask)


def hold_encoder(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, list[str]]:
    """Have rounds wait for an event before they are computed; the event, and the texts that were computed since."""
    go, computed = threading.Event(), list[str]()
    compute = Extractor.compute_rows

    def wait(self: Any, tokenized: Any, **more: Any) -> Any:
        go.wait(20)
        computed.extend(document.text for document in tokenized.documents)
        return compute(self, tokenized, **more)

    monkeypatch.setattr(Extractor, "compute_rows", wait)
    return go, computed
