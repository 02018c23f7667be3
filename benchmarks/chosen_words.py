"""How many bytes and seconds do vectors of some words take, next to vectors of every word?

    python benchmarks/chosen_words.py --data DATA [--work DIR] [--paragraphs 10000]

DATA holds novels/. Words of the last layer, in float16, of paragraphs of novels: all of them, the 24 words of
senses.csv, and one. Extractions run in turn; seconds are medians. The usages of each chosen word are compared with
those in the set of every word: the same places, and the largest difference of a score.
"""

import argparse
import json
import shutil
import time
from pathlib import Path
from statistics import median
from typing import Any

from _duel import distinct_lines
from _machine import machine
from senses import LABELS, read_labels

from bertfeat import Extractor, FeatureSet, find_usages
from bertfeat.core.words import split_each

RESULT = Path(__file__).parent / "results" / "chosen_words.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/chosen_words"))
    parser.add_argument("--paragraphs", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    labeled = sorted({place.word for place in read_labels(LABELS)})
    choices = {"every word": None, f"{len(labeled)} words": labeled, "one word": labeled[:1]}
    options.work.mkdir(parents=True, exist_ok=True)
    corpus = options.work / "paragraphs.txt"
    lines = distinct_lines(options.data / "novels" / "paragraphs.txt")
    texts = lines[:: max(1, len(lines) // options.paragraphs)][: options.paragraphs]
    corpus.write_text("\n".join(texts), encoding="utf-8")
    found: dict[str, Any] = {
        "machine": machine(),
        "paragraphs": len(texts),
        "words": int(split_each(texts)[1].sum()),
        "text_bytes": corpus.stat().st_size,
        "ways": {},
    }
    seconds: dict[str, list[float]] = {name: [] for name in choices}
    extractors = {name: Extractor(layers="last", pooling="word", only=only) for name, only in choices.items()}
    sets = {}
    for _ in range(options.repeats):
        for name, extractor in extractors.items():
            folder = options.work / name.replace(" ", "-")
            shutil.rmtree(folder, ignore_errors=True)
            begun = time.perf_counter()
            extractor.extract(corpus, folder)
            seconds[name].append(time.perf_counter() - begun)
            sets[name] = FeatureSet(folder)
    whole = sets["every word"]
    for name, only in choices.items():
        size = sum(path.stat().st_size for path in Path(str(sets[name].folder)).glob("*.parquet"))
        found["ways"][name] = {
            "bytes": size,
            "bytes_per_word": round(size / found["words"], 1),
            "times_the_text": round(size / found["text_bytes"], 2),
            "seconds": round(median(seconds[name]), 2),
            "runs": [round(each, 2) for each in seconds[name]],
            **({} if only is None else compare_usages(sets[name], whole, only)),
        }
        print(name, json.dumps(found["ways"][name]), flush=True)
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


def compare_usages(some: FeatureSet, whole: FeatureSet, words: list[str]) -> dict[str, float]:
    """The number of usages of the words, and the largest difference of a score between two sets."""
    number, farthest = 0, 0.0
    for word in words:
        ours, theirs = (
            {(usage.row, usage.start): usage.score for usage in find_usages(each, word, like=word, k=10_000).usages}
            for each in (some, whole)
        )
        assert ours.keys() == theirs.keys(), word
        number += len(ours)
        farthest = max(farthest, *(abs((score or 0) - (theirs[place] or 0)) for place, score in ours.items()), 0.0)
    return {"usages": number, "largest_difference_of_a_score": round(farthest, 6)}


if __name__ == "__main__":
    main()
