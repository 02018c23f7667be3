"""Which layer for which task? With intervals, of each of two models: tables of README and of docs/layers.md.

    python benchmarks/layers_by_task.py --data DATA [--model all-mpnet-base-v2] [--work DIR] [--only senses,usages]

The default model, or all-mpnet-base-v2 as ``make mpnet`` fetches it. DATA holds novels/dated.csv.gz, cranfield/, sick/,
banking77/ and wikigold/. Vectors are compared by cosines where nothing is learned; intervals are of 95 %.

- senses: adjusted Rand index of the two groups of ``usages --senses 2`` with senses that were labeled by hand
  (senses.py); mean over 24 words, interval by resampling words. By chance 0.
- usages: ``usages --like``: every labeled usage asks for those of its sense; average precision, mean over the two
  senses and over the words, interval by resampling words. By chance 0.5.
- gains: the differences of these from those of the last layer, in pairs by word.
- change: area under the ROC curve of PRT for 50 pseudo-words that changed among 100 (change.py), interval by
  resampling words. By chance 0.5.
- search: nDCG@10 on Cranfield, mean vectors, interval by resampling queries.
- likeness: Spearman's correlation of cosines of mean vectors with the relatedness that people gave SICK's test pairs,
  interval by resampling pairs.
- pairs, labels, tags: what the default heads learn by ``table7`` with three seeds, Student's interval over seeds:
  accuracy on SICK's entailment, accuracy on banking77, span F1 on Wikigold (of few layers; of all-mpnet-base-v2 with
  one seed and 14 epochs), each of the test part.

Features and trainings that --work holds are not made again. --only measures some tasks and keeps the others' results.
"""

import argparse
import csv
import json
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, stdev

import mpnet
import numpy as np
from _commands import bertfeat
from _machine import machine
from change import choose_words, extract_planted, measure_planted
from heads import PREPARE, train_table
from numpy.typing import NDArray
from scipy.stats import spearmanr, t
from senses import LABELS, draw_candidates, read_labels
from sklearn.metrics import adjusted_rand_score, average_precision_score, roc_auc_score
from table7 import split_by_documents

from bertfeat import Extractor, FeatureSet, evaluate_layers, find_senses
from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.models import DEFAULT_MODEL

HERE = Path(__file__).parent
RESULTS = HERE / "results"
DEFAULT = "all-MiniLM-L6-v2"
MODELS = {DEFAULT: DEFAULT_MODEL, mpnet.NAME: str(mpnet.FOLDER)}
COMBINED = ("last", "sum4", "concat4", "sum-all")
LAYERS = {
    DEFAULT: ("embeddings", "1", "2", "3", "4", "5", *COMBINED),
    mpnet.NAME: ("embeddings", *(str(layer) for layer in range(1, 12)), *COMBINED),
}
SEEDS = 3
TRAINING: Sequence[str] = ()  # further options of table7
TAGGING: dict[str, tuple[Sequence[str], Sequence[str]]] = {  # layers, and options of table7
    DEFAULT: (("embeddings", "3", "last", "sum4", "concat4"), ()),
    mpnet.NAME: (("7", "last", "concat4"), ("--seeds", "1", "--epochs", "14")),  # a training takes ten minutes
}
RESAMPLES = 1000
Interval = tuple[float, float, float]  # a value, and the ends of its interval


@dataclass(frozen=True)
class Run:
    """The folders of a task, the table of labeled usages, and the model."""

    data: Path
    work: Path
    labels: Path
    name: str = DEFAULT

    @property
    def model(self) -> str:
        return MODELS[self.name]

    @property
    def layers(self) -> Sequence[str]:
        return LAYERS[self.name]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/layers_by_task"))
    parser.add_argument("--model", choices=MODELS, default=DEFAULT)
    parser.add_argument("--senses", type=Path, default=LABELS, help="another table of labeled usages")
    parser.add_argument("--only", default=",".join(TASKS))
    options = parser.parse_args()
    kept = RESULTS / ("layers_by_task.json" if options.model == DEFAULT else f"layers_by_task-{options.model}.json")
    for name in options.only.split(","):
        before = machine("faiss-cpu", "scikit-learn", "scipy")
        folder = options.work / options.model / name
        folder.mkdir(parents=True, exist_ok=True)
        scores = TASKS[name](Run(options.data, folder, options.senses, options.model))
        rounded = {layer: [round(value, 4) for value in interval] for layer, interval in scores.items()}
        result = json.loads(kept.read_text()) if kept.exists() else {}
        result = {task: result.get(task) for task in TASKS} | {name: {"machine": before, "layers": rounded}}
        best = max(scores, key=lambda layer: scores[layer][0])
        told = (f"{value:.3f} ({low:.3f} to {high:.3f})" for value, low, high in scores.values())
        print(f"| {name}, best: {best} | {' | '.join(told)} |", flush=True)
        kept.write_text(json.dumps(result, indent=1) + "\n")


