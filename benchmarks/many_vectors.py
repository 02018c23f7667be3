"""How near does one vector for all tokens of a text (``index --encode fde``) come to maxsim of all texts, by its width?

    python benchmarks/many_vectors.py --data DATA [--work DIR]

DATA holds cranfield/ in BEIR's layout, and xquad/xquad.en.json, whose paragraphs are the documents of another
collection. One extraction of the last layer and of the sum of the last four. Each encoding, the vector that is the mean
of a text, the same half-whitened, and encodings by random partitions and projections as MUVERA draws them (Dhulipala et
al. 2024; 16 partitions of 16 values, several times; inner products and cosines): which share of the 100 best texts by
maxsim is among the first 100, which of the 10 best; nDCG@10 by itself, and with the first 50 scored again by maxsim
alone. Weights and frequencies of tokens play no part. The default width is the one with the best of these nDCG@10 on
every second query, on average; scores are of the other queries. Queries a second are those of one search at a time in
an open index, the encoding of the query's tokens included, the model not.
"""

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import ir_measures
import numpy as np
from _machine import machine
from numpy.typing import NDArray
from rerank import collections_of

from bertfeat import CorpusSettings, Extractor, FeatureSet
from bertfeat.core.features import PieceRanges, unit_vectors
from bertfeat.search import BeirFolder, BuildOptions, Index, VectorIndex, build_index, read_beir, token_vectors

RESULT = Path(__file__).parent / "results" / "many_vectors.json"
LAYERS = ("last", "sum4")
WIDTHS = (512, 1024, 2048, 4096, 8192)
RANDOM_BITS, RANDOM_VALUES = 4, 16  # of MUVERA: the logarithm of the number of partitions, and values in each
MEASURE = ir_measures.nDCG @ 10
TIMED = 100  # queries
DEPTH = 50  # hits that are scored again

Matrix = NDArray[np.float32]


@dataclass(frozen=True)
class Collection:
    """The tokens of a collection's texts, and of its queries."""

    data: BeirFolder
    ids: Sequence[str]
    tokens: Matrix  # [N, W] of length 1, without special tokens
    ranges: PieceRanges  # those of each text
    queries: Sequence[Matrix]  # [n, W] of each

    def maxsim(self, query: Matrix) -> Matrix:
        """The mean of the largest cosines with the tokens of each text, ``[D]``."""
        scores, filled = np.zeros(len(self.ids), np.float32), np.flatnonzero(self.ranges.sizes)
        cosines = query @ self.tokens.T
        scores[filled] = np.maximum.reduceat(cosines, self.ranges.first[filled], axis=1).mean(axis=0)
        return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/many_vectors"))
    options = parser.parse_args()
    before, found = machine("faiss-cpu"), dict[str, dict[str, Any]]()
    for name, folder in collections_of(options).items():
        features = options.work / f"{name}.features"
        settings = CorpusSettings(text_columns=("title", "text"), id_column="_id")
        extractor = Extractor(layers=",".join(LAYERS), pooling=["mean", "token"])
        extractor.extract(folder / "corpus.jsonl", features, corpus_settings=settings, overwrite=True)
        found[name] = {layers: measure(FeatureSet(features), read_beir(folder), layers) for layers in LAYERS}
        print(name, json.dumps(found[name], indent=1), flush=True)
    tasks = [found[name][layers]["ways"] for name in found for layers in LAYERS]
    chosen = max(WIDTHS, key=lambda width: mean(task[f"fde:{width}"]["half"]["reranked"] for task in tasks))
    RESULT.write_text(json.dumps({"machine": before, "default_width": chosen, "collections": found}, indent=1) + "\n")


