"""Writes the golden tagger of the current format version: ``python -m tests.golden.make_tagger``.

Run it once for each new format version, on the commit that introduces it. From the first release on never again for an
old one: the folder ``tagger-1`` is what taggers of that version look like, and every later bertfeat must read them.
``features`` beside the tagger is what it was trained on, ``expected.json`` what it makes of that.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertfeat.features import FeatureSet
from bertfeat.learning import HeadSettings, Tagger
from bertfeat.learning.head_files import FORMAT_VERSION
from tests.support.features_toy import Toy, ToyDocument, toy_part, toy_set
from tests.support.tagging_toy import tagged as tagged_by, train

HERE = Path(__file__).parent
TELLING = 3  # the layer whose first two values tell the tags
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


def main() -> None:
    folder = HERE / f"tagger-{FORMAT_VERSION}"
    if folder.exists():
        raise SystemExit(f"{folder} is there already; golden taggers are never made anew")
    parts = [toy_part(number, 40 * number, 40, poolings=("word",), tags=True, settings=EXTRACTION) for number in (0, 1)]
    features = FeatureSet(toy_set(folder / "features", *map(tagged, parts)))
    settings = HeadSettings(hidden=4, crf=True, epochs=12, dropout=0.0, learning_rate=0.05, batch_size=8)
    done = train(features, features, folder / "tagger", layers="mix4", settings=settings, device="cpu")
    tagger = Tagger(folder / "tagger", device="cpu")
    expected = {
        "score": done.record.score,
        "best_epoch": done.record.best_epoch,
        "epochs": len(done.record.history),
        "mix": tagger.mix_weights,
        "tags": [each.tags for each in tagged_by(tagger, features)],
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


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
