"""Connections that are no HTTP, slow, half-open, too many or given up: bounded, and the server well afterwards."""

import contextlib
import json
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bertfeat import Extractor
from bertfeat.server import ServerSettings, open_service
from tests.support.live_server import (
    BODY_SECONDS,
    Live,
    Replies,
    Reply,
    assert_refused,
    head,
    hold_encoder,
    serving,
)
from tests.support.tiny_models import Tiny
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow  # many and quick, but for CI alone


# ── HTTP itself ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("request_bytes", "statuses"),
    [
        pytest.param(b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * 50_000 + b"\r\n", (400, 431), id="many headers"),
        pytest.param(
            b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 15_000 + b"\r\n", (200, 431), id="less many"
        ),
        pytest.param(
            b"GET /health HTTP/1.1\r\nHost: localhost\r\na: " + b"b" * 1_000_000 + b"\r\n\r\n", (431,), id="a long one"
        ),
        pytest.param(
            b"GET /health HTTP/1.1\r\nHost: localhost\r\na: " + b"b" * 100_000 + b"\r\n\r\n", (431,), id="less long"
        ),
        pytest.param(b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (431,), id="a long path"),
        pytest.param(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", (404,), id="less long a path"),
        pytest.param(b"GET /\xff\xfe HTTP/1.1\r\nHost: localhost\r\n\r\n", (400,), id="bytes in a path"),
        pytest.param(b"GET /%ff%fe%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", (404,), id="bytes in a path, quoted"),
        pytest.param(b"GET /page/%00 HTTP/1.1\r\nHost: localhost\r\n\r\n", (404,), id="NUL in a path"),
        pytest.param(
            b"GET /page/%00?numbers=%ff HTTP/1.1\r\nHost: localhost\r\n\r\n", (422,), id="NUL in a path, and a query"
        ),
        pytest.param(b"GET /page/documents?numbers=%ff HTTP/1.1\r\nHost: localhost\r\n\r\n", (422,), id="a query"),
        pytest.param(
            b"GET /health HTTP/1.1\r\nHost: localhost\r\nx-request-id: \xff\xfe\r\n\r\n", (200,), id="bytes in a header"
        ),
        pytest.param(b"GET /health HTTP/1.1\r\nHost: localhost\r\na: b\x00c\r\n\r\n", (400,), id="NUL in a header"),
        pytest.param(b"GET /health HTTP/1.1\r\n\r\n", (200, 400), id="no host"),
        pytest.param(b"GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", (200, 400), id="another version"),
        pytest.param(b"GET  /health  HTTP/1.1\r\nHost: localhost\r\n\r\n", (200, 400), id="two spaces"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 404), id="HTTP/2"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 300 + b"\r\n\r\n", (400,), id="TLS"),
        pytest.param(b"\r\n\r\n\r\n\r\n\x00\x00\r\n\r\n", (400,), id="nothing"),
        pytest.param(b"BREW /embed HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 405), id="another method"),
        pytest.param(b"CONNECT a:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", (400, 404, 405), id="a tunnel"),
        pytest.param(b"GET http://b/embed HTTP/1.1\r\nHost: localhost\r\n\r\n", (404, 405), id="a proxy"),
        pytest.param(
            b"GET /info HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
            (200,),
            id="a socket",
        ),
        pytest.param(
            b"POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\n",
            (400, 422),
            id="another coding",
        ),
    ],
)
def test_heads_that_are_none(live: Live, request_bytes: bytes, statuses: tuple[int, ...]) -> None:
    reply = live.raw(request_bytes)
    if reply.status == 200:
        assert 200 in statuses
    else:
        assert_refused(reply, "/embed", *statuses)


def test_errors_of_http_have_the_form_of_their_route(live: Live) -> None:
    path = "/v1/embeddings"
    assert_refused(live.raw(f"POST {path} HTTP/1.1\r\nHost: localhost\r\na: ".encode(), b"b" * 200_000), path, 431)
    assert_refused(live.raw(f"POST {path} HTTP/1.1\r\nHost : a\r\n\r\n".encode()), path, 400)
    chunked = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    assert_refused(live.raw(chunked, b"zz\r\n"), path, 400)


def test_pipelined_requests_are_answered_in_their_order(live: Live) -> None:
    bodies = [
        json.dumps({"inputs": " ".join(["river"] * number), "normalize": False}).encode() for number in range(1, 30)
    ]
    bodies.insert(7, b"{")
    bodies.insert(9, b'{"inputs": ""}')
    with live.connect() as connection:
        connection.sendall(b"".join(head("/embed", len(body)) + body for body in bodies))
        following = Replies(connection)
        replies = [following.next() for _ in bodies]
    assert [reply.status for reply in replies] == [422 if at == 7 else 400 if at == 9 else 200 for at in range(31)]
    for body, reply in zip(bodies, replies, strict=True):
        if reply.status == 200:
            alone = live.post("/embed", body).json()
            assert reply.json() == [[pytest.approx(value, abs=1e-5) for value in alone[0]]]
    with live.connect() as connection:  # what follows something unreadable is not answered
        health = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.sendall(health + b"\x00\r\n\r\n" + health)
        following = Replies(connection)
        assert following.next().status == 200
        assert_refused(following.next(), "/", 400)
        assert following.is_over()


# ── slow and half-open ──────────────────────────────────────────────────────────────────────────────────────


def seconds_until_closed(connection: socket.socket, drip: bytes = b"") -> float:
    """Send a byte now and then until the other side ends the connection."""
    began = time.monotonic()
    connection.settimeout(0.1)
    while time.monotonic() - began < 10:
        with contextlib.suppress(TimeoutError):
            try:
                if drip:
                    connection.send(drip)
                if not connection.recv(2**20):
                    break
            except ConnectionError:
                break
    return time.monotonic() - began


