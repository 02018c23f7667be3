"""Is the recall that an index tells what its users' questions find?

    python benchmarks/recall.py --data DATA [--work DIR] [--only cranfield|xquad|banking77]

Cranfield, the paragraphs of XQuAD and the sentences that banking77 learns from (its test sentences are the questions),
each alone and among 100,000 sentences of novels, as ivf, hnsw and ivfpq. Each index is tuned to three target recalls:
on stored vectors as they are, on disturbed ones (the default), and on one half of the questions (`--queries`). Told is
the recall at 10 that an index would record, found the share of the true 10 nearest that a search finds, for all
questions, or for the other half: the mean of six halvings, since half of Cranfield's questions are few. Of banking77
every fifth question asks; it was looked at only after the disturbance had been chosen on the other two. DATA holds
cranfield/, xquad/xquad.en.json, banking77/ and novels/sentences.txt. With --only the rows of the other collections stay
as they are.
"""

import argparse
import csv
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
from _machine import machine
from numpy.typing import NDArray
from rerank import write_xquad

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.search import BuildOptions, Metric, VectorIndex, build_index, read_beir
from bertfeat.search.evaluation.recall import (
    ExactSearch,
    GroundTruth,
    RecallQueries,
    disturbed_queries,
    given_queries,
    recall_at_k,
    stored_queries,
    tune_and_judge,
)
from bertfeat.search.vectors.vector_blocks import QUERIES, sample_numbers

HERE = Path(__file__).parent
TYPES = ("ivf", "hnsw", "ivfpq")
TARGETS = (0.8, 0.9, 0.95)
COLLECTIONS = ("cranfield", "xquad", "banking77")
HALVINGS = 6
K = 10
LEAST_OF_IVFPQ = 256  # vectors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/recall"))
    parser.add_argument("--only", choices=COLLECTIONS)
    options = parser.parse_args()
    work = options.work
    if not (options.data / "cranfield" / "corpus.jsonl").exists():
        print(f"no {options.data}/cranfield/corpus.jsonl: give --data; see benchmarks/README.md")
        return
    work.mkdir(parents=True, exist_ok=True)
    extractor = Extractor()
    novels = work / "novels.features"
    extractor.extract(options.data / "novels" / "sentences.txt", novels)
    target, found = HERE / "results" / "recall.json", machine("faiss-cpu")
    before = json.loads(target.read_text())["rows"] if options.only and target.exists() else []
    chosen = [name for name in COLLECTIONS if options.only in (None, name)]
    rows = [row for row in before if row["collection"].split()[0] not in chosen]
    for name in chosen:
        corpus, reading, texts = open_collection(name, options.data, work)
        extractor.extract(corpus, work / f"{name}.features", corpus_settings=reading)
        questions = extractor.encode(texts)
        Metric.COSINE.prepare(questions)
        for beside in ([], [novels]):
            features = [FeatureSet(folder) for folder in (work / f"{name}.features", *beside)]
            collection = f"{name} and novels" if beside else name
            rows += measure(collection, features, questions, work / f"{name}.index")
        target.write_text(json.dumps({"machine": found, "k": K, "rows": rows}, indent=1) + "\n")


def open_collection(name: str, data: Path, work: Path) -> tuple[Path, CorpusSettings, list[str]]:
    """The corpus of a collection, how it is read, and its questions."""
    if name == "banking77":
        with (data / name / "test.csv").open(encoding="utf-8", newline="") as file:
            questions = [row["text"] for row in csv.DictReader(file)][::5]  # some 600
        return data / name / "train.csv", CorpusSettings(text_columns=("text",)), questions
    folder = data / name if name == "cranfield" else work / name
    if name == "xquad":
        write_xquad(data / "xquad" / "xquad.en.json", folder)
    reading = CorpusSettings(text_columns=("title", "text"), id_column="_id")
    return folder / "corpus.jsonl", reading, list(read_beir(folder).queries.values())


def measure(
    collection: str, features: list[FeatureSet], questions: NDArray[np.float32], folder: Path
) -> list[dict[str, Any]]:
    """A row for each type of index, target recall and kind of queries that it is tuned on."""
    vectors = np.concatenate([each.matrix() for each in features])
    Metric.COSINE.prepare(vectors)
    own, whole = sample_numbers(len(vectors), QUERIES), exact(given_queries(questions), vectors)
    orders = [np.random.default_rng(seed).permutation(len(questions)) for seed in range(HALVINGS)]
    halves = [exact(given_queries(questions[half]), vectors) for order in orders for half in np.array_split(order, 2)]
    tuned_on = {  # the truth of the queries that tune, and of those that judge
        "stored": [(exact(stored_queries(vectors[own], own), vectors), whole)],
        "disturbed": [(exact(disturbed_queries(vectors[own], own, Metric.COSINE), vectors), whole)],
        "given": list(zip(halves[0::2], halves[1::2], strict=True)),
    }
    rows = []
    for kind in TYPES:
        if kind == "ivfpq" and len(vectors) < LEAST_OF_IVFPQ:
            continue
        build_index(features, folder, options=BuildOptions(type=kind, evaluate=False))
        index = VectorIndex(folder)
        for (queries, pairs), target in itertools.product(tuned_on.items(), TARGETS):
            efforts, told, found = [], [], []
            for tuning, judging in pairs:
                effort, report = tune_and_judge(index.faiss_index, tuning, Metric.COSINE, target)
                assert effort is not None
                hits = index.search(judging.asked.vectors, K, search_parameter=effort.value).numbers
                efforts.append(effort.value)
                told.append(report.recall[str(K)])
                found.append(recall_at_k(judging, hits, K, Metric.COSINE).mean())
            row = {
                "collection": collection,
                "vectors": len(index),
                "type": kind,
                "tuned_on": queries,
                "target": target,
                effort.name: int(np.median(efforts)),
                "told": round(float(np.mean(told)), 4),
                "found": round(float(np.mean(found)), 4),
            }
            rows.append(row)
            print(json.dumps(row), flush=True)
    return rows


def exact(asked: RecallQueries, vectors: NDArray[np.float32]) -> GroundTruth:
    """The true nearest of queries: of the vectors themselves, not of an index's codes."""
    search = ExactSearch(asked, Metric.COSINE, len(vectors))
    search.add(0, vectors)
    return search.truth()


if __name__ == "__main__":
    main()
