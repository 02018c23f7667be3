"""Exports of feature sets to portable formats: npy with ids, JSON lines, the JSON lines of Google's BERT, CSV."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core.features.columns import ReadableColumn, column_names, find_column
from bertfeat.core.features.hidden_state_files import write_hidden_states
from bertfeat.core.features.reader import FeatureSet
from bertfeat.core.features.saelens_files import write_saelens
from bertfeat.core.features.span_vectors import SpanBatch, SpanReader
from bertfeat.core.features.tables import ExportBatch, NpyWriter, export_batches
from bertfeat.core.recipe import Operation, Pooling
from bertfeat.core.spans import SpanRule
from bertfeat.display import displayed
from bertfeat.errors import DamagedError, NotDerivableError, UsageError, parameter, shell_value
from bertfeat.io import (
    Address,
    as_location,
    check_output,
    is_special_output,
    output_file,
    unfinished_outputs,
)

FOLDERS: Mapping[str, Callable[..., int]] = {"hidden-states": write_hidden_states, "saelens": write_saelens}
"""The formats that are folders."""


@displayed
@dataclass(frozen=True, slots=True)
class ExportReport:
    """The result of an export."""

    files: tuple[Path, ...]
    documents: int
    vectors: int


@checked
def export_features(
    folder: str | Path | Address,
    to: str,
    out: str | Path,
    *,
    column: str | None = None,
    spans: str | None = None,
    overwrite: bool = False,
) -> ExportReport:
    """Write a feature set, or one column of it, in a portable format, streamed and whole or not at all.

    ``to`` is one of

    - ``npy``: the vectors ``[n, width]`` in float32; ``*.ids.jsonl`` beside them names the owners, one line per vector
    - ``jsonl``: one object per document: id, text, kept columns, tokens, words and all vectors (or those of ``column``)
    - ``bert-jsonl``: one object per document, as Google's ``extract_features.py`` writes it: tokens with single layers
    - ``csv``: one line per vector: id, for tokens and words their number, string and character offsets, then the values
    - ``hidden-states``: a folder with a safetensors file per document, as vLLM writes it: ``token_ids`` ``[T]`` and
      ``hidden_states`` ``[T, L, H]`` of the column or range of columns of tokens, or of all
    - ``saelens``: a folder that ``datasets.load_from_disk`` and SAELens read, a row per document of a set whose
      documents have equally many tokens: ``token_ids`` ``[T]``, and columns ``[T, W]`` by TransformerLens's names

    ``column`` is a name or a recipe, derived where it is not stored. ``npy`` and ``csv`` need it where several columns
    are stored. With ``spans`` they hold the vectors of spans, pooled from a column of tokens or words as
    :meth:`FeatureSet.spans` does.

    Raises:
        UsageError: there is no such format, it does not go with spans, or these are unknown; or ``out`` is no local
            file.
        NotDerivableError: the stored columns do not contain the column, or it does not fit the format.
        FeatureSetError: ``folder`` is no feature set.
        StorageError: what is to be written is there already, without ``overwrite``; or it cannot be written, or is a
            folder of another kind.
    """
    if to not in (*_WRITERS, *FOLDERS):
        raise UsageError(f"cannot export to {to!r}", remedy=f"there are: {', '.join([*_WRITERS, *FOLDERS])}")
    if spans is not None and to not in ("npy", "csv"):
        problem = f"{to} has an object a document, and spans have a vector each"
        raise UsageError(problem, where=parameter("spans", spans), remedy="npy and csv have them, and databases")
    out = _local_file(out)
    if to == "npy" and is_special_output(out):
        raise UsageError("npy is written into two files", where=out, remedy="name a regular file")
    features = FeatureSet(folder)
    if to in FOLDERS:
        return ExportReport((out,), len(features), FOLDERS[to](features, column, out, overwrite=overwrite))
    files = (out, out.with_suffix(".ids.jsonl")) if to == "npy" else (out,)
    for path in files[:1] if _was_killed(out) else files:
        check_output(path, overwrite=overwrite)
    with ExitStack() as stack:
        temporaries = [stack.enter_context(output_file(path)) for path in files]
        given = () if spans is None else (spans,)
        vectors = _WRITERS[to](features, column, *temporaries, *given)
    return ExportReport(files, len(features), vectors)


def _local_file(out: str | Path) -> Path:
    path = as_location(out)
    if isinstance(path, Address):
        raise UsageError("exports are written to local files", where=out, remedy="name one, and copy it")
    return path


def _was_killed(out: Path) -> bool:
    """Whether an export was killed before the file of the vectors, which is finished last, got its name."""
    return not out.exists() and out.parent.is_dir() and any(path.is_file() for path in unfinished_outputs(out))


@dataclass(frozen=True, slots=True)
class _OwnedVectors:
    """The vectors of a column, or of spans of it, batch by batch, each with the table of their owners.

    An owner has row and id, and that of a token, word or span its number, string and character offsets.
    """

    owners: pa.Schema
    width: int
    batches: Iterator[tuple[pa.Table, NDArray[np.float32]]]


def _owned_vectors(features: FeatureSet, column: str | None, spans: str | None) -> _OwnedVectors:
    if spans is not None:
        feature = SpanReader(features, SpanRule.parse(spans), column).column
        schema = pa.schema([*_DOCUMENT_FIELDS, _POSITION_FIELD, *_PLACE_FIELDS])
        return _OwnedVectors(schema, feature.width, _span_tables(features.spans(spans, column), schema))
    feature = features.find(column)
    kind, fields, places = feature.pooling, list(_DOCUMENT_FIELDS), dict[str, str]()
    if not kind.per_document:
        known = {"string": f"{kind}s", "start": f"{kind}_start", "end": f"{kind}_end"}
        places = {name: column for name, column in known.items() if column in features.names}
        fields += [_POSITION_FIELD, *(field for field in _PLACE_FIELDS if field.name in places)]
    batches = export_batches(features, [feature], tuple(places.values()))
    return _OwnedVectors(
        pa.schema(fields), feature.width, _vector_tables(batches, pa.schema(fields), tuple(places.values()))
    )


_DOCUMENT_FIELDS = (pa.field("row", pa.int64()), pa.field("id", pa.string()))
_POSITION_FIELD = pa.field("position", pa.int64())
_PLACE_FIELDS = (pa.field("string", pa.string()), pa.field("start", pa.int32()), pa.field("end", pa.int32()))


def _vector_tables(
    batches: Iterable[ExportBatch], schema: pa.Schema, places: Sequence[str]
) -> Iterator[tuple[pa.Table, NDArray[np.float32]]]:
    for batch in batches:
        vectors = batch.vectors[0]
        arrays = [vectors.rows, vectors.ids, vectors.positions, *(batch.records[name].flatten() for name in places)]
        yield pa.table(arrays[: len(schema)], schema=schema), vectors.matrix


def _span_tables(batches: Iterable[SpanBatch], schema: pa.Schema) -> Iterator[tuple[pa.Table, NDArray[np.float32]]]:
    for batch in batches:
        arrays = [batch.rows, batch.ids, batch.positions, batch.strings, batch.start, batch.end]
        yield pa.table(arrays, schema=schema), batch.matrix


def _write_npy(features: FeatureSet, column: str | None, out: Path, ids: Path, spans: str | None = None) -> int:
    owned, count = _owned_vectors(features, column, spans), 0
    with NpyWriter(out, owned.width) as vectors, _open_text(ids) as file:
        for owners, matrix in owned.batches:
            vectors.write(matrix)
            file.writelines(json.dumps(owner, ensure_ascii=False) + "\n" for owner in owners.to_pylist())
            count += len(matrix)
    return count


def _write_csv(features: FeatureSet, column: str | None, out: Path, spans: str | None = None) -> int:
    owned, count = _owned_vectors(features, column, spans), 0
    values = [pa.field(f"v{at}", pa.float32()) for at in range(owned.width)]
    schema = pa.schema([*list(owned.owners)[1:], *values])  # without the row
    with out.open("wb") as file, pyarrow.csv.CSVWriter(file, schema) as writer:
        for owners, matrix in owned.batches:
            columns = map(pa.array, np.ascontiguousarray(matrix.T))
            writer.write_table(pa.table([*owners.columns[1:], *columns], schema=schema))
            count += len(matrix)
    return count


def _write_jsonl(features: FeatureSet, column: str | None, out: Path) -> int:
    stored = [known.name for known in features.columns]
    chosen = [features.find(name) for name in ([column] if column else stored)]
    plain = [name for name in features.names if name not in stored]
    count = 0
    with _open_text(out) as file:
        for batch in export_batches(features, chosen, plain):
            records = batch.records.select(plain).to_pylist()
            for record, *vectors in zip(records, *_json_vectors(batch, chosen), strict=True):
                named = [f"{json.dumps(feature.name)}: {text}" for feature, text in zip(chosen, vectors, strict=True)]
                file.write(f"{', '.join([_record_json(record)[:-1], *named])}}}\n")
            count += sum(map(len, batch.vectors))
    return count


def _json_vectors(batch: ExportBatch, chosen: list[ReadableColumn]) -> list[list[str]]:
    """For each chosen column, the JSON form of each document's vectors: a list, or a list of lists."""
    columns = []
    for at, feature in enumerate(chosen):
        vectors = [f"[{values}]" for values in _number_lines(batch.vectors[at].matrix)]
        if not feature.pooling.per_document:
            vectors = [f"[{', '.join(of_document)}]" for of_document in batch.group_by_document(at, vectors)]
        columns.append(vectors)
    return columns


