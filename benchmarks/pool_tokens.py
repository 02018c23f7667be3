"""What does ``index --with-tokens --pool-tokens N`` save, and what does scoring again lose by it?

    python benchmarks/pool_tokens.py --data DATA [--work DIR]

DATA holds cranfield/ in BEIR's layout, and xquad/xquad.en.json, whose paragraphs are the documents of another
collection. The default model, by its last layer and by the sum of the last four: the first 50 hits by the mean vector
are scored again by the tokens that the index keeps, all of them or N times fewer, in int8. nDCG@10, the difference from
all tokens with its interval of 95 % (bootstrap over queries), bytes of the vectors, and seconds of the step that keeps
them. The simple rival: the means of N neighboring tokens.
"""

import argparse
import json
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

import numpy as np
from _machine import machine
from numpy.typing import NDArray
from rerank import PerQuery, collections_of, scores_of

from bertfeat import CorpusSettings, Extractor, MaxSim
from bertfeat.core.features import unit_vectors
from bertfeat.search import BeirFolder, BuildOptions, Index, build_index, read_beir
from bertfeat.search.reranking.token_pooling import pool_documents

RESULT = Path(__file__).parent / "results" / "pool_tokens.json"
LAYERS = ("last", "sum4")
FACTORS = (2, 3, 4, 6)
RESAMPLES = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/pool_tokens"))
    options = parser.parse_args()
    before, found = machine("faiss-cpu", "scipy"), dict[str, dict[str, Any]]()
    for name, folder in collections_of(options).items():
        features = options.work / f"{name}.features"
        settings = CorpusSettings(text_columns=("title", "text"), id_column="_id")
        extractor = Extractor(layers=",".join(LAYERS), pooling=["mean", "token"])
        extractor.extract(folder / "corpus.jsonl", features, corpus_settings=settings, overwrite=True)
        found[name] = {layers: measure(features, read_beir(folder), layers) for layers in LAYERS}
        print(name, json.dumps(found[name], indent=1), flush=True)
    RESULT.write_text(json.dumps({"machine": before, "collections": found}, indent=1) + "\n")


def measure(features: Path, data: BeirFolder, layers: str) -> dict[str, Any]:
    """The scores of every way to keep the tokens of one collection by some layers."""
    index = keep(features, layers, 1)
    by_vector, whole = search(index, data, None), search(index, data, MaxSim())
    ways = {"all": facts(index) | {"ndcg_at_10": mean(whole.values())}}
    for factor in FACTORS:
        for name, pool in (("pooled", pool_documents), ("neighbors", pool_neighbors)):
            with patch("bertfeat.search.building.token_writer.pool_documents", pool):
                index = keep(features, layers, factor)
            scores = search(index, data, MaxSim())
            lost = interval(np.array([scores[query] - whole[query] for query in whole]))
            ways[f"{name}:{factor}"] = facts(index) | {"ndcg_at_10": mean(scores.values()), "difference": lost}
    return {"vector": mean(by_vector.values()), "ways": ways}


def keep(features: Path, layers: str, factor: int) -> Index:
    """An index that keeps so many times fewer tokens."""
    target = features.with_suffix(".index")
    build = BuildOptions(evaluate=False, with_tokens=f"{layers}_token", pool_tokens=factor)
    build_index(features, target, f"{layers}_mean", options=build)
    return Index(target)


def search(index: Index, data: BeirFolder, rerank: MaxSim | None) -> PerQuery:
    """nDCG@10 of each query."""
    answers = index.search_batch(list(data.queries.values()), 10, rerank=rerank)
    return scores_of(
        data, {name: [hit.id for hit in each.hits] for name, each in zip(data.queries, answers, strict=True)}
    )


def facts(index: Index) -> dict[str, Any]:
    """The vectors that an index keeps, their bytes, and the seconds of the step."""
    tokens = index.settings.tokens
    assert tokens is not None
    seconds = round(index.settings.seconds["tokens"], 2)
    return {"vectors": tokens.count, "bytes": tokens.count * tokens.column.width, "seconds": seconds}


def pool_neighbors(
    vectors: NDArray[np.float32], lengths: NDArray[np.int64], factor: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The mean of each run of so many tokens of a document, as directions."""
    starts = np.cumsum(lengths) - lengths
    within = np.arange(len(vectors)) - np.repeat(starts, lengths)
    begins = np.flatnonzero(within % factor == 0)
    sizes = np.diff(np.append(begins, len(vectors)))
    new = -(-lengths // factor)
    if not len(begins):
        return vectors, new
    pooled = np.add.reduceat(unit_vectors(vectors), begins) / sizes[:, None]
    return pooled.astype(np.float32), new


def interval(differences: NDArray[np.float64]) -> list[float]:
    """The mean of a paired difference, and its interval of 95 %."""
    draw = np.random.default_rng(0)
    means = [differences[draw.integers(len(differences), size=len(differences))].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [0.025, 0.975])
    return [float(differences.mean()), float(low), float(high)]


if __name__ == "__main__":
    main()
