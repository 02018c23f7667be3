"""How much of offline speed is left when the same texts come over HTTP, and what happens when too many come?

    python benchmarks/serve.py --data NOVELS [--seconds 60] [--steps clients,bulk,peer,overload,memory]

One server, one load generator, on the same machine, default model. clients: 64 of them, each sends a text (a sentence
or a paragraph of the novels), waits for its vector (base64, as the openai library asks), and sends the next. bulk: one
client with 2,048 sentences a request. Both in three parts, each after ``Extractor.encode`` over the same texts. peer:
the same 64 clients at a server as people write it, sentence-transformers behind FastAPI. overload: ten times as many
clients, with eight texts each, and a short queue: 429s, the time of what is served, memory, and how soon all is well.
memory: what the server has resident after the first 1,000 and after all of ``--requests`` requests of all lengths.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from _machine import machine

RESULTS = Path(__file__).parent / "results" / "serve.json"
TEXTS = 6000
CLIENTS = 64
ROUNDS = 3  # of offline and served
WARM_UP = 3.0  # seconds
OURS = [sys.executable, "-c", "from bertfeat.cli import run; run()", "serve", "--quiet"]
PEER = """
import sys, base64
from fastapi import FastAPI, Request
from sentence_transformers import SentenceTransformer
import uvicorn
from bertfeat.core.models import find_model
model = SentenceTransformer(str(find_model(None).folder), model_kwargs={"torch_dtype": "bfloat16"}, device="cpu")
app = FastAPI()
@app.post("/v1/embeddings")
def embeddings(body: dict):
    texts = body["input"] if isinstance(body["input"], list) else [body["input"]]
    vectors = model.encode(texts, normalize_embeddings=True)
    data = [{"index": n, "embedding": base64.b64encode(v.tobytes()).decode()} for n, v in enumerate(vectors)]
    tokens = sum(len(each) for each in model.tokenizer(texts)["input_ids"])
    return {"data": data, "usage": {"total_tokens": tokens}}
@app.get("/health")
def health():
    return {}
uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
"""


@dataclass
class Load:
    """What clients got."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)  # of each answered request
    tokens: int = 0
    texts: int = 0

    def add(self, other: "Load") -> None:
        self.statuses += other.statuses
        self.seconds += other.seconds
        self.tokens += other.tokens
        self.texts += other.texts

    def told(self, duration: float) -> dict[str, Any]:
        if not self.seconds:
            sys.exit(f"no request was answered; statuses and how often they came: {dict(self.statuses)}")
        ordered = sorted(self.seconds)
        return {
            "tokens_per_second": round(self.tokens / duration),
            "texts_per_second": round(self.texts / duration, 1),
            "p50_ms": round(1000 * statistics.median(ordered)),
            "p99_ms": round(1000 * ordered[int(0.99 * (len(ordered) - 1))]),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
        }


async def client(
    port: int, draw: random.Random, texts: Sequence[str], many: int, end: float, load: Load, model: str | None = None
) -> None:
    """One client, on one connection, until the end; after a 429 it waits as long as it is told, a second at most."""
    reader = writer = None
    while time.monotonic() < end:
        if writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 26)
        body = json.dumps({"input": draw.choices(texts, k=many), "model": model, "encoding_format": "base64"}).encode()
        head = f"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        began = time.monotonic()
        try:
            writer.write(head.encode() + body)
            status, content = await read_answer(reader)
        except (OSError, asyncio.IncompleteReadError):
            load.statuses[0] += 1
            writer.close()
            writer = None
            continue
        load.statuses[status] += 1
        if status == 200:
            load.seconds.append(time.monotonic() - began)
            load.tokens += json.loads(content)["usage"]["total_tokens"]
            load.texts += many
        elif status == 429:
            await asyncio.sleep(draw.uniform(0.1, 1.0))
    if writer is not None:
        writer.close()


async def read_answer(reader: Any) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    return int(head[9:12]), await reader.readexactly(length)


def load_of(port: int, texts: Sequence[str], *, clients: int, many: int, seconds: float) -> Load:
    """The load that so many clients make, for so long."""

    async def run() -> Load:
        load, end = Load(), time.monotonic() + seconds
        await asyncio.gather(*(client(port, random.Random(n), texts, many, end, load) for n in range(clients)))
        return load

    return asyncio.run(run())


