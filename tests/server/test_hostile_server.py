"""A server under attack, over real sockets: the right status in the right form, and well afterwards."""

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.message import Message
from http.client import BadStatusLine, HTTPConnection, HTTPResponse, IncompleteRead, RemoteDisconnected
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from bertfeat import CorpusSettings, Extractor, build_index
from bertfeat.server import ServerSettings, create_app, open_service
from bertfeat.server.connections import BoundedProtocol, bounded_protocol
from bertfeat.server.service import Service
from tests.support.tiny_models import Tiny

pytestmark = pytest.mark.slow  # many and quick, but for CI alone

ROOT = Path(__file__).parents[2]
TEXTS = ("He sat on the bank of the river.", "The bank lends money.", "Water runs under the old mill.")
MOST_BODY = 4 * 2**20
BODY_SECONDS = 1.0
_GONE = (ConnectionError, BadStatusLine, RemoteDisconnected, IncompleteRead, TimeoutError)


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
        return self.raw(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n".encode())

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
        "Host: a",
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

    def wait_until_idle(self, seconds: float = 5.0) -> None:
        """Wait until nothing waits, and nothing of a request is held."""
        end = time.monotonic() + seconds
        while self.service.batcher.requests or self.service.batcher.waiting_tokens:
            assert time.monotonic() < end, (self.service.batcher.requests, self.service.batcher.waiting_tokens)
            time.sleep(0.01)


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
        timeout_graceful_shutdown=5,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield Live(listening.getsockname()[1], service, server)
    finally:
        server.should_exit = True
        thread.join(15)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def place(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index and a set of words."""
    place = tmp_path_factory.mktemp("attacked")
    rows = [{"text": f"{text} {number}", "year": 1900 + number} for number, text in enumerate(TEXTS * 10)]
    (place / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    extractor = Extractor(tiny("bert").folder, pooling="mean,word", layers="last,1", precision="fp32")
    extractor.extract(place / "c.jsonl", place / "c.features", corpus_settings=CorpusSettings(keep=("year",)))
    build_index(place / "c.features", place / "c.index", column="last_mean")
    return place


@pytest.fixture(scope="module")
def live(place: Path) -> Iterator[Live]:
    settings = ServerSettings(
        most_body=MOST_BODY,
        body_seconds=BODY_SECONDS,
        request_seconds=20.0,
        most_connections=60,
        most_texts=500,
        most_tokens=50_000,
        most_values=2**22,
        accept_token_ids=False,
    )
    with serving(open_service([place / "c.index", place / "c.features"], settings)) as live:
        yield live


@pytest.fixture(autouse=True)
def stays_alive(request: pytest.FixtureRequest) -> Iterator[None]:
    """The server of a test is well after it, and nothing waits."""
    yield
    if "live" in request.fixturenames:
        live: Live = request.getfixturevalue("live")
        assert live.is_well()
        live.wait_until_idle()


# ── bodies ──────────────────────────────────────────────────────────────────────────────────────────────────

DEEP = 100_000
_ROUTES = ("/v1/embeddings", "/embed", "/", "/features", "/search", "/usages", "/tokenize", "/decode", "/similarity")


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embed"])
def test_bodies_that_are_too_large(live: Live, path: str) -> None:
    status = 400 if path.startswith("/v1/") else 413
    size = 50_000_000
    piece = b" " * 2**20
    assert_refused(live.raw(head(path, size), *[piece] * 48), path, status)
    assert_refused(live.raw(head(path, size)), path, status)  # before anything of it is sent
    assert_refused(live.raw(head(path, size, "Expect: 100-continue")), path, status)
    chunked = f"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunks = b"%x\r\n%s\r\n" % (len(piece), piece)
    assert_refused(live.raw(chunked, *[chunks] * 48), path, status)
    for length in ("9" * 19, "9" * 5000, "-5", "+5", "1e3", "0x10", "5, 6"):
        assert_refused(live.raw(head(path, length), b"{}"), path, 400, status)
    assert live.service.batcher.requests == 0


def test_lengths_that_lie(live: Live) -> None:
    body = json.dumps({"inputs": "a river"}).encode()
    began = time.monotonic()
    assert_refused(live.raw(head("/embed", len(body) + 100), body), "/embed", 408)
    assert time.monotonic() - began < BODY_SECONDS + 1
    assert_refused(live.raw(head("/embed", len(body) - 3), body), "/embed", 422)
    both = head("/embed", 5, "Transfer-Encoding: chunked")
    assert live.raw(both, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)).status in (200, 400)
    for chunk in (b"zz\r\n", b"-1\r\n", b"fffffffffffffffffffffff\r\n", b"\r\n\r\n", b"5;" + b"a" * 100_000 + b"\r\n"):
        chunked = b"POST /embed HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert_refused(live.raw(chunked, chunk), "/embed", 400, 408, 431)


@pytest.mark.parametrize("path", _ROUTES)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * DEEP + b"]" * DEEP, id="deep lists"),
        pytest.param(b'{"a":' * DEEP + b"1" + b"}" * DEEP, id="deep objects"),
        pytest.param(b'{"input":' + b"[" * DEEP + b"]" * DEEP + b"}", id="deep input"),
        pytest.param(b'{"inputs":' + b"[" * 500 + b"]" * 500 + b"}", id="less deep"),
        pytest.param(b'{"input": "a", "inputs": "a", "texts": "a", ', id="half"),
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b'"\xff\xfe"', id="no UTF-8"),
        pytest.param(b'{"inputs": "\xc3\x28", "input": "\xed\xa0\x80"}', id="wrong UTF-8"),
        pytest.param(b"\x00" * 1000, id="NUL"),
        pytest.param(b"\xef\xbb\xbf{}", id="BOM"),
        pytest.param(b"1" * 100_000, id="a long number"),
        pytest.param(b'{"k": ' + b"1" * 5000 + b"}", id="a long k"),
        pytest.param(b"PK\x03\x04" + bytes(range(256)) * 20, id="a file"),
    ],
)
def test_bodies_that_are_no_request(live: Live, path: str, body: bytes) -> None:
    assert_refused(live.post(path, body), path, 400, 422)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embed", "/features", "/search", "/usages", "/decode"])
def test_wrong_types_everywhere(live: Live, path: str) -> None:
    names = (
        "input",
        "inputs",
        "texts",
        "query",
        "vector",
        "word",
        "ids",
        "layers",
        "pooling",
        "k",
        "where",
        "truncate",
    )
    more = (
        "model",
        "prompt",
        "prompt_name",
        "dimensions",
        "max_length",
        "encoding_format",
        "like",
        "senses",
        "features",
    )
    values: list[Any] = [
        None,
        True,
        2**70,
        float("nan"),
        "",
        "\x00",
        "\ud800",
        [],
        [[]],
        [None],
        {},
        ["a", 1],
        "a" * 2000,
    ]
    for name in (*names, *more):
        for value in values:
            reply = live.post(path, {"inputs": "a", "input": "a", "texts": "a", "word": "bank", name: value})
            if reply.status != 200:
                assert_refused(reply, path, 400, 404, 413, 422)


def test_a_million_wrong_items_cost_little(live: Live) -> None:
    """An error for each of them, for each of the types that they might have, would be gigabytes."""
    for item, field in ((b"{}", "inputs"), (b"1", "inputs"), (b"[{}]", "inputs"), (b'""', "vector"), (b"null", "ids")):
        path = {"vector": "/search", "ids": "/decode"}.get(field, "/embed")
        for count, statuses in ((MOST_BODY // (len(item) + 2), (413,)), (150_000, (400, 422))):
            body = b'{"%s": [%s]}' % (field.encode(), b",".join([item] * count))
            began = time.monotonic()
            assert_refused(live.post(path, body), path, *statuses)
            assert time.monotonic() - began < 3


def test_numbers_that_are_none(live: Live) -> None:
    width = live.service.extractor.model.hidden_size
    for value in ("NaN", "Infinity", "-Infinity", "1e999", "1e300", "-1e39", "9" * 400):
        body = f'{{"vector": [{", ".join([value] * width)}], "k": 2}}'.encode()
        assert_refused(live.post("/search", body), "/search", 400, 422)
    for wrong in ([], [0.5], [0.5] * (width + 1), [[0.5] * width]):
        assert_refused(live.post("/search", {"vector": wrong}), "/search", 422)
    zero = live.post("/search", {"vector": [0.0] * width, "k": 2})
    assert zero.status in (200, 422)
    assert b"NaN" not in zero.body


# ── texts and names ─────────────────────────────────────────────────────────────────────────────────────────


def test_too_many_texts_tokens_and_values(live: Live) -> None:
    for path, name in (
        ("/v1/embeddings", "input"),
        ("/embed", "inputs"),
        ("/features", "texts"),
        ("/tokenize", "inputs"),
    ):
        assert_refused(live.post(path, {name: ["a river"] * 10_000}), path, 400, 413)
        assert_refused(live.post(path, {name: "river " * 400_000}), path, 400, 413)
        assert_refused(live.post(path, {name: []}), path, 400)
    for path, name in (("/search", "query"), ("/usages", "like")):
        assert_refused(live.post(path, {"word": "bank", name: "bank river " * 200_000}), path, 413)
    assert_refused(live.post("/decode", {"ids": [7] * 60_000}), "/decode", 413)
    assert_refused(live.post("/decode", {"ids": [[7]] * 600}), "/decode", 413)
    # what is long only in the answer: prompts, columns of tokens, and words that have no tokens
    prompted = {"input": ["a"] * 400, "prompt": "river " * 10_000}
    assert_refused(live.post("/v1/embeddings", prompted), "/v1/embeddings", 400)
    tokens = {"texts": ["river " * 400] * 100, "layers": ["all", "concat=1+2"], "pooling": ["token", "word"]}
    assert_refused(live.post("/features", tokens), "/features", 413)
    columns = {"input": ["a"] * 10, "layers": ["last"] * 100_000}
    assert_refused(live.post("/v1/embeddings", columns), "/v1/embeddings", 400)
    marks = {"texts": ["\ufe0f " * 150_000], "pooling": "word"}
    assert_refused(live.post("/features", marks), "/features", 413)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\u0301" * 5000, id="combining characters"),
        pytest.param("e" + "\u0301\u0302\u0303" * 3000, id="one letter, thousands of marks"),
        pytest.param("👩‍👩‍👧‍👦🏳️‍🌈" * 300, id="emoji"),
        pytest.param("\ufe0f\u200d\u200b", id="nothing to see"),
        pytest.param("\u202e\u2066abc\u2069", id="direction marks"),
        pytest.param("a\x00b\x00", id="NUL"),
        pytest.param("x" * 100_000, id="one word"),
        pytest.param("﷽ﷺ" * 2000, id="grows when normalised"),
        pytest.param("\U0010ffff\uffff\ufffe", id="no characters"),
        pytest.param("[CLS] [SEP] [MASK] [PAD] [UNK]", id="special tokens"),
        pytest.param("'; DROP TABLE texts; -- ${jndi:ldap://a} {{7*7}} <script>", id="for others"),
    ],
)
def test_strange_texts(live: Live, text: str) -> None:
    """Embedded as they are offline, next to an ordinary one."""
    for path, name in (("/v1/embeddings", "input"), ("/embed", "inputs")):
        reply = live.post(path, {name: ["a river", text]})
        assert reply.status == 200, reply.body[:300]
        assert b"NaN" not in reply.body
    assert live.post("/embed_all", {"inputs": text}).status in (200, 413)
    assert live.post("/features", {"texts": text, "pooling": ["word", "mean"]}).status in (200, 413)
    assert live.post("/tokenize", {"inputs": text}).status == 200
    assert live.post("/search", {"query": text, "highlight": True}).status == 200
    usages = live.post("/usages", {"word": text[:900], "like": f"the *bank* {text}", "layers": "1"})
    if usages.status != 200:
        assert_refused(usages, "/usages", 422)


PATHLIKE = (
    "../../etc/passwd",
    "/etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "file:///etc/passwd",
    "C:\\x",
    "s3://a/b",
    "~",
    "\x00",
)


@pytest.mark.parametrize("name", PATHLIKE)
def test_names_that_are_paths(live: Live, name: str) -> None:
    assert_refused(live.post("/v1/embeddings", {"input": "a", "model": name}), "/v1/embeddings", 404)
    assert_refused(live.post("/usages", {"word": "bank", "features": name}), "/usages", 404)
    assert_refused(live.post("/embed", {"inputs": "a", "prompt_name": name}), "/embed", 422)
    assert_refused(live.post("/features", {"texts": "a", "layers": name}), "/features", 422)
    if name.isprintable() and "\\" not in name:
        for before in ("/v1/models/", "/page/", "/", "//", "/page/../", "/static/"):
            reply = live.get(f"{before}{name}")
            assert reply.status in (400, 404), (before, name, reply.status)
            assert b"root:" not in reply.body


WHERES = (
    "year > 1900); drop table x; --",
    "1=1 or 1=1",
    "year > 1900 union select * from documents",
    "__import__('os').system('true')",
    "text like '%" + "(a+)+" * 500 + "$%'",
    "text like '" + "%_" * 5000 + "'",
    "(" * 100_000 + "year" + ")" * 100_000,
    "not " * 100_000 + "year = 1",
    " or ".join(["year = 1"] * 20_000),
    "year in (" + ", ".join(["1"] * 100_000) + ")",
    "year = " + "9" * 5000,
    "year = 1e999",
    "\x00",
    "\u202e year",
    "year = 'x",
    "row = '../../etc/passwd'",
    "`year` = 1",
    '"year" = 1',
    "a" * 1_000_000,
    "",
)


@pytest.mark.parametrize("where", WHERES, ids=lambda where: where[:20])
def test_conditions_of_others(live: Live, where: str) -> None:
    for path, more in (("/search", {"query": "money"}), ("/usages", {"word": "bank", "layers": "last"})):
        began = time.monotonic()
        reply = live.post(path, {**more, "where": where})
        assert time.monotonic() - began < 3
        if reply.status != 200:
            assert_refused(reply, path, 422)
    for k in (0, -1, 1001, 10**12, 10**30, 1.5, "10 or 1", None):
        reply = live.post("/search", {"query": "money", "k": k})
        if reply.status != 200:
            assert_refused(reply, "/search", 422)


# ── HTTP itself ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("request_bytes", "statuses"),
    [
        pytest.param(b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * 50_000 + b"\r\n", (400, 431), id="many headers"),
        pytest.param(
            b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 15_000 + b"\r\n", (200, 431), id="less many"
        ),
        pytest.param(
            b"GET /health HTTP/1.1\r\nHost: a\r\na: " + b"b" * 1_000_000 + b"\r\n\r\n", (431,), id="a long one"
        ),
        pytest.param(b"GET /health HTTP/1.1\r\nHost: a\r\na: " + b"b" * 100_000 + b"\r\n\r\n", (431,), id="less long"),
        pytest.param(b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", (431,), id="a long path"),
        pytest.param(b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", (404,), id="less long a path"),
        pytest.param(b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n", (400,), id="bytes in a path"),
        pytest.param(b"GET /%ff%fe%00 HTTP/1.1\r\nHost: a\r\n\r\n", (404,), id="bytes in a path, quoted"),
        pytest.param(b"GET /page/%00?numbers=%ff HTTP/1.1\r\nHost: a\r\n\r\n", (404,), id="NUL in a path"),
        pytest.param(b"GET /page/documents?numbers=%ff HTTP/1.1\r\nHost: a\r\n\r\n", (422,), id="a query"),
        pytest.param(
            b"GET /health HTTP/1.1\r\nHost: a\r\nx-request-id: \xff\xfe\r\n\r\n", (200,), id="bytes in a header"
        ),
        pytest.param(b"GET /health HTTP/1.1\r\nHost: a\r\na: b\x00c\r\n\r\n", (400,), id="NUL in a header"),
        pytest.param(b"GET /health HTTP/1.1\r\n\r\n", (200, 400), id="no host"),
        pytest.param(b"GET /health HTTP/9.9\r\nHost: a\r\n\r\n", (200, 400), id="another version"),
        pytest.param(b"GET  /health  HTTP/1.1\r\nHost: a\r\n\r\n", (200, 400), id="two spaces"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 404), id="HTTP/2"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 300 + b"\r\n\r\n", (400,), id="TLS"),
        pytest.param(b"\r\n\r\n\r\n\r\n\x00\x00\r\n\r\n", (400,), id="nothing"),
        pytest.param(b"BREW /embed HTTP/1.1\r\nHost: a\r\n\r\n", (400, 405), id="another method"),
        pytest.param(b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", (400, 404, 405), id="a tunnel"),
        pytest.param(b"GET http://b/embed HTTP/1.1\r\nHost: a\r\n\r\n", (404, 405), id="a proxy"),
        pytest.param(
            b"GET /info HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", (200,), id="a socket"
        ),
        pytest.param(
            b"POST /embed HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", (400, 422), id="another coding"
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
    assert_refused(live.raw(f"POST {path} HTTP/1.1\r\nHost: a\r\na: ".encode(), b"b" * 200_000), path, 431)
    assert_refused(live.raw(f"POST {path} HTTP/1.1\r\nHost : a\r\n\r\n".encode()), path, 400)
    chunked = f"POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
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
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n" + b"\x00\r\n\r\n" + b"GET /info HTTP/1.1\r\n\r\n")
        following = Replies(connection)
        assert following.next().status == 200
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
    ordinary = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
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
        end = time.monotonic() + 15
        while len(live.server.server_state.connections) > 0 and time.monotonic() < end:
            time.sleep(0.05)
        assert not live.server.server_state.connections


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
    go, computed = threading.Event(), list[str]()
    compute = Extractor.compute_rows

    def wait(self: Any, tokenized: Any, **more: Any) -> Any:
        go.wait(20)
        computed.extend(document.text for document in tokenized.rows.documents)
        return compute(self, tokenized, **more)

    monkeypatch.setattr(Extractor, "compute_rows", wait)
    opened = []
    for number in range(40):
        path, name = ("/embed", "inputs") if number % 2 else ("/search", "query")
        body = json.dumps({name: f"gone {number} " + "river " * 400}).encode()
        connection = live.connect()
        connection.sendall(head(path, len(body)) + body)
        opened.append(connection)
    half = live.connect()
    half.sendall(head("/embed", 1000) + b'{"inputs": ')
    end = time.monotonic() + 5
    while live.service.batcher.requests < 22 and time.monotonic() < end:
        time.sleep(0.01)
    assert live.service.batcher.requests == 22  # and two searches, which have two threads
    for connection in (*opened, half):
        connection.close()
    end = time.monotonic() + 5
    while live.service.batcher.requests > 2 and time.monotonic() < end:
        time.sleep(0.01)
    assert live.service.batcher.requests <= 2  # searches that have begun
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
        for document in tokenized.rows.documents:
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
        body = {"inputs": "river bank " * 150}

        def ask(number: int) -> Reply:
            return live.post("/v1/embeddings" if number % 2 else "/embed", body | {"input": body["inputs"]})

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


# ── keys ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_wrong_keys(tiny: Callable[[str], Tiny]) -> None:
    settings = ServerSettings(api_keys=("correct horse", "other"))
    with serving(open_service([], settings, model=str(tiny("bert").folder))) as live:
        wrong: list[dict[str, str]] = [
            {},
            {"Authorization": "Bearer"},
            {"Authorization": "Bearer correct"},
            {"Authorization": "Bearer correct horse battery"},
            {"Authorization": "Bearer CORRECT HORSE"},
            {"Authorization": "Basic correct horse"},
            {"Authorization": "bearer"},
            {"X-API-Key": "correct"},
            {"X-API-Key": "\x80\xff"},
            {"Authorization": "Bearer " + "a" * 30_000},
            {"Authorization": "Bearer no", "X-API-Key": "correct horse"},
        ]
        for headers in wrong:
            for path in (
                "/v1/embeddings",
                "/embed",
                "/page/documents",
                "/docs",
                "/openapi.json",
                "/health/",
                "//health",
            ):
                assert_refused(live.post(path, {"input": "a"}, **headers), path, 401)
            for path in (
                "/metrics",
                "/info",
                "/page/state",
                "/docs",
                "/openapi.json",
                "/%6detrics",
                "/page/../metrics",
            ):
                assert live.get(path, **{n: v for n, v in headers.items() if v.isascii()}).status == 401, path
        assert live.post("/embed", {"inputs": "a"}, Authorization="Bearer correct horse").status == 200
        assert live.get("/metrics", Authorization="Bearer other").status == 200
        # refused before the body is read
        assert_refused(live.raw(head("/embed", 10**9)), "/embed", 401)


# ── the process ─────────────────────────────────────────────────────────────────────────────────────────────


class Process:
    """A server as a user starts it."""

    def __init__(self, *arguments: str, files: int | None = None) -> None:
        limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files})); " if files else ""
        command = [
            sys.executable,
            "-c",
            f"{limit}from bertfeat.cli import run; run()",
            "serve",
            "--port",
            "0",
            *arguments,
        ]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True)
        assert self.process.stderr is not None
        self.said = ""
        while "http://" not in self.said:
            line = self.process.stderr.readline()
            assert line, self.said
            self.said += line
        self.address = Address(int(self.said.rpartition(":")[2].partition("/")[0]))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        assert self.address.is_well()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line

    def resident(self) -> int:
        """Bytes of memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.partition("VmRSS:")[2].split()[0])

    def end(self, *signals: int, seconds: float = 30.0) -> int:
        for number in signals:
            self.process.send_signal(number)
            time.sleep(0.2)
        code = self.process.wait(seconds)
        self.reader.join(5)
        return code


@contextlib.contextmanager
def process(*arguments: str, files: int | None = None) -> Iterator[Process]:
    started = Process(*arguments, files=files)
    try:
        yield started
    finally:
        if started.process.poll() is None:
            started.process.kill()
            started.process.wait()
        started.reader.join(5)
        assert started.process.stderr is not None
        started.process.stderr.close()


LARGE = {"inputs": ["river bank water mill " * 25] * 1500}  # seconds of work


@pytest.mark.slow
def test_memory_comes_back_and_sigterm_finishes_what_is_in_flight(tiny: Callable[[str], Tiny]) -> None:
    with process("--model", str(tiny("bert").folder)) as server:
        address = server.address
        for _ in range(3):
            address.post("/embed", {"inputs": ["river bank"] * 500})
        before = server.resident()
        attacks = [
            b'{"inputs": [' + b",".join([b"{}"] * 10_000_000) + b"]}",
            b'{"inputs": [' + b",".join([b"1"] * 15_000_000) + b"]}",
            b'{"inputs": "' + b"a" * 31_000_000 + b'"}',
            b'{"ids": [' + b",".join([b"[]"] * 10_000_000) + b"]}",
        ]
        for body in attacks:
            assert_refused(address.post("/decode" if b"ids" in body[:10] else "/embed", body), "/embed", 400, 413, 422)
        assert address.raw(head("/embed", 50_000_000), *[b" " * 2**20] * 48).status == 413
        assert address.is_well()
        assert server.resident() < before + 60 * 2**20, (before, server.resident())

        body = json.dumps(LARGE).encode()
        with address.connect(60) as flying, address.connect() as idle, address.connect() as half:
            half.sendall(b"GET /heal")
            idle.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            assert read_reply(idle).status == 200
            flying.sendall(head("/embed", len(body)) + body)
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.4)
            refused = True
            with contextlib.suppress(*_GONE):
                refused = address.get("/health").status == 503
            assert refused
            answer = read_reply(flying)
        assert answer.status == 200
        assert len(answer.json()) == 1500
        assert server.end() == 143
        assert "Traceback" not in server.said, server.said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("signals", "code"),
    [((signal.SIGTERM, signal.SIGTERM), 143), ((signal.SIGINT,), 130), ((signal.SIGINT, signal.SIGINT), 130)],
    ids=["SIGTERM twice", "Ctrl-C", "Ctrl-C twice"],
)
def test_other_ends(tiny: Callable[[str], Tiny], signals: tuple[int, ...], code: int) -> None:
    with process("--model", str(tiny("bert").folder)) as server, server.address.connect(60) as flying:
        body = json.dumps(LARGE).encode()
        flying.sendall(head("/embed", len(body)) + body)
        time.sleep(0.3)
        assert server.end(*signals) == code
        assert "Traceback" not in server.said, server.said


