"""Are layers that `extract --layers auto` chooses from a small sample as good as the best by full training?

    python benchmarks/chosen_layers.py --data DATA [--work DIR]

DATA holds wikigold/, sick/, banking77/, cranfield/ and novels/dated.csv.gz. For the default model and all-mpnet-base-v2
(``make mpnet``): the choice for names in texts (Wikigold's training part), for what follows from a sentence (SICK's),
for labels of texts (banking77's), for search (Cranfield) and for senses (senses.csv), with its seconds. Then taggers
are trained in full on the single layer that is best by the sample, on the last four and on what was chosen: span F1 of
the test part, one seed, 14 epochs. What heads learn of pairs and labels by each layer is in layers_by_task.py.
"""

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mpnet
from _commands import bertfeat
from _machine import machine
from senses import LABELS, draw_candidates, read_labels
from table7 import split_by_documents

from bertfeat import CorpusSettings, Extractor, choose_layers
from bertfeat.core.models import DEFAULT_MODEL
from bertfeat.study import ChosenLayers

RESULT = Path(__file__).parent / "results" / "chosen_layers.json"
MODELS = {"all-MiniLM-L6-v2": DEFAULT_MODEL, mpnet.NAME: str(mpnet.FOLDER)}
TRAINING = ("--seeds", "1", "--epochs", "14")


@dataclass(frozen=True)
class Task:
    """Examples of a task."""

    examples: Path
    label: str = "label"
    reading: CorpusSettings = field(default_factory=CorpusSettings)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/chosen_layers"))
    parser.add_argument("--senses", type=Path, default=LABELS)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    before = machine("scikit-learn")
    tagged = split_by_documents(options.data / "wikigold" / "wikigold.conll", options.work / "wikigold")
    tasks = {name: make(options.data, options.work) for name, make in TASKS.items()}
    tasks["senses"] = Task(write_usages(options.data, options.senses, options.work / "usages.jsonl"))
    found: dict[str, Any] = {}
    for name, model in MODELS.items():
        chosen = {task: choose(task, examples, model) for task, examples in tasks.items()}
        scores = train_taggers(tagged, model, chosen["tags"], options.work / name)
        found[name] = {"chosen": {task: each.to_json() for task, each in chosen.items()}, "trained tags": scores}
        print(name, {task: (each.layers, round(each.seconds, 1)) for task, each in chosen.items()}, scores, flush=True)
    RESULT.write_text(json.dumps({"machine": before, "models": found}, indent=1) + "\n")


TASKS: dict[str, Callable[[Path, Path], Task]] = {
    "tags": lambda _data, work: Task(work / "wikigold" / "train.conll"),
    "pairs": lambda data, _work: Task(
        data / "sick" / "train.tsv",
        "entailment_judgment",
        CorpusSettings(text_columns=("sentence_A",), pair_column="sentence_B"),
    ),
    "labels": lambda data, _work: Task(data / "banking77" / "train.csv", "category"),
    "search": lambda data, _work: Task(
        data / "cranfield", reading=CorpusSettings(text_columns=("title", "text"), id_column="_id")
    ),
}


def choose(task: str, examples: Task, model: str) -> ChosenLayers:
    return choose_layers(
        Extractor(model), examples.examples, task, label=examples.label, corpus_settings=examples.reading
    )


def write_usages(data: Path, senses: Path, path: Path) -> Path:
    """The labeled usages, each with its word marked."""
    labels = read_labels(senses)
    words = {place.word for place in labels}
    lines = []
    for word, candidates in draw_candidates(data, words).items():
        for place, text, start in candidates:
            if sense := labels.get(place):
                before, after = (each.replace("*", "") for each in (text[:start], text[start + len(word) :]))
                lines.append(json.dumps({"text": f"{before}*{word}*{after}", "label": sense}))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def train_taggers(parts: Path, model: str, chosen: ChosenLayers, work: Path) -> dict[str, float]:
    """Span F1 of the test part by the best single layer of the sample, the last four, and what was chosen."""
    single = max((each for each in chosen.trials if each.layers.isdigit()), key=lambda each: each.score)
    rows = list(dict.fromkeys([single.layers, "concat4", chosen.layers]))
    given = [f"--{name}={parts / name}.conll" for name in ("train", "dev", "test")]
    asked = ("--model", model, "--rows", ",".join(rows), *TRAINING)
    bertfeat("tag", "table7", *given, "-o", str(work), *asked, "--quiet")
    table = json.loads((work / "table7.json").read_text())["rows"]
    return {row["name"]: row["test"][0] for row in table}


if __name__ == "__main__":
    main()
