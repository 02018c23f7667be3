"""Contexts written as a Parquet file, of which each row is a document of token ids."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bertfeat.arguments import checked
from bertfeat.contexts.join import ContextJoin, ContextRows
from bertfeat.contexts.settings import ContextSettings
from bertfeat.core import CorpusSettings, Document, Failure, FileCorpus, check_readable, find_model, open_corpus
from bertfeat.display import displayed
from bertfeat.errors import CorpusError, UsageError, parameter
from bertfeat.io import Location, check_output, output_file
from bertfeat.progress import ProgressOption, StepProgress, telling

_GROUP = 1 << 20  # tokens of a row group, about
_FAILURES = 5  # that are reported

_NUMBERS = pa.list_(pa.field("element", pa.int32(), nullable=False))
_PIECE = pa.struct(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("row", pa.int64(), nullable=False),
        *(pa.field(name, pa.int32(), nullable=False) for name in ("first", "stop", "start", "end")),
    ]
)
_SCHEMA = pa.schema(
    [
        pa.field("token_ids", _NUMBERS, nullable=False),
        pa.field("documents", pa.list_(pa.field("element", _PIECE, nullable=False)), nullable=False),
        pa.field("starts", _NUMBERS, nullable=False),
        pa.field("ends", _NUMBERS, nullable=False),
    ]
)


@displayed
@dataclass(frozen=True, slots=True)
class ContextReport:
    """The account of a corpus that was joined: what went into rows, and what did not."""

    file: Path
    model: str
    size: int  # tokens of a row
    rows: int
    documents: int  # read; empty ones, and those that lie in what is left over, have no token in a row
    left_over: int  # tokens at the end of the corpus that filled no row
    failed: int  # rows of the corpus that could not be read
    failures: tuple[Failure, ...] = field(default=(), repr=False)  # the first of them


@checked
def write_contexts(
    corpus: str | Location | Sequence[str | Location],
    file: str | Path,
    settings: ContextSettings | None = None,
    *,
    model: str | Path | None = None,
    revision: str | None = None,
    corpus_settings: CorpusSettings | None = None,
    overwrite: bool = False,
    progress: ProgressOption[StepProgress] = None,
) -> ContextReport:
    """Join the texts of a corpus into rows of equally many token ids, and write them as Parquet, whole or not at all.

    A row has ``token_ids``; ``documents``, whose ``first`` and ``stop`` say which tokens are of one, and ``start`` and
    ``end`` which of its characters; and ``starts`` and ``ends``, the characters of each token in its document.

    Raises:
        UsageError: a corpus of pairs, or a size that the model does not read.
        CorpusError: a corpus that cannot be read, or that fills no row.
        ModelError: the model cannot be found, or has no separator.
        StorageError: the file is there already, or cannot be written.
    """
    settings, reading = settings or ContextSettings(), corpus_settings or CorpusSettings()
    _refuse_settings(reading)
    check_output(file, overwrite=overwrite)
    opened = open_corpus(corpus, reading)
    if opened.has_pairs:
        remedy = f"name the column of one text with {parameter('text_columns')}"
        raise UsageError(
            "its documents are pairs, and texts are joined", where=", ".join(opened.sources), remedy=remedy
        )
    found = find_model(model, revision=revision)
    join, documents = ContextJoin(found, settings), _Documents(opened)
    with telling(progress) as tell, output_file(file) as target:
        rows = 0
        with (  # opened here, because pyarrow takes no names that are no UTF-8
            target.open("wb") as stream,
            pq.ParquetWriter(stream, _SCHEMA, compression="zstd", write_page_checksum=True) as writer,
        ):
            for some in join.rows(documents):
                writer.write_table(_table_of_rows(some), row_group_size=max(1, _GROUP // join.size))
                rows += len(some.ids)
                tell(StepProgress("", int(100 * opened.fraction), 100, "percent of the corpus"))
            if not rows:
                raise _too_few(join, opened)
            made_by = {"model": found.name, "revision": found.revision, "size": join.size, "bos": settings.bos}
            account = {
                "rows": rows,
                "documents": documents.read,
                "left_over": join.left_over,
                "failed": documents.failed,
            }
            content = {**made_by, "sources": opened.sources, **account}
            writer.add_key_value_metadata({"bertfeat.contexts": json.dumps(content)})
    return ContextReport(
        file=Path(file),
        model=found.name,
        size=join.size,
        rows=rows,
        documents=documents.read,
        left_over=join.left_over,
        failed=documents.failed,
        failures=tuple(documents.failures),
    )


def _refuse_settings(reading: CorpusSettings) -> None:
    """Refuse settings of a corpus that mean nothing for joined texts."""
    for name in ("split", "pair_column", "pairs", "keep", "metadata", "tag_column", "document_context"):
        if getattr(reading, name):
            raise UsageError(f"{parameter(name)} means nothing where texts are joined", remedy="leave it out")


def _too_few(join: ContextJoin, corpus: FileCorpus) -> CorpusError:
    held = f"{join.left_over:,} tokens" if join.left_over else "no tokens"
    remedy = f"choose a smaller {parameter('size')}" if join.left_over else ""
    return CorpusError(
        f"its texts have {held}, and a row has {join.size:,}", where=", ".join(corpus.sources), remedy=remedy
    )


class _Documents:
    """The documents of a corpus, read once, and an account of its rows."""

    def __init__(self, corpus: FileCorpus) -> None:
        self._corpus = corpus
        self.read = self.failed = 0
        self.failures: list[Failure] = []  # the first of them

    def __iter__(self) -> Iterator[Document]:
        for row in check_readable(self._corpus.rows(), self._corpus):
            if isinstance(row, Failure):
                self.failed += 1
                self.failures += [row] if self.failed <= _FAILURES else []
            elif isinstance(row, Document):
                self.read += 1
                yield row


def _table_of_rows(rows: ContextRows) -> pa.Table:
    offsets = pa.array(np.arange(0, rows.ids.size + 1, rows.ids.shape[1], dtype=np.int32))
    numbers = (
        pa.ListArray.from_arrays(offsets, each.ravel(), type=_NUMBERS) for each in (rows.ids, rows.starts, rows.ends)
    )
    ids, starts, ends = numbers
    documents = [[piece._asdict() for piece in pieces] for pieces in rows.documents]
    return pa.table([ids, pa.array(documents, _SCHEMA.field("documents").type), starts, ends], schema=_SCHEMA)
