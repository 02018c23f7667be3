"""What does `search --rerank maxsim` gain, with which layer, weight and frequencies, and what does it cost?

    python benchmarks/rerank.py --data DATA [--work DIR] [--times]

DATA holds cranfield/ in BEIR's layout, and xquad/xquad.en.json, whose paragraphs are the documents of another
collection, each the only right one of its questions. One extraction of all layers. Layer, weight and inverse document
frequencies are chosen on one half of the queries (every second one) and judged on the other, and the other way round;
the defaults are judged on all. Milliseconds are processor time of one search in an open index, the query's encoding
included; --times measures them alone, into the result that there is.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import ir_measures
from _machine import machine

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.search import BeirFolder, BuildOptions, Index, MaxSim, build_index, evaluate_beir, read_beir

HERE = Path(__file__).parent
COLUMNS = (*(f"layer{layer}_token" for layer in range(7)), "concat4_token", "sum4_token")
WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
MEASURE = ir_measures.nDCG @ 10
TIMED = 60  # queries

Choice = tuple[str, float, bool]  # column, weight, idf
PerQuery = dict[str, float]  # nDCG@10 by the query's id


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/rerank"))
    parser.add_argument("--times", action="store_true")
    options = parser.parse_args()
    target = HERE / "results" / "rerank.json"
    before = json.loads(target.read_text())["collections"] if options.times else {}
    found: dict[str, Any] = {"machine": machine("faiss-cpu"), "collections": {}}
    for name, folder in collections_of(options).items():
        scores = before[name] if options.times else measure(folder, options.work / name)
        kept = keep_and_time(folder, read_beir(folder), options.work / name)
        found["collections"][name] = {**scores, "kept": kept}
        print(name, json.dumps(found["collections"][name], indent=1))
    target.write_text(json.dumps(found, indent=1) + "\n")


def collections_of(options: argparse.Namespace) -> dict[str, Path]:
    """Cranfield and XQuAD in BEIR's layout, of ``--data`` and, where it has to be written, in ``--work``."""
    collections = {"cranfield": options.data / "cranfield", "xquad": options.work / "xquad"}
    if not (collections["cranfield"] / "corpus.jsonl").exists():
        raise SystemExit(f"no {collections['cranfield']}/corpus.jsonl: give --data; see benchmarks/README.md")
    write_xquad(options.data / "xquad" / "xquad.en.json", collections["xquad"])
    return collections


def write_xquad(source: Path, folder: Path) -> None:
    """The paragraphs of XQuAD as a corpus, and its questions as queries, in BEIR's layout."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    corpus, queries, judged = [], [], ["query-id\tcorpus-id\tscore"]
    for article in json.loads(source.read_text("utf-8"))["data"]:
        for paragraph in article["paragraphs"]:
            name = f"p{len(corpus)}"
            corpus.append({"_id": name, "title": "", "text": paragraph["context"]})
            for question in paragraph["qas"]:
                queries.append({"_id": question["id"], "text": question["question"]})
                judged.append(f"{question['id']}\t{name}\t1")
    for path, rows in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
        (folder / path).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder / "qrels" / "test.tsv").write_text("\n".join(judged) + "\n", "utf-8")


def measure(folder: Path, work: Path) -> dict[str, Any]:
    features = work / "all.features"
    settings = CorpusSettings(text_columns=("title", "text"), id_column="_id")
    extractor = Extractor(layers="all", pooling=["mean", "token"], precision="fp32")
    extractor.extract(folder / "corpus.jsonl", features, corpus_settings=settings)
    build_index(features, work / "plain.index", "layer6_mean", options=BuildOptions(evaluate=False))
    data, index = read_beir(folder), Index(work / "plain.index")
    plain = scores_of(data, dict(zip(data.queries, first_hits(index, data), strict=True)))
    ways = [(column, idf) for column in COLUMNS for idf in (False, True)]
    tried = dict(choice for column, idf in ways for choice in tries(index, data, column, idf))
    names = list(data.queries)
    halves = [names[0::2], names[1::2]]
    chosen = [max(tried, key=lambda choice: over(tried[choice], half)) for half in halves]
    other = {name: tried[chosen[1 - at]][name] for at, half in enumerate(halves) for name in half}
    defaults = evaluate_beir(index, folder, rerank="maxsim").scores
    return {
        "documents": len(index),
        "queries": len(names),
        "plain": round(mean(plain.values()), 4),
        "plain_by_half": [round(over(plain, half), 4) for half in halves],
        "chosen_by_half": [{"column": column, "weight": weight, "idf": idf} for column, weight, idf in chosen],
        "on_the_other_half": [round(over(tried[chosen[1 - at]], half), 4) for at, half in enumerate(halves)],
        "held_out": round(mean(other.values()), 4),
        "defaults": {"plain": evaluate_beir(index, folder).scores, "maxsim": defaults},
        "tried": [
            {"column": column, "weight": weight, "idf": idf, "ndcg_at_10": round(mean(each.values()), 4)}
            for (column, weight, idf), each in tried.items()
        ],
    }


def first_hits(index: Index, data: BeirFolder) -> list[list[str]]:
    return [[hit.id for hit in answer.hits] for answer in index.search_batch(list(data.queries.values()), 10)]


def tries(index: Index, data: BeirFolder, column: str, idf: bool) -> list[tuple[Choice, PerQuery]]:
    """Every weight, of one search with the parts of each score."""
    answers = index.search_batch(list(data.queries.values()), 50, rerank=MaxSim(column, 50, 0.0, idf))
    found = []
    for weight in WEIGHTS:
        ranked = {}
        for name, answer in zip(data.queries, answers, strict=True):
            parts = [(hit.id, (hit.maxsim or 0) + weight * (hit.first_score or 0)) for hit in answer.hits]
            ranked[name] = [id_ for id_, _ in sorted(parts, key=lambda part: -part[1])]
        found.append(((column, weight, idf), scores_of(data, ranked)))
    return found


def scores_of(data: BeirFolder, ranked: dict[str, list[str]]) -> PerQuery:
    runs = {name: {id_: -float(rank) for rank, id_ in enumerate(ids)} for name, ids in ranked.items()}
    return {each.query_id: each.value for each in ir_measures.iter_calc([MEASURE], data.judgments, runs)}


def over(scores: PerQuery, names: list[str]) -> float:
    return mean(scores[name] for name in names)


def keep_and_time(folder: Path, data: BeirFolder, work: Path) -> dict[str, Any]:
    """Scores, bytes and milliseconds a query, of tokens that the index keeps, or reads from the set."""
    found: dict[str, Any] = {}
    for way, kept in (("from the feature set", None), ("int8", "layer6_token")):
        target = work / f"{kept}.index"
        build = BuildOptions(evaluate=False, with_tokens=kept)
        build_index(work / "all.features", target, "layer6_mean", options=build)
        index = Index(target)
        times: dict[str, list[float]] = {"plain": [], "maxsim": []}
        index.search("warm up", 10, rerank="maxsim")
        for query in list(data.queries.values())[:TIMED]:
            for name, rerank in (("plain", None), ("maxsim", "maxsim")):
                began = time.process_time()
                index.search(query, 10, rerank=rerank)
                times[name].append(1000 * (time.process_time() - began))
        found[way] = {
            "bytes": sum(file.bytes for file in index.settings.files.values()),
            "ndcg_at_10": evaluate_beir(index, folder, rerank="maxsim").scores["ndcg_at_10"],
            "milliseconds": {name: round(median(values), 1) for name, values in times.items()},
        }
    return found


if __name__ == "__main__":
    main()
