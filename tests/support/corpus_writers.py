"""Writes small corpora for tests, with the standard library's own writers as the oracle."""

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from bertfeat.core.corpus import CorpusSettings, Document, Failure, Row, open_corpus

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def write_text(texts: Sequence[str]) -> bytes:
    return "".join(text + "\n" for text in texts).encode()


def write_jsonl(texts: Sequence[str]) -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in texts).encode()


def write_csv(texts: Sequence[str], dialect: str = "excel") -> bytes:
    file = io.StringIO(newline="")
    writer = csv.writer(file, dialect=dialect, quoting=csv.QUOTE_MINIMAL)
    writer.writerows([["number", "text"], *([number, text] for number, text in enumerate(texts))])
    return file.getvalue().encode()


def write_tsv(texts: Sequence[str]) -> bytes:
    return write_csv(texts, "excel-tab")


def write_parquet(texts: Sequence[str]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), sink, row_group_size=7)
    return sink.getvalue()


def write_squad(texts: Sequence[str]) -> bytes:
    """Questions, three of a context, two contexts of an article; every third has no answer."""
    questions = [
        {
            "id": f"q{number}",
            "question": text,
            "answers": [{"text": "old mill", "answer_start": 4}] if number % 3 else [],
            "is_impossible": number % 3 == 0,
        }
        for number, text in enumerate(texts)
    ]
    paragraphs = [
        {"context": f"The old mill, {at}.", "qas": questions[at : at + 3]} for at in range(0, len(questions), 3)
    ]
    articles = [{"title": f"T{at}", "paragraphs": paragraphs[at : at + 2]} for at in range(0, len(paragraphs), 2)]
    return json.dumps({"version": "v2.0", "data": articles}).encode()


def rows_of(path: Path | str, settings: CorpusSettings | None = None) -> list[Row]:
    return list(open_corpus([path], settings or CorpusSettings()).rows())


def documents_of(path: Path | str, settings: CorpusSettings | None = None) -> list[Document]:
    rows = rows_of(path, settings)
    assert not [row for row in rows if isinstance(row, Failure)]
    return [row for row in rows if isinstance(row, Document)]


def texts_of(path: Path | str, settings: CorpusSettings | None = None) -> list[str]:
    return [document.text for document in documents_of(path, settings)]


def failures_of(path: Path | str, settings: CorpusSettings | None = None) -> list[Failure]:
    return [row for row in rows_of(path, settings) if isinstance(row, Failure)]
