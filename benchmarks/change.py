"""Which layer and which measure find words that change, where 50 of 100 were made to? AUC, measure by measure.

    python benchmarks/change.py --data DATA [--work DIR]

DATA holds novels/dated.csv.gz. As in Shoemark et al. 2019, a pseudo-word is two words of like frequency made one. Both
are written as the first of them: a made-up form would be read from its pieces and its context alone, while a word that
changes in earnest keeps a form that the model knows. Of the usages in each of three periods a share is the second
word's: of 50 pseudo-words it grows from 0.1 over 0.5 to 0.9; of 50 it stays what it is, anything from 0.1 to 0.9, so
that words of two senses are in both halves. Every usage is a context of up to 21 words, in which no other pseudo-word
stands.
"""

import argparse
import csv
import gzip
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import mean

from _machine import machine
from sklearn.metrics import roc_auc_score

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.study import ChangeMeasure, ChangeReport, ChangeSettings, measure_change

HERE = Path(__file__).parent
PERIODS = ((1839, 1870), (1871, 1900), (1901, 1937))
GROWING = (0.1, 0.5, 0.9)
PLANTED = 50  # and as many stable ones
USAGES = 40  # of each pseudo-word in each period
AROUND = 10  # words on each side
OFTEN = (100, 600)  # usages of a word in every period, at least and at most
COLUMNS = ("embeddings", "1", "2", "3", "4", "5", "last", "concat4", "mean-all")
WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True)
class PseudoWord:
    """Two words, of which the first is written in the contexts of both."""

    form: str
    other: str
    shares: tuple[float, ...]  # of the other word, by period

    @property
    def changes(self) -> bool:
        return self.shares == GROWING


@dataclass(frozen=True)
class Context:
    """A usage of a word, cut in two where it stood."""

    before: str
    after: str
    year: int


def read_paragraphs(path: Path) -> Iterator[tuple[int, int, str]]:
    """Period, year and text."""
    with gzip.open(path, "rt", encoding="utf-8-sig", newline="") as file:
        for row in csv.DictReader(file):
            year = int(row["year"])
            for period, (first, last) in enumerate(PERIODS):
                if first <= year <= last:
                    yield period, year, " ".join(row["text"].split())


def choose_words(path: Path, draw: random.Random) -> list[PseudoWord]:
    """Pairs of neighbors by frequency, of words with ``OFTEN`` lower-case usages in every period."""
    counts = [Counter[str]() for _ in PERIODS]
    for period, _, text in read_paragraphs(path):
        counts[period].update(word for word in WORD.findall(text) if word.islower() and len(word) > 3)
    often = [word for word in counts[0] if all(OFTEN[0] <= count[word] <= OFTEN[1] for count in counts)]
    often.sort(key=lambda word: (sum(count[word] for count in counts), word))
    pairs = list(pairwise(often))[::2]
    chosen = draw.sample(pairs, 2 * PLANTED)
    stable = [(draw.uniform(0.1, 0.9),) * len(PERIODS) for _ in range(PLANTED)]
    shares = [*([GROWING] * PLANTED), *stable]
    return [PseudoWord(*draw.sample(pair, 2), share) for pair, share in zip(chosen, shares, strict=True)]


def find_contexts(path: Path, words: list[PseudoWord]) -> dict[tuple[str, int], list[Context]]:
    """By word and period: all contexts with one usage of the word and no other form of a pseudo-word."""
    forms, wanted = {word.form for word in words}, {name for word in words for name in (word.form, word.other)}
    found: defaultdict[tuple[str, int], list[Context]] = defaultdict(list)
    for period, year, text in read_paragraphs(path):
        spans = list(WORD.finditer(text))
        for at, span in enumerate(spans):
            if span[0] in wanted:
                near = spans[max(0, at - AROUND) : at + AROUND + 1]
                others = [other[0].lower() for other in near if other is not span]
                if len(near) > AROUND and not {*others} & {*forms, span[0]}:
                    before, after = text[near[0].start() : span.start()], text[span.end() : near[-1].end()]
                    found[span[0], period].append(Context(before, after, year))
    return found


def write_corpus(target: Path, words: list[PseudoWord], source: Path, draw: random.Random) -> None:
    """A context a record; a pseudo-word's stand together, so that few row groups hold them."""
    contexts = find_contexts(source, words)
    with target.open("w", encoding="utf-8") as file:
        for word in words:
            for period, share in enumerate(word.shares):
                others = round(share * USAGES)
                for name, number in ((word.form, USAGES - others), (word.other, others)):
                    for context in draw.sample(contexts[name, period], number):
                        text = f"{context.before}{word.form}{context.after}"
                        file.write(json.dumps({"text": text, "year": context.year, "was": name}) + "\n")


def extract_planted(
    work: Path, words: list[PseudoWord], source: Path, draw: random.Random, *, model: str | None = None
) -> Path:
    """Features of the words of the planted corpus, of all layers."""
    work.mkdir(parents=True, exist_ok=True)
    write_corpus(work / "planted.jsonl", words, source, draw)
    extractor = Extractor(model, layers="all", pooling="word", only=[word.form for word in words])
    extractor.extract(work / "planted.jsonl", work / "planted.features", corpus_settings=CorpusSettings(keep=("year",)))
    return work / "planted.features"


def measure_planted(features: Path, words: list[str], column: str) -> ChangeReport:
    slices = ",".join(f"{first}-{last}" for first, last in PERIODS)
    settings = ChangeSettings(slices=slices, column=column, most=USAGES, usages=0)
    return measure_change(features, words, "year", settings)


def judge(report: ChangeReport, measure: ChangeMeasure, changes: Mapping[str, bool]) -> dict[str, float]:
    """Area under the ROC curve, and the means of the words that changed and of the stable ones."""
    values = {change.word: getattr(change.overall, measure).value for change in report.words}
    halves = [[value for word, value in values.items() if changes[word] is half] for half in (True, False)]
    auc = roc_auc_score([changes[word] for word in values], list(values.values()))
    measured = {"auc": float(auc), "changed": mean(halves[0]), "stable": mean(halves[1])}
    return {name: round(value, 4) for name, value in measured.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/change"))
    options = parser.parse_args()
    source = options.data / "novels" / "dated.csv.gz"
    if not source.exists():
        raise SystemExit(f"no {source}: give --data; see benchmarks/README.md")
    before = machine("scikit-learn")
    draw = random.Random(1)
    words = choose_words(source, draw)
    features = extract_planted(options.work, words, source, draw)
    scores = {}
    changes = {word.form: word.changes for word in words}
    for column in COLUMNS:
        report = measure_planted(features, list(changes), column)
        scores[column] = {measure.value: judge(report, measure, changes) for measure in ChangeMeasure}
        print(f"| {column} | {' | '.join(str(score['auc']) for score in scores[column].values())} |", flush=True)
    result = {
        "machine": before,
        "periods": PERIODS,
        "usages": USAGES,
        "words": [[word.form, word.other, [round(share, 2) for share in word.shares]] for word in words],
        "columns": scores,
    }
    (HERE / "results" / "change.json").write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
