"""Feature sets in portable forms: npy with ids, JSON lines, google's JSON lines, CSV."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from bertfeat.errors import FeatureSetError, NotDerivableError, UsageError
from bertfeat.features.columns import ReadableColumn, column_names, find_column
from bertfeat.features.export_batches import ExportBatch, VectorOwners, export_batches, number_lines
from bertfeat.features.npy import NpyWriter
from bertfeat.features.reader import FeatureSet
from bertfeat.io import atomic
from bertfeat.recipe import Operation, Pooling


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export wrote."""

    files: tuple[Path, ...]
    documents: int
    vectors: int


def export_features(
    folder: str | Path, to: str, out: str | Path, *, column: str | None = None, overwrite: bool = False
) -> ExportReport:
    """Write a feature set, or one column of it, in a portable form, streamed and whole or not at all.

    ``to`` is one of

    - ``npy``: the vectors ``[n, width]`` in float32; beside them ``*.ids.jsonl`` says whose they are, a line a vector
    - ``jsonl``: an object a document: id, text, kept columns, tokens, words and all vectors (or those of ``column``)
    - ``bert-jsonl``: an object a document as google's ``extract_features.py`` writes it: tokens and their single layers
    - ``csv``: a line a vector: id, for tokens and words their position, string and place, then the values

    ``column`` is a name or a recipe, derived where it is not stored; needed where there are several.

    Raises:
        UsageError: there is no such form.
        NotDerivable: the column cannot be had, or does not go with the form.
        FeatureSetError: no feature set; or a file is there already (and not ``overwrite``), or cannot be written.
    """
    if to not in _FORMS:
        raise UsageError(f"cannot export to {to!r}; there are: {', '.join(_FORMS)}")
    features, out = FeatureSet(folder), Path(out)
    files = (out, out.with_suffix(".ids.jsonl")) if to == "npy" else (out,)
    for path in files[:1] if _was_killed(out) else files:
        if (path.exists() or path.is_symlink()) and not overwrite:
            raise FeatureSetError(f"{path} is there already; choose another name or overwrite it (--overwrite)")
    with ExitStack() as stack:
        temporaries = [stack.enter_context(atomic(path)) for path in files]
        vectors = _FORMS[to](features, column, *temporaries)
    return ExportReport(files, len(features), vectors)


def _was_killed(out: Path) -> bool:
    """Whether an export was killed before the last of its files, which is the vectors', got its name."""
    return not out.exists() and out.with_name(f".{out.name}.tmp").exists()


def _npy(features: FeatureSet, column: str | None, out: Path, ids: Path) -> int:
    found = features.find(column)
    owners = VectorOwners.of(features, found)
    count = 0
    with NpyWriter(out, found.width) as vectors, _text(ids) as file:
        for batch in export_batches(features, [found], owners.places):
            vectors.write(batch.vectors[0].matrix)
            file.writelines(json.dumps(owner, ensure_ascii=False) + "\n" for owner in owners.table(batch).to_pylist())
            count += len(batch.vectors[0])
    return count


def _csv(features: FeatureSet, column: str | None, out: Path) -> int:
    found = features.find(column)
    owners = VectorOwners.of(features, found)
    values = [pa.field(f"v{at}", pa.float32()) for at in range(found.width)]
    schema = pa.schema([*list(owners.schema)[1:], *values])  # without the row
    count = 0
    with out.open("wb") as file, pyarrow.csv.CSVWriter(file, schema) as writer:
        for batch in export_batches(features, [found], owners.places):
            matrix = np.ascontiguousarray(batch.vectors[0].matrix.T)
            writer.write_table(pa.table([*owners.table(batch).columns[1:], *map(pa.array, matrix)], schema=schema))
            count += len(batch.vectors[0])
    return count


