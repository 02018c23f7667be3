"""Runs over small corpora, and what they leave behind, for the tests of extraction."""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bertfeat.core.extraction import ExtractionReport, Extractor
from tests.support.tiny_models import SENTENCES, Tiny


def extractor(tiny: Tiny | Path, **settings: Any) -> Extractor:
    """Give an extractor of a tiny model in fp32."""
    folder = tiny.folder if isinstance(tiny, Tiny) else tiny
    return Extractor(
        folder, **{"precision": "fp32", "device": "cpu", "layers": "last,-2", "pooling": "mean"} | settings
    )


def lines(number: int, first: int = 0) -> list[str]:
    """Give so many distinct texts of ragged length."""
    return [f"{SENTENCES[at % len(SENTENCES)][: 5 + at * 7 % 60]} {at}" for at in range(first, first + number)]


def text_file(path: Path, texts: Iterable[str]) -> Path:
    """Write a text a line."""
    path.write_text("".join(f"{text}\n" for text in texts), "utf-8")
    return path


def jsonl_file(path: Path, records: Sequence[Any]) -> Path:
    """Write a record a line; a string that is no JSON goes in as it is, to fail."""
    path.write_text("".join(f"{r if isinstance(r, str) else json.dumps(r)}\n" for r in records), "utf-8")
    return path


def contents(folder: Path) -> dict[str, str]:
    """Give a digest of every file but the manifest, whose times differ from run to run."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def everything(folder: Path) -> dict[str, tuple[str, int]]:
    """Give a digest and the inode of every file: what a run that touches nothing leaves as it was."""
    return {
        path.name: (hashlib.sha256(path.read_bytes()).hexdigest(), os.stat(path).st_ino)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def failed_rows(folder: Path) -> list[int]:
    """Give the rows that the list of failures names."""
    path = folder / ".bertfeat/failures.jsonl"
    return [json.loads(line)["row"] for line in path.read_text().splitlines()] if path.exists() else []


def accounted(report: ExtractionReport) -> int:
    """Give the rows of which a report tells what became of them."""
    return report.counts.documents + report.failed + report.blank
