"""Texts with sentences, and feature sets of their tokens, for indexes that are made of tokens."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bertfeat import CorpusSettings, Extractor
from tests.support.tiny_models import Tiny

RIVER = "The river rose at night. Nobody saw it! They didn't wake, naïve as they were.\n\nThe bank was gone."
TEXTS = {
    "a": RIVER,
    "b": "One sentence only",
    "c": f"{RIVER} " * 4,  # longer than the models read at once
    "d": "나는 강가의 은행에 갔다. 물이 많았다.",
    "e": "A storm came. The river rose again, and the bank with it.",
}
QUERIES = ["Where is the river?", "the bank", "물이 많았다"]

Make = Callable[..., Path]


def make_token_set(
    folder: Path, tiny: Tiny, texts: dict[str, str] | list[dict[str, str]], name: str = "texts", **settings: Any
) -> Path:
    """Extract a feature set of texts, by id, with the settings of an extractor and of a run."""
    rows = [{"id": key, "text": text} for key, text in texts.items()] if isinstance(texts, dict) else texts
    lines = (json.dumps({**row, "size": len(row["text"])}) + "\n" for row in rows)
    (folder / f"{name}.jsonl").write_text("".join(lines))
    keep = ("size", *settings.pop("keep", ()))
    corpus = CorpusSettings(id_column="id", keep=keep, pair_column="pair" if "pair" in rows[0] else None)
    run = {key: settings.pop(key) for key in ("keep_text", "part_rows") if key in settings}
    given = {"precision": "fp32", "dtype": "float32", "pooling": "token", **settings}
    place = folder / f"{name}.features"
    Extractor(str(tiny.folder), **given).extract(
        folder / f"{name}.jsonl", place, corpus_settings=corpus, overwrite=True, **run
    )
    return place
