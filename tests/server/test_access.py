"""Settings that cannot be right, names that are not the server's, headers with blanks, ends, and the log."""

import asyncio
import io
import json
import logging
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from bertfeat.cli import main
from bertfeat.errors import UsageError, current_spelling, parameter, shell_spelling, spell_parameters
from bertfeat.io import ContextPool
from bertfeat.server import ServerSettings, create_app, log_as_json, open_service
from tests.support.live_server import Live, Replies, assert_refused, head, hold_encoder, read_reply, serving
from tests.support.tiny_models import Tiny
from tests.support.waiting import wait_for

# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────

WRONG: list[tuple[list[str], dict[str, Any]]] = [
    *((["--timeout", text], {"request_seconds": float(text)}) for text in ("nan", "inf", "-inf", "0", "-1")),
    *(([], {name: value}) for name in ("body_seconds", "grace_seconds") for value in (float("nan"), float("inf"), 0)),
    *(([], {"most_texts": 0}), ([], {"most_waiting_tokens": -1})),
    *(
        (["--prefix", text], {"prefix": f"/{text.strip('/')}"})
        for text in ("a b", "a?b", "a#b", "a//b", "%2e", "http://a", "a\n", "ü", "..", "a/../b", "./a")
    ),
    (["--host", "", "--no-auth"], {"host": ""}),
    *(
        (["--cors", text], {"cors_origins": (text,)})
        for text in ("", "example.org", "https://a/", "https://a.example/path", "https://*", "http://a b", "null", "**")
    ),
    *(
        (["--api-key", text], {"api_keys": (text,)})
        for text in ("", " ", " key", "key ", "a\nb", "a\tb", "\x00", "é", "a\x7f")
    ),
    *(
        (["--allowed-host", text], {"allowed_hosts": (text,)})
        for text in ("", "a:8000", "http://a", "a/b", "a b", "*.example.org")
    ),
]


@pytest.mark.parametrize(("options", "settings"), WRONG, ids=lambda given: str(given)[:40])
def test_settings_that_cannot_be_right(options: list[str], settings: dict[str, Any]) -> None:
    """Refused in Python, and by the command before anything is loaded."""
    with pytest.raises(UsageError):
        ServerSettings(**settings)
    if options:
        done = CliRunner().invoke(main, ["serve", "--model", "/nowhere", *options])
        assert done.exit_code == 2, done.output
        assert options[0] in done.output
        assert "nowhere" not in done.output
        assert "Traceback" not in done.output


