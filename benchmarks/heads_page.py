"""Does a page of scikit-learn on the same stored features beat the default head?

    python benchmarks/heads_page.py --data DATA [--work DIR] [--tasks sick-entailment,banking77] [--seeds 5]

DATA holds banking77/, sick/, novels/dated.csv.gz, xquad/ and restaurant8k/. Every task has features of concat4 (mean,
of spans tokens) of the default model, which are extracted once. The page chooses by the development set, as the head
does, among:

- labels and choices: logistic regression, of choices on each (right or not); numbers: ridge; several penalties each;
- of pairs |u-v|, u·v and the cosines of unit layers, or u and v, too; of texts concat4, or the last layer alone;
- as they are, or standardised; and of numbers of pairs the plain cosine of the last layer;
- of spans logistic regression of each token, whether an answer begins (ends) there, over concat4 or the last layer,
  standardised; the best span is that with the highest sum, as of the head, and so is the threshold of no answer.

The head is the default, with each seed: of a network that is trained in epochs, linear heads that are solved, and the
mean of both, what has the least loss on the development set. The interval is that of the difference on the test set,
head less page, 95 % of 2,000 bootstrap samples of its examples and of the seeds.

Tasks are those of ``heads.py``, and three more, made with seed 1:

- banking77-pairs: two sentences of one intent, or of two; half of either; 4,000, 1,000 and 3,000 pairs.
- novels-year: a paragraph of 10 to 60 words and the year of its novel; 4,000, 500 and 2,000 of them.
- restaurant8k-slots: which of five values a request for a table has, any number; 6,558, 1,640 and 3,731 requests.
  The page has a logistic regression for each value.
"""

import argparse
import csv
import gzip
import json
import random
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from _machine import machine
from heads import PREPARE, RESULTS, SEED, _write_csv, split_banking77, split_restaurant8k, split_xquad
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from bertfeat import CorpusSettings, Extractor, FeatureSet, Head, HeadSettings, train_head
from bertfeat.core.recipe import Pooling
from bertfeat.learning import HeadPrediction, HeadReport, parse_input, score_answers, score_multi_labels, score_numbers
from bertfeat.learning.examples import HeadExamples, open_examples
from bertfeat.learning.inputs import extraction_of
from bertfeat.learning.kinds import PairForm
from bertfeat.learning.record import HeadInput
from bertfeat.learning.tables import ANSWERS
from bertfeat.learning.task import Guess, PassageSpans, Threshold
from bertfeat.learning.tasks.answers import Answers

SPAN_PENALTIES = (1e-4, 1e-3, 1e-2)
PENALTIES = {  # by whether features are standardised
    "classes": {True: (3e-4, 1e-3, 3e-3), False: (1.0, 3.0, 10.0)},
    "numbers": {True: (1e3, 3e3, 1e4), False: (0.3, 1.0, 3.0)},
}
RESAMPLED = 2000

Arrays = dict[str, NDArray[Any]]


def make_intent_pairs(data: Path, folder: Path) -> Sequence[Path]:
    train, *_ = split_banking77(data, folder)  # three sentences an intent are too few to make pairs of
    with train.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    with (data / "banking77" / "test.csv").open(encoding="utf-8", newline="") as file:
        test = list(csv.DictReader(file))
    draw = random.Random(SEED)
    cut = len(rows) * 4 // 5
    made = []
    for name, part, number in (("train", rows[:cut], 4000), ("dev", rows[cut:], 1000), ("test", test, 3000)):
        by_intent = defaultdict(list)
        for row in part:
            by_intent[row["category"]].append(row["text"])
        intents = sorted(intent for intent, texts in by_intent.items() if len(texts) > 1)
        pairs = []
        for at in range(number):
            first, other = draw.sample(intents, 2)
            texts = draw.sample(by_intent[first], 2) if at % 2 else [draw.choice(by_intent[i]) for i in (first, other)]
            pairs.append({"a": texts[0], "b": texts[1], "same": "yes" if at % 2 else "no"})
        draw.shuffle(pairs)
        made.append(_write_csv(folder / f"{name}-pairs.csv", pairs))
    return made


