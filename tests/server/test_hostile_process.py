"""The command under attack: keys, memory, signals, few files, wrong options.

``BERTFEAT_PIPELINED=600`` lets pipelined requests go on for so many seconds; otherwise they come once.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bertfeat.server import ServerSettings, open_service
from bertfeat.server.connections import BoundedProtocol, bounded_protocol
from tests.support.live_server import (
    GONE,
    ROOT,
    Address,
    assert_refused,
    head,
    read_reply,
    serving,
)
from tests.support.tiny_models import Tiny

pytestmark = pytest.mark.slow  # many and quick, but for CI alone

REQUESTS = 6_000
PIPELINED = float(os.environ.get("BERTFEAT_PIPELINED", "0"))


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
        self._lines: list[str] = []  # one string that grows would be copied for each of its lines
        while "http://" not in self.said:
            line = self.process.stderr.readline()
            assert line, self.said
            self._lines.append(line)
        self.address = Address(int(self.said.rpartition(":")[2].partition("/")[0]))
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        assert self.address.is_well()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self._lines.extend(self.process.stderr)

    @property
    def said(self) -> str:
        """What it has written to stderr."""
        return "".join(self._lines)

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


@pytest.mark.hostile
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
            idle.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert read_reply(idle).status == 200
            flying.sendall(head("/embed", len(body)) + body)
            time.sleep(0.3)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.4)
            refused = True
            with contextlib.suppress(*GONE):
                refused = address.get("/ready").status == 503
            assert refused
            answer = read_reply(flying)
        assert answer.status == 200
        assert len(answer.json()) == 1500
        assert server.end() == 143
        assert "Traceback" not in server.said, server.said
        assert all(json.loads(line)["time"] for line in server.said.partition("http://")[2].splitlines()[1:])
        assert json.loads(server.said.splitlines()[-1])["message"] == "terminated"


INFO = b"GET /info HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.hostile
def test_pipelined_requests_cost_no_memory(tiny: Callable[[str], Tiny]) -> None:
    """Of clients that read no answer, and of one beside them that reads all; again and again if it is to go on."""
    with process("--model", str(tiny("bert").folder)) as server:
        for _ in range(50):
            server.address.get("/info")
        before, began, answered = server.resident(), time.monotonic(), 0
        most = before + 20 * 2**20
        with watching(server, began) as seen:
            while not answered or time.monotonic() < began + PIPELINED:
                with contextlib.ExitStack() as stack:
                    silent = [stack.enter_context(server.address.connect()) for _ in range(8)]
                    assert send_unread(silent) > 10_000 * len(INFO)
                    assert server.resident() < most
                    answered += read_answers(server.address, REQUESTS)
                    assert server.resident() < most
        seen.append((time.monotonic() - began, server.resident()))
        told = ", ".join(f"{seconds:.0f} s {size / 2**20:.1f}" for seconds, size in [(0, before), *seen])
        logged = server.said.count('"status": 200')
        sys.stdout.write(f"{answered:,} answers were read, {logged:,} made; MiB: {told}\n")
        assert answered > 5_000
        assert server.address.is_well()
        assert max(size for _, size in seen) < most


@contextlib.contextmanager
def watching(server: Process, began: float) -> Iterator[list[tuple[float, int]]]:
    """The server's memory every half minute, and when that was."""
    seen: list[tuple[float, int]] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(30):
            seen.append((time.monotonic() - began, server.resident()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        over.set()
        watcher.join()


def send_unread(connections: list[socket.socket]) -> int:
    """Send as many requests as are taken, for 5 seconds at most; the bytes that were taken."""
    sent, end = 0, time.monotonic() + 5
    for connection in connections:
        connection.setblocking(False)
    while sent < REQUESTS * len(INFO) and time.monotonic() < end:
        for connection in connections:
            with contextlib.suppress(BlockingIOError):
                sent += connection.send(INFO * REQUESTS)
    return sent


def read_answers(address: Address, number: int) -> int:
    """Send so many requests and read the answers, as many as there are in 4 minutes."""
    answered, end = 0, time.monotonic() + 240
    with address.connect(60) as connection:
        sender = threading.Thread(target=connection.sendall, args=[INFO * number])
        sender.start()
        while answered < number and time.monotonic() < end:
            answered += connection.recv(2**20).count(b"HTTP/1.1 200")
        if answered < number:  # a busy machine; the others are not waited for
            connection.shutdown(socket.SHUT_RDWR)
        sender.join(10)
    return answered


@pytest.mark.sampled(0, 1)
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
