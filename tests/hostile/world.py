"""One sound result of every kind, made once a session by the commands themselves; cases damage copies of them."""

import csv
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.hostile.process import Command, Server, words
from tests.support.heads_toy import choices, questions, topics, write_questions, write_records
from tests.support.tagging_toy import sentences, write_conll

AUTHORS = ("Ada", "Grace", "Emmy")
PLACES = ("bank", "river", "mill", "water", "money", "north", "owners", "hearts", "flags", "walks")
FP32 = "--model model --precision fp32 --device cpu"
READ = "--keep year,author,score,flag --allow-failures --part-rows 6"
HEADS = {
    "classify": ("csv", "--label topic"),
    "answer": ("json", "--seed 2"),
    "choose": ("jsonl", "--choices a,b,c --label right"),
}
"""Of each kind of head the ending of its corpora, and the options that name their columns."""
TRAINING = "--max-length 16 --batch-size 2 --steps 2 --held-out 0"
SEARCHED = 60  # documents of the sets that indexes are made of


class BrokenWorld(Exception):
    """A command that makes a sound result did not."""


def make_world(folder: Path, server: Server) -> None:
    """Write corpora, and of them every kind of result."""
    folder.mkdir(parents=True)
    _write_corpora(folder)
    temporary = folder.with_name("world-temporary")
    temporary.mkdir(exist_ok=True)
    for command in _commands(folder):
        ended = server.run(command, folder, temporary)
        if ended.code not in (0, -9 if command.step else 0):
            raise BrokenWorld(f"{' '.join(command.arguments)}: {ended.code}\n{ended.stderr}\n{ended.where}")
    _write_vectors(folder)


def make_model(folder: str) -> None:
    """Write the tiny model; runs in a fork, because what computes must not be in the process that forks."""
    from tests.support.tiny_models import build

    build("bert", Path(folder))


def _commands(folder: Path) -> Iterator[Command]:
    yield Command(("model",), call="tests.hostile.world:make_model")
    extract = f"extract {{}} -o {{}}.features {FP32}"
    for name in ("docs", "else"):
        poolings = f"--layers last,-2 --pooling mean,cls,token,word {READ}"
        yield Command(words(extract.format(f"{name}.jsonl", name), poolings))
    for name in ("many", "more", "over"):
        yield Command(words(extract.format(f"{name}.jsonl", name), "--pooling mean --keep year --part-rows 25"))
    for name in ("train", "dev", "test"):
        yield Command(words(extract.format(f"{name}.conll", name), "--layers last,-2 --pooling word --part-rows 20"))
    build = "index {}.features -o {}.index --no-evaluate"
    yield Command(words(build.format("many", "flat"), "--type flat"))
    yield Command(words(build.format("over", "over"), "--type flat"))
    yield Command(words(build.format("many", "ivf"), "--type IVF4,Flat"))
    yield Command(words("index many.features -o hnsw.index --type hnsw --transform half-whiten"))
    yield Command(words("index -o hnsw.index --remove ids.txt"))
    yield Command(words(build.format("docs", "word"), "--type flat --column last_word"))
    yield Command(words(build.format("docs", "kept"), "--type flat --column last_mean --with-tokens last_token"))
    train = "tag train --train train.features --dev dev.features --hidden 6 --layers"
    yield Command(words(train, "last -o plain.tagger --epochs 2"))
    yield Command(words(train, "mix=4..5 -o crf.tagger --epochs 1 --crf"))
    for step in range(3, 9):  # killed after its first epoch
        if not (folder / "begun.tagger" / "checkpoint.json").exists():
            shutil.rmtree(folder / "begun.tagger", ignore_errors=True)
            place = "begun.tagger/checkpoint.json"
            yield Command(words(train, "last -o begun.tagger --epochs 3"), step=step, step_folder=place)
    table = "tag table7 --train train.features --dev dev.features --test test.features -o paper.table7"
    yield Command(words(table, "--rows last,mix=4..5 --seeds 1 --hidden 6 --epochs 1"))
    for kind, (ending, columns) in HEADS.items():
        given = (
            f"--train train.{ending} --dev dev.{ending} {columns} -o {kind}.head --epochs 2 --hidden 4 --layers last"
        )
        yield Command(words(f"{kind} train {given} {FP32}"))
    yield Command(words("contexts many.jsonl -o rows.parquet --model model --size 8"))
    read = "--pretokenized --text-column token_ids --keep documents"
    yield Command(words(f"extract rows.parquet -o ids.features {FP32} {read} --layers last,mlp:2 --pooling token,mean"))
    yield Command(words("export ids.features --to saelens --column last_token -o rows.saelens"))
    yield Command(words("pretrain plain.txt -o trained.model --model model --device cpu", TRAINING))
    yield Command(words("probe docs.features --label author --pooling mean --folds 2 --json"), stdout="probe.json")
    yield Command(words("tag predict plain.tagger test.features -o predicted.conll"))