# ── intervals ───────────────────────────────────────────────────────────────────────────────────────────────


def resample(units: int, statistic: Callable[[NDArray[np.intp]], float]) -> Interval:
    """The statistic of all units, and percentiles of those of resamples, which are the same ones for every layer."""
    draw = np.random.default_rng(1)
    low, high = np.percentile([statistic(draw.integers(units, size=units)) for _ in range(RESAMPLES)], (2.5, 97.5))
    return statistic(np.arange(units)), float(low), float(high)


def resample_mean(values: Sequence[float] | NDArray[np.float64]) -> Interval:
    array = np.array(values)
    return resample(len(array), lambda chosen: float(array[chosen].mean()))


def over_seeds(values: Sequence[float]) -> Interval:
    """The mean, and Student's interval."""
    around = t.ppf(0.975, len(values) - 1) * stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return mean(values), mean(values) - around, mean(values) + around


# ── words in context ────────────────────────────────────────────────────────────────────────────────────────


def extract_usages(run: Run, *, width: int | None = None, **storing: str) -> FeatureSet:
    """Features of the paragraphs of labeled usages, those of a word one after the other."""
    labels, work = read_labels(run.labels), run.work
    drawn = draw_candidates(run.data, {place.word for place in labels})
    with (work / "senses.jsonl").open("w", encoding="utf-8") as file:
        for place, text, _ in (usage for usages in drawn.values() for usage in usages):
            if sense := labels.get(place):
                file.write(json.dumps({"text": text, "word": place.word, "sense": sense}) + "\n")
    extractor = Extractor(run.model, **{"layers": "all", **storing}, pooling="word")
    settings = CorpusSettings(keep=("word", "sense"))
    extractor.extract(work / "senses.jsonl", work / "senses.features", corpus_settings=settings, width=width)
    return FeatureSet(work / "senses.features")


def measure_senses(run: Run) -> dict[str, Interval]:
    features = extract_usages(run)
    words = dict.fromkeys(str(document.values["word"]) for document in features)
    return {layer: resample_mean([rand_index(features, word, layer) for word in words]) for layer in run.layers}


def rand_index(features: FeatureSet, word: str, layer: str) -> float:
    grouped = find_senses(features, word, 2, k=len(features), column=layer, where=f"word = '{word}'").senses
    pairs = [(usage.values["sense"], number) for number, sense in enumerate(grouped) for usage in sense.usages]
    return float(adjusted_rand_score(*zip(*pairs, strict=True)))


def measure_usages(run: Run) -> dict[str, Interval]:
    return usage_precision(extract_usages(run), run.layers)


def measure_gains(run: Run) -> dict[str, Interval]:
    """What other layers find more than the last one, word by word."""
    scores = precision_by_word(extract_usages(run), run.layers)
    return {layer: resample_mean(np.subtract(scores[layer], scores["last"])) for layer in run.layers}


def usage_precision(features: FeatureSet, layers: Sequence[str]) -> dict[str, Interval]:
    return {layer: resample_mean(scores) for layer, scores in precision_by_word(features, layers).items()}


def precision_by_word(features: FeatureSet, layers: Sequence[str]) -> dict[str, list[float]]:
    vectors: defaultdict[tuple[str, str], list[NDArray[np.float32]]] = defaultdict(list)
    senses: defaultdict[str, list[object]] = defaultdict(list)
    for document in features:
        word = str(document.values["word"])
        at = [written.lower() for written in document.words.strings].index(word)
        senses[word].append(document.values["sense"])
        for layer in layers:
            vectors[word, layer].append(document.matrix(layer, "word")[at])
    return {
        layer: [mean_precision(np.array(vectors[word, layer]), senses[word]) for word in senses] for layer in layers
    }


