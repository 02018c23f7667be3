"""How well do layouts of a map keep neighbors, do the names of its clusters tell anything, and what does a map take?

    python benchmarks/maps.py --data DATA [--work DIR] [--methods pca,umap,tsne] [--paragraphs 88331]

DATA holds banking77/train.csv and novels/dated.csv.gz. It needs umap-learn (pip install 'bertfeat[umap]').

layouts: banking77's 10,003 questions. category is the share of them whose ten nearest on the map have their intent more
often than any other; neighbors is the share of the ten nearest by cosine that are among the ten nearest on the map;
"every value" is the same of the vectors themselves.

names: ten clusters of the map by the last method, of the questions and of 20,000 paragraphs of novels. Three words a
cluster are chosen on the even texts and judged on the odd ones: inside is the share of a cluster's texts with at least
one of its words, outside that of the other texts. The peer is a page of scikit-learn: the c-TF-IDF of BERTopic, with
and without English stop words.

server: an index of the paragraphs. Seconds from the page's first question until the map by PCA, its clusters, the map
by UMAP and its clusters are there, nothing being in the cache; milliseconds of a search meanwhile and after; MiB held.
"""

import argparse
import csv
import json
import os
import shutil
import statistics
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _machine import machine
from numpy.typing import NDArray
from serve import OURS, resident, server
from sklearn.feature_extraction.text import CountVectorizer

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.core.words import split_words
from bertfeat.plots import LabelWords, find_clusters, lay_out_vectors
from bertfeat.search import build_index