def measure(features: FeatureSet, data: BeirFolder, layers: str) -> dict[str, Any]:
    """The scores of every way to search one collection by some layers."""
    collection, means = open_collection(features, data, layers)
    begin = time.perf_counter()
    truth = np.stack([collection.maxsim(query) for query in collection.queries])
    seconds = (time.perf_counter() - begin) / len(truth)
    ways = dict[str, Any]()
    for name, transform in (("vector", None), ("half-whitened vector", "half-whiten")):
        options = BuildOptions(transform=transform, type="flat", evaluate=False)
        ways[name] = judge(collection, search_all(build(features, f"{layers}_mean", options), means), truth)
    for width in WIDTHS:
        ways[f"fde:{width}"] = encode(features, collection, layers, width, truth)
        texts, queries = random_encodings(collection, width)
        ways[f"random {width}, inner product"] = judge(collection, queries @ texts.T, truth)
        ways[f"random {width}, cosine"] = judge(collection, queries @ unit_vectors(texts).T, truth)
    every = {
        "by_itself": score(collection, truth, range(1, len(truth), 2)),
        "queries_per_second": round(1 / seconds, 1),
    }
    return {
        "documents": len(features),
        "tokens": len(collection.tokens),
        "queries": len(truth),
        "maxsim": every,
        "ways": ways,
    }


def open_collection(features: FeatureSet, data: BeirFolder, layers: str) -> tuple[Collection, Matrix]:
    """The tokens of a collection, and the means of its queries."""
    sizes, ids, tokens = list[int](), list[str](), list[Matrix]()
    column = features.find(layers, "token")
    for document in features:
        pieces = document.tokens
        assert pieces is not None
        own = unit_vectors(document.matrix(column.name)[pieces.end > pieces.start])
        sizes.append(len(own))
        ids.append(document.id)
        tokens.append(own)
    ends = np.cumsum([0, *sizes])
    encoder = Extractor(layers=layers, pooling=["mean", "token"], dtype="float32")
    asked = encoder.features(list(data.queries.values()))
    kind = next(each for each in encoder.columns if not each.pooling.per_document)
    ranges = PieceRanges(np.arange(ends[-1]), ends[:-1], ends[1:])
    queries = [token_vectors(each, kind)[1] for each in asked]
    return Collection(data, ids, np.concatenate(tokens), ranges, queries), np.stack(
        [each.vector(f"{layers}_mean") for each in asked]
    )


def encode(features: FeatureSet, collection: Collection, layers: str, width: int, truth: Matrix) -> dict[str, Any]:
    """The scores of an index of encodings, what it takes, and how fast it is searched."""
    begin = time.perf_counter()
    index = build(features, f"{layers}_token", BuildOptions(encode=f"fde:{width}", type="flat", evaluate=False))
    built = time.perf_counter() - begin
    assert index.encoding is not None
    asked = np.stack([index.encoding.encode_query(query) for query in collection.queries])
    return {
        **judge(collection, search_all(index, asked), truth),
        "seconds_to_build": round(built, 2),
        "bytes": index.settings.files["index.faiss"].bytes,
        "queries_per_second": round(speed(index, collection), 1),
    }


def build(features: FeatureSet, column: str, options: BuildOptions) -> VectorIndex:
    """An index of a column, open."""
    folder = Path(str(features.folder)).with_suffix(".index")
    build_index(features, folder, column, options=options)
    return Index(folder).vectors


def search_all(index: VectorIndex, queries: Matrix) -> Matrix:
    """The score of each text for each query, ``[Q, D]``."""
    found = index.search(queries, len(index))
    scores = np.zeros(found.numbers.shape, np.float32)
    np.put_along_axis(scores, found.numbers, found.scores, axis=1)
    return scores


def speed(index: VectorIndex, collection: Collection) -> float:
    """Queries a second, each with its 50 first hits scored again by maxsim."""
    queries, first, stop = collection.queries[:TIMED], collection.ranges.first, collection.ranges.stop
    begin = time.perf_counter()
    for query in queries:
        assert index.encoding is not None
        hits = index.search(index.encoding.encode_query(query)[np.newaxis], DEPTH).numbers[0].tolist()
        [(query @ collection.tokens[first[hit] : stop[hit]].T).max(axis=1, initial=0).mean() for hit in hits]
    return len(queries) / (time.perf_counter() - begin)


