"""Small feature parts made of random hidden layers, which the tests keep as the oracle."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.core.corpus import Failure, KeptColumn, Value
from bertfeat.core.features import (
    FORMAT_VERSION,
    Canary,
    Counts,
    FeatureSettings,
    ModelIdentity,
    PartContent,
    PartHeader,
    Pieces,
    content_table,
    write_manifest,
    write_part,
)
from bertfeat.core.grammar import feature_columns
from bertfeat.core.recipe import FeatureColumn, Operation, Pooling
from bertfeat.io import Place, from_plain

L, H = 4, 8  # layers and their width
CANARY = Canary.of("fp32", np.arange(5 * H, dtype=np.float32).reshape(5, H), {"torch": "2.13.0", "kernels": "avx2"})
MODEL = ModelIdentity("toy/model", "f" * 64, "0123abc", L, H, CANARY)
TEXTS = ("The bank, by the river.", "은행에서 돈을 찾았다", "", 'a "quoted" text', "emoji 🙂 too", "two\nlines")
KEPT = (
    KeptColumn("year", "int64"),
    KeptColumn("title", "string"),
    KeptColumn("score", "float64"),
    KeptColumn("good.or.bad", "bool"),
)


@dataclass(frozen=True)
class ToyDocument:
    row: int
    id: str
    text: str
    kept: tuple[Value, ...]
    hidden: NDArray[np.float32]  # [L+1, n, H] of its tokens; exact in float16

    @property
    def words(self) -> list[str]:
        return self.text.split()

    @property
    def tokens(self) -> list[str]:
        return ["[CLS]", *self.words, "[SEP]"]

    def spans(self) -> list[tuple[int, int]]:
        """Of the words."""
        ends = list(itertools.accumulate((len(word) + 1 for word in self.words), initial=0))
        return [(start, start + len(word)) for start, word in zip(ends, self.words, strict=False)]

    def feature(self, operation: str, layers: Sequence[int], pooling: str) -> NDArray[np.float32]:
        """The oracle: a recipe under a pooling, ``[width]`` or ``[n, width]``."""
        picked = [self.hidden[layer] for layer in layers]  # each [n, H]
        if pooling == "word":
            picked = [layer[1:-1] for layer in picked]
        pooled = {"mean": lambda layer: layer.mean(0), "cls": lambda layer: layer[0], "max": lambda layer: layer.max(0)}
        picked = [pooled.get(pooling, lambda layer: layer)(layer) for layer in picked]
        if operation == "concat":
            return np.concatenate(picked, axis=-1)
        total = np.sum(picked, axis=0)
        return np.asarray(total / len(picked) if operation == "mean" else total, np.float32)


@dataclass(frozen=True)
class Toy:
    header: PartHeader
    content: PartContent
    documents: list[ToyDocument]

    @property
    def table(self) -> pa.Table:
        return content_table(self.content, self.header.columns)


def toy_documents(rows: Sequence[int], seed: int = 0, ids: str = "") -> list[ToyDocument]:
    random = np.random.default_rng(seed)
    made = []
    for row in rows:
        text = TEXTS[row % len(TEXTS)]
        hidden = random.standard_normal((L + 1, len(text.split()) + 2, H)).astype(np.float16).astype(np.float32)
        kept = (1900 + row, None if row % 3 == 0 else f"title {row}", row / 3, row % 2 == 0)
        made.append(ToyDocument(row, f"{ids}{row + 1}", text, kept, hidden))
    return made


def toy_part(
    number: int = 0,
    first_row: int = 0,
    rows: int = 6,
    *,
    failures: Sequence[int] = (),
    blank: Sequence[int] = (),
    layers: str = "concat4",
    poolings: Sequence[str] = ("mean", "token", "word"),
    dtype: str = "float16",
    text: bool = True,
    pairs: bool = False,
    tags: bool = False,
    settings: dict[str, Any] | None = None,
    ids: str = "",
) -> Toy:
    """A part of ``rows`` rows of the corpus, of which those in ``failures`` and ``blank`` are no documents.

    The ids are numbers of rows after ``ids``.
    """
    missing = {*failures, *blank}
    present = [row for row in range(first_row, first_row + rows) if row not in missing]
    documents = toy_documents(present, seed=number, ids=ids)
    columns = feature_columns(
        layers, [Pooling(pooling) for pooling in poolings], num_layers=L, hidden_size=H, dtype=dtype
    )
    recorded = from_plain({"model": "toy/model", "layers": [layers], "text": text, **(settings or {})}, FeatureSettings)
    words = [word for document in documents for word in document.words] if "word" in poolings else []
    header = PartHeader(
        format_version=FORMAT_VERSION,
        settings=recorded,
        fingerprint=recorded.fingerprint,
        number=number,
        first_row=first_row,
        last_row=first_row + rows,
        digest=f"digest of part {number}",
        sketch=("aa", "bb"),
        blank=len(blank),
        failures=tuple(Failure(row, str(row + 1), "the field 'text' is null", "va\udc80lue") for row in failures),
        model=MODEL,
        columns=columns,
        sources=("corpus.txt",),
        counts=Counts(
            documents=len(documents),
            tokens=sum(len(document.tokens) for document in documents),
            words=len(words),
            unaligned_words=words.count("🙂"),
        ),
        split_batches=0,
    )
    return Toy(header, _content(documents, columns, text=text, pairs=pairs, tags=tags), documents)


def toy_set(folder: Place, *toys: Toy, finished: bool = True) -> Place:
    """Write the parts (default: three, with failures and blank lines) as a feature set."""
    if isinstance(folder, Path):
        folder.mkdir(parents=True, exist_ok=True)
    for toy in toys or toy_parts():
        write_part(folder, toy.header, toy.table)
    if finished:
        write_manifest(folder, times={"seconds": 1.5}, versions={"bertfeat": "0.1.0"})
    return folder


def toy_parts(**options: Any) -> tuple[Toy, ...]:
    return (
        toy_part(0, 0, 6, failures=[4], **options),
        toy_part(1, 6, 5, blank=[6, 8], **options),
        toy_part(2, 11, 7, **options),
    )


def _content(
    documents: list[ToyDocument], columns: Sequence[FeatureColumn], *, text: bool, pairs: bool, tags: bool
) -> PartContent:
    lengths = np.array([len(doc.tokens) for doc in documents], np.int32)
    by_pooling = {pooling: [column for column in columns if column.pooling is pooling] for pooling in Pooling}
    return PartContent(
        rows=np.array([doc.row for doc in documents], np.int64),
        ids=[doc.id for doc in documents],
        texts=[doc.text for doc in documents] if text else None,
        pairs=[doc.text[::-1] for doc in documents] if pairs else None,
        kept={column: [doc.kept[at] for doc in documents] for at, column in enumerate(KEPT)},
        n_tokens=lengths,
        n_unk=np.zeros_like(lengths),
        n_truncated=np.zeros_like(lengths),
        vectors={column.name: _stack(documents, column) for column in columns if column.pooling.per_document},
        tokens=_pieces(documents, by_pooling[Pooling.TOKEN], text, pairs),
        words=_pieces(documents, by_pooling[Pooling.WORD], text, pairs),
        tags=[["O"] * len(doc.words) for doc in documents] if tags else None,
    )


def _pieces(documents: list[ToyDocument], columns: list[FeatureColumn], text: bool, pairs: bool) -> Pieces | None:
    if not columns:
        return None
    words = columns[0].pooling is Pooling.WORD
    spans = [doc.spans() if words else [(0, 0), *doc.spans(), (0, 0)] for doc in documents]
    flat = np.array([span for each in spans for span in each], np.int32).reshape(-1, 2)
    strings = [piece for doc in documents for piece in (doc.words if words else doc.tokens)]
    return Pieces(
        offsets=np.cumsum([0, *map(len, spans)], dtype=np.int64),
        strings=strings if text else None,
        start=flat[:, 0],
        end=flat[:, 1],
        segment=np.zeros(len(flat), np.int8) if pairs else None,
        aligned=np.array([piece != "🙂" for piece in strings], bool) if words else None,
        matrices={column.name: _stack(documents, column) for column in columns},
        ids=None if words or not text else np.array([sum(map(ord, piece)) for piece in strings], np.int32),
    )


def _stack(documents: list[ToyDocument], column: FeatureColumn) -> NDArray[Any]:
    operation = "sum" if column.recipe.operation is Operation.LAYER else str(column.recipe.operation)
    found = [doc.feature(operation, column.recipe.layers, column.pooling) for doc in documents]
    join = np.stack if column.pooling.per_document else np.concatenate
    matrix: NDArray[Any] = join(found) if found else np.empty((0, column.width))
    return matrix.astype("float32" if column.dtype == "int8" else column.dtype)
