"""Parts, indexes, weights and vectors of wrong shapes and types, all of whose digests hold."""

import io
import json
import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import load_file, save_file

from tests.hostile.forge import ChangePart, forge_index, forge_part, forge_tagger
from tests.hostile.judge import Rule
from tests.hostile.uses import FEATURES, FLAT, HNSW, IVF, PLAIN, VECTORS, WORD
from tests.hostile.wrong_tables import DOCUMENTS, PIECES, SHAPES, VALUES, ChangeTable
from tests.hostile.yard import Result, Tell, Use, Yard
from tests.support.index_toy import version_of

Prepare = Callable[[Path], None]
PART = "docs.features/part-00001.parquet"
EACH = 4


def _cases(
    yard: Yard,
    uses: Sequence[Use],
    case: str,
    reader: str,
    prepare: Prepare,
    *,
    told: bool,
    names: tuple[str, ...] = (),
) -> Iterator[Result]:
    """The verifying use and some others; ``told``: verify has to refuse it."""
    checks = [use for use in uses if use.verb == "verify"][:1]
    others = [use for use in uses if use.verb != "verify"]
    start = sum(map(ord, case))
    for use in [*checks, *(others[(start + at) % len(others)] for at in range(min(EACH, len(others))))]:
        result = yard.run(use, case, reader, prepare=prepare, rule=Rule(names=names))
        yield result.but("is not told by verify") if told and use.verb == "verify" and not result.told.code else result


def _forged_part(change: ChangePart) -> Prepare:
    return lambda place: forge_part(place / PART, change)


def test_a_forged_part_that_is_right_is_read(yard: Yard) -> None:
    """The forger is no reason to refuse anything."""
    for use in FEATURES:
        result = yard.run(
            use, "forged and right", "forger", prepare=_forged_part(lambda table, header: (table, header))
        )
        assert result.told.code == 0, (use.name, result.ended.stderr)


@pytest.mark.hostile
@pytest.mark.parametrize("name", SHAPES)
def test_parts_of_wrong_shapes(yard: Yard, tell: Tell, name: str) -> None:
    tell(
        _cases(
            yard,
            FEATURES,
            f"part with {name}",
            "forged part",
            _forged_part(SHAPES[name]),
            told=True,
            names=("docs.features",),
        )
    )


@pytest.mark.hostile
@pytest.mark.parametrize("name", VALUES)
def test_parts_of_odd_values(yard: Yard, tell: Tell, name: str) -> None:
    prepare = _forged_part(VALUES[name])
    tell(yard.run(use, f"part with {name}", "forged part", prepare=prepare) for use in FEATURES)


@pytest.mark.parametrize("name", list(SHAPES)[::9])
def test_some_parts_of_wrong_shapes(yard: Yard, tell: Tell, name: str) -> None:
    cases = _cases(yard, FEATURES, f"part with {name}", "forged part", _forged_part(SHAPES[name]), told=True)
    tell(list(cases)[:3])


# ── stores of an index ──────────────────────────────────────────────────────────────────────────────────────


