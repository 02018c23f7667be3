"""Is an index over a million vectors built and searched about as fast as plain FAISS does it from memory?

    python benchmarks/index_million.py --data DATA [--work DIR] [--count 1000000] [--autofaiss PYTHON]

DATA holds novels/sentences.txt, a sentence a line. ``--autofaiss`` is the Python of an environment with autofaiss.
Every step is a process of its own; ours and plain FAISS take turns, and ratios are of neighboring runs.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _commands import json_printed
from _machine import machine

from bertfeat.search.vectors.index_types import POINTS_PER_CLUSTER, cluster_count

HERE = Path(__file__).parent
SHELL_RUNS = 5
AUTOFAISS = """
import json, resource, sys, time
from autofaiss import build_index
began = time.perf_counter()
build_index(embeddings=sys.argv[1], file_format="npy", metric_type="ip",
            index_path=sys.argv[2], index_infos_path=sys.argv[2] + ".json", max_index_memory_usage="8GB",
            current_memory_available="12GB", save_on_disk=True, min_nearest_neighbors_to_retrieve=10, verbose=40)
print(json.dumps({"seconds": time.perf_counter() - began, "infos": json.load(open(sys.argv[2] + ".json")),
                  "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}))
"""
COMMAND = "import sys; sys.argv[0] = 'bertfeat'; from bertfeat.cli import main; main()"


def main() -> None:
    options = _options()
    work = options.work
    work.mkdir(parents=True, exist_ok=True)
    if not (options.data / "novels" / "sentences.txt").exists():
        raise SystemExit(f"no {options.data}/novels/sentences.txt: give --data; see benchmarks/README.md")
    from _index_vectors import million

    features = str(million(work, options.data, options.count))
    results: dict[str, Any] = {}
    for part in options.only.split(","):
        measured_on = {"count": options.count, "machine": machine("faiss-cpu")}
        results[part] = {**PARTS[part](features, work, options), **measured_on}
        print(json.dumps({part: results[part]}, indent=1), flush=True)
    target = HERE / "results" / "index_million.json"
    target.parent.mkdir(exist_ok=True)
    before = json.loads(target.read_text()) if target.exists() else {}
    target.write_text(json.dumps({**before, **results}, indent=1) + "\n")


def builds(features: str, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Train + add + write without evaluation, against plain FAISS from memory."""
    clusters = cluster_count(options.count)
    kinds = {"flat": "Flat", "ivf": f"IVF{clusters},Flat", "hnsw": "HNSW32"}
    found = {}
    for kind, factory in kinds.items():
        pairs = []
        for _ in range(1 if kind == "hnsw" else options.rounds):
            ours = _step("ours_build", features, str(work / f"{kind}.index"), kind, "no-evaluate")
            sample = str(min(options.count, clusters * POINTS_PER_CLUSTER))
            pairs.append((ours, _step("plain_build", features, str(work / "plain.faiss"), factory, sample)))
        found[kind] = {
            "factory": factory,
            "ours_s": [round(ours["seconds"], 1) for ours, _ in pairs],
            "plain_s": [round(plain["seconds"], 1) for _, plain in pairs],
            "ratio": round(statistics.median(ours["seconds"] / plain["seconds"] for ours, plain in pairs), 3),
            "peak_over_index_mb": round(max(ours["peak_mb"] - ours["index_mb"] for ours, _ in pairs)),
            "index_mb": round(pairs[0][0]["index_mb"]),
            "steps": [[ours["steps"], plain["steps"]] for ours, plain in pairs],
        }
    return found


def auto(features: str, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """What auto chooses, its recall, and its memory with evaluation."""
    return _step("ours_build", features, str(work / "auto.index"), "auto", "evaluate")


def search(features: str, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Batch search against plain FAISS with the same file and threads."""
    found = {}
    for kind, queries in (("flat", 500), ("ivf", 2000), ("hnsw", 5000), ("auto", 2000)):
        if (work / f"{kind}.index").exists():
            found[kind] = _step("search", str(work / f"{kind}.index"), features, str(queries), "7")
    return found


def exact(features: str, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """sentence_transformers.util.semantic_search over the same vectors."""
    return _step("semantic_search", features, "500")


def autofaiss(features: str, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """autofaiss over the same vectors, normalized beforehand, for it knows no cosine; judged by the same queries."""
    if options.autofaiss is None:
        return {"skipped": "no --autofaiss"}
    file = str(work / "autofaiss.faiss")
    _step("normalized", features, str(work / "normalized"))
    built = json_printed([str(options.autofaiss), "-c", AUTOFAISS, str(work / "normalized"), file])
    del built["infos"]["index_path"]
    return {"build": built, "judged": _step("judge", features, str(work / "auto.index"), "1000", file)}


def shell(features: str, work: Path, options: argparse.Namespace) -> dict[str, Any]:
    """From shell to answer, and how much of it is the model's start."""
    model = "from bertfeat import Extractor; e = Extractor(layers='6', pooling='mean'); e.model; e.encode(['x'])"
    found: dict[str, list[float]] = {"search": [], "model_alone": []}
    for _ in range(SHELL_RUNS):
        for name, code, arguments in (
            ("search", COMMAND, ["search", str(work / "auto.index"), "The sea was calm that night.", "--quiet"]),
            ("model_alone", model, []),
        ):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
            found[name].append(round(time.perf_counter() - began, 2))
    more = statistics.median(found["search"]) - statistics.median(found["model_alone"])
    return {**found, "more_than_model_s": round(more, 2)}


PARTS = {"builds": builds, "auto": auto, "search": search, "exact": exact, "autofaiss": autofaiss, "shell": shell}


def _step(*arguments: str) -> dict[str, Any]:
    return json_printed([sys.executable, str(HERE / "_index_step.py"), *arguments])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/index_million"))
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--autofaiss", type=Path)
    parser.add_argument("--only", default=",".join(PARTS))
    return parser.parse_args()


if __name__ == "__main__":
    main()