@pytest.mark.slow
def test_few_files(tiny: Callable[[str], Tiny]) -> None:
    """Where a process may open few files, silent connections do not take all of them."""
    with process("--model", str(tiny("bert").folder), files=128) as server, contextlib.ExitStack() as stack:
        for _ in range(300):
            with contextlib.suppress(ConnectionError):
                stack.enter_context(server.address.connect())
        began = time.monotonic()
        assert server.address.is_well()
        assert time.monotonic() - began < 2
        assert "Too many open files" not in server.said


def test_the_command_refuses(tiny: Callable[[str], Tiny]) -> None:
    """Other machines without a key; keys that are none; a port that is taken."""
    from click.testing import CliRunner

    from bertfeat.cli import main

    with socket.create_server(("127.0.0.1", 0)) as taken:
        for arguments in (
            ["--host", "0.0.0.0"],
            ["--host", "::"],
            ["--host", ""],
            ["--host", "0.0.0.0", "--api-key", ""],
            ["--host", "0.0.0.0", "--api-key", "  "],
            ["--host", "0.0.0.0", "--api-key", "é"],
            ["--api-key", "a", "--no-auth"],
            ["--port", "70000"],
            ["--port", str(taken.getsockname()[1])],
            ["--host", "256.1.1.1", "--no-auth"],
        ):
            done = CliRunner().invoke(main, ["serve", "--model", str(tiny("bert").folder), *arguments])
            assert done.exit_code == 2, (arguments, done.output)
            assert "error:" in done.output
            assert "Traceback" not in done.output


def test_the_protocol_closes_only_what_is_idle() -> None:
    """The limits of a server are those of its connections."""
    protocol = bounded_protocol(ServerSettings(most_connections=7, body_seconds=3.0, request_seconds=5.0))
    assert issubclass(protocol, BoundedProtocol)
    assert (protocol.most_connections, protocol.idle_seconds, protocol.answer_seconds) == (7, 3.0, 5.0)