RESULT = Path(__file__).parent / "results" / "maps.json"
CLUSTERS, WORDS, NEAR = 10, 3, 10
SAMPLE = 20_000  # paragraphs whose clusters are named
PEERS = {"c-TF-IDF": None, "c-TF-IDF without stop words": "english"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/maps"))
    parser.add_argument("--methods", default="pca,umap,tsne")
    parser.add_argument("--paragraphs", type=int, default=88_331)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    cache = options.work / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    os.environ["BERTFEAT_CACHE"] = str(cache)
    methods = options.methods.split(",")
    found: dict[str, Any] = {"machine": machine("scikit-learn", *(["umap-learn"] if "umap" in methods else []))}
    extractor = Extractor()
    questions = options.work / "questions.features"
    reading = CorpusSettings(keep=("category",))
    extractor.extract(options.data / "banking77" / "train.csv", questions, corpus_settings=reading)
    paragraphs = options.work / "paragraphs.features"
    extractor.extract(first_paragraphs(options), paragraphs)
    found |= {"questions": len(FeatureSet(questions)), "paragraphs": len(FeatureSet(paragraphs))}
    vectors, texts = read_set(questions)
    stored = FeatureSet(questions).stream(["category"])
    categories = [value for batch in stored for value in batch.column(0).to_pylist()]
    found["layouts"], flat = judge_layouts(vectors, categories, methods)
    found["names"] = {"questions": judge_names(flat, texts)}
    vectors, texts = read_set(paragraphs)
    places = np.linspace(0, len(texts) - 1, min(SAMPLE, len(texts))).astype(int)
    flat = lay_out_vectors(vectors[places], methods[-1]).flat
    found["names"]["paragraphs"] = judge_names(flat, [texts[place] for place in places.tolist()])
    found["server"] = watch_server(paragraphs, "umap" if "umap" in methods else "pca")
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def first_paragraphs(options: argparse.Namespace) -> Path:
    """The dated paragraphs, or the first of them in a file of their own."""
    whole: Path = options.data / "novels" / "dated.csv.gz"
    if options.paragraphs == 88_331:
        return whole
    import gzip

    part: Path = options.work / "paragraphs.csv"
    with gzip.open(whole, "rt", encoding="utf-8", newline="") as file, part.open("w", newline="") as made:
        writer = csv.writer(made)
        for number, row in enumerate(csv.reader(file)):
            if number <= options.paragraphs:
                writer.writerow(row)
    return part


def read_set(folder: Path) -> tuple[NDArray[np.float32], list[str]]:
    """The vectors of a set, of length 1, and its texts."""
    features = FeatureSet(folder)
    vectors = np.concatenate([batch.matrix for batch in features.batches(features.columns[0].name)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-9)
    return vectors, [text for batch in features.stream(["text"]) for text in batch.column(0).to_pylist()]


# ── layouts ─────────────────────────────────────────────────────────────────────────────────────────────────


def judge_layouts(
    vectors: NDArray[np.float32], categories: Sequence[str], methods: Sequence[str]
) -> tuple[dict[str, Any], NDArray[np.float32]]:
    """How each layout keeps neighbors; and the last layout."""
    true = nearest(vectors, -2 * vectors @ vectors.T)
    rows = {"every value": {"category": share_of_category(true, categories), "neighbors": 1.0}}
    flat = vectors[:, :2]
    for method in methods:
        began = time.perf_counter()
        flat = lay_out_vectors(vectors, method).flat
        seconds = time.perf_counter() - began
        squares = (flat**2).sum(axis=1)
        near = nearest(flat, squares[:, None] - 2 * flat @ flat.T + squares)
        kept = np.mean([len(set(a) & set(b)) / NEAR for a, b in zip(true.tolist(), near.tolist(), strict=True)])
        category = share_of_category(near, categories)
        rows[method] = {"category": category, "neighbors": round(float(kept), 3), "seconds": round(seconds, 1)}
        print(method, rows[method], flush=True)
    return rows, flat


def nearest(points: NDArray[np.float32], distances: NDArray[np.float32]) -> NDArray[np.int64]:
    np.fill_diagonal(distances, np.inf)
    return np.argpartition(distances, min(NEAR, len(points) - 1), axis=1)[:, :NEAR]


def share_of_category(near: NDArray[np.int64], categories: Sequence[str]) -> float:
    """The share of points with the most frequent category of their neighbors."""
    right = [
        Counter(categories[at] for at in row).most_common(1)[0][0] == own
        for row, own in zip(near.tolist(), categories, strict=True)
    ]
    return round(float(np.mean(right)), 3)


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────


def judge_names(flat: NDArray[np.float32], texts: Sequence[str]) -> dict[str, Any]:
    """How well words chosen on the even texts tell the clusters of the odd ones."""
    even = np.arange(0, len(texts), 2)
    found = find_clusters(flat, CLUSTERS, LabelWords([texts[at] for at in even.tolist()]), even)
    codes = found.codes.astype(int)
    names = {"ours": [list(cluster.words) for cluster in found.clusters]}
    for peer, stop_words in PEERS.items():
        names[peer] = class_tf_idf([texts[at] for at in even.tolist()], codes[even], stop_words)
    odd = np.arange(1, len(texts), 2)
    words = [{text[a:b].casefold() for a, b in spans(text)} for text in (texts[at] for at in odd.tolist())]
    return {way: {**tell(chosen, words, codes[odd]), "names": chosen} for way, chosen in names.items()}


def spans(text: str) -> list[tuple[int, int]]:
    found = split_words(text)
    return list(zip(found.start.tolist(), found.end.tolist(), strict=True))


def class_tf_idf(texts: Sequence[str], codes: NDArray[np.int64], stop_words: str | None) -> list[list[str]]:
    """The words of each cluster with the highest c-TF-IDF (Grootendorst 2022, eq. 2)."""
    counter = CountVectorizer(stop_words=stop_words)
    groups: list[list[str]] = [[] for _ in range(CLUSTERS)]
    for text, code in zip(texts, codes.tolist(), strict=True):
        groups[code].append(text)
    counts = counter.fit_transform(map(" ".join, groups)).toarray().astype(float)
    frequency = counts / counts.sum(axis=1, keepdims=True).clip(1)
    weights = frequency * np.log(1 + counts.sum() / CLUSTERS / counts.sum(axis=0))
    vocabulary = counter.get_feature_names_out()
    return [[str(vocabulary[at]) for at in np.argsort(-row)[:WORDS]] for row in weights]


def tell(names: Sequence[Sequence[str]], words: Sequence[set[str]], codes: NDArray[np.int64]) -> dict[str, float]:
    """Mean shares of texts that have a word of a cluster's name, in the cluster and outside of it."""
    inside, outside = [], []
    for group, name in enumerate(names):
        has = np.array([not found.isdisjoint(name) for found in words])
        inside.append(float(has[codes == group].mean()))
        outside.append(float(has[codes != group].mean()))
    return {"inside": round(statistics.mean(inside), 3), "outside": round(statistics.mean(outside), 3)}


# ── the server ──────────────────────────────────────────────────────────────────────────────────────────────


def watch_server(features: Path, method: str) -> dict[str, Any]:
    """Seconds until each part of the map is there, milliseconds of searches meanwhile, and memory."""
    folder = features.with_suffix(".index")
    shutil.rmtree(folder, ignore_errors=True)
    build_index(features, folder)
    kinds = [(kind, layout) for layout in dict.fromkeys(("pca", method)) for kind in ("map", "clusters")]
    found: dict[str, Any] = {}
    with server([*OURS, str(folder), "--port"]) as (port, pid):
        base = f"http://127.0.0.1:{port}"
        search(base, 20)
        before = resident(pid)
        began, meanwhile = time.perf_counter(), list[float]()
        while kinds:
            meanwhile += search(base, 1)
            for kind, layout in tuple(kinds):
                with urllib.request.urlopen(f"{base}/page/{kind}?layout={layout}") as answer:
                    if answer.status == 200:
                        found[f"{kind} by {layout}"] = round(time.perf_counter() - began, 1)
                        kinds.remove((kind, layout))
            time.sleep(0.2)
        found["search_ms"] = {"meanwhile": middle(meanwhile), "after": middle(search(base, 50))}
        found["resident_mib"] = {"before": round(before), "after": round(resident(pid))}
    return found


def search(base: str, times: int) -> list[float]:
    """Milliseconds of searches."""
    taken = []
    for number in range(times):
        body = json.dumps({"query": f"a storm at sea, {number}", "k": 10}).encode()
        asked = urllib.request.Request(f"{base}/search", body, {"Content-Type": "application/json"})
        began = time.perf_counter()
        with urllib.request.urlopen(asked) as answer:
            answer.read()
        taken.append(1000 * (time.perf_counter() - began))
    return taken


def middle(values: Sequence[float]) -> float:
    return round(statistics.median(values), 1)


if __name__ == "__main__":
    main()
