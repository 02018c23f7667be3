"""What does a canary see? Sound changes of the machine, which it must let pass, and defects, which it should refuse.

    python benchmarks/canary.py --data DATA [--work DIR]

DATA holds cranfield/ in BEIR's layout. The default model: its corpus is embedded in fp32 by this machine's kernels, its
queries by each variant of the computation. Of each variant: the least cosine of its canary with that of fp32, whether
it is refused, and the share of the ten nearest texts that its queries still find. A defect is made in a copy of the
model, as a wrong kernel or another version of a library would make it. Beside that, the time that a canary takes when
the model is loaded, and the bytes that it adds to a part.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from _machine import machine
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from bertfeat import Extractor
from bertfeat.core.features import Canary, find_canary_problem
from bertfeat.core.models import find_model
from bertfeat.io import to_plain

RESULT = Path(__file__).parent / "results" / "canary.json"
REPEATS = 10
Weights = dict[str, NDArray[Any]]

SOUND: dict[str, tuple[dict[str, str], dict[str, str]]] = {  # arguments of the extractor, and of the environment
    "one thread": ({}, {"OMP_NUM_THREADS": "1"}),
    "without bertfeat's kernels": ({}, {"BERTFEAT_CPU": "none"}),
    "bf16": ({"precision": "bf16"}, {}),
    "int8": ({"precision": "int8"}, {}),
}
"""Changes under which vectors differ by rounding only."""


def round_weights(weights: Weights) -> None:
    """Cut all weights to bfloat16, as a wrong conversion does."""
    for name, values in weights.items():
        if values.dtype == np.float32:
            weights[name] = (values.view(np.uint32) & 0xFFFF0000).view(np.float32)


def flip_bit(weights: Weights) -> None:
    """Flip a bit of the exponent of one weight, which becomes almost zero, as a memory error does."""
    flat = weights["encoder.layer.2.intermediate.dense.weight"].reshape(-1).view(np.uint32)
    flat[12_345] ^= 1 << 29


def drop_head(weights: Weights) -> None:
    """Let one of twelve heads of one block give zeros."""
    weights["encoder.layer.3.attention.self.value.weight"][:32] = 0
    weights["encoder.layer.3.attention.self.value.bias"][:32] = 0


def drop_scale(weights: Weights) -> None:
    """Forget that scores of attention are divided by the root of a head's width, in all blocks."""
    for name in weights:
        if ".self.query." in name:
            weights[name] *= np.float32(32**0.5)


def shift_positions(weights: Weights) -> None:
    """Count positions from 1, not from 0."""
    name = "embeddings.position_embeddings.weight"
    weights[name] = np.roll(weights[name], -1, axis=0)


def alike(_: Weights) -> None:
    """Change no weight."""


