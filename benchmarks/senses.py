"""Usages of 24 words with two clear senses each, labeled by hand: the candidates and their labels.

    python benchmarks/senses.py --data DATA

DATA holds novels/dated.csv.gz. The candidates of a word are its usages in paragraphs of 12 to 200 words in which it
stands once, in lower case, not first and in no compound with a hyphen; shuffled with the word as the seed, at most two
of a book, the first 40. Each was read in its context and given one of two senses, or none: a third sense, or one that
the context leaves open. 24 of some 50 words that were looked at have at least six usages of either sense among them.
``senses.csv`` beside this file has the labels, without the texts.
"""

import argparse
import csv
import gzip
import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

LABELS = Path(__file__).with_name("senses.csv")
LENGTHS = (12, 200)  # words of a paragraph
OF_A_BOOK = 2
CANDIDATES = 40
AROUND = 45  # characters that are printed on each side
WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class Place:
    """A paragraph of the novels, in which a word stands once."""

    word: str
    author: str
    title: str
    number: int


def read_labels(path: Path = LABELS) -> dict[Place, str]:
    """The sense of each labeled usage; empty where it has neither."""
    with path.open(encoding="utf-8", newline="") as file:
        return {
            Place(row["word"], row["author"], row["title"], int(row["number"])): row["sense"]
            for row in csv.DictReader(file)
        }


def read_paragraphs(data: Path) -> Iterator[tuple[str, str, int, str]]:
    """Author, title, number and text."""
    with gzip.open(data / "novels" / "dated.csv.gz", "rt", encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            yield row["author"], row["title"], int(row["number"]), " ".join(row["text"].split())


def draw_candidates(data: Path, words: Collection[str]) -> dict[str, list[tuple[Place, str, int]]]:
    """By word: the places, their texts, and where in the text the word begins."""
    found: dict[str, list[tuple[Place, str, int]]] = {word: [] for word in words}
    for author, title, number, text in read_paragraphs(data):
        spans = list(WORD.finditer(text))
        if LENGTHS[0] <= len(spans) <= LENGTHS[1]:
            counts = Counter(span[0].lower() for span in spans)
            for span in spans:
                before, after = text[: span.start()][-1:], text[span.end() :][:1]
                if span[0] in found and counts[span[0]] == 1 and before and before not in "-’'" and after != "-":
                    found[span[0]].append((Place(span[0], author, title, number), text, span.start()))
    return {word: _shuffled(word, usages)[:CANDIDATES] for word, usages in found.items()}


def _shuffled(word: str, usages: list[tuple[Place, str, int]]) -> list[tuple[Place, str, int]]:
    random.Random(word).shuffle(usages)
    books: defaultdict[str, int] = defaultdict(int)
    kept = []
    for usage in usages:
        books[usage[0].title] += 1
        if books[usage[0].title] <= OF_A_BOOK:
            kept.append(usage)
    return kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    labels = read_labels()
    drawn = draw_candidates(parser.parse_args().data, {place.word: "" for place in labels})
    for word, usages in drawn.items():
        print(f"\n{word}: {dict(Counter(labels.get(place, '?') or 'neither' for place, _, _ in usages))}")
        for place, text, at in usages:
            end = at + len(word)
            left, right = text[max(0, at - AROUND) : at], text[end : end + AROUND]
            print(f"{labels.get(place, '?') or '-':>22}  {left:>{AROUND}}[{word}]{right}")


if __name__ == "__main__":
    main()