def test_settings_that_can_be_right() -> None:
    ServerSettings(
        prefix="/a/b-c.d_~/..c/.d",
        cors_origins=("*", "https://a.example", "http://localhost:3000", "http://[::1]:5", "chrome-extension://abc"),
        api_keys=("correct horse", "sk-+/=~"),
        allowed_hosts=("*", "search.example.org", "my_host"),
        request_seconds=0.5,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["extract", "x.txt", "--lease", "nan", "--join"],
        ["extract", "x.txt", "--lease", "inf", "--join"],
        ["extract", "x.txt", "--gpus-per-worker", "nan", "--engine", "ray"],
    ],
)
def test_other_numbers_that_are_none(arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text("a\n")
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert "a finite number" in done.output


# ── the name of the server ──────────────────────────────────────────────────────────────────────────────────


def ask(live: Live, host: str | None, path: str = "/info") -> int:
    line = "" if host is None else f"Host: {host}\r\n"
    return live.raw(f"GET {path} HTTP/1.1\r\n{line}Connection: close\r\n\r\n".encode("latin-1")).status


@pytest.fixture(scope="module")
def served(tiny: Callable[[str], Tiny]) -> Iterator[Live]:
    settings = ServerSettings(allowed_hosts=("search.example.org",), grace_seconds=1.0, most_tokens=2000)
    with serving(open_service([], settings, model=str(tiny("bert").folder))) as live:
        yield live


def test_names_of_others_are_not_answered(served: Live) -> None:
    """A page whose name is made to point here reads nothing: its browser says that name."""
    own = ("localhost", "LOCALHOST:8000", "localhost.", "127.0.0.1", "127.0.0.1:1", "10.1.2.3", "[::1]", "[::1]:80")
    for host in (*own, "search.example.org", "search.example.org:443", None):
        assert ask(served, host) == 200, host
    others = (
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "1.2.3",
        "[evil]",
        "\xe9",
    )
    for host in others:
        assert ask(served, host) == 421, host
        assert ask(served, host, "/") == 421
        assert ask(served, host, "/health") == 200  # which tells nothing
    for path in ("/v1/embeddings", "/embed", "/search", "/page/state"):
        refused = served.post(path, {"input": "a", "inputs": "a"}, Host="evil.example")
        assert_refused(refused, path, 421)
        assert "--allowed-host" in refused.body.decode()
    both = b"GET /info HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
    assert served.raw(both).status in (400, 421)


def test_a_key_or_a_star_lets_every_name_in(tiny: Callable[[str], Tiny]) -> None:
    from starlette.testclient import TestClient

    from bertfeat.server import create_app

    model = str(tiny("bert").folder)
    for settings, headers in (
        (ServerSettings(allowed_hosts=("*",)), {}),
        (ServerSettings(api_keys=("key",)), {"Authorization": "Bearer key"}),
        (ServerSettings(host="Evil.Example"), {}),
    ):
        with TestClient(create_app(open_service([], settings, model=model)), "http://evil.example") as client:
            assert client.get("/info", headers=headers).status_code == 200


# ── headers, lengths, ends ──────────────────────────────────────────────────────────────────────────────────


def test_blanks_around_values_are_no_part_of_them(served: Live) -> None:
    """RFC 9110, section 5.5."""
    body = b'{"inputs": "a river"}'
    for length in (f"{len(body)} ", f"\t {len(body)}\t", f"  {len(body)}"):
        lines = (
            "Host: localhost ",
            "Content-Type: application/json\t",
            f"Content-Length:{length}",
            "X-Request-ID: abc ",
        )
        reply = served.raw("\r\n".join(["POST /embed HTTP/1.1", *lines, "", ""]).encode() + body)
        assert reply.status == 200, reply.body
        assert reply.headers["x-request-id"] == "abc"


def test_an_endless_word_counts_by_its_length(served: Live) -> None:
    """It is one token, but costs what its characters cost."""
    word = "ab" * (8 * served.service.settings.most_tokens // 2)
    for path, name in (
        ("/embed", "inputs"),
        ("/v1/embeddings", "input"),
        ("/tokenize", "inputs"),
        ("/features", "texts"),
    ):
        assert served.post(path, {name: word[:-100]}).status == 200
        assert_refused(served.post(path, {name: f"{word} and more"}), path, 400, 413)
        assert_refused(served.post(path, {name: [word[: len(word) // 2 + 20]] * 2}), path, 400, 413)


@pytest.mark.slow
def test_what_the_grace_does_not_suffice_for_is_told_so(
    tiny: Callable[[str], Tiny], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A 503 in the form of the route, and no traceback in the log."""
    go, _ = hold_encoder(monkeypatch)
    go.set()
    settings = ServerSettings(grace_seconds=1.0)
    with serving(open_service([], settings, model=str(tiny("bert").folder))) as live:
        go.clear()
        asked = {"/embed": "inputs", "/v1/embeddings": "input", "/features": "texts"}
        opened = {path: live.connect() for path in asked}
        for path, name in asked.items():
            body = json.dumps({name: "a river"}).encode()
            opened[path].sendall(head(path, len(body)) + body)
        wait_for(lambda: live.service.batcher.requests == len(asked))
        live.server.should_exit = True
        for path, connection in opened.items():
            reply = read_reply(connection)
            assert_refused(reply, path, 503)
            assert reply.headers["retry-after"]
            connection.close()
        go.set()
    assert not [record for record in caplog.records if record.exc_info]
    assert "Exception in ASGI" not in caplog.text


# ── the log and the spelling ────────────────────────────────────────────────────────────────────────────────


def test_a_request_is_logged_with_the_bytes_of_its_body_and_of_the_answer(
    tiny: Callable[[str], Tiny], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bertfeat.server")
    body, as_json = b'{"inputs": "a"}', {"Content-Type": "application/json"}
    app = create_app(open_service([], ServerSettings(), model=str(tiny("bert").folder)))
    with TestClient(app, "http://localhost") as client:
        answer = client.post("/embed", content=body, headers=as_json)
        refused = client.post("/embed", content=b"{", headers=as_json)
        page = [client.get("/"), client.get("/page/main.js")]
        assert [each.status_code for each in page] == [200, 200]
        missing = client.get("/page/none.js")
    own = {each.headers["x-request-id"] for each in (answer, refused, *page, missing)}  # others may end meanwhile
    lines = [record.__dict__["fields"] for record in caplog.records if record.name == "bertfeat.server"]
    lines = [line for line in lines if line["id"] in own]
    assert [(line["path"], line["status"], line["request_bytes"], line["answer_bytes"]) for line in lines] == [
        ("/embed", 200, len(body), len(answer.content)),
        ("/embed", 422, 1, len(refused.content)),
        ("/page/none.js", 404, 0, len(missing.content)),
    ]


def test_every_line_of_the_log_is_json(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    root, names = logging.getLogger(), ("", "bertfeat", "bertfeat.server", "uvicorn", "asyncio")
    before = {name: (list((one := logging.getLogger(name)).handlers), one.level, one.propagate) for name in names}
    try:
        with warnings.catch_warnings():
            log_as_json()
            warnings.simplefilter("always")
            warnings.warn("two\nlines", UserWarning, stacklevel=1)
            logging.getLogger("uvicorn.error").warning("Unsupported\nupgrade")
            logging.getLogger("bertfeat.search").warning("about %s", "a set")
            try:
                raise ZeroDivisionError("of\na request")
            except ZeroDivisionError:
                logging.getLogger("bertfeat.server").exception("request %s failed", "é\u2028")
            line = {"id": "1", "path": "/a\nb", "status": 200}
            logging.getLogger("bertfeat.server").info("%(path)s", line, extra={"fields": line})
            asyncio.run(_fail_in_the_background())
    finally:
        root.handlers[:] = []
        for name, (handlers, level, propagate) in before.items():
            logger = logging.getLogger(name)
            logger.handlers[:], logger.propagate = handlers, propagate
            logger.setLevel(level)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert all(line["time"].endswith("Z") for line in lines)
    assert [line.get("level") for line in lines] == ["warning", "warning", "warning", "error", None, "error"]
    assert "two\nlines" in lines[0]["message"]
    assert "ZeroDivisionError" in lines[3]["traceback"]
    assert (lines[4]["path"], lines[4]["status"]) == ("/a\nb", 200)


async def _fail_in_the_background() -> None:
    asyncio.get_running_loop().call_exception_handler({"message": "a callback failed", "exception": ValueError("a\nb")})


def test_a_spelling_is_that_of_its_context() -> None:
    """Another thread keeps its own; threads that work for a caller have his."""
    told, ready = [], threading.Event()

    def other() -> None:
        ready.wait(5)
        told.append(parameter("part_rows", 3))

    thread = threading.Thread(target=other)
    thread.start()
    with spell_parameters(shell_spelling), ContextPool(2) as pool:
        ready.set()
        thread.join()
        assert list(pool.map(lambda rows: parameter("part_rows", rows), (1, 2))) == ["--part-rows 1", "--part-rows 2"]
        assert current_spelling() is shell_spelling
    assert told == ["part_rows=3"]
    assert parameter("part_rows", 1) == "part_rows=1"


# ── pipelines ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_pipeline_is_held_as_bytes_within_a_bound(served: Live) -> None:
    """Of a client that sends and does not read; it is answered once it reads, and forgotten once it goes."""
    request = b"GET /info HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with served.connect() as connection:
        connection.setblocking(False)
        sent = 0
        end = time.monotonic() + 3
        while time.monotonic() < end:
            try:
                sent += connection.send(request * 1000)
            except BlockingIOError:
                time.sleep(0.3)
                if most_held(served) > 64 * 2**10:
                    break
        assert sent > 10_000 * len(request)
        assert 64 * 2**10 < most_held(served) < 2**19
        assert all(len(each.pipeline) <= 1 for each in served.server.server_state.connections)  # type: ignore[union-attr]
        connection.setblocking(True)
        connection.settimeout(20)
        following = Replies(connection)
        assert [following.next().status for _ in range(2000)] == [200] * 2000
    wait_for(lambda: not served.server.server_state.connections)


def most_held(live: Live) -> int:
    return max((each.held_bytes for each in live.server.server_state.connections), default=0)  # type: ignore[union-attr]


def test_requests_cut_anywhere_are_read_as_a_whole(served: Live) -> None:
    """Bytes one by one, and requests of all kinds of bodies in one piece."""
    body = b'{"inputs": "a river"}'
    chunked = b"".join(b"%x\r\n%s\r\n" % (1, body[at : at + 1]) for at in range(len(body))) + b"0\r\nX: y\r\n\r\n"
    requests = [
        head("/embed", len(body)) + body,
        head("/embed", 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + chunked,
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 30_000 + b"\r\n\r\n",
        head("/embed", 10**9) + b"",  # refused before its body, which never comes
    ]
    for pieces in (b"".join(requests), requests[0] + requests[1]):
        with served.connect() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            step = 1 if len(pieces) < 1000 else len(pieces)
            for at in range(0, len(pieces), step):
                connection.sendall(pieces[at : at + step])
            following = Replies(connection)
            expected = [200, 200] if step == 1 else [200, 200, 200, 200, 413]
            assert [following.next().status for _ in expected] == expected
