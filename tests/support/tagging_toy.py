"""A small tagging task that features of a tiny model can solve: words that begin with a capital are names."""

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.learning import HeadEvaluation, HeadReport, TaggedText, Tagger, TagScores, evaluate_head, train_head

PERSONS = ("bank", "river", "water", "mill", "money")
PLACES = ("café", "owners", "emoji", "hearts", "flags")
OTHERS = ("the", "of", "was", "and", "ran", "below", "old", "to", "ask", "for", "they", "him", "any", ",", ".")


def sentences(number: int, seed: int) -> list[list[tuple[str, str]]]:
    """Give sentences of words with BIO tags; persons are of one or two words."""
    draw = random.Random(seed)
    found = []
    for _ in range(number):
        sentence: list[tuple[str, str]] = []
        for _ in range(draw.randrange(1, 9)):
            kind = draw.random()
            if kind < 0.2:
                count = draw.choice((1, 2))
                sentence += [(draw.choice(PERSONS), f"{'I' if at else 'B'}-PER") for at in range(count)]
            elif kind < 0.35:
                sentence.append((draw.choice(PLACES), "B-LOC"))
            sentence.append((draw.choice(OTHERS), "O"))
        found.append(sentence)
    return found


def write_conll(path: Path, given: Sequence[Sequence[tuple[str, str]]]) -> Path:
    """Write words and tags, a word a line."""
    path.write_text("\n".join("".join(f"{word} {tag}\n" for word, tag in sentence) for sentence in given), "utf-8")
    return path


def feature_set(model: Path, folder: Path, number: int, seed: int, **settings: object) -> FeatureSet:
    """Extract such sentences with a tiny model, all its layers by word."""
    corpus = write_conll(folder.with_suffix(".conll"), sentences(number, seed))
    extractor = Extractor(model, precision="fp32", device="cpu", **{"layers": "all", "pooling": "word"} | settings)  # type: ignore[arg-type]
    extractor.extract(corpus, folder, part_rows=40)
    return FeatureSet(folder)


def train(train_set: FeatureSet, dev_set: FeatureSet, folder: Path, **settings: Any) -> HeadReport:
    """Train a tagger on feature sets, without its picture."""
    return train_head("tag", train_set, dev_set, folder, picture=False, **settings)


def tag_scores(report: HeadReport | HeadEvaluation) -> TagScores:
    """The scores of a training or an evaluation of a tagger."""
    assert isinstance(report.scores, TagScores)
    return report.scores


def scored(tagger: Tagger | Path, features: FeatureSet) -> TagScores:
    """The scores of a tagger on a feature set."""
    return tag_scores(evaluate_head(tagger, features))


def tagged(tagger: Tagger, source: Any, **settings: Any) -> list[TaggedText]:
    """What a tagger gives for a source in which no row fails."""
    rows = list(tagger.stream(source, **settings))
    assert all(isinstance(row, TaggedText) for row in rows)
    return [row for row in rows if isinstance(row, TaggedText)]