def _forged_store(index: str, name: str, change: ChangeTable, batches: int = 1) -> Prepare:
    def prepare(place: Path) -> None:
        path = version_of(place / index) / name
        with pa.ipc.open_file(path) as file:
            table = change(file.read_all())
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table.combine_chunks(), max_chunksize=max(1, -(-len(table) // batches)))
        forge_index(place / index, name)

    return prepare


@pytest.mark.hostile
@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents(yard: Yard, tell: Tell, name: str) -> None:
    fine = name in ("a column more", "columns in another order", "texts of null", "years of text", "no years")
    prepare = _forged_store("flat.index", "documents.arrow", DOCUMENTS[name])
    tell(
        _cases(
            yard, FLAT, f"documents.arrow with {name}", "forged index", prepare, told=not fine, names=("flat.index",)
        )
    )


@pytest.mark.hostile
@pytest.mark.parametrize("name", PIECES)
def test_pieces(yard: Yard, tell: Tell, name: str) -> None:
    prepare = _forged_store("word.index", "pieces.arrow", PIECES[name])
    told = name not in ("starts below zero", "ends beyond the text", "ends before starts")
    tell(_cases(yard, WORD, f"pieces.arrow with {name}", "forged index", prepare, told=told, names=("word.index",)))


@pytest.mark.hostile
@pytest.mark.parametrize("batches", [2, 7])
def test_batches_of_other_lengths(yard: Yard, tell: Tell, batches: int) -> None:
    prepare = _forged_store("flat.index", "documents.arrow", lambda table: table, batches)
    tell(
        _cases(
            yard,
            FLAT,
            f"documents.arrow in {batches} batches",
            "forged index",
            prepare,
            told=True,
            names=("flat.index",),
        )
    )


# ── FAISS ───────────────────────────────────────────────────────────────────────────────────────────────────


def _faiss(factory: str, count: int = 60, width: int = 32, metric: int = faiss.METRIC_INNER_PRODUCT) -> bytes:
    vectors = np.random.default_rng(1).standard_normal((count, width)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    if factory.startswith("B"):
        made = faiss.index_binary_factory(width, factory)
        made.add(np.zeros((count, width // 8), np.uint8))
        return bytes(faiss.serialize_index_binary(made))
    index = faiss.index_factory(width, factory, metric)
    if count:
        index.train(vectors)
        if isinstance(index, faiss.IndexIDMap):
            index.add_with_ids(vectors, np.arange(count))
        else:
            index.add(vectors)
    return bytes(faiss.serialize_index(index))


ENGINES: dict[str, Callable[[], bytes]] = {
    "a vector less": lambda: _faiss("Flat", 59),
    "a vector more": lambda: _faiss("Flat", 61),
    "no vectors": lambda: _faiss("Flat", 0),
    "16 values a vector": lambda: _faiss("Flat", width=16),
    "64 values a vector": lambda: _faiss("Flat", width=64),
    "another metric": lambda: _faiss("Flat", metric=faiss.METRIC_L2),
    "a metric that there is not": lambda: _faiss("Flat", metric=faiss.METRIC_Canberra),
    "another type": lambda: _faiss("HNSW8,Flat"),
    "lists": lambda: _faiss("IVF4,Flat"),
    "lists that are not trained": lambda: _faiss("IVF4,Flat", 0),
    "an IDMap": lambda: _faiss("IDMap,Flat"),
    "a transform": lambda: _faiss("PCA16,Flat"),
    "codes": lambda: _faiss("SQ8"),
    "bits": lambda: _faiss("BFlat"),
    "NaN": lambda: _nan(_faiss("Flat")),
    "nothing": lambda: b"",
    "a count of 2^62": lambda: _counted(_faiss("Flat"), 2**62),
    "a count of -1": lambda: _counted(_faiss("Flat"), -1),
    "a width of 2^31-1": lambda: _wide(_faiss("Flat"), 2**31 - 1),
    "a width of 0": lambda: _wide(_faiss("Flat"), 0),
}


def _nan(data: bytes) -> bytes:
    return data[:-128] + np.full(32, np.nan, np.float32).tobytes()


def _counted(data: bytes, count: int) -> bytes:
    return data[:8] + struct.pack("<q", count) + data[16:]


def _wide(data: bytes, width: int) -> bytes:
    return data[:4] + struct.pack("<i", width) + data[8:]


@pytest.mark.hostile
@pytest.mark.parametrize("name", ENGINES)
def test_engines(yard: Yard, tell: Tell, name: str) -> None:
    def prepare_for(index: str) -> Prepare:
        def prepare(place: Path) -> None:
            (version_of(place / index) / "index.faiss").write_bytes(ENGINES[name]())
            forge_index(place / index, "index.faiss")

        return prepare

    found = [("flat.index", FLAT), ("ivf.index", IVF), ("hnsw.index", HNSW)]
    tell(
        result
        for index, uses in found
        if (index, name) not in (("ivf.index", "lists"), ("hnsw.index", "another type"))
        for result in _cases(
            yard,
            uses,
            f"{index}: index.faiss of {name}",
            "forged index",
            prepare_for(index),
            told=name != "NaN" and (index, name) != ("hnsw.index", "a transform"),  # which it has, too
            names=(index,),
        )
    )


REMOVED: dict[str, Any] = {
    "one value less": np.zeros(59, bool),
    "one value more": np.zeros(61, bool),
    "nothing removed": np.zeros(60, bool),
    "all removed": np.ones(60, bool),
    "bytes": np.ones(60, np.int8),
    "real numbers": np.zeros(60, np.float32),
    "two dimensions": np.zeros((60, 1), bool),
    "no dimension": np.array(True),
    "objects": np.array([None] * 60, object),
    "texts": np.array(["x"] * 60),
}


@pytest.mark.hostile
@pytest.mark.parametrize("name", REMOVED)
def test_removed(yard: Yard, tell: Tell, name: str) -> None:
    def prepare(place: Path) -> None:
        np.save(version_of(place / "hnsw.index") / "removed.npy", REMOVED[name], allow_pickle=True)
        forge_index(place / "hnsw.index", "removed.npy")

    tell(_cases(yard, HNSW, f"removed.npy of {name}", "forged index", prepare, told=True, names=("hnsw.index",)))


# ── weights ─────────────────────────────────────────────────────────────────────────────────────────────────

Tensors = dict[str, Any]


def _first(tensors: Tensors) -> str:
    return next(name for name, tensor in sorted(tensors.items()) if tensor.ndim == 2)


def _changed(change: Callable[[Any], Any]) -> Callable[[Tensors], Tensors]:
    return lambda tensors: {**tensors, _first(tensors): np.ascontiguousarray(change(tensors[_first(tensors)]))}


WEIGHTS: dict[str, Callable[[Tensors], Tensors]] = {
    "a tensor less": lambda tensors: {name: tensor for name, tensor in tensors.items() if name != _first(tensors)},
    "a tensor more": lambda tensors: {**tensors, "strange": np.zeros(3, np.float32)},
    "no tensors": lambda _: {},
    "a transposed tensor": _changed(lambda tensor: np.vstack([tensor, tensor[:1]]).T),
    "a tensor of float64": _changed(lambda tensor: tensor.astype(np.float64)),
    "a tensor of float16": _changed(lambda tensor: tensor.astype(np.float16)),
    "a tensor of whole numbers": _changed(lambda tensor: tensor.astype(np.int32)),
    "a tensor of bool": _changed(lambda tensor: tensor.astype(bool)),
    "NaN": _changed(lambda tensor: tensor * np.nan),
    "infinite values": _changed(lambda tensor: np.full_like(tensor, np.inf)),
    "an empty tensor": _changed(lambda tensor: tensor[:0]),
}
RAW_WEIGHTS: dict[str, bytes] = {
    "a header of 2^63 bytes": struct.pack("<Q", 2**63) + b"{}",
    "a header that is no JSON": struct.pack("<Q", 4) + b"@@@@",
    "a header that is a list": struct.pack("<Q", 2) + b"[]",
    "a header nested 100,000 deep": struct.pack("<Q", 200_000) + b"[" * 100_000 + b"]" * 100_000,
    "offsets beyond the end": struct.pack("<Q", 64)
    + b'{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,36]}}'.ljust(64)
    + b"ab",
    "offsets below zero": struct.pack("<Q", 64) + b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}'.ljust(64),
    "an unknown type": struct.pack("<Q", 64)
    + b'{"a":{"dtype":"Q9","shape":[1],"data_offsets":[0,4]}}'.ljust(64)
    + b"abcd",
    "a shape that overflows": struct.pack("<Q", 96)
    + b'{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}}'.ljust(96)
    + b"abcd",
}


@pytest.mark.hostile
@pytest.mark.parametrize("name", [*WEIGHTS, *RAW_WEIGHTS])
def test_weights(yard: Yard, tell: Tell, name: str) -> None:
    def prepare(place: Path) -> None:
        path = place / "plain.tagger" / "head.safetensors"
        if name in RAW_WEIGHTS:
            path.write_bytes(RAW_WEIGHTS[name])
        else:
            save_file(WEIGHTS[name](load_file(path)), path)
        forge_tagger(place / "plain.tagger")

    told = name not in ("NaN", "infinite values")  # with a digest that holds numbers are taken as they are
    tell(_cases(yard, PLAIN, f"weights with {name}", "forged tagger", prepare, told=told, names=("plain.tagger",)))


# ── vectors of queries ──────────────────────────────────────────────────────────────────────────────────────


def _npy(array: Any) -> bytes:
    sink = io.BytesIO()
    np.save(sink, array, allow_pickle=True)
    return sink.getvalue()


def _npy_header(text: str, data: bytes = b"") -> bytes:
    padded = text.encode().ljust(118) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + data


_ONES = np.ones((2, 32), np.float32)
QUERIES: dict[str, tuple[bytes, tuple[int, ...]]] = {
    **{
        f"of {kind}": (_npy(_ONES.astype(kind)), (0,))
        for kind in ("float16", "float64", ">f4", "int8", "uint64", "longdouble")
    },
    **{f"of {kind}": (_npy(_ONES.astype(kind)), (2,)) for kind in ("complex64", "bool", "U3", "S3", "M8[s]", "object")},
    "in Fortran's order": (_npy(np.asfortranarray(_ONES)), (0,)),
    "none": (_npy(_ONES[:0]), (0, 2)),
    "of 31 values": (_npy(_ONES[:, :31]), (2,)),
    "of 33 values": (_npy(np.ones((2, 33))), (2,)),
    "of no values": (_npy(_ONES[:, :0]), (2,)),
    "one alone": (_npy(_ONES[0]), (2,)),
    "no dimension": (_npy(np.float32(1)), (2,)),
    "three dimensions": (_npy(_ONES[None]), (2,)),
    "fields": (_npy(np.zeros(2, [("a", "f4"), ("b", "i4")])), (2,)),
    "NaN": (_npy(_ONES * np.nan), (2,)),
    "infinite": (_npy(_ONES * np.inf), (2,)),
    "too large for float32": (_npy(_ONES.astype(np.float64) * 1e300), (2,)),
    "zeros": (_npy(_ONES * 0), (0, 2)),
    "tiny": (_npy(_ONES.astype(np.float64) * 1e-300), (0, 2)),
    "a header of code": (
        _npy_header("{'descr': __import__('os').system('touch owned'), 'fortran_order': False, 'shape': (2, 32)}"),
        (2,),
    ),
    "a header nested deep": (_npy_header("(" * 50 + ")" * 50), (2,)),
    "a header of huge shape": (
        _npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 32)}", bytes(256)),
        (2,),
    ),
    "a header of shape below zero": (
        _npy_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 32)}", bytes(256)),
        (2,),
    ),
    "a header of no type": (_npy_header("{'descr': 'x9', 'fortran_order': False, 'shape': (2, 32)}", bytes(256)), (2,)),
    "a header of another kind": (_npy_header("[1, 2]", bytes(256)), (2,)),
    "another version": (b"\x93NUMPY\x09\x00" + _npy(_ONES)[8:], (2,)),
    "a pickle": (b"\x80\x04cos\nsystem\n(S'touch owned'\ntR.", (2,)),
    "an archive": (b"PK\3\4" + bytes(100), (2,)),
    "JSON": (json.dumps([[1.0] * 32]).encode(), (2,)),
}


@pytest.mark.hostile
@pytest.mark.parametrize("name", QUERIES)
def test_vectors(yard: Yard, tell: Tell, name: str) -> None:
    data, codes = QUERIES[name]

    def prepare(place: Path) -> None:
        (place / "vectors.npy").write_bytes(data)

    tell(
        yard.run(use, f"vectors.npy: {name}", "vectors.npy", prepare=prepare, rule=Rule(codes=codes)) for use in VECTORS
    )