@contextlib.contextmanager
def server(command: Sequence[str]) -> Iterator[tuple[int, int]]:
    """A server on a free port; the port and the process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*command, str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                break
            time.sleep(0.1)
        yield port, process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def offline(texts: Sequence[str], tokens: int) -> float:
    """Tokens a second of ``encode``, in a process of its own."""
    code = (
        "import json, sys, time; from bertfeat import Extractor; texts = json.load(sys.stdin); e = Extractor()\n"
        "e.encode(texts[:200]); t = time.perf_counter(); e.encode(texts); print(time.perf_counter() - t)"
    )
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(list(texts)),
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return tokens / float(done.stdout)


def main() -> None:
    options = _options()
    draw = random.Random(0)
    sentences = [line for line in (options.data / "sentences.txt").read_text().splitlines() if line.strip()]
    paragraphs = [line for line in (options.data / "paragraphs.txt").read_text().splitlines() if line.strip()]
    mixed = [*draw.sample(sentences, TEXTS // 2), *draw.sample(paragraphs, TEXTS // 2)]
    short = draw.sample(sentences, TEXTS)
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    results["machine"], results["seconds"] = (
        machine("fastapi", "uvicorn", "uvloop", "sentence-transformers"),
        options.seconds,
    )
    steps = {
        "clients": lambda: beside_offline(mixed, options, clients=CLIENTS, many=1),
        "bulk": lambda: beside_offline(short, options, clients=1, many=2048),
        "peer": lambda: served([sys.executable, "-c", PEER], mixed, options, clients=CLIENTS, many=1),
        "overload": lambda: overload(mixed, options),
        "memory": lambda: memory(mixed, options),
    }
    for step in options.steps.split(","):
        results[step] = steps[step]()
        print(step, results[step], file=sys.stderr, flush=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


def beside_offline(texts: Sequence[str], options: argparse.Namespace, *, clients: int, many: int) -> dict[str, Any]:
    """The load in three parts, each after ``encode`` has had the same texts in a process of its own."""
    tokens, load, seconds, rounds = count_tokens(texts), Load(), 0.0, []
    with server([*OURS, "--port"]) as (port, pid):
        for _ in range(ROUNDS):
            alone = offline(texts, tokens)
            load_of(port, texts, clients=clients, many=many, seconds=WARM_UP)
            before = time.monotonic()
            part = load_of(port, texts, clients=clients, many=many, seconds=options.seconds / ROUNDS)
            took = time.monotonic() - before
            rounds.append({"offline": round(alone), "served": round(part.tokens / took)})
            load.add(part)
            seconds += took
        told = load.told(seconds) | {"resident_mib": round(resident(pid)), "rounds": rounds}
    return told | {"of_offline": round(statistics.median(each["served"] / each["offline"] for each in rounds), 3)}


def count_tokens(texts: Sequence[str]) -> int:
    from bertfeat import Extractor

    extractor = Extractor()
    return len(extractor.tokenizer.pieces(texts, offsets=False).ids) + 2 * len(texts)


def served(
    command: Sequence[str], texts: Sequence[str], options: argparse.Namespace, *, clients: int, many: int
) -> dict[str, Any]:
    with server(command) as (port, pid):
        load_of(port, texts, clients=clients, many=many, seconds=WARM_UP)
        before = time.monotonic()
        load = load_of(port, texts, clients=clients, many=many, seconds=options.seconds)
        return load.told(time.monotonic() - before) | {"resident_mib": round(resident(pid))}


def overload(texts: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    with server([*OURS, "--most-waiting", "50000", "--port"]) as (port, pid):
        load_of(port, texts, clients=8, many=1, seconds=WARM_UP)
        before = resident(pid)
        began = time.monotonic()
        load = load_of(port, texts, clients=10 * CLIENTS, many=8, seconds=options.seconds)
        told = load.told(time.monotonic() - began) | {"resident_mib": [round(before), round(resident(pid))]}
        after = load_of(port, texts, clients=1, many=1, seconds=1.0)
        return told | {"one_client_afterwards": after.told(1.0)}


def memory(texts: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """Resident memory two seconds after requests have ended, and the most that was seen between parts of the load."""
    told: dict[str, Any] = {"largest_mib_under_load": 0}
    with server([*OURS, "--port"]) as (port, pid):
        done, first = 0, min(1000, options.requests)
        while done < options.requests:
            load = load_of(port, texts, clients=CLIENTS // 2, many=1, seconds=2.0 if done < first else 20.0)
            told["largest_mib_under_load"] = max(told["largest_mib_under_load"], round(resident(pid)))
            done += sum(load.statuses.values())
            if done >= first and "first" not in told:
                time.sleep(2)
                told["first"] = {"requests": done, "resident_mib": round(resident(pid), 1)}
        time.sleep(2)
        told["last"] = {"requests": done, "resident_mib": round(resident(pid), 1)}
    told["growth"] = round(told["last"]["resident_mib"] / told["first"]["resident_mib"] - 1, 4)
    return told


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--steps", default="clients,bulk,peer,overload,memory")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