def random_encodings(collection: Collection, width: int) -> tuple[Matrix, Matrix]:
    """The encodings of texts and of queries by MUVERA's random partitions and projections."""
    random, bits, values = np.random.default_rng(5), RANDOM_BITS, RANDOM_VALUES
    partitions, texts, queries = 1 << bits, list[Matrix](), list[Matrix]()
    codes = np.arange(partitions)
    distances = np.bitwise_count(codes[:, None] ^ codes)
    owners = np.repeat(np.arange(len(collection.queries)), [len(each) for each in collection.queries])
    asked, rows = np.concatenate(collection.queries), np.repeat(np.arange(len(collection.ids)), collection.ranges.sizes)
    for _ in range(width // (partitions * values)):
        planes = random.standard_normal((asked.shape[1], bits), np.float32)
        signs = (random.integers(0, 2, (asked.shape[1], values)) * 2 - 1).astype(np.float32) / np.float32(values**0.5)
        sums, counts = place(collection.tokens, rows, len(collection.ids), planes, signs)
        means = sums / np.maximum(counts, 1)[..., None]
        # an empty partition has the mean of the nearest one with tokens, by the number of bits that differ
        cost = distances[None] + np.where(counts > 0, 0, bits + 1)[:, None, :]
        texts.append(np.take_along_axis(means, cost.argmin(axis=2)[:, :, None], axis=1).reshape(len(means), -1))
        queries.append(
            place(asked, owners, len(collection.queries), planes, signs)[0].reshape(len(collection.queries), -1)
        )
    return np.concatenate(texts, axis=1).astype(np.float32), np.concatenate(queries, axis=1).astype(np.float32)


def place(
    tokens: Matrix, owners: NDArray[np.int64], count: int, planes: Matrix, signs: Matrix
) -> tuple[Matrix, NDArray[np.int64]]:
    """The sum of the projected tokens in each partition of each text, ``[D, P, V]``, and their number, ``[D, P]``."""
    partitions = 1 << planes.shape[1]
    keys = owners * partitions + ((tokens @ planes > 0) @ (1 << np.arange(planes.shape[1])))
    projected = tokens @ signs
    sums = np.stack([np.bincount(keys, column, count * partitions) for column in projected.T], axis=1)
    counts = np.bincount(keys, minlength=count * partitions).reshape(count, partitions)
    return sums.reshape(count, partitions, -1), counts


def judge(collection: Collection, scores: Matrix, truth: Matrix) -> dict[str, Any]:
    """What one way to search finds of the best texts by maxsim, and its nDCG@10, over every second query."""
    again = np.full_like(scores, -np.inf)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH]
    np.put_along_axis(again, best, np.take_along_axis(truth, best, axis=1), axis=1)
    halves = {"half": range(0, len(scores), 2), "other": range(1, len(scores), 2)}
    reranked = {name: score(collection, again, half) for name, half in halves.items()}
    other = slice(1, None, 2)
    return {
        "half": {"reranked": reranked["half"]},
        "recall_of_100": share_of_best(scores[other], truth[other], 100),
        "recall_of_10": share_of_best(scores[other], truth[other], 10),
        "by_itself": score(collection, scores, halves["other"]),
        "reranked": reranked["other"],
    }


def share_of_best(scores: Matrix, truth: Matrix, best: int) -> float:
    """The share of the best texts by maxsim that are among the first 100."""
    first, wanted = (np.argsort(-each, axis=1, kind="stable") for each in (scores, truth))
    pairs = zip(first[:, :100], wanted[:, :best], strict=True)
    return round(float(np.mean([np.isin(those, these).mean() for these, those in pairs])), 4)


def score(collection: Collection, scores: Matrix, queries: Sequence[int]) -> float:
    """The mean nDCG@10 of the texts in the order of their scores, over some queries."""
    names = list(collection.data.queries)
    runs: dict[str, Mapping[str, float]] = {}
    for at in queries:
        order = np.argsort(-scores[at], kind="stable")[:100]
        runs[names[at]] = {collection.ids[text]: -float(rank) for rank, text in enumerate(order.tolist())}
    judged = {name: grades for name, grades in collection.data.judgments.items() if name in runs}
    return round(mean(each.value for each in ir_measures.iter_calc([MEASURE], judged, runs)), 4)


if __name__ == "__main__":
    main()
