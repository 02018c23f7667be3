"""Are passages found better by vectors that were pooled from their tokens in the whole article, or embedded alone?

    python benchmarks/spans.py --data DATA [--work DIR]

DATA holds xquad/xquad.en.json. Its 48 articles, their paragraphs joined by blank lines, are the documents. Each
question looks for the paragraph, and for the sentence, that has its answer, among those of all articles: by vectors of
``FeatureSet.spans`` (late), and by vectors of the same texts by themselves (alone). Exact cosine; the mean reciprocal
rank among ten, and the share of questions whose first hit is right, with bootstrap intervals of 95 % over questions.
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _machine import machine
from numpy.typing import NDArray

from bertfeat import Extractor, FeatureSet
from bertfeat.features import unit_vectors

RESULT = Path(__file__).parent / "results" / "spans.json"
UNITS = ("paragraphs", "sentences")
LAYERS = ("last", "sum4")
RESAMPLES = 1000


@dataclass(frozen=True)
class Question:
    """A question, and where its answer begins."""

    text: str
    article: int
    answer: int  # character of the article's text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/spans"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    before = machine()
    articles, questions = read_articles(options.data / "xquad" / "xquad.en.json")
    (options.work / "articles.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in articles))
    seconds = dict[str, float]()
    tokens, seconds["tokens of articles"] = extract(options.work / "articles.jsonl", "token")
    asked = {layers: Extractor(layers=layers).encode([each.text for each in questions]) for layers in LAYERS}
    found = dict[str, Any]()
    for unit in UNITS:
        spans = [(row, start, end) for row, start, end, _ in read_spans(tokens, unit, LAYERS[0])]
        right = np.array([place_of(question, spans) for question in questions])
        file = options.work / f"{unit}.jsonl"
        file.write_text("".join(json.dumps({"text": articles[row][a:b]}) + "\n" for row, a, b in spans))
        alone, seconds[f"{unit} alone"] = extract(file, "mean")
        found[unit] = {"spans": len(spans)}
        for layers in LAYERS:
            begin = time.perf_counter()
            late = np.stack([vector for *_, vector in read_spans(tokens, unit, layers)])
            seconds[f"{unit} late, {layers}"] = round(time.perf_counter() - begin, 2)
            ranks = [ranks_of(asked[layers], vectors, right) for vectors in (late, alone.matrix(layers))]
            found[unit][layers] = compare(*ranks)
            print(unit, layers, json.dumps(found[unit][layers]), flush=True)
    sizes = {folder.name: folder_bytes(folder) for folder in options.work.glob("*.features")}
    about = {"machine": before, "questions": len(questions), "articles": len(articles)}
    RESULT.write_text(json.dumps({**about, "found": found, "seconds": seconds, "bytes": sizes}, indent=1) + "\n")


def read_articles(path: Path) -> tuple[list[str], list[Question]]:
    """The articles of a file of SQuAD's, and the questions with the places of their answers."""
    articles, questions = list[str](), list[Question]()
    for number, article in enumerate(json.loads(path.read_text("utf-8"))["data"]):
        text = ""
        for paragraph in article["paragraphs"]:
            text += "\n\n" if text else ""
            for asked in paragraph["qas"]:
                questions.append(Question(asked["question"], number, len(text) + asked["answers"][0]["answer_start"]))
            text += paragraph["context"]
        articles.append(text)
    return articles, questions


def extract(file: Path, pooling: str) -> tuple[FeatureSet, float]:
    """Extract a corpus, and tell the seconds that it took."""
    begin, folder = time.perf_counter(), file.with_suffix(".features")
    Extractor(layers=",".join(LAYERS), pooling=pooling).extract(file, folder, overwrite=True)
    return FeatureSet(folder), round(time.perf_counter() - begin, 2)


def folder_bytes(folder: Path) -> int:
    return sum(part.stat().st_size for part in folder.glob("*.parquet"))


def read_spans(features: FeatureSet, unit: str, layers: str) -> Iterator[tuple[int, int, int, NDArray[np.float32]]]:
    """The row, start, end and vector of each span."""
    for batch in features.spans(unit, layers):
        yield from zip(batch.rows.tolist(), batch.start.tolist(), batch.end.tolist(), batch.matrix, strict=True)


def place_of(question: Question, spans: list[tuple[int, int, int]]) -> int:
    """The number of the span in which the answer begins."""
    return next(
        at for at, (row, start, end) in enumerate(spans) if row == question.article and start <= question.answer < end
    )


def ranks_of(
    questions: NDArray[np.float32], vectors: NDArray[np.float32], right: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The rank of the right span for each question, from 1 on; of equal cosines the right one is last."""
    cosines = unit_vectors(questions) @ unit_vectors(vectors).T
    ranks: NDArray[np.int64] = (cosines >= cosines[np.arange(len(right)), right][:, None]).sum(axis=1)
    return ranks


def compare(late: NDArray[np.int64], alone: NDArray[np.int64]) -> dict[str, dict[str, list[float]]]:
    """The scores of both rankings, and their difference, question by question."""
    ways = {}
    for way, ranks in (("late", late), ("alone", alone)):
        ways[way] = {"mrr": np.where(ranks > 10, 0.0, 1 / ranks), "first": (ranks == 1).astype(np.float64)}
    ways["late - alone"] = {name: ways["late"][name] - ways["alone"][name] for name in ways["late"]}
    return {way: {name: interval(values) for name, values in each.items()} for way, each in ways.items()}


def interval(values: NDArray[np.float64]) -> list[float]:
    """The mean, and the ends of its bootstrap interval of 95 %."""
    draws = np.random.default_rng(1).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(values[draws].mean(axis=1), (2.5, 97.5))
    return [round(float(value), 4) for value in (values.mean(), low, high)]


if __name__ == "__main__":
    main()