DEFECTS: dict[str, tuple[Callable[[Weights], None], dict[str, object], dict[str, object]]] = {
    "ReLU for GELU": (alike, {"hidden_act": "relu"}, {}),  # of weights, of config.json, of tokenizer_config.json
    "scores not scaled": (drop_scale, {}, {}),
    "upper case kept": (alike, {}, {"do_lower_case": False}),
    "positions from 1": (shift_positions, {}, {}),
    "one head of 72 gives zeros": (drop_head, {}, {}),
    "weights cut to bfloat16": (round_weights, {}, {}),
    "GELU by tanh": (alike, {"hidden_act": "gelu_new"}, {}),
    "epsilon 1e-5 for 1e-12": (alike, {"layer_norm_eps": 1e-5}, {}),
    "one bit of one weight": (flip_bit, {}, {}),
}
"""Defects of a computation, by the change of the model that is like it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/canary"))
    parser.add_argument("--queries", type=int, default=225)
    parser.add_argument("--one", help=argparse.SUPPRESS)  # a variant, in a process of its own
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    cranfield = options.data / "cranfield"
    queries = read_texts(cranfield / "queries.jsonl")[: options.queries]
    if options.one:
        embed_variant(json.loads(options.one), queries, options.work)
        return
    before = machine()
    extractor = Extractor(precision="fp32")
    corpus = unit_rows(extractor.encode(read_texts(cranfield / "corpus.jsonl")))
    nearest = find_nearest(extractor.encode(queries), corpus)

    def measured(settings: dict[str, object], environment: dict[str, str]) -> dict[str, object]:
        canary, vectors = run_variant(settings, environment, options)
        problem = find_canary_problem(extractor.canary, canary)
        shared = [len(set(one) & set(other)) for one, other in zip(find_nearest(vectors, corpus), nearest, strict=True)]
        return {
            "cosine": least_cosine(canary, extractor.canary),
            "refused": problem is not None,
            "same_of_ten": float(np.mean(shared)),
        }

    sound = {name: measured(dict(given), environment) for name, (given, environment) in SOUND.items()}
    defects = {name: measured({"model": str(damage(options.work / "model", name))}, {}) for name in DEFECTS}
    found = {
        "machine": before,
        "queries": len(queries),
        "milliseconds": {precision: cost(precision) for precision in ("fp32", "int8")},
        "bytes": len(json.dumps(to_plain(extractor.canary))),
        "sound": sound,
        "defects": defects,
    }
    print(json.dumps({name: found[name] for name in ("milliseconds", "bytes", "sound", "defects")}, indent=1))
    RESULT.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def run_variant(
    settings: dict[str, object], environment: dict[str, str], options: argparse.Namespace
) -> tuple[Canary, NDArray[np.float32]]:
    """The canary of a variant, and its vectors of the queries; they are computed in a process of its own."""
    places = ["--data", str(options.data), "--work", str(options.work), "--queries", str(options.queries)]
    command = [sys.executable, __file__, *places, "--one", json.dumps(settings)]
    subprocess.run(command, env=os.environ | environment, check=True)
    with np.load(options.work / "variant.npz") as stored:
        return Canary.of(str(stored["precision"]), stored["canary"], {}), stored["queries"]


def embed_variant(settings: dict[str, Any], queries: list[str], work: Path) -> None:
    extractor = Extractor(**{"precision": "fp32", **settings})
    canary = extractor.canary
    vectors = extractor.encode(queries)
    np.savez(work / "variant.npz", canary=canary.vectors, queries=vectors, precision=canary.precision)


def damage(folder: Path, name: str) -> Path:
    """A copy of the default model with a defect."""
    harm, config, tokenizer = DEFECTS[name]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(find_model().folder, folder)
    weights = load_file(folder / "model.safetensors")
    harm(weights)
    save_file({key: np.ascontiguousarray(values) for key, values in weights.items()}, folder / "model.safetensors")
    rewrite(folder / "config.json", lambda content: content.update(config))
    rewrite(folder / "tokenizer_config.json", lambda content: content.update(tokenizer))
    return folder


def rewrite(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text("utf-8"))
    change(content)
    path.write_text(json.dumps(content), "utf-8")


def least_cosine(one: Canary, other: Canary) -> float:
    ours, theirs = (unit_rows(each.vectors.astype(np.float64)) for each in (one, other))
    return float((ours * theirs).sum(axis=1).min())


def cost(precision: str) -> float:
    """Milliseconds that a canary takes, once the weights are loaded: median of ten."""
    seconds = []
    extractor = Extractor(precision=precision)
    extractor.encode(["warm"])
    for _ in range(REPEATS):
        vars(extractor).pop("canary", None)
        begin = time.perf_counter()
        _ = extractor.canary
        seconds.append(time.perf_counter() - begin)
    return round(1000 * median(seconds), 1)


def find_nearest(queries: NDArray[np.float32], corpus: NDArray[Any]) -> Iterable[list[int]]:
    return [row.tolist() for row in np.argsort(-(unit_rows(queries) @ corpus.T), axis=1)[:, :10]]


def unit_rows(vectors: NDArray[Any]) -> NDArray[Any]:
    rows: NDArray[Any] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return rows


def read_texts(path: Path) -> list[str]:
    return [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    main()