def _write_bert_jsonl(features: FeatureSet, column: str | None, out: Path) -> int:
    chosen = _token_layers(features, column)
    if "tokens" not in features.names:
        raise NotDerivableError(
            f"bert-jsonl needs the tokens' strings, but the set was made with {parameter('keep_text', False)}",
            where=features.folder,
        )
    indexes = [feature.recipe.layers[0] - features.header.model.num_layers - 1 for feature in chosen]
    count = 0
    with _open_text(out) as file:
        for batch in export_batches(features, chosen, ["tokens"]):
            tokens = len(batch.records["tokens"].flatten())
            if any(len(vectors) != tokens for vectors in batch.vectors):
                remedy = f"bertfeat verify {shell_value(features.folder)} says more"
                raise DamagedError("a part has fewer vectors than tokens", where=features.folder, remedy=remedy)
            pieces = batch.group_by_document(0, _bert_pieces(batch, indexes))
            for row, of_document in zip(batch.records["row"].to_pylist(), pieces, strict=True):
                file.write(f'{{"linex_index": {row}, "features": [{", ".join(of_document)}]}}\n')
            count += len(batch.vectors[0])
    return count


def _bert_pieces(batch: ExportBatch, indexes: list[int]) -> list[str]:
    """The JSON form of each token with its layers; rounded to six decimals, as Google's script did.

    ``indexes`` are the layers as that script counts them: -1 is the last.
    """
    tokens = map(json.dumps, batch.records["tokens"].flatten().to_pylist())
    layers = [
        [
            f'{{"index": {index}, "values": [{values}]}}'
            for values in _number_lines(vectors.matrix.astype(float).round(6))
        ]
        for index, vectors in zip(indexes, batch.vectors, strict=True)
    ]
    return [
        f'{{"token": {token}, "layers": [{", ".join(of_token)}]}}'
        for token, *of_token in zip(tokens, *layers, strict=True)
    ]


