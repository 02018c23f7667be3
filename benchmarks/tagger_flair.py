"""A tagger on frozen features, from raw text to the best model: ours and Flair's, on the same words, layers and tags.

    make peers
    python benchmarks/tagger_flair.py --data DATA --set wikigold --flair-python .venv-peers/bin/python

Flair: TransformerWordEmbeddings of the last four layers, frozen, kept in memory, and its SequenceTagger (one BiLSTM of
256 and CRF) under its ModelTrainer, with their own defaults: SGD at 0.1, halved until 0.0001, 100 epochs at most. Ours:
``bertfeat tag train --layers concat4 --crf``, extraction included. Each run is a process of its own, in turn, timed
from its start to its end; the test set is scored after that (by Flair, before it ends: a few seconds).
"""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from _commands import bertfeat, bertfeat_json
from _machine import machine
from table7 import split_by_documents

from bertfeat.core.corpus import Document, open_corpus
from bertfeat.core.models import find_model
from bertfeat.learning.spans import to_bio

FLAIR = """
import csv, datetime, json, sys, time
import flair, torch
from flair.datasets import ColumnCorpus
from flair.embeddings import TransformerWordEmbeddings
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer
data, model, folder, seed, epochs = sys.argv[1:]
flair.device = torch.device("cpu")
flair.set_seed(int(seed))
files = {part + "_file": part + ".conll" for part in ("train", "dev", "test")}
corpus = ColumnCorpus(data, {0: "text", 1: "ner"}, **files)
embeddings = TransformerWordEmbeddings(
    model, layers="-1,-2,-3,-4", layer_mean=False, subtoken_pooling="first", fine_tune=False)
tagger = SequenceTagger(embeddings=embeddings, tag_dictionary=corpus.make_label_dictionary("ner", add_unk=False),
                        tag_type="ner", hidden_size=256)
result = ModelTrainer(tagger, corpus).train(folder, max_epochs=int(epochs), embeddings_storage_mode="cpu")
rows = list(csv.DictReader(open(folder + "/loss.tsv"), delimiter="\\t"))
scores = [float(row["DEV_F1"]) for row in rows]
print(json.dumps({"test": result["test_score"], "dev": max(scores), "best_epoch": 1 + scores.index(max(scores)),
                  "epochs": len(rows), "flair": flair.__version__}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with wnut17 or wikigold")
    parser.add_argument("--set", choices=("wnut17", "wikigold"), default="wikigold")
    parser.add_argument("--flair-python", required=True, help="python of the environment that has Flair")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--flair-seeds", type=int, default=3, help="the first so many of them for Flair, too")
    parser.add_argument("--flair-epochs", type=int, default=100, help="at most; 100 is Flair's own")
    options = parser.parse_args()
    runs: dict[str, list[dict[str, Any]]] = {"ours": [], "flair": []}
    measured_on = machine() | {"threads": os.environ.get("OMP_NUM_THREADS", "all")}
    with tempfile.TemporaryDirectory() as work:
        data = words_and_tags(options.data, options.set, Path(work))
        for seed in range(1, options.seeds + 1):
            for name, run in (("ours", ours), ("flair", flair))[: 1 + (seed <= options.flair_seeds)]:
                folder = Path(work) / name
                begun = time.perf_counter()
                told = run(data, folder, seed, options)
                told["seconds"] = round(time.perf_counter() - begun, 1)
                if name == "ours":
                    told["test"] = test_score(folder, data)
                runs[name].append(told)
                shutil.rmtree(folder)
                print(name, seed, told, flush=True)
    ratios = [theirs["seconds"] / mine["seconds"] for mine, theirs in zip(runs["ours"], runs["flair"], strict=False)]
    summary = {
        name: {score: f1([run[score] for run in each]) for score in ("dev", "test")}
        | {"seconds": median(run["seconds"] for run in each)}
        for name, each in runs.items()
    }
    asked = {"set": options.set, "flair_epochs_at_most": options.flair_epochs}
    result = {"machine": measured_on, **asked, "ratio": round(median(ratios), 2), **summary, "runs": runs}
    print(json.dumps({name: value for name, value in result.items() if name != "runs"}, indent=1))
    target = Path(__file__).parent / "results" / f"tagger_flair-{options.set}.json"
    target.write_text(json.dumps(result, indent=1) + "\n")


def words_and_tags(data: Path, name: str, work: Path) -> Path:
    """The set's three files, with spans as BIO and without marks between documents, which neither side uses here."""
    source = data / name if name == "wnut17" else split_by_documents(data / name / f"{name}.conll", work / "split")
    target = work / "data"
    target.mkdir()
    for part in ("train", "dev", "test"):
        with (target / f"{part}.conll").open("w", encoding="utf-8") as file:
            for row in open_corpus([source / f"{part}.conll"]).rows():
                if isinstance(row, Document) and row.words and row.tags:
                    tagged = zip(row.words, to_bio(row.tags), strict=True)
                    file.writelines(f"{word} {tag}\n" for word, tag in tagged)
                    file.write("\n")
    return target


def ours(data: Path, folder: Path, seed: int, _: argparse.Namespace) -> dict[str, Any]:
    folder.mkdir()
    given = ["--train", str(data / "train.conll"), "--dev", str(data / "dev.conll")]
    wanted = ["--layers", "concat4", "--crf", "--seed", str(seed), "-o", str(folder / "ner.tagger"), "--quiet"]
    bertfeat("tag", "train", *given, *wanted)
    told = json.loads((folder / "ner.tagger" / "head.json").read_text())
    return {"dev": told["score"], "best_epoch": told["best_epoch"], "epochs": len(told["history"])}


def test_score(folder: Path, data: Path) -> float:
    return float(bertfeat_json("tag", "evaluate", str(folder / "ner.tagger"), str(data / "test.conll"))["f1"])


def flair(data: Path, folder: Path, seed: int, options: argparse.Namespace) -> dict[str, Any]:
    given = [str(data), str(find_model().folder), str(folder), str(seed), str(options.flair_epochs)]
    done = subprocess.run(
        [options.flair_python, "-c", FLAIR, *given], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def f1(values: list[float]) -> str:
    spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * fmean(values):.1f}{spread}"


if __name__ == "__main__":
    main()
