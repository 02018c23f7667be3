"""Are passages found better by vectors that were pooled from their tokens in the whole text, or embedded alone?

    python benchmarks/spans.py --data DATA [--work DIR]

DATA holds xquad/xquad.en.json and novels/dated.csv.gz. In the first task the documents are XQuAD's 48 articles, their
paragraphs joined by blank lines; each question looks for the paragraph, and for the sentence, that has its answer. In
the second they are 80 stretches of novels, in each of which three sentences of XQuAD were planted at random; the
questions of these look for them among all sentences. By vectors of ``FeatureSet.spans`` (late), and by vectors of the
same texts by themselves (alone). Exact cosine; the mean reciprocal rank among ten, and the share of questions whose
first hit is right, with bootstrap intervals of 95 % over questions.
"""

import argparse
import csv
import gzip
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _machine import machine
from numpy.typing import NDArray

from bertfeat import Extractor, FeatureSet
from bertfeat.core.features import unit_vectors
from bertfeat.core.spans import SpanRule
from bertfeat.search.evaluation.layer_table import QueryResamples

RESULT = Path(__file__).parent / "results" / "spans.json"
LAYERS = ("last", "sum4")
STRETCHES, PLANTED = 80, 3  # of novels; sentences in each
STRETCH = 15_000  # characters at least


@dataclass(frozen=True)
class Question:
    """A question, and where its answer begins."""

    text: str
    document: int
    answer: int  # character of the document's text


@dataclass(frozen=True)
class Task:
    """Documents, and questions that look for spans of them."""

    name: str
    texts: Sequence[str]
    questions: Sequence[Question]
    units: Sequence[str]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/spans"))
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    before = machine()
    articles = read_articles(options.data / "xquad" / "xquad.en.json")
    tasks = (articles, plant_sentences(read_stretches(options.data / "novels" / "dated.csv.gz"), articles))
    found = {task.name: measure(task, options.work) for task in tasks}
    RESULT.write_text(json.dumps({"machine": before, "tasks": found}, indent=1) + "\n")


def measure(task: Task, work: Path) -> dict[str, Any]:
    """The scores of each unit by each choice of layers, and what both ways take: seconds, and bytes of feature sets."""
    documents = work / f"{task.name}.jsonl"
    documents.write_text("".join(json.dumps({"text": text}) + "\n" for text in task.texts))
    seconds = dict[str, float]()
    tokens, seconds["tokens"] = extract(documents, "token")
    asked = {layers: Extractor(layers=layers).encode([each.text for each in task.questions]) for layers in LAYERS}
    found = dict[str, Any]()
    for unit in task.units:
        spans = [(row, start, end) for row, start, end, _ in read_spans(tokens, unit, LAYERS[0])]
        right = np.array([place_of(question, spans) for question in task.questions])
        file = work / f"{task.name}-{unit}.jsonl"
        file.write_text("".join(json.dumps({"text": task.texts[row][a:b]}) + "\n" for row, a, b in spans))
        alone, seconds[f"{unit} alone"] = extract(file, "mean")
        found[unit] = {"spans": len(spans)}
        for layers in LAYERS:
            begin = time.perf_counter()
            late = np.stack([vector for *_, vector in read_spans(tokens, unit, layers)])
            seconds[f"{unit} late, {layers}"] = round(time.perf_counter() - begin, 2)
            ranks = [ranks_of(asked[layers], vectors, right) for vectors in (late, alone.matrix(layers))]
            found[unit][layers] = compare(*ranks)
            print(task.name, unit, layers, json.dumps(found[unit][layers]), flush=True)
    sizes = {folder.name: folder_bytes(folder) for folder in work.glob(f"{task.name}*.features")}
    about = {"documents": len(task.texts), "questions": len(task.questions)}
    return {**about, "found": found, "seconds": seconds, "bytes": sizes}


def read_articles(path: Path) -> Task:
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
    return Task("articles", articles, questions, ("paragraphs", "sentences"))


def read_stretches(path: Path) -> list[str]:
    """Paragraphs of a novel that follow one another, joined by blank lines; an even sample of all such stretches."""
    stretches, novel = [""], ""
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            if len(stretches[-1]) > STRETCH or row["title"] != novel:
                stretches.append("")
                novel = row["title"]
            stretches[-1] += ("\n\n" if stretches[-1] else "") + row["text"]
    whole = [stretch for stretch in stretches if len(stretch) > STRETCH] or stretches[1:]
    return [whole[at] for at in np.linspace(0, len(whole) - 1, min(STRETCHES, len(whole))).astype(int)]


def plant_sentences(stretches: Sequence[str], source: Task) -> Task:
    """The stretches with sentences that answer questions, each at the end of a sentence that is drawn."""
    random, questions, texts = np.random.default_rng(3), list[Question](), list[str]()
    chosen = np.linspace(0, len(source.questions) - 1, PLANTED * len(stretches)).astype(int).reshape(-1, PLANTED)
    for number, (stretch, own) in enumerate(zip(stretches, chosen.tolist(), strict=True)):
        ends = np.sort(random.choice(SpanRule("sentences").split(stretch).end, PLANTED, replace=False)).tolist()
        text, last = "", 0
        for end, which in zip(ends, own, strict=True):
            asked = source.questions[which]
            text += stretch[last:end] + " "
            questions.append(Question(asked.text, number, len(text)))
            text, last = text + sentence_of(source.texts[asked.document], asked.answer), end
        texts.append(text + stretch[last:])
    return Task("novels", texts, questions, ("sentences",))


def sentence_of(text: str, place: int) -> str:
    spans = SpanRule("sentences").split(text)
    at = int(np.searchsorted(spans.start, place, side="right")) - 1
    return text[spans.start[at] : spans.end[at]]


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
        at for at, (row, start, end) in enumerate(spans) if row == question.document and start <= question.answer < end
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
    resamples = QueryResamples(len(late), seed=1)
    return {
        way: {name: list(astuple(resamples.interval(values))) for name, values in each.items()}
        for way, each in ways.items()
    }


if __name__ == "__main__":
    main()
