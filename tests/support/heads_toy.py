"""Small tasks that a head on features of a tiny model can learn, their corpora, and heads trained on them."""

import csv
import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertfeat.learning import HeadPrediction, HeadPredictions, HeadReport, HeadSettings, train_head

MONEY = ("bank", "money", "mill", "ask")
WATER = ("river", "water", "steep", "ran")
FILLERS = ("the", "of", "was", "and", "below", "old", "to", "for", "they", "him", "any")
QUICK = HeadSettings(epochs=6, dropout=0.0, learning_rate=0.01, batch_size=8)
FP32: dict[str, Any] = {"precision": "fp32", "device": "cpu"}

Record = dict[str, Any]


def topics(number: int, seed: int) -> list[Record]:
    """Texts of one of two topics, which is their label; half of their words are of it."""
    draw = random.Random(seed)
    return [_topic(at, draw) for at in range(number)]


def _topic(at: int, draw: random.Random) -> Record:
    label = draw.choice(("money", "water"))
    return {"id": str(at), "text": sentence(draw, MONEY if label == "money" else WATER), "topic": label}


def sentence(draw: random.Random, words: Sequence[str]) -> str:
    """Words of a topic among others."""
    count = draw.randrange(2, 5)
    chosen = [*(draw.choice(words) for _ in range(count)), *(draw.choice(FILLERS) for _ in range(count))]
    draw.shuffle(chosen)
    return " ".join(chosen)


def pairs(number: int, seed: int) -> list[Record]:
    """Pairs of texts: of one topic, or of two, and how many of them are of water."""
    draw = random.Random(seed)
    made = []
    for at in range(number):
        first, second = draw.choice((MONEY, WATER)), draw.choice((MONEY, WATER))
        same = "same" if first == second else "other"
        wet = f"{(first, second).count(WATER)} wet"
        texts = {"a": sentence(draw, first), "b": sentence(draw, second)}
        made.append({"id": str(at), **texts, "relation": same, "wet": wet})
    return made


def numbers(number: int, seed: int) -> list[Record]:
    """Texts of four words, and how many of them are of water."""
    draw = random.Random(seed)
    made = []
    for at in range(number):
        count = draw.randrange(5)
        chosen = [*(draw.choice(WATER) for _ in range(count)), *(draw.choice(MONEY) for _ in range(4 - count))]
        draw.shuffle(chosen)
        made.append({"id": str(at), "text": " ".join(chosen), "wet": float(count)})
    return made


def choices(number: int, seed: int, label: str = "right") -> list[Record]:
    """Questions with three choices, of which the one of water is right."""
    draw = random.Random(seed)
    made = []
    for at in range(number):
        right = draw.randrange(3)
        listed = {name: sentence(draw, WATER if name == "abc"[right] else MONEY) for name in "abc"}
        made.append({"id": f"q{at}", "text": f"they {draw.choice(FILLERS)}", **listed, label: right})
    return made


def questions(number: int, seed: int, *, without: bool = False) -> dict[str, Any]:
    """SQuAD's JSON: the answer is the one word of water in its passage; some questions have none, if so wanted."""
    draw = random.Random(seed)
    listed = []
    for at in range(number):
        words = [draw.choice(FILLERS) for _ in range(draw.randrange(3, 9))]
        answer, place = draw.choice(("river", "water")), draw.randrange(len(words))
        impossible = without and at % 3 == 0
        if not impossible:
            words[place] = answer
        start = len(" ".join([*words[:place], ""]))
        answers = [] if impossible else [{"text": answer, "answer_start": start}]
        question = {"id": f"q{at}", "question": "what ran", "answers": answers, "is_impossible": impossible}
        listed.append({"context": " ".join(words), "qas": [question]})
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": listed}]}


def write_records(path: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    """Write records as the file's ending says: CSV, JSONL or Parquet."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist([dict(record) for record in records]), path)
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(records[0]))
            writer.writeheader()
            writer.writerows(records)
    else:
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")
    return path


def write_questions(path: Path, made: Mapping[str, Any]) -> Path:
    """Write SQuAD's JSON."""
    path.write_text(json.dumps(made), "utf-8")
    return path


def train(kind: str, *sources_and_folder: Any, **settings: Any) -> HeadReport:
    """Train a head on corpora or features, without its picture."""
    given: dict[str, Any] = {"picture": False, "settings": QUICK, **settings}
    return train_head(kind, *sources_and_folder, **given)


def plain_rows(predictions: HeadPredictions) -> list[HeadPrediction]:
    """The predictions of a head that is no tagger."""
    assert all(isinstance(row, HeadPrediction) for row in predictions.rows)
    return [row for row in predictions.rows if isinstance(row, HeadPrediction)]