def _token_layers(features: FeatureSet, column: str | None) -> list[ReadableColumn]:
    """The single layers to be written, the last one first, as Google's ``--layers=-1,-2,-3,-4`` orders them."""
    stored, last = features.columns, features.header.model.num_layers
    if column is None:
        recipes = [known.recipe for known in stored if known.pooling is Pooling.TOKEN]
    else:
        recipes = [find_column(stored, last, column, Pooling.TOKEN).recipe]
    kinds = (Operation.LAYER, Operation.CONCAT)
    whole = [recipe for recipe in recipes if recipe.operation in kinds and not recipe.within_blocks]
    layers = {layer for recipe in whole for layer in recipe.layers}
    if not layers:
        raise NotDerivableError(
            f"bert-jsonl holds single layers of tokens, which {column or 'this set'} does not give",
            remedy=f"stored are: {column_names(stored)}. Extract with {parameter('layers', '-1,-2,-3,-4')} "
            f"{parameter('pooling', 'token')}",
        )
    return [find_column(stored, last, str(layer), Pooling.TOKEN) for layer in sorted(layers, reverse=True)]


_WRITERS: dict[str, Callable[..., int]] = {
    "npy": _write_npy,
    "jsonl": _write_jsonl,
    "bert-jsonl": _write_bert_jsonl,
    "csv": _write_csv,
}

EXPORT_FORMATS = tuple(_WRITERS)
"""The formats of :func:`export_features` that are files."""


def _number_lines(matrix: NDArray[np.floating]) -> list[str]:
    """The values of each vector, separated by commas, with the fewest digits that give back exactly the same number.

    JSON has no infinite numbers and no NaN: they become ``null``.
    """
    values = pa.array(matrix.reshape(-1))
    text = pc.cast(values, pa.string())
    if not np.isfinite(matrix).all():
        text = pc.if_else(pc.is_finite(values), text, "null")
    ends = pa.array(np.arange(len(matrix) + 1, dtype=np.int32) * matrix.shape[1])
    lines: list[str] = pc.binary_join(pa.ListArray.from_arrays(ends, text), ", ").to_pylist()
    return lines


def _record_json(record: dict[str, object]) -> str:
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False)
    except ValueError:  # a kept value that is NaN or infinite, which JSON does not have
        finite = {
            key: None if isinstance(value, float) and not np.isfinite(value) else value for key, value in record.items()
        }
        return json.dumps(finite, ensure_ascii=False)


def _open_text(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")
