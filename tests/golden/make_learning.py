"""Writes the golden heads and Table 7 of the current formats: ``python -m tests.golden.make_learning``.

Run it once for each new format version, on the commit that introduces it: what is there stays. ``tagger-1``,
``classifier-1`` and ``table7-1`` are what such folders of that version look like, and every later bertfeat must read
them. ``features`` beside them is what was learnt from, ``expected.json`` what they make of that.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bertfeat.core.features import FeatureSet
from bertfeat.learning import Head, HeadPrediction, HeadSettings, Tagger, train_head, train_head_table7
from bertfeat.learning.head_files import FORMAT_VERSION
from bertfeat.learning.table7 import results
from tests.support.features_toy import KEPT, Toy, ToyDocument, toy_part, toy_set
from tests.support.tagging_toy import tagged as tagged_by, train

HERE = Path(__file__).parent
TELLING = 3  # the layer whose first two values tell the tags, and the first of which tells the labels
LABEL = KEPT[1].name
EXTRACTION: dict[str, Any] = {
    "precision": "fp32",
    "dtype": "float16",
    "long": "window",
    "max_length": 64,
    "prompt": "",
    "document_context": False,
    "subword": "first",
    "special_tokens": True,
}


SETTINGS = HeadSettings(hidden=4, crf=True, epochs=12, dropout=0.0, learning_rate=0.05, batch_size=8)
TABLE: dict[str, Any] = {"rows": ("last", "mix4"), "seeds": (1, 2), "settings": replace(SETTINGS, epochs=3)}


def main() -> None:
    makers: dict[str, Callable[[Path], object]] = {
        f"tagger-{FORMAT_VERSION}": make_tagger,
        f"classifier-{FORMAT_VERSION}": make_classifier,
        f"table7-{results.FORMAT_VERSION}": make_table7,
    }
    for name, make in makers.items():
        folder = HERE / name
        if folder.exists():
            continue  # golden folders are never made anew
        expected = make(folder)
        (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


def make_tagger(folder: Path) -> object:
    features = word_features(folder)
    done = train(features, features, folder / "tagger", layers="mix4", settings=SETTINGS, device="cpu")
    tagger = Tagger(folder / "tagger", device="cpu")
    return {
        "score": done.record.score,
        "best_epoch": done.record.best_epoch,
        "epochs": len(done.record.history),
        "mix": tagger.mix_weights,
        "tags": [each.tags for each in tagged_by(tagger, features)],
    }


def make_classifier(folder: Path) -> object:
    parts = [toy_part(number, 40 * number, 40, poolings=("mean",), settings=EXTRACTION) for number in (0, 1)]
    features = FeatureSet(toy_set(folder / "features", *map(labeled, parts)))
    settings = replace(SETTINGS, hidden=-1, crf=None)
    train_head(
        "classify",
        features,
        features,
        folder / "head",
        label=LABEL,
        layers="concat4",
        settings=settings,
        picture=False,
        device="cpu",
    )
    head = Head(folder / "head", device="cpu")
    found = head.predict(features)
    return {
        "score": head.record.score,
        "chosen": str(head.record.chosen),
        "candidates": len(head.record.candidates),
        "labels": [row.value for row in found.rows if isinstance(row, HeadPrediction)],
    }


def make_table7(folder: Path) -> object:
    features = word_features(folder)
    report = train_head_table7("tag", features, features, None, folder / "table", picture=False, device="cpu", **TABLE)
    return {row.name: asdict(row)["dev"] for row in report.table.rows}


def word_features(folder: Path) -> FeatureSet:
    parts = [toy_part(number, 40 * number, 40, poolings=("word",), tags=True, settings=EXTRACTION) for number in (0, 1)]
    return FeatureSet(toy_set(folder / "features", *map(tagged, parts)))


def labeled(toy: Toy) -> Toy:
    """Labels that follow from one layer."""
    sides = [float(document.hidden[TELLING][:, 0].mean()) > 0 for document in toy.documents]
    kept = {**toy.content.kept, KEPT[1]: ["right" if side else "left" for side in sides]}
    return replace(toy, content=replace(toy.content, kept=kept))


def tagged(toy: Toy) -> Toy:
    """Tags that follow from one layer."""
    return replace(toy, content=replace(toy.content, tags=[tags(document) for document in toy.documents]))


def tags(document: ToyDocument) -> list[str]:
    """Spans of two kinds, in BIO."""
    found: list[str] = []
    for first, second in document.hidden[TELLING][1:-1, :2].tolist():
        kind = "A" if second > 0 else "B"
        inside = bool(found) and found[-1] in (f"B-{kind}", f"I-{kind}")
        found.append("O" if first < 0 else f"I-{kind}" if inside else f"B-{kind}")
    return found


if __name__ == "__main__":
    main()
