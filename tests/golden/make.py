"""Writes the golden feature set of the current format version: ``python -m tests.golden.make``.

Run it once for each new format version, on the commit that introduces it. From the first release on never again for an
old one: the folder ``v1`` is what sets of that version look like, and every later bertfeat must read them.
``expected.json`` beside the parts holds what the reader has to find.
"""

import json
from pathlib import Path

from bertfeat.core.features import FORMAT_VERSION
from tests.support.features_toy import ToyDocument, toy_parts, toy_set

HERE = Path(__file__).parent


def main() -> None:
    folder = HERE / f"v{FORMAT_VERSION}"
    if folder.exists():
        raise SystemExit(f"{folder} is there already; golden sets are never made anew")
    parts = toy_parts(layers="concat4,last", poolings=("mean", "token", "word"), pairs=True, tags=True)
    toy_set(folder / "features", *parts)
    documents = [expected(doc) for part in parts for doc in part.documents]
    text = json.dumps(documents, ensure_ascii=False, indent=1)
    (folder / "expected.json").write_text(text + "\n", encoding="utf-8")


def expected(doc: ToyDocument) -> dict[str, object]:
    """What is to be found of a document."""
    return {
        "row": doc.row,
        "id": doc.id,
        "text": doc.text,
        "pair": doc.text[::-1],
        "kept": doc.kept,
        "tokens": doc.tokens,
        "words": doc.words,
        "spans": doc.spans(),
        "last_word": doc.feature("sum", [4], "word").tolist(),
        "sum4_token": doc.feature("sum", [1, 2, 3, 4], "token").tolist(),
        "concat4_mean": doc.feature("concat", [1, 2, 3, 4], "mean").tolist(),
    }


if __name__ == "__main__":
    main()
