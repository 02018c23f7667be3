"""How much processor time does the look-up of a word take, and what does the index of words cost?

    python benchmarks/lookups.py --data DATA [--work DIR] [--paragraphs 88331]

DATA holds novels/dated.csv.gz. Each word is looked up in a set of word vectors of its paragraphs: the first ten usages,
a thousand, ten sorted by the words on the right, ten of each half of the years, and ten in their sentences. The rival
is SQLite's full-text index (FTS5, with the positions of every word) over the same texts: the number of texts with the
word, and snippets of the first ten. Patterns, which FTS5 does not have, are looked up in the same ways; their rival is
a regular expression of Python over all texts in memory. Lists of words, of bigrams and of keywords, with dispersion,
stand beside scikit-learn's CountVectorizer over all texts in memory, which counts them without dispersion. All are
open; times are medians of processor milliseconds. No vector is read, so the set has those of layer 0, which are fast.
`command` is the processor time of `bertfeat usages`, beside `--help`, which reads nothing.
"""

import argparse
import csv
import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from _machine import machine
from sklearn.feature_extraction.text import CountVectorizer

from bertfeat import CorpusSettings, Extractor, FeatureSet, count_words, find_keywords, find_usages, find_usages_by
from bertfeat.usages import open_word_index

RESULT = Path(__file__).parent / "results" / "lookups.json"
WORDS = ("zeal", "bank", "time", "said", "of course", "train*")
PATTERNS = {
    "*ing": r"(?i)(?<!\w)\w*ing(?!\w)",
    "s?irit": r"(?i)(?<!\w)s\wirit(?!\w)",
    "good|bad": r"(?i)(?<!\w)(?:good|bad)(?!\w)",
    "spirit of the *": r"(?i)(?<!\w)spirit\s+of\s+the\s+\w+",
    "go []{1,3} river": r"(?i)(?<!\w)go(?!\w)(?:\s*(?:\w++|[^\w\s])){1,3}?\s*river(?!\w)",
    '"[bcd]ank"': r"(?i)(?<!\w)[bcd]ank(?!\w)",
    "the []{0,5} of": r"(?i)(?<!\w)the(?!\w)(?:\s*(?:\w++|[^\w\s])){0,5}?\s*of(?!\w)",
}
"""Patterns, and regular expressions of Python that find about the same."""
SLICES = 2
LISTS: dict[str, tuple[Callable[[FeatureSet], Any], int]] = {
    "words": (count_words, 1),
    "bigrams": (partial(count_words, word="* *"), 2),
    "words of each title": (partial(count_words, by="title"), 1),
    "keywords": (partial(find_keywords, against="rest", where="year < 1880"), 1),
}
"""Lists of twenty words, and the length of the rows of words that the rival counts for each."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/lookups"))
    parser.add_argument("--paragraphs", type=int, default=88_331)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    rows = read_rows(options.data / "novels" / "dated.csv.gz", options.paragraphs)
    features = extract_words(rows, options.work)
    words_file = Path(str(features.folder)) / ".bertfeat" / "words.arrow"
    words_file.unlink(missing_ok=True)
    index_seconds, index = timed(lambda: open_word_index(features))
    database = options.work / "texts.sqlite"
    database.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as connection:
        rival_seconds, _ = timed(lambda: fill(connection, rows))
        found: dict[str, Any] = {
            "machine": machine(),
            "paragraphs": len(rows),
            "words": len(index.words),
            "different_words": len(index.vocabulary),
            "index": {"bytes": words_file.stat().st_size, "seconds": round(index_seconds, 2)},
            "fts5": {"bytes": database.stat().st_size, "seconds": round(rival_seconds, 2)},
        }
        of_words = {word: ("fts5", partial(look_up, connection, word)) for word in WORDS}
        of_patterns = {pattern: ("regex", partial(go_through, rows, regex)) for pattern, regex in PATTERNS.items()}
        found["look_ups"] = {word: measure(features, word, *rival, options.repeats) for word, rival in of_words.items()}
        found["lists"] = {name: time_list(features, rows, *each, options.repeats) for name, each in LISTS.items()}
        found["patterns"] = {
            word: measure(features, word, *rival, options.repeats) for word, rival in of_patterns.items()
        }
    found["command"] = {
        name: round(median(command_seconds(arguments) for _ in range(options.repeats)), 3)
        for name, arguments in {"help": ["--help"], "bank": [str(features.folder), "bank"]}.items()
    }
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name not in ("machine", "look_ups")}))


def measure(features: FeatureSet, word: str, rival: str, asked: Callable[[], int], repeats: int) -> dict[str, Any]:
    """The usages of a word, and the median processor milliseconds of each kind of look-up, and of a rival."""
    ways: dict[str, Callable[[], Any]] = {
        "ten": lambda: find_usages(features, word),
        "thousand": lambda: find_usages(features, word, k=1000),
        "sorted": lambda: find_usages(features, word, sort="right"),
        "slices": lambda: find_usages_by(features, word, "year", SLICES),
        "sentences": lambda: find_usages(features, word, spans="sentences"),
        rival: asked,
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            times[name].append(timed(way)[0])
    milliseconds = {name: round(1000 * median(each), 2) for name, each in times.items()}
    found = {"usages": find_usages(features, word, k=0).found, f"{rival}_found": asked(), **milliseconds}
    print(word, json.dumps(found), flush=True)
    return found


def time_list(
    features: FeatureSet, rows: list[dict[str, str]], ours: Callable[[FeatureSet], Any], length: int, repeats: int
) -> dict[str, Any]:
    """The different words of a list, and the median processor milliseconds of it and of scikit-learn's counts."""
    texts = [row["text"] for row in rows]
    times: dict[str, list[float]] = {"ours": [], "sklearn": []}
    for _ in range(repeats):
        for name, way in (("ours", lambda: ours(features)), ("sklearn", lambda: count_rows(texts, length))):
            seconds, counted = timed(way)
            times[name].append(seconds)
    milliseconds = {name: round(1000 * median(each), 1) for name, each in times.items()}
    return {"different": ours(features).different, "sklearn_different": counted, **milliseconds}