def _write_corpora(folder: Path) -> None:
    _write_records(folder / "docs.jsonl", 18, seed=1, bad=True)
    _write_records(folder / "else.jsonl", 18, seed=2, bad=True)
    _write_records(folder / "many.jsonl", SEARCHED, seed=3)
    _write_records(folder / "more.jsonl", 10, seed=4, first=SEARCHED - 5)
    _write_records(folder / "over.jsonl", SEARCHED, seed=5)
    for number, name in enumerate(("train", "dev", "test")):
        write_conll(folder / f"{name}.conll", sentences(30 if name == "train" else 12, seed=number))
        write_records(folder / f"{name}.csv", topics(16, seed=number))
        write_records(folder / f"{name}.jsonl", choices(8, seed=number))
        write_questions(folder / f"{name}.json", questions(9, seed=number, without=True))
    (folder / "ids.txt").write_text("3\n5\n8\n", "utf-8")
    (folder / "queries.txt").write_text("the old mill\nmoney of the bank\n", "utf-8")
    (folder / "plain.txt").write_text("The bank of the river.\nThe old mill.\n\nHe went north.\n", "utf-8")
    gold = [line.split() for line in (folder / "test.conll").read_text("utf-8").splitlines()]
    (folder / "predictions.tsv").write_text("".join("\t".join([*line, *line[-1:]]) + "\n" for line in gold), "utf-8")
    _write_judgments(folder / "beir")


def _write_records(path: Path, number: int, *, seed: int, bad: bool = False, first: int = 1) -> None:
    """Records with an id, a text and four more values; of the ``bad`` ones one fails, and one line is blank."""
    draw = random.Random(seed)
    lines = []
    for at in range(first, first + number):
        text = f"The {draw.choice(PLACES)} and the {draw.choice(PLACES)} of the {draw.choice(PLACES)}, number {at}."
        record = {"_id": str(at), "text": text, "year": 1900 + at, "author": AUTHORS[at % 3]}
        lines.append(json.dumps({**record, "score": at / 3, "flag": at % 2 == 0}))
    if bad:
        lines[7:7] = ['{"_id": "bad", "text": null}', ""]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _write_judgments(folder: Path) -> None:
    (folder / "qrels").mkdir(parents=True)
    queries = [{"_id": f"q{at}", "text": f"the {place} of the bank"} for at, place in enumerate(PLACES[:4])]
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries), "utf-8")
    with (folder / "qrels" / "test.tsv").open("w", newline="") as file:
        rows = [
            ("query-id", "corpus-id", "score"),
            ("q0", "3", "1"),
            ("q1", "5", "2"),
            ("q2", "9", "1"),
            ("q3", "4", "0"),
        ]
        csv.writer(file, delimiter="\t", lineterminator="\n").writerows(rows)


def _write_vectors(folder: Path) -> None:
    np.save(folder / "vectors.npy", np.random.default_rng(1).standard_normal((3, 32)).astype(np.float32))
