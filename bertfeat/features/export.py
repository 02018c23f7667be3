"""Feature sets in portable forms: npy with ids, JSON lines, google's JSON lines, CSV."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from bertfeat.errors import FeatureSetError, NotDerivable, UsageError
from bertfeat.features.columns import FoundColumn, find_column, listed
from bertfeat.features.files import atomic
from bertfeat.features.npy import NpyWriter
from bertfeat.features.reader import FeatureSet
from bertfeat.features.vectors import VectorBatch, piece_offsets, vector_batch
from bertfeat.recipe import FeatureColumn, Operation, Pooling


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote."""

    files: tuple[Path, ...]
    documents: int
    vectors: int


@dataclass(frozen=True, slots=True)
class _Batch:
    """A record batch, and the vectors of the wanted columns in it."""

    records: pa.RecordBatch
    vectors: tuple[VectorBatch, ...]  # one for each wanted column


def export(
    folder: str | Path, to: str, out: str | Path, *, column: str | None = None, overwrite: bool = False
) -> Exported:
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
    for path in files:
        if path.exists() and not overwrite:
            raise FeatureSetError(f"{path} is there already; choose another name or overwrite it (--overwrite)")
    with ExitStack() as stack:
        temporaries = [stack.enter_context(atomic(path)) for path in files]
        vectors = _FORMS[to](features, column, *temporaries)
    return Exported(files, len(features), vectors)


def _npy(features: FeatureSet, column: str | None, out: Path, ids: Path) -> int:
    found = features.find(column)
    with NpyWriter(out, found.width) as vectors, _text(ids) as file:
        count = 0
        for batch in _batches(features, [found], ["row", "id", *_places(features, found)]):
            vectors.write(batch.vectors[0].matrix)
            file.writelines(json.dumps(owner, ensure_ascii=False) + "\n" for owner in _owners(batch, found))
            count += len(batch.vectors[0])
    return count


def _owners(batch: _Batch, found: FoundColumn) -> Iterator[dict[str, Any]]:
    """Whose each vector is: row and id, and for tokens and words also position, string and place."""
    vectors = batch.vectors[0]
    owner = {"row": vectors.rows.tolist(), "id": vectors.ids}
    if not found.pooling.per_document:
        owner |= {"position": vectors.positions.tolist()}
        owner |= {name: array.to_pylist() for name, array in _flat_places(batch, found).items()}
    for values in zip(*owner.values(), strict=True):
        yield dict(zip(owner, values, strict=True))


def _jsonl(features: FeatureSet, column: str | None, out: Path) -> int:
    columns = [column] if column else [stored.name for stored in features.columns]
    wanted = [features.find(name) for name in columns]
    stored = {known.name for known in features.columns}
    plain = [name for name in features.names if name not in stored]
    count = 0
    with _text(out) as file:
        for batch in _batches(features, wanted, plain):
            vectors = [_json_vectors(batch, at, found, features) for at, found in enumerate(wanted)]
            for record, *texts in zip(batch.records.select(plain).to_pylist(), *vectors, strict=True):
                named = "".join(
                    f", {json.dumps(found.name)}: {text}" for found, text in zip(wanted, texts, strict=True)
                )
                file.write(f"{_json(record)[:-1]}{named}}}\n")
            count += sum(map(len, batch.vectors))
    return count


def _json_vectors(batch: _Batch, at: int, found: FoundColumn, features: FeatureSet) -> list[str]:
    """The JSON form of a column's vectors in each document: a list, or a list of lists."""
    lists = [f"[{values}]" for values in _numbers(batch.vectors[at].matrix)]
    if found.pooling.per_document:
        return lists
    ends = _piece_ends(batch, found, features)
    return [f"[{', '.join(lists[start:stop])}]" for start, stop in pairwise(ends)]


def _bert_jsonl(features: FeatureSet, column: str | None, out: Path) -> int:
    wanted = _token_layers(features, column)
    if "tokens" not in features.names:
        raise NotDerivable(
            f"{features.folder}: bert-jsonl needs the tokens' strings, but the set was made with --no-text"
        )
    last = features.header.model.num_layers
    indexes = [found.recipe.layers[0] - last - 1 for found in wanted]
    count = 0
    with _text(out) as file:
        for batch in _batches(features, wanted, ["row", "id", "tokens"]):
            ends = _piece_ends(batch, wanted[0], features)
            # six digits, as the original rounded them
            layers = [_numbers(np.round(vectors.matrix.astype(np.float64), 6)) for vectors in batch.vectors]
            listed_layers = [
                ", ".join(
                    f'{{"index": {index}, "values": [{values}]}}' for index, values in zip(indexes, each, strict=True)
                )
                for each in zip(*layers, strict=True)
            ]
            tokens = [json.dumps(token) for token in batch.records.column("tokens").flatten().to_pylist()]
            pieces = [
                f'{{"token": {token}, "layers": [{each}]}}' for token, each in zip(tokens, listed_layers, strict=True)
            ]
            for row, (start, stop) in zip(batch.records.column("row").to_pylist(), pairwise(ends), strict=True):
                file.write(f'{{"linex_index": {row}, "features": [{", ".join(pieces[start:stop])}]}}\n')
            count += len(tokens)
    return count


