"""Two models in one server, next to a server for each: what clients of either get, and what both hold in memory?

    python benchmarks/serve_models.py --data NOVELS [--seconds 20] [--rounds 3]

The default model, and random weights of bert-base's shape, on one machine with the load generator. alike: eight clients
of each model, with one text of the novels a request. beside_bulk: the clients of the large model send 64 texts a
request. Both arrangements run in turn, and clients are at both models at once; medians of the rounds.
"""

import argparse
import asyncio
import contextlib
import json
import random
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from _machine import machine
from _models import BERT_BASE, TINY, random_model
from serve import OURS, WARM_UP, Load, client, resident, server

RESULTS = Path(__file__).parent / "results" / "serve_models.json"
CLIENTS = 8
SMALL, LARGE = "small", "large"
LOADS = {"alike": {SMALL: 1, LARGE: 1}, "beside_bulk": {SMALL: 1, LARGE: 64}}  # texts of a request

Places = dict[str, tuple[int, int]]
"""Where a model is served, by its name: the port and the process."""


@contextlib.contextmanager
def one_server(large: Path) -> Iterator[Places]:
    arguments = ["--served-model-name", SMALL, "--also-model", f"{LARGE}={large}", "--port"]
    with server([*OURS, *arguments]) as place:
        yield {SMALL: place, LARGE: place}


@contextlib.contextmanager
def two_servers(large: Path) -> Iterator[Places]:
    small = [*OURS, "--served-model-name", SMALL, "--port"]
    other = [*OURS, "--model", str(large), "--served-model-name", LARGE, "--port"]
    with server(small) as first, server(other) as second:
        yield {SMALL: first, LARGE: second}


def ask(places: Places, many: Mapping[str, int], texts: Sequence[str], seconds: float) -> dict[str, Load]:
    """What the clients of each model got, for so long."""

    async def run() -> dict[str, Load]:
        loads, end = {name: Load() for name in places}, time.monotonic() + seconds
        each = (
            client(places[name][0], random.Random(number), texts, many[name], end, loads[name], name)
            for name in places
            for number in range(CLIENTS)
        )
        await asyncio.gather(*each)
        return loads

    return asyncio.run(run())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--shape", choices=["bert-base", "tiny"], default="bert-base")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    draw = random.Random(0)
    sentences, paragraphs = (
        [line for line in (options.data / f"{name}.txt").read_text().splitlines() if line.strip()]
        for name in ("sentences", "paragraphs")
    )
    texts = [*draw.sample(sentences, min(3000, len(sentences))), *draw.sample(paragraphs, min(3000, len(paragraphs)))]
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {load: {} for load in LOADS}
    memory: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        large = random_model(Path(folder), TINY if options.shape == "tiny" else BERT_BASE)
        for _ in range(options.rounds):
            for name, arrangement in (("one_server", one_server), ("two_servers", two_servers)):
                with arrangement(large) as places:
                    for load, many in LOADS.items():
                        ask(places, many, texts, min(WARM_UP, options.seconds))
                        began = time.monotonic()
                        got = ask(places, many, texts, options.seconds)
                        took = time.monotonic() - began
                        told = {model: each.told(took) for model, each in got.items()}
                        runs[load].setdefault(name, []).append(told)
                        print(load, name, told, flush=True)
                    processes = {process for _, process in places.values()}
                    memory.setdefault(name, []).append(sum(map(resident, processes)))
    measures = ("tokens_per_second", "p50_ms", "p99_ms")
    results = {
        "machine": machine("fastapi", "uvicorn", "uvloop"),
        "seconds": options.seconds,
        "rounds": options.rounds,
        "loads": {
            load: {
                name: {
                    model: {measure: round(median(told[model][measure] for told in each)) for measure in measures}
                    for model in (SMALL, LARGE)
                }
                for name, each in of_load.items()
            }
            for load, of_load in runs.items()
        },
        "resident_mib": {name: round(median(each)) for name, each in memory.items()},
        "runs": runs,
    }
    print(json.dumps(results, indent=1))
    options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