def make_years(data: Path, folder: Path) -> Sequence[Path]:
    with gzip.open(data / "novels" / "dated.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [{"text": row["text"], "year": row["year"]} for row in csv.DictReader(file)]
    rows = [row for row in rows if 10 <= len(row["text"].split()) <= 60]
    random.Random(SEED).shuffle(rows)
    cuts = {"train": (0, 4000), "dev": (4000, 4500), "test": (4500, 6500)}
    return [_write_csv(folder / f"{name}.csv", rows[slice(*cut)]) for name, cut in cuts.items()]


def make_slots(data: Path, folder: Path) -> Sequence[Path]:
    """A request a row, with the list of the values that stand in it."""
    requests: dict[str, dict[str, dict[str, Any]]] = {"train": {}, "test": {}}
    for name, rows in requests.items():
        squad = json.loads((data / "restaurant8k" / f"{name}.json").read_text("utf-8"))
        for paragraph in (each for article in squad["data"] for each in article["paragraphs"]):
            for question in paragraph["qas"]:
                _, number, slot = question["id"].split("-", 2)
                row = rows.setdefault(number, {"text": paragraph["context"], "slots": []})
                row["slots"] += [slot] if question["answers"] else []
    train = list(requests["train"].values())
    learned = [row for at, row in enumerate(train) if at % 5]
    parts = {"train": learned, "dev": train[::5], "test": list(requests["test"].values())}
    listed = {
        name: [{**row, "slots": json.dumps(sorted(row["slots"]))} for row in rows] for name, rows in parts.items()
    }
    return [_write_csv(folder / f"{name}.csv", rows) for name, rows in listed.items()]


def make_choice_rows(data: Path, folder: Path) -> Sequence[Path]:
    """A row a choice, as feature sets of choices have them."""
    made = []
    for path in PREPARE["novels"](data, folder):
        with path.open(encoding="utf-8", newline="") as file:
            rows = [
                {"a": row["sentence"], "b": row[name], "question": str(at), "right": str(row["right"] == str(number))}
                for at, row in enumerate(csv.DictReader(file))
                for number, name in enumerate("abcd")
            ]
        made.append(_write_csv(path.with_name(f"{path.stem}-rows.csv"), rows))
    return made


@dataclass(frozen=True)
class Task:
    """How a task is made, its columns of texts, and what is kept of its rows."""

    prepare: Callable[[Path, Path], Sequence[Path]]
    kind: str  # classes, sets, numbers, choices or spans
    texts: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        return {"choices": "choose", "spans": "answer"}.get(self.kind, "classify")

    @property
    def label(self) -> str:
        return self.keep[-1].partition(":")[0]


ANSWER_TASK = Answers()
SICK = ("sentence_A", "sentence_B")
TASKS = {
    "sick-entailment": Task(PREPARE["sick-entailment"], "classes", SICK, ("entailment_judgment",)),
    "sick-relatedness": Task(PREPARE["sick-relatedness"], "numbers", SICK, ("relatedness_score",)),
    "banking77-pairs": Task(make_intent_pairs, "classes", ("a", "b"), ("same",)),
    "banking77": Task(split_banking77, "classes", ("text",), ("category",)),
    "novels-year": Task(make_years, "numbers", ("text",), ("year",)),
    "xquad": Task(split_xquad, "spans"),
    "restaurant8k": Task(split_restaurant8k, "spans"),
    "restaurant8k-slots": Task(make_slots, "sets", ("text",), ("slots:string",)),
    "novels": Task(make_choice_rows, "choices", ("a", "b"), ("question:string", "right:bool")),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/heads-page"))
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.filterwarnings("ignore", category=UserWarning)
    path = RESULTS / "heads_page.json"
    told = json.loads(path.read_text()) if path.exists() else {"tasks": {}}
    if options.tasks == ",".join(TASKS):
        told["machine"] = machine()
    for task in options.tasks.split(","):
        folder = options.work / task
        folder.mkdir(parents=True, exist_ok=True)
        told["tasks"][task] = {**compare(TASKS[task], options.data, folder, options.seeds), "machine": machine()}
        print(task, json.dumps(told["tasks"][task]), flush=True)
        path.write_text(json.dumps(told, indent=1) + "\n")


def compare(task: Task, data: Path, folder: Path, seeds: int) -> dict[str, Any]:
    """The default head with every seed against the page."""
    sets = extracted_spans(task, data, folder) if task.kind == "spans" else extracted(task, data, folder)
    given = sets["train"], sets["dev"]
    regression = task.kind == "numbers"

    def train(name: str, **settings: Any) -> HeadReport:
        made = HeadSettings(task="numbers" if regression else None, **settings)
        label = None if task.kind in ("choices", "spans") else task.label
        return train_head(
            task.command, *given, folder / name, label=label, layers="concat4", settings=made, picture=False
        )

    heads = [train(f"head-{seed}", seed=seed) for seed in range(1, seeds + 1)]
    listed = [Head(report.folder).predict(sets["test"]).rows for report in heads]
    gold, predicted = objects([row.gold for row in listed[0]]), [values(task, rows) for rows in listed]
    page = (
        span_page(sets)
        if task.kind == "spans"
        else best_page(task, {n: stored(task, part) for n, part in sets.items()})
    )
    ours = [score(task, gold, each) for each in predicted]
    draw, differences = np.random.default_rng(SEED), []
    for _ in range(RESAMPLED):
        some, head = draw.integers(0, len(gold), len(gold)), predicted[draw.integers(len(predicted))]
        differences.append(score(task, gold[some], head[some]) - score(task, gold[some], page["predicted"][some]))
    low, high = np.percentile(differences, (2.5, 97.5))
    told = {
        "measure": heads[0].record.measure,
        "examples": len(gold),
        "seeds": seeds,
        "head": {
            "mean": float(np.mean(ours)),
            "spread": float(np.std(ours)),
            "chosen": [str(report.record.chosen) for report in heads],
            "seconds": float(np.mean([report.record.seconds for report in heads])),
        },
        "page": {name: value for name, value in page.items() if name != "predicted"},
        "difference": {"mean": float(np.mean(ours)) - page["test"], "low": float(low), "high": float(high)},
    }
    if task.kind != "spans":
        solved = train("solved", hidden=0)
        linear = values(task, Head(solved.folder).predict(sets["test"]).rows)
        as_chosen, seconds = str(solved.record.chosen), solved.record.seconds
        told["head"] |= {"linear": score(task, gold, linear), "linear_as": as_chosen, "linear_seconds": seconds}
    return told


def values(task: Task, rows: Sequence[HeadPrediction]) -> NDArray[Any]:
    """The predictions of a head; of spans the F1 of each."""
    if task.kind == "sets":
        return objects([row.value for row in rows])
    return span_credits(rows) if task.kind == "spans" else np.array([row.value for row in rows])


def objects(listed: Sequence[Any]) -> NDArray[Any]:
    """The values, sets of labels among them, as an array of objects ``[n]``."""
    made = np.empty(len(listed), object)
    made[:] = listed
    return made


def extracted(task: Task, data: Path, folder: Path) -> dict[str, Any]:
    """The feature sets of each part: of pairs two, of first and of second texts."""
    sets: dict[str, Any] = {}
    extractor = Extractor(layers="all", pooling="mean")
    for name, corpus in zip(("train", "dev", "test"), task.prepare(data, folder), strict=True):
        sides = []
        for column, suffix, keep in zip(task.texts, ("", ".second"), (task.keep, ()), strict=False):
            place = folder / "features" / f"{name}{suffix}.features"
            extractor.extract(corpus, place, corpus_settings=CorpusSettings(text_columns=(column,), keep=keep))
            sides.append(FeatureSet(place))
        sets[name] = tuple(sides) if len(sides) == 2 else sides[0]
    return sets


def stored(task: Task, sets: Any) -> Arrays:
    """The vectors of concat4 of each text, ``[N, 4, H]``, and the label of each row."""
    sides = sets if isinstance(sets, tuple) else (sets,)
    vectors = [np.stack([row.vector("concat4", "mean") for row in side]).astype(np.float32) for side in sides]
    labels = [value for batch in sides[0].stream([task.label]) for value in batch.column(task.label).to_pylist()]
    gold = objects([tuple(json.loads(value)) for value in labels]) if task.kind == "sets" else np.array(labels)
    return {"y": gold, **{f"text{at}": each.reshape(len(each), 4, -1) for at, each in enumerate(vectors)}}


def extracted_spans(task: Task, data: Path, folder: Path) -> dict[str, FeatureSet]:
    """The feature sets of each part: all tokens of questions with their passages."""
    extractor, sets = Extractor(layers="concat4", pooling="token"), {}
    for name, corpus in zip(("train", "dev", "test"), task.prepare(data, folder), strict=True):
        place = folder / "features" / f"{name}.features"
        extractor.extract(corpus, place, corpus_settings=CorpusSettings(keep=(ANSWERS,)))
        sets[name] = FeatureSet(place)
    return sets


def span_credits(rows: Sequence[HeadPrediction]) -> NDArray[np.float64]:
    """F1 of each predicted answer."""
    gold = [[answer.text for answer in row.gold] for row in rows]  # type: ignore[union-attr]
    return np.array([score_answers([right], [str(row.value)]).f1 for right, row in zip(gold, rows, strict=True)])


def span_page(sets: Mapping[str, FeatureSet]) -> dict[str, Any]:
    """What is best on the development set of the regressions of tokens that the page tries."""
    model, extraction = sets["train"].header.model, extraction_of(sets["train"], Pooling.TOKEN)
    layers = parse_input("concat4", model.num_layers)
    reads = HeadInput(model, extraction, Pooling.TOKEN, layers, PairForm.TOGETHER)
    opened = {name: open_examples(ANSWER_TASK, [features], reads, budget=1 << 40) for name, features in sets.items()}
    made, train = {name: token_vectors(examples) for name, examples in opened.items()}, opened["train"]
    tokens = train.layout.tokens
    assert tokens is not None
    allowed, places = np.flatnonzero(tokens.allowed), np.zeros((2, len(made["train"])), np.int8)
    spans = ANSWER_TASK.make_targets(train.known) + tokens.offsets[:-1, None]
    places[0, spans[:, 0]] = places[1, spans[:, 1]] = 1
    best: dict[str, Any] = {"dev": -1.0}
    found: list[float] = []
    for form, cut in (("concat4", slice(None)), ("last", slice(-made["train"].shape[1] // 4, None))):
        scale = StandardScaler().fit(made["train"][allowed, cut])
        scaled = {name: scale.transform(vectors[:, cut]) for name, vectors in made.items()}
        for penalty in SPAN_PENALTIES:
            learned = [
                LogisticRegression(C=penalty, max_iter=300).fit(scaled["train"][allowed], ends[allowed])
                for ends in places
            ]
            guesses = {
                name: ANSWER_TASK.guesses(
                    np.stack([each.decision_function(vectors) for each in learned], 1).astype(np.float32),
                    opened[name].store.offsets,
                    PassageSpans(opened[name].layout.tokens, HeadSettings().max_answer),
                )
                for name, vectors in scaled.items()
            }
            dev_examples = opened["dev"]
            _, threshold = ANSWER_TASK.best_scores(dev_examples.gold, guesses["dev"], dev_examples.passages)
            dev, test = (credit_spans(opened[name], guesses[name], threshold) for name in ("dev", "test"))
            found.append(float(test.mean()))
            if dev.mean() > best["dev"]:
                chosen = f"logistic regression of tokens, {form}, standardised, C {penalty:g}"
                best.update(dev=float(dev.mean()), test=found[-1], chosen=chosen, predicted=test)
    best["best_by_test"] = max(found)  # nobody could have chosen it
    return best


def credit_spans(examples: HeadExamples, guesses: Sequence[Guess], threshold: Threshold) -> NDArray[np.float64]:
    """F1 of each guessed span; those above the threshold are no answer."""
    limit, rows = threshold if isinstance(threshold, float) else np.inf, []
    for right, guess, passage in zip(examples.gold, guesses, examples.passages, strict=True):
        text = "" if guess.no_answer > limit else passage[guess.start : guess.end]
        rows.append(HeadPrediction("", text, gold=right))
    return span_credits(rows)


def token_vectors(examples: HeadExamples) -> NDArray[np.float32]:
    """The vectors of all tokens, ``[N, W]``."""
    return np.concatenate([chunk.features.astype(np.float32) for chunk in examples.store.chunks()])


def inputs(arrays: Mapping[str, Arrays], pairs: bool) -> Iterator[tuple[str, Arrays]]:
    """What the page reads, in each form."""
    forms: dict[str, Callable[[Arrays], Sequence[NDArray[Any]]]] = {
        "concat4": lambda part: [part["text0"]],
        "last": lambda part: [part["text0"][:, 3]],
    }
    if pairs:

        def both(part: Arrays) -> Sequence[NDArray[Any]]:
            return [part[name] / np.linalg.norm(part[name], axis=-1, keepdims=True) for name in ("text0", "text1")]

        def compared(part: Arrays) -> Sequence[NDArray[Any]]:
            first, second = both(part)
            return [np.abs(first - second), first * second, (first * second).sum(-1)]

        forms = {"|u-v|, u·v, cosines": compared, "u, v too": lambda part: [*both(part), *compared(part)]}
    for form, make in forms.items():
        made = {
            name: np.concatenate([values.reshape(len(values), -1) for values in make(part)], 1)
            for name, part in arrays.items()
        }
        yield form, made
        scale = StandardScaler().fit(made["train"])
        yield f"{form}, standardised", {name: scale.transform(values) for name, values in made.items()}


def best_page(task: Task, arrays: Mapping[str, Arrays]) -> dict[str, Any]:
    """What is best on the development set of all that the page tries, with its score on the test set."""
    numbers, pairs = task.kind == "numbers", "text1" in arrays["train"]
    gold = {name: part["y"].astype(float) if numbers else part["y"] for name, part in arrays.items()}
    best: dict[str, Any] = {"dev": -2.0}
    found: list[float] = []

    def judge(name: str, predict: Callable[[str], NDArray[Any]]) -> None:
        predicted = {part: in_form(task, predict(part)) for part in ("dev", "test")}
        right = {part: right_of(task, gold[part]) for part in predicted}
        dev, test = (score(task, right[part], predicted[part]) for part in ("dev", "test"))
        found.append(test)
        if dev > best["dev"]:
            best.update(dev=dev, test=test, chosen=name, predicted=predicted["test"])

    for form, made in inputs(arrays, pairs):
        for penalty in PENALTIES["numbers" if numbers else "classes"]["standardised" in form]:
            if numbers:
                learned: Any = Ridge(alpha=penalty).fit(made["train"], gold["train"])
                judge(f"ridge, {form}, alpha {penalty:g}", lambda part, d=learned.predict, m=made: d(m[part]))
                continue
            if task.kind == "sets":
                each = learn_sets(made["train"], gold["train"], penalty)
                judge(f"logistic regressions, {form}, C {penalty:g}", lambda part, e=each, m=made: e(m[part]))
                continue
            learned = LogisticRegression(C=penalty, max_iter=1000).fit(made["train"], gold["train"])
            decide = learned.decision_function if task.kind == "choices" else learned.predict
            judge(f"logistic regression, {form}, C {penalty:g}", lambda part, d=decide, m=made: d(m[part]))
    if numbers and pairs:

        def cosine(part: str) -> NDArray[Any]:
            first, second = (arrays[part][name][:, 3] for name in ("text0", "text1"))
            norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
            return np.asarray((first * second).sum(1) / norms)

        judge("cosine of the last layer", cosine)
        best["cosine"] = found[-1]
    best["best_by_test"] = max(found)  # nobody could have chosen it
    return best


def learn_sets(vectors: NDArray[Any], gold: NDArray[Any], penalty: float) -> Callable[[NDArray[Any]], NDArray[Any]]:
    """A logistic regression for each label, which says yes from a probability of one half on."""
    names = sorted({name for labels in gold for name in labels})
    learned = [
        LogisticRegression(C=penalty, max_iter=1000).fit(vectors, [name in labels for labels in gold]) for name in names
    ]

    def predict(given: NDArray[Any]) -> NDArray[Any]:
        sides = zip(*(each.predict(given) for each in learned), strict=True)
        return objects([tuple(name for name, yes in zip(names, row, strict=True) if yes) for row in sides])

    return predict


def in_form(task: Task, predicted: NDArray[Any]) -> NDArray[Any]:
    """Predictions as a head gives them: of choices the number of the one that is likeliest."""
    return predicted.reshape(-1, 4).argmax(1) if task.kind == "choices" else predicted


def right_of(task: Task, gold: NDArray[Any]) -> NDArray[Any]:
    return gold.reshape(-1, 4).argmax(1) if task.kind == "choices" else gold


def score(task: Task, gold: NDArray[Any], predicted: NDArray[Any]) -> float:
    """Spearman's correlation of numbers, the mean F1 of spans, micro F1 of sets of labels, else accuracy."""
    if task.kind == "spans":
        return float(predicted.mean())
    if task.kind == "sets":
        return score_multi_labels(gold.tolist(), predicted.tolist()).value
    if task.kind == "numbers":
        return score_numbers(gold.tolist(), predicted.astype(float).tolist()).value
    return float((gold == predicted).mean())


if __name__ == "__main__":
    main()