def _token_layers(features: FeatureSet, column: str | None) -> list[FoundColumn]:
    """The single layers to be written, the last one first, as google's ``--layers=-1,-2,-3,-4`` gives them."""
    stored, last = features.columns, features.header.model.num_layers
    if column is None:
        recipes = [known.recipe for known in stored if known.pooling is Pooling.TOKEN]
    else:
        recipes = [find_column(stored, last, column, Pooling.TOKEN).recipe]
    kinds = (Operation.LAYER, Operation.CONCAT)
    layers = {layer for recipe in recipes if recipe.operation in kinds for layer in recipe.layers}
    if not layers:
        raise NotDerivable(
            f"bert-jsonl holds single layers of tokens, which {column or 'this set'} does not give; stored are: "
            f"{listed(stored)}. Extract with --layers -1,-2,-3,-4 --pooling token"
        )
    return [find_column(stored, last, str(layer), Pooling.TOKEN) for layer in sorted(layers, reverse=True)]


def _csv(features: FeatureSet, column: str | None, out: Path) -> int:
    found = features.find(column)
    count, writer = 0, None
    names = [f"v{at}" for at in range(found.width)]
    with ExitStack() as stack:
        for batch in _batches(features, [found], ["row", "id", *_places(features, found)]):
            vectors = batch.vectors[0]
            lines = {"id": pa.array(vectors.ids, pa.string())}
            if not found.pooling.per_document:
                lines |= {"position": pa.array(vectors.positions), **_flat_places(batch, found)}
            lines |= dict(zip(names, map(pa.array, np.ascontiguousarray(vectors.matrix.T)), strict=True))
            table = pa.table(lines)
            writer = writer or stack.enter_context(pyarrow.csv.CSVWriter(out, table.schema))
            writer.write_table(table)
            count += len(vectors)
        if writer is None:
            out.write_text(",".join(f'"{name}"' for name in ["id", *names]) + "\n", encoding="utf-8")
    return count


_FORMS: dict[str, Callable[..., int]] = {"npy": _npy, "jsonl": _jsonl, "bert-jsonl": _bert_jsonl, "csv": _csv}

FORMS = tuple(_FORMS)
"""What :func:`export` can write."""


# ── batches ─────────────────────────────────────────────────────────────────────────────────────────────────


def _batches(features: FeatureSet, wanted: Sequence[FoundColumn], names: Sequence[str]) -> Iterator[_Batch]:
    read = list(dict.fromkeys([*names, *(name for found in wanted for name in found.derivation.columns)]))
    for records in features.stream(read):
        yield _Batch(records, tuple(vector_batch(records, found, _stored(features, found)) for found in wanted))


def _stored(features: FeatureSet, found: FoundColumn) -> list[FeatureColumn]:
    return [column for column in features.columns if column.name in found.derivation.columns]


def _piece_ends(batch: _Batch, found: FoundColumn, features: FeatureSet) -> list[int]:
    ends: list[int] = piece_offsets(batch.records, _stored(features, found)[0]).tolist()
    return ends


def _places(features: FeatureSet, found: FoundColumn) -> list[str]:
    """Columns that say which token or word a vector is of."""
    kind = found.pooling
    return [name for name in (f"{kind}s", f"{kind}_start", f"{kind}_end") if name in features.names]


def _flat_places(batch: _Batch, found: FoundColumn) -> dict[str, pa.Array]:
    kind, records = found.pooling, batch.records
    columns = {"string": f"{kind}s", "start": f"{kind}_start", "end": f"{kind}_end"}
    return {
        name: records.column(column).flatten() for name, column in columns.items() if column in records.schema.names
    }


# ── numbers as text ─────────────────────────────────────────────────────────────────────────────────────────


def _numbers(matrix: NDArray[Any]) -> list[str]:
    """Each vector's values separated by commas, in the fewest digits that give back the very same number.

    JSON has no infinite numbers and no NaN: they become ``null``.
    """
    values = pa.array(matrix.reshape(-1))
    text = pc.cast(values, pa.string())
    if not np.isfinite(matrix).all():
        text = pc.if_else(pc.is_finite(values), text, "null")
    ends = pa.array(np.arange(len(matrix) + 1, dtype=np.int32) * matrix.shape[1])
    lines: list[str] = pc.binary_join(pa.ListArray.from_arrays(ends, text), ", ").to_pylist()
    return lines


def _json(record: dict[str, Any]) -> str:
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False)
    except ValueError:  # a kept value that JSON has no number for
        return json.dumps({key: None if _is_odd(value) else value for key, value in record.items()}, ensure_ascii=False)


def _is_odd(value: object) -> bool:
    return isinstance(value, float) and not np.isfinite(value)


def _text(path: Path) -> TextIO:
    return path.open("w", encoding="utf-8", newline="\n")
