"""A small folder in the layout that the benchmarks' ``--data`` asks for, made from examples/corpus.txt."""

import csv
import gzip
import io
import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.senses import draw_candidates

ROOT = Path(__file__).resolve().parent.parent.parent
NAMES = ("Ada", "London", "Acme", "Danube")
TITLES = 10
INTENTS = 4
JUDGMENTS = ("NEUTRAL", "ENTAILMENT", "CONTRADICTION")


def write_benchmark_data(folder: Path) -> Path:
    """Write every set that a benchmark reads, a few hundred lines in all."""
    draw = random.Random(0)
    sentences = [line for line in (ROOT / "examples" / "corpus.txt").read_text("utf-8").splitlines() if line.strip()]
    paragraphs = [" ".join(draw.sample(sentences, 3)) for _ in range(60)]
    _write(folder / "sentences.txt", sentences)
    _write(folder / "paragraphs.txt", paragraphs)
    _write(folder / "novels" / "sentences.txt", sentences)
    _write(folder / "novels" / "paragraphs.txt", paragraphs)
    _write_novels(folder / "novels" / "dated.csv.gz", [" ".join(draw.sample(sentences, 6)) for _ in range(120)])
    _write_senses(folder)
    _write_cranfield(folder / "cranfield", paragraphs, sentences)
    _write_tagged(folder, sentences, draw)
    _write_intents(folder / "banking77", sentences)
    _write_pairs(folder / "sick", sentences, draw)
    _write_passages(folder / "xquad" / "xquad.en.json", paragraphs, 48)
    for name in ("train", "test"):
        _write_passages(folder / "restaurant8k" / f"{name}.json", paragraphs, 20, absent=3)
    return folder


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")


def _table(path: Path, rows: Iterable[Sequence[object]], separator: str = ",") -> None:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, lineterminator="\n").writerows(rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.getvalue().encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def _write_novels(path: Path, paragraphs: Sequence[str]) -> None:
    rows = [
        ("Author", f"Title {book}", 1845 + 10 * (book % 10), number, text)
        for book in range(TITLES)
        for number, text in enumerate(paragraphs)
    ]
    _table(path, [("author", "title", "year", "number", "text"), *rows])


def _write_senses(folder: Path) -> None:
    """Labels of usages of one word, by turns of one sense and of the other."""
    usages = draw_candidates(folder, ["bank"])["bank"]
    places = [
        (place.word, f"sense {n % 2}", place.author, place.title, place.number)
        for n, (place, _, _) in enumerate(usages)
    ]
    _table(folder / "senses.csv", [("word", "sense", "author", "title", "number"), *places])


def _write_cranfield(folder: Path, documents: Sequence[str], queries: Sequence[str]) -> None:
    _write(
        folder / "corpus.jsonl", (json.dumps({"_id": f"{n}", "title": "", "text": t}) for n, t in enumerate(documents))
    )
    _write(folder / "queries.jsonl", (json.dumps({"_id": f"{n}", "text": t}) for n, t in enumerate(queries[:20])))
    judged = [
        f"{query}\t{document}\t1"
        for query in range(20)
        for document in range(len(documents))
        if queries[query] in documents[document]
    ]
    _write(folder / "qrels" / "test.tsv", ["query-id\tcorpus-id\tscore", *judged])


def _write_tagged(folder: Path, sentences: Sequence[str], draw: random.Random) -> None:
    for part in ("train", "dev", "test"):
        _write(folder / "wnut17" / f"{part}.conll", _tagged_lines(sentences[:60], draw, "\t", "B-name"))
    documents = [
        ["-DOCSTART- O", "", *_tagged_lines(sentences[at : at + 6], draw, " ", "I-MISC")] for at in range(0, 180, 6)
    ]
    _write(folder / "wikigold" / "wikigold.conll", (line for document in documents for line in document))


def _tagged_lines(sentences: Sequence[str], draw: random.Random, separator: str, tag: str) -> list[str]:
    lines = []
    for sentence in sentences:
        lines += [f"{word}{separator}O" for word in sentence.split()]
        lines += [f"{draw.choice(NAMES)}{separator}{tag}", ""]
    return lines


def _write_intents(folder: Path, sentences: Sequence[str]) -> None:
    for name, part in (("train", sentences[:200]), ("test", sentences[200:260])):
        _table(
            folder / f"{name}.csv",
            [("text", "category"), *((text, f"intent{n % INTENTS}") for n, text in enumerate(part))],
        )


def _write_pairs(folder: Path, sentences: Sequence[str], draw: random.Random) -> None:
    head = ("pair_ID", "sentence_A", "sentence_B", "relatedness_score", "entailment_judgment")
    for name in ("train", "dev", "test"):
        rows = [(n, *draw.sample(sentences, 2), round(draw.uniform(1, 5), 1), JUDGMENTS[n % 3]) for n in range(60)]
        _table(folder / f"{name}.tsv", [head, *rows], "\t")


def _write_passages(path: Path, passages: Sequence[str], number: int, *, absent: int = 0) -> None:
    """Two questions a passage, every so many of which are without an answer."""
    articles = [
        {
            "title": f"article {n}",
            "paragraphs": [{"context": passages[n], "qas": [_question(n, at, passages[n], absent) for at in range(2)]}],
        }
        for n in range(number)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"version": "1.1", "data": articles}), "utf-8")


def _question(number: int, at: int, passage: str, absent: int) -> dict[str, object]:
    word = passage.split()[3 + at]
    answer = {"text": word, "answer_start": passage.index(word)}
    given = [] if absent and (number + at) % absent == 0 else [answer]
    return {"id": f"toy-{number}-{at}", "question": f"Which word is number {3 + at}?", "answers": given}