def mean_precision(vectors: NDArray[np.float32], senses: Sequence[object]) -> float:
    """Average precision of the usages of its own sense for each usage: the mean over both senses."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines, gold = unit @ unit.T, np.array(senses)
    by_sense: defaultdict[object, list[float]] = defaultdict(list)
    for query, sense in enumerate(senses):
        others = np.arange(len(senses)) != query
        by_sense[sense].append(average_precision_score(gold[others] == sense, cosines[query][others]))
    return mean(mean(scores) for scores in by_sense.values())


def measure_change(run: Run) -> dict[str, Interval]:
    source, draw = run.data / "novels" / "dated.csv.gz", random.Random(1)
    words = choose_words(source, draw)
    features = extract_planted(run.work, words, source, draw, model=run.model)
    changes, scores = {word.form: word.changes for word in words}, {}
    for layer in run.layers:
        report = measure_planted(features, list(changes), layer)
        measured = [(changes[word.word], word.overall.prt.value) for word in report.words]
        scores[layer] = resample(len(measured), partial(area, measured))
    return scores


def area(measured: Sequence[tuple[bool, float]], chosen: NDArray[np.intp]) -> float:
    changes, values = zip(*(measured[at] for at in chosen.tolist()), strict=True)
    return float(roc_auc_score(changes, values)) if len({*changes}) == 2 else 0.5


# ── texts by cosines ────────────────────────────────────────────────────────────────────────────────────────


def measure_search(run: Run) -> dict[str, Interval]:
    extractor = Extractor(run.model, layers="all", pooling="mean", long="truncate", max_length=512)
    settings, folder = CorpusSettings(text_columns=("title", "text")), run.work / "cranfield.features"
    extractor.extract(run.data / "cranfield" / "corpus.jsonl", folder, corpus_settings=settings)
    table = evaluate_layers(folder, run.data / "cranfield", layers=run.layers)
    found = {row.column: row.scores["ndcg_at_10"] for row in table.rows}
    named = {layer: FeatureSet(folder).find(layer, "mean").name for layer in run.layers}
    return {layer: (found[name].value, found[name].low, found[name].high) for layer, name in named.items()}


def measure_likeness(run: Run) -> dict[str, Interval]:
    with (run.data / "sick" / "test.tsv").open(encoding="utf-8", newline="") as file:
        pairs = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    people = np.array([float(pair["relatedness_score"]) for pair in pairs])
    sides = ("sentence_A", "sentence_B")
    sentences = {text: at for at, text in enumerate(dict.fromkeys(pair[side] for pair in pairs for side in sides))}
    (run.work / "sick.txt").write_text("".join(f"{sentence}\n" for sentence in sentences), encoding="utf-8")
    Extractor(run.model, layers="all", pooling="mean").extract(run.work / "sick.txt", run.work / "sick.features")
    features, scores = FeatureSet(run.work / "sick.features"), {}
    first, second = ([sentences[pair[side]] for pair in pairs] for side in sides)
    for layer in run.layers:
        vectors = features.matrix(layer, "mean")
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        cosines = (unit[first] * unit[second]).sum(axis=1)
        scores[layer] = resample(len(pairs), partial(correlation, cosines, people))
    return scores


def correlation(cosines: NDArray[np.float32], people: NDArray[np.float64], chosen: NDArray[np.intp]) -> float:
    return float(spearmanr(cosines[chosen], people[chosen]).statistic)


# ── what is learned ─────────────────────────────────────────────────────────────────────────────────────────


def measure_head(table: str, run: Run) -> dict[str, Interval]:
    """The test scores of a head of heads.py on each layer."""
    parts, seeds = PREPARE[table](run.data, run.work), tuple(range(1, SEEDS + 1))
    train_table(table, parts, run.work / "table", model=run.model, rows=run.layers, seeds=seeds)
    return scores_of(run.work / "table", run.layers)


def measure_tags(run: Run) -> dict[str, Interval]:
    folder = split_by_documents(run.data / "wikigold" / "wikigold.conll", run.work)
    parts = [folder / f"{name}.conll" for name in ("train", "dev", "test")]
    layers, options = TAGGING[run.name]
    given = [f"--{name}={path}" for name, path in zip(("train", "dev", "test"), parts, strict=True)]
    asked = ("--model", run.model, "--rows", ",".join(layers), "--seeds", str(SEEDS), *options, *TRAINING)
    bertfeat("tag", "table7", *given, "-o", str(run.work / "table"), *asked, "--quiet")
    return scores_of(run.work / "table", layers)


def scores_of(table: Path, layers: Sequence[str]) -> dict[str, Interval]:
    """The test scores of the rows of a Table 7."""
    rows = json.loads((table / "table7.json").read_text())["rows"]
    tested = {row["name"]: row["test"] for row in rows}
    return {layer: over_seeds(tested[layer]) for layer in layers}


TASKS: dict[str, Callable[[Run], dict[str, Interval]]] = {
    "senses": measure_senses,
    "usages": measure_usages,
    "gains": measure_gains,
    "change": measure_change,
    "search": measure_search,
    "likeness": measure_likeness,
    "pairs": partial(measure_head, "sick-entailment"),
    "labels": partial(measure_head, "banking77"),
    "tags": measure_tags,
}


if __name__ == "__main__":
    main()