def test_slow_clients_are_closed(live: Live) -> None:
    """Each kind of them within its time, at once; a byte now and then does not help."""
    ordinary = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    refused = head("/embed", 10**12)
    starts: dict[str, tuple[bytes, bytes]] = {
        "silent": (b"", b""),
        "half a head": (b"GET /health HT", b""),
        "a head, byte by byte": (b"GET /health HTTP/1.1\r\na: ", b"b"),
        "a body, byte by byte": (head("/embed", 100_000), b" "),
        "half a body": (head("/embed", 100_000) + b"{", b""),
        "silent after an answer": (ordinary, b""),
        "a second head, byte by byte": (ordinary + b"GET /health HTTP/1.1\r\na: ", b"b"),
        "half of a second head": (ordinary + b"GET /hea", b""),
        "the rest of a refused body, byte by byte": (refused, b" "),
        "a refused body": (refused, b""),
        "blank lines": (b"\r\n", b"\r\n"),
    }
    with contextlib.ExitStack() as stack:
        opened = {name: stack.enter_context(live.connect()) for name in starts}
        for name, (start, _) in starts.items():
            opened[name].sendall(start)
        with ThreadPoolExecutor(len(starts)) as pool:
            waiting = {name: pool.submit(seconds_until_closed, opened[name], starts[name][1]) for name in starts}
            taken = {name: each.result() for name, each in waiting.items()}
    assert all(seconds < 2 * BODY_SECONDS + 1 for seconds in taken.values()), taken


def test_those_who_do_not_read_are_closed(live: Live) -> None:
    body = json.dumps({"inputs": ["a river " + "x" * 20] * 500}).encode()
    request = head("/embed", len(body)) + body
    with contextlib.ExitStack() as stack:
        opened = []
        for _ in range(5):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", live.port))
            connection.settimeout(20)
            connection.sendall(request * 20)
            opened.append(connection)
        wait_for(lambda: not live.server.server_state.connections)


def test_connections_are_bounded_and_a_real_client_still_gets_in(live: Live) -> None:
    with contextlib.ExitStack() as stack:
        silent = []
        for number in range(200):
            with contextlib.suppress(ConnectionError):
                silent.append(stack.enter_context(live.connect()))
            if number % 20 == 0:
                assert live.is_well()
        assert len(live.server.server_state.connections) <= 70
        assert live.is_well()


# ── clients that go away, and too many of them ──────────────────────────────────────────────────────────────


def test_the_work_of_clients_that_went_away_is_dropped(
    live: Live, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, computed = hold_encoder(monkeypatch)
    opened = []
    for number in range(40):
        path, name = ("/embed", "inputs") if number % 2 else ("/search", "query")
        body = json.dumps({name: f"gone {number} " + "river " * 400}).encode()
        connection = live.connect()
        connection.sendall(head(path, len(body)) + body)
        opened.append(connection)
    half = live.connect()
    half.sendall(head("/embed", 1000) + b'{"inputs": ')
    wait_for(lambda: live.service.batcher.requests == 22)  # and two searches, which have two threads
    for connection in (*opened, half):
        connection.close()
    wait_for(lambda: live.service.batcher.requests <= 2)  # searches that have begun
    go.set()
    live.wait_until_idle()
    assert len([text for text in computed if text.startswith("gone")]) < 20
    assert live.service._searches == 0


def test_a_poisoned_text_fails_alone(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be it with an error, without memory, or with a panic, which is no Exception."""
    compute = Extractor.compute_rows

    class PanicError(BaseException):
        pass

    errors = {"poison": ZeroDivisionError("secret"), "hunger": MemoryError(), "panic": PanicError("secret")}

    def fail(self: Any, tokenized: Any, **more: Any) -> Any:
        for document in tokenized.documents:
            for word, error in errors.items():
                if document.text == word:
                    raise error
        return compute(self, tokenized, **more)

    monkeypatch.setattr(Extractor, "compute_rows", fail)
    texts = ["a river", "poison", "a bank", "hunger", "water", "panic", "the mill"] * 4
    with ThreadPoolExecutor(len(texts)) as pool:
        replies = list(pool.map(lambda text: live.post("/embed", {"inputs": text}), texts))
    for text, reply in zip(texts, replies, strict=True):
        if text in errors:
            assert_refused(reply, "/embed", 424)
            assert b"secret" not in reply.body
        else:
            assert reply.status == 200


def test_a_flood_is_refused_and_over_at_once(tiny: Callable[[str], Tiny]) -> None:
    """300 requests at once where few may wait: 429 with Retry-After, nothing else, and well within a second."""
    settings = ServerSettings(most_waiting_tokens=3000)
    with serving(open_service([], settings, model=str(tiny("bert").folder))) as live:
        text = "river bank " * 150

        def ask(number: int) -> Reply:
            return live.post("/v1/embeddings", {"input": text}) if number % 2 else live.post("/embed", {"inputs": text})

        with ThreadPoolExecutor(100) as pool:
            replies = list(pool.map(ask, range(300)))
        statuses = [reply.status for reply in replies]
        assert set(statuses) == {200, 429}
        for number, reply in enumerate(replies):
            if reply.status == 429:
                assert_refused(reply, "/v1/embeddings" if number % 2 else "/embed", 429)
                assert int(reply.headers["retry-after"]) >= 1
        ended = time.monotonic()
        assert live.is_well()
        assert time.monotonic() - ended < 1
        live.wait_until_idle()
