"""Are passages found better by vectors that were pooled from their tokens in the whole text, or embedded alone?

    python benchmarks/spans.py --data DATA [--work DIR]

DATA holds xquad/xquad.en.json and novels/dated.csv.gz. In the first task the documents are XQuAD's 48 articles, their
paragraphs joined by blank lines; each question looks for the paragraph, and for the sentence, that has its answer. In
the second they are 80 stretches of novels, in each of which three sentences of XQuAD were planted at random; the
questions of these look for them among all sentences. By vectors of ``FeatureSet.spans`` (late), and by those of the
documents that ``extract --split`` makes (alone), which are compared with the same passages given as documents. Exact
cosine; the mean reciprocal rank among ten, and the share of questions whose first hit is right, with bootstrap
intervals of 95 % over questions.

In the third, each of ten subjects has a sentence in three of 60 stretches; by the commands of an index, how many of
these three texts are the first three of a query: by whole texts, by spans of tokens, and by ``--split``.
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

from bertfeat import CorpusSettings, Extractor, FeatureSet, Index, build_index
from bertfeat.core.features import unit_vectors
from bertfeat.core.spans import SpanRule
from bertfeat.search import BuildOptions
from bertfeat.search.evaluation.layer_table import QueryResamples

RESULT = Path(__file__).parent / "results" / "spans.json"
LAYERS = ("last", "sum4")
STRETCHES, PLANTED = 80, 3  # of novels; sentences in each
STRETCH = 15_000  # characters at least
TEXTS = 60  # of the third task
SUBJECTS = {
    "a phone whose battery dies too soon": (
        "The battery of the handset was empty again before noon.",
        "By lunchtime the telephone had to be charged, as it had every day.",
        "It is a fine mobile, but a single charge does not last the morning.",
    ),
    "volcanic eruptions": (
        "Ash from the volcano covered the roofs for weeks.",
        "Lava ran down the slope of the mountain and set the vineyards on fire.",
        "The crater had been quiet for a century when it erupted.",
    ),
    "how bees make honey": (
        "The bees carry nectar to the hive and fan it until it thickens.",
        "In the comb the workers seal each cell of honey with wax.",
        "A colony visits two million flowers for a pound of honey.",
    ),
    "symptoms of the flu": (
        "Influenza begins with a fever, chills and aching limbs.",
        "She had caught the flu, with a cough and a temperature of thirty-nine.",
        "The virus gives its patients a sore throat and great weariness.",
    ),
    "programming a computer": (
        "He wrote a program that sorted the records in memory.",
        "The compiler refused the source code because of one missing bracket.",
        "Debugging the software took longer than to write it.",
    ),
    "recipes for bread": (
        "Knead flour, water, salt and yeast, and let the dough rise for two hours.",
        "The loaf is baked in a hot oven until its crust is brown.",
        "Sourdough needs a starter that is fed with rye flour.",
    ),
    "exploring the planet Mars": (
        "The rover drilled into a rock of the red planet.",
        "A probe in orbit around Mars photographed the polar ice.",
        "Martian dust had covered the solar panels of the lander.",
    ),
    "playing chess": (
        "White sacrificed a knight to open the line of the rook.",
        "The grandmaster castled early and won with two bishops.",
        "Checkmate came on the fortieth move, by queen and pawn.",
    ),
    "inflation and interest rates": (
        "The central bank raised interest rates because prices rose by eight percent.",
        "Inflation ate up the wages of a whole year.",
        "When money became cheaper, consumer prices went up again.",
    ),
    "coral reefs": (
        "The corals bleached as the sea grew warmer.",
        "Clownfish live among the anemones of the reef.",
        "Divers saw that the Great Barrier Reef had lost half of its coral.",
    ),
}
"""Queries, and three sentences that each should find."""


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
    tasks = (articles, plant_sentences(read_stretches(options.data / "novels" / "dated.csv.gz", STRETCHES), articles))
    found = {task.name: measure(task, options.work) for task in tasks}
    subjects = find_subjects(read_stretches(options.data / "novels" / "dated.csv.gz", TEXTS), options.work)
    print("subjects", json.dumps(subjects), flush=True)
    RESULT.write_text(json.dumps({"machine": before, "tasks": found, "subjects": subjects}, indent=1) + "\n")


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
        given, _ = extract(file, "mean")
        alone, seconds[f"{unit} alone"] = extract(documents, "mean", split=unit)
        found[unit] = {"spans": len(spans), "least cosine with given passages": least_cosine(alone, given)}
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


def read_stretches(path: Path, count: int) -> list[str]:
    """Paragraphs of a novel that follow one another, joined by blank lines; an even sample of all such stretches."""
    stretches, novel = [""], ""
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            if len(stretches[-1]) > STRETCH or row["title"] != novel:
                stretches.append("")
                novel = row["title"]
            stretches[-1] += ("\n\n" if stretches[-1] else "") + row["text"]
    whole = [stretch for stretch in stretches if len(stretch) > STRETCH] or stretches[1:]
    return [whole[at] for at in np.linspace(0, len(whole) - 1, min(count, len(whole))).astype(int)]


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


def find_subjects(stretches: Sequence[str], work: Path) -> dict[str, Any]:
    """Of each query, how many of the texts with its sentences are the first three, by each way; and how many in all."""
    random, texts = np.random.default_rng(5), list(stretches)
    right = {query: random.choice(len(texts), PLANTED, replace=False).tolist() for query in SUBJECTS}
    for query, places in right.items():
        for place, sentence in zip(places, SUBJECTS[query], strict=True):
            end = int(random.choice(SpanRule("sentences").split(texts[place]).end))
            texts[place] = f"{texts[place][:end]} {sentence}{texts[place][end:]}"
    file = work / "subjects.jsonl"
    file.write_text("".join(json.dumps({"id": str(at), "text": text}) + "\n" for at, text in enumerate(texts)))
    ways: dict[str, tuple[str, str | None, str | None]] = {
        "whole texts": ("mean", None, None),
        "spans of tokens": ("token", None, "sentences"),
        "split": ("mean", "sentences", None),
    }
    found = {}
    for way, (pooling, split, spans) in ways.items():
        features, _ = extract(file, pooling, split=split)
        folder = work / "subjects.index"
        options = BuildOptions(type="flat", spans=spans, evaluate=False)
        build_index(features, folder, f"last_{pooling}", options=options, overwrite=True)
        index, one = Index(folder), split is not None or spans is not None
        hits = {query: index.search(query, PLANTED, one_per_document=one).hits for query in SUBJECTS}
        firsts = {query: [int(hit.id.partition("#")[0]) for hit in each] for query, each in hits.items()}
        counts = {query: len(set(firsts[query]) & set(right[query])) for query in SUBJECTS}
        found[way] = {"found": sum(counts.values()), "all three": sum(each == PLANTED for each in counts.values())}
        found[way]["by query"] = counts
    return {"texts": len(texts), "queries": len(SUBJECTS), "sentences": PLANTED * len(SUBJECTS), "found": found}


def extract(file: Path, pooling: str, split: str | None = None) -> tuple[FeatureSet, float]:
    """Extract a corpus, and tell the seconds that it took."""
    begin, folder = time.perf_counter(), file.with_name(f"{file.stem}-{split}").with_suffix(".features")
    extractor, settings = Extractor(layers=",".join(LAYERS), pooling=pooling), CorpusSettings(split=split)
    extractor.extract(file, folder, corpus_settings=settings, overwrite=True)
    return FeatureSet(folder), round(time.perf_counter() - begin, 2)


def least_cosine(one: FeatureSet, other: FeatureSet) -> float:
    """The least cosine of the vectors of equal rows."""
    pairs = [unit_vectors(each.matrix(LAYERS[0])) for each in (one, other)]
    return round(float((pairs[0] * pairs[1]).sum(axis=1).min()), 7)


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
