"""What does the server's `/rerank` gain over the order by vector, and what does a request of 50 texts cost?

    python benchmarks/rerank_route.py --data DATA [--work DIR]

DATA holds cranfield/ in BEIR's layout, and xquad/xquad.en.json, whose paragraphs are the documents of another
collection, each the only right one of its questions (every eighth one is asked). The best 50 texts by `/embed` are sent
to `/rerank`, of a server without an index and of one whose index of the corpus keeps tokens; model and precision are
the default ones. Milliseconds are processor time of the request for them, all in one process.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from _machine import machine
from rerank import collections_of, scores_of
from starlette.testclient import TestClient

from bertfeat.core.corpus import memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.search import BeirFolder, BuildOptions, build_index, read_beir
from bertfeat.server import ServerSettings, create_app, open_service

HERE = Path(__file__).parent
TEXTS = 50  # of a request to /rerank
EVERY = {"cranfield": 1, "xquad": 8}  # queries


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/rerank_route"))
    options = parser.parse_args()
    found: dict[str, Any] = {"machine": machine("faiss-cpu"), "texts": TEXTS, "collections": {}}
    for name, folder in collections_of(options).items():
        found["collections"][name] = measure(folder, options.work / name, EVERY[name])
        print(name, found["collections"][name], flush=True)
    (HERE / "results" / "rerank_route.json").write_text(json.dumps(found, indent=1) + "\n")


def measure(folder: Path, work: Path, every: int) -> dict[str, Any]:
    """nDCG@10 by vector and by `/rerank`, and milliseconds of a request."""
    data, corpus = read_beir(folder), texts_of(folder)
    names = [name for name, text in corpus.items() if text]
    queries = dict(list(data.queries.items())[::every])
    judged = BeirFolder(queries, {name: data.judgments[name] for name in queries})
    extractor = Extractor(layers="last", pooling=["mean", "token"])
    extractor.extract(memory_corpus([corpus[name] for name in names]), work / "c.features")
    build = BuildOptions(evaluate=False, with_tokens="last_token")
    build_index(work / "c.features", work / "c.index", "last_mean", options=build)
    scores, times = {}, list[float]()
    for server, folders in (("alone", []), ("with an index", [work / "c.index"])):
        with TestClient(create_app(open_service(folders, ServerSettings())), "http://localhost") as client:
            vectors, asked = (embed(client, list(texts)) for texts in (map(corpus.get, names), queries.values()))
            first, ranked = {}, {}
            for (query_id, query), vector in zip(queries.items(), asked, strict=True):
                best = [names[at] for at in np.argsort(-(vectors @ vector), kind="stable")[:TEXTS].tolist()]
                began = time.process_time()
                answer = client.post("/rerank", json={"query": query, "texts": [corpus[name] for name in best]}).json()
                times.append(1000 * (time.process_time() - began))
                first[query_id], ranked[query_id] = best, [best[each["index"]] for each in answer]
        scores["by vector"], scores[server] = (
            round(mean(scores_of(judged, each).values()), 4) for each in (first, ranked)
        )
    return {"documents": len(names), "queries": len(queries), "ndcg_at_10": scores, "ms": round(median(times), 1)}


def texts_of(folder: Path) -> dict[str, str]:
    rows = map(json.loads, (folder / "corpus.jsonl").read_text("utf-8").splitlines())
    return {row["_id"]: f"{row['title']} {row['text']}".strip() for row in rows}


def embed(client: TestClient, texts: list[str]) -> Any:
    parts = [client.post("/embed", json={"inputs": texts[at : at + 100]}).json() for at in range(0, len(texts), 100)]
    return np.array([vector for part in parts for vector in part], np.float32)


if __name__ == "__main__":
    main()