def _jsonl(features: FeatureSet, column: str | None, out: Path) -> int:
    stored = [known.name for known in features.columns]
    wanted = [features.find(name) for name in ([column] if column else stored)]
    plain = [name for name in features.names if name not in stored]
    count = 0
    with _text(out) as file:
        for batch in export_batches(features, wanted, plain):
            records = batch.records.select(plain).to_pylist()
            for record, *vectors in zip(records, *_json_vectors(batch, wanted), strict=True):
                named = [f"{json.dumps(found.name)}: {text}" for found, text in zip(wanted, vectors, strict=True)]
                file.write(f"{', '.join([_json(record)[:-1], *named])}}}\n")
            count += sum(map(len, batch.vectors))
    return count


def _json_vectors(batch: ExportBatch, wanted: list[ReadableColumn]) -> list[list[str]]:
    """For each wanted column, the JSON form of each document's vectors: a list, or a list of lists."""
    columns = []
    for at, found in enumerate(wanted):
        vectors = [f"[{values}]" for values in number_lines(batch.vectors[at].matrix)]
        if not found.pooling.per_document:
            vectors = [f"[{', '.join(of_document)}]" for of_document in batch.spread(at, vectors)]
        columns.append(vectors)
    return columns


def _bert_jsonl(features: FeatureSet, column: str | None, out: Path) -> int:
    wanted = _token_layers(features, column)
    if "tokens" not in features.names:
        raise NotDerivableError(
            f"{features.folder}: bert-jsonl needs the tokens' strings, but the set was made with --no-text"
        )
    indexes = [found.recipe.layers[0] - features.header.model.num_layers - 1 for found in wanted]
    count = 0
    with _text(out) as file:
        for batch in export_batches(features, wanted, ["tokens"]):
            pieces = batch.spread(0, _bert_pieces(batch, indexes))
            for row, of_document in zip(batch.records["row"].to_pylist(), pieces, strict=True):
                file.write(f'{{"linex_index": {row}, "features": [{", ".join(of_document)}]}}\n')
            count += len(batch.vectors[0])
    return count


def _bert_pieces(batch: ExportBatch, indexes: list[int]) -> list[str]:
    """The JSON form of each token with its layers; six digits, as the original rounded them."""
    tokens = map(json.dumps, batch.records["tokens"].flatten().to_pylist())
    layers = [
        [
            f'{{"index": {index}, "values": [{values}]}}'
            for values in number_lines(vectors.matrix.astype(float).round(6))
        ]
        for index, vectors in zip(indexes, batch.vectors, strict=True)
    ]
    return [
        f'{{"token": {token}, "layers": [{", ".join(of_token)}]}}'
        for token, *of_token in zip(tokens, *layers, strict=True)
    ]


def _token_layers(features: FeatureSet, column: str | None) -> list[ReadableColumn]:
    """The single layers to be written, the last one first, as google's ``--layers=-1,-2,-3,-4`` gives them."""
    stored, last = features.columns, features.header.model.num_layers
    if column is None:
        recipes = [known.recipe for known in stored if known.pooling is Pooling.TOKEN]
    else:
        recipes = [find_column(stored, last, column, Pooling.TOKEN).recipe]
    kinds = (Operation.LAYER, Operation.CONCAT)
    layers = {layer for recipe in recipes if recipe.operation in kinds for layer in recipe.layers}
    if not layers:
        raise NotDerivableError(
            f"bert-jsonl holds single layers of tokens, which {column or 'this set'} does not give; stored are: "
            f"{column_names(stored)}. Extract with --layers -1,-2,-3,-4 --pooling token"
        )
    return [find_column(stored, last, str(layer), Pooling.TOKEN) for layer in sorted(layers, reverse=True)]


_FORMS: dict[str, Callable[..., int]] = {"npy": _npy, "jsonl": _jsonl, "bert-jsonl": _bert_jsonl, "csv": _csv}

EXPORT_FORMATS = tuple(_FORMS)
"""What :func:`export` can write."""


def _json(record: dict[str, Any]) -> str:
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False)
    except ValueError:  # a kept value that JSON has no number for
        return json.dumps({key: None if _is_odd(value) else value for key, value in record.items()}, ensure_ascii=False)


def _is_odd(value: object) -> bool:
    return isinstance(value, float) and not np.isfinite(value)


def _text(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")