def count_rows(texts: list[str], length: int) -> int:
    """The number of different rows of so many words, which scikit-learn counts in each text, and sums."""
    vectorizer = CountVectorizer(token_pattern=r"\w+", ngram_range=(length, length))
    matrix = vectorizer.fit_transform(texts)
    return len(matrix.sum(axis=0).A1.argsort())


def go_through(rows: list[dict[str, str]], expression: str) -> int:
    """The number of matches of a regular expression in all texts."""
    find = re.compile(expression).finditer
    return sum(1 for row in rows for _ in find(row["text"]))


def read_rows(path: Path, most: int) -> list[dict[str, str]]:
    """The paragraphs, with author and year; of more than asked for, one in so many."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return rows[:: max(1, len(rows) // most)]


def extract_words(rows: list[dict[str, str]], work: Path) -> FeatureSet:
    """The vectors of all words, of layer 0 and in the smallest form, since a look-up reads none."""
    corpus = work / "paragraphs.jsonl"
    names = ("text", "author", "title")
    lines = (json.dumps({name: row[name] for name in names} | {"year": int(row["year"])}) for row in rows)
    corpus.write_text("\n".join(lines), encoding="utf-8")
    settings = CorpusSettings(keep=("author", "title", "year"))
    Extractor(layers="0", pooling="word", dtype="int8").extract(
        corpus, work / "words.features", corpus_settings=settings
    )
    return FeatureSet(work / "words.features")


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """The processor time of some work in seconds, and its result."""
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def fill(connection: sqlite3.Connection, rows: list[dict[str, str]]) -> None:
    """Index the texts with FTS5."""
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
    connection.executemany("INSERT INTO texts VALUES (?)", ((row["text"],) for row in rows))
    connection.execute("INSERT INTO texts(texts) VALUES ('optimize')")
    connection.commit()


def look_up(connection: sqlite3.Connection, word: str) -> int:
    """The number of texts that have a word, after ten snippets were read."""
    query = f'"{word.rstrip("*")}"{"*" if word.endswith("*") else ""}'
    select = "SELECT rowid, snippet(texts, 0, '[', ']', '…', 24) FROM texts WHERE texts MATCH ? LIMIT 10"
    connection.execute(select, (query,)).fetchall()
    (count,) = connection.execute("SELECT count(*) FROM texts WHERE texts MATCH ?", (query,)).fetchone()
    return int(count)


def command_seconds(arguments: list[str]) -> float:
    """The processor time of `bertfeat usages`."""
    code = "from bertfeat.cli import run; run()"
    command = [sys.executable, "-c", code, "usages", *arguments]
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    main()
