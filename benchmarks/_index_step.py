"""One step of benchmarks/index_million.py in a process of its own, so that its time and memory are its own."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

K = 10


def ours_build(features: str, folder: str, kind: str, evaluate: str) -> dict[str, Any]:
    from bertfeat.search import BuildOptions, build_index

    began = time.perf_counter()
    settings = build_index(features, folder, options=BuildOptions(type=kind, evaluate=evaluate == "evaluate"))
    seconds = time.perf_counter() - began
    found = settings.evaluation
    return {
        "seconds": seconds,
        "steps": dict(settings.seconds),
        "factory": settings.factory,
        "reason": settings.reason,
        "index_mb": settings.files["index.faiss"].bytes / 1e6,
        "effort": settings.effort.value if settings.effort else None,
        "recall": dict(found.recall) if found else None,
        "queries_per_second": found.queries_per_second if found else None,
        "exact_queries_per_second": found.exact_queries_per_second if found else None,
    }


def plain_build(features: str, file: str, factory: str, sample: str) -> dict[str, Any]:
    """Plain FAISS over vectors that are in memory and normalized already; ours has to read them from Parquet."""
    import faiss

    from bertfeat.core.features import FeatureSet

    vectors = FeatureSet(features).matrix()
    faiss.normalize_L2(vectors)
    index = faiss.index_factory(vectors.shape[1], factory, faiss.METRIC_INNER_PRODUCT)
    steps, began = {}, time.perf_counter()
    if not index.is_trained:
        chosen = np.random.default_rng(0).choice(len(vectors), int(sample), replace=False)
        index.train(vectors[np.sort(chosen)])
    steps["train"] = time.perf_counter() - began
    index.add(vectors)
    steps["add"] = time.perf_counter() - began - steps["train"]
    faiss.write_index(index, file)
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "steps": {**steps, "write": seconds - sum(steps.values())}}


def search(folder: str, features: str, count: str, rounds: str) -> dict[str, Any]:
    """Batch search in turn: plain FAISS with the file in memory, ours mapped, and ours with ids and texts."""
    import faiss

    from bertfeat.core.features import FeatureSet
    from bertfeat.search import Index, VectorIndex

    queries = _queries(FeatureSet(features), int(count))
    index, hits = VectorIndex(folder), Index(folder)
    plain = faiss.read_index(str(Path(folder) / index.settings.version / "index.faiss"))
    ready = queries.copy()
    faiss.normalize_L2(ready)
    ways: dict[str, Callable[[], Any]] = {
        "plain": lambda: plain.search(ready, K)[1],
        "ours": lambda: index.search(queries, K).numbers,
        "ours, typed hits": lambda: hits.search_vectors(queries, K),
    }
    equal = float((ways["plain"]() == ways["ours"]()).mean())
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(int(rounds)):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - began)
    return {
        "queries": len(queries),
        "same_hits": equal,
        "threads": faiss.omp_get_max_threads(),
        "queries_per_second": {name: len(queries) / float(np.median(each)) for name, each in times.items()},
        "of_plain": {name: float(np.median(np.array(times["plain"]) / np.array(each))) for name, each in times.items()},
    }


def semantic_search(features: str, count: str) -> dict[str, Any]:
    """sentence-transformers' exact search over all vectors in memory, normalized beforehand."""
    import torch
    from sentence_transformers.util import dot_score, normalize_embeddings, semantic_search as search_all

    from bertfeat.core.features import FeatureSet

    opened = FeatureSet(features)
    corpus = normalize_embeddings(torch.from_numpy(opened.matrix()))
    queries = normalize_embeddings(torch.from_numpy(_queries(opened, int(count))))
    began = time.perf_counter()
    search_all(queries, corpus, top_k=K, score_function=dot_score)
    return {"queries_per_second": len(queries) / (time.perf_counter() - began), "recall": 1.0}


def normalized(features: str, folder: str) -> dict[str, Any]:
    """The vectors as one npy file, of length 1."""
    import faiss

    from bertfeat.core.features import FeatureSet

    vectors = FeatureSet(features).matrix()
    faiss.normalize_L2(vectors)
    Path(folder).mkdir(exist_ok=True)
    np.save(Path(folder) / "vectors.npy", vectors)
    return {"count": len(vectors)}


def judge(features: str, folder: str, count: str, file: str) -> dict[str, Any]:
    """Recall at 10 of a FAISS file made elsewhere, and its speed, on the same queries as ours."""
    import faiss

    from bertfeat.core.features import FeatureSet
    from bertfeat.search import read_index_settings

    opened = FeatureSet(features)
    queries = _queries(opened, int(count))
    faiss.normalize_L2(queries)
    vectors = opened.matrix()
    faiss.normalize_L2(vectors)
    _, truth = faiss.knn(queries, vectors, K, faiss.METRIC_INNER_PRODUCT)
    ours = Path(folder) / read_index_settings(folder).version / "index.faiss"
    answers = {"ours": _answers(ours, queries), "theirs": _answers(Path(file), queries)}
    return {
        name: {
            "recall": float(np.mean([len(set(a) & set(b)) / K for a, b in zip(found, truth, strict=True)])),
            "queries_per_second": speed,
        }
        for name, (found, speed) in answers.items()
    }


def _answers(file: Path, queries: Any) -> tuple[Any, float]:
    import faiss

    index = faiss.read_index(str(file))
    index.search(queries[:100], K)
    began = time.perf_counter()
    found = index.search(queries, K)[1]
    return found, len(queries) / (time.perf_counter() - began)


def _queries(features: Any, count: int) -> Any:
    """Vectors near stored ones, but none of them: a stored one plus half the difference of two others."""
    some = features.slice(0, 30_000).matrix
    random = np.random.default_rng(7)
    one, two, three = random.integers(len(some), size=(3, count))
    return np.ascontiguousarray(some[one] + 0.5 * (some[two] - some[three]), np.float32)


def _peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e3


if __name__ == "__main__":
    steps = {"ours_build": ours_build, "plain_build": plain_build, "search": search, "judge": judge}
    steps |= {"semantic_search": semantic_search, "normalized": normalized}
    result = steps[sys.argv[1]](*sys.argv[2:])
    print(json.dumps({**result, "peak_mb": _peak_mb()}))
