"""Streams of vectors, next to all vectors of the toy's documents, which the test holds itself."""

import gc
import pickle
import shutil
import threading
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy.stats import chi2

from bertfeat.core.features import FeatureSet, StreamBatch, StreamSettings, VectorStream, part as part_module
from bertfeat.core.features.open_parts import PartReader
from bertfeat.core.features.vector_reader import BlockReader
from bertfeat.errors import DamagedError, FeatureSetError, NotDerivableError, UsageError
from tests.support.features_toy import H, Toy, toy_part, toy_parts, toy_set
from tests.support.runs import extractor, text_file
from tests.support.tiny_models import Tiny

WIDE = 4 * H * 2  # bytes of a vector of concat4 in float16
VECTOR = H * 2  # bytes of a vector of one layer
Origin = tuple[bytes, int, int, object]


@pytest.fixture(scope="module")
def parts() -> tuple[Toy, ...]:
    return toy_parts(poolings=("mean", "token", "word"))


@pytest.fixture(scope="module")
def folder(parts: tuple[Toy, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of three parts of several row groups each, with failures, blank lines and words without a vector."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_module, "ROW_GROUP_BYTES", 1500)
        return toy_set(tmp_path_factory.mktemp("sets") / "toy.features", *parts)


def expected(parts: tuple[Toy, ...], operation: str, layers: list[int], pooling: str) -> list[Origin]:
    """Each vector in stored order with its row, position and string, from the documents themselves."""
    found: list[Origin] = []
    for doc in (doc for part in parts for doc in part.documents):
        vectors = np.atleast_2d(doc.feature(operation, layers, pooling)).astype("f4")
        strings: list[Any] = {"word": doc.words, "token": doc.tokens}.get(pooling, [None])
        found += [(vector.tobytes(), doc.row, at, strings[at]) for at, vector in enumerate(vectors)]
    return found


def given_by(stream: VectorStream) -> list[Origin]:
    found: list[Origin] = []
    for batch in stream:
        assert batch.rows is not None
        assert batch.positions is not None
        strings = [None] * len(batch) if batch.strings is None else batch.strings
        vectors = [vector.tobytes() for vector in batch.matrix.astype("f4")]
        found += list(zip(vectors, batch.rows.tolist(), batch.positions.tolist(), strings, strict=True))
    return found


ASKED = {
    "concat4_token": ("concat", [1, 2, 3, 4], "token"),
    "layer3_token": ("sum", [3], "token"),
    "concat_1_plus_3_word": ("concat", [1, 3], "word"),
    "concat4_mean": ("concat", [1, 2, 3, 4], "mean"),
}


# ── every vector, once ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ASKED)
def test_an_epoch_has_each_vector_once_with_its_origin(folder: Path, parts: tuple[Toy, ...], name: str) -> None:
    wanted = expected(parts, *ASKED[name])
    stream = FeatureSet(folder).vectors(name, batch=4, memory=1, origins=True, unaligned=True)
    found = given_by(stream)
    assert Counter(found) == Counter(wanted)
    assert found != wanted
    assert len(wanted) == stream.vectors
    unshuffled = FeatureSet(folder).vectors(name, batch=4, memory=1, origins=True, unaligned=True, shuffle=False)
    assert given_by(unshuffled) == wanted


def test_a_sum_of_layers_is_computed(folder: Path, parts: tuple[Toy, ...]) -> None:
    (batch,) = FeatureSet(folder).vectors("sum4", "token", weights=[0.5, 0.25, 2.0, 1.0], shuffle=False)
    layers = [[np.frombuffer(each[0], "f4") for each in expected(parts, "sum", [at], "token")] for at in (1, 2, 3, 4)]
    weighted = np.tensordot([0.5, 0.25, 2.0, 1.0], np.array(layers), 1)
    np.testing.assert_allclose(batch.matrix, weighted, rtol=1e-6, atol=1e-6)
    assert batch.matrix.dtype == np.float32
    assert (batch.rows, batch.positions, batch.strings) == (None, None, None)


def test_words_without_a_vector_are_left_out_and_counted(folder: Path, parts: tuple[Toy, ...]) -> None:
    wanted = [each for each in expected(parts, "sum", [4], "word") if each[3] != "🙂"]
    stream = FeatureSet(folder).vectors("layer4_word", batch=3, memory=1, origins=True)
    assert stream.left_out == sum(doc.words.count("🙂") for part in parts for doc in part.documents) > 1
    assert Counter(given_by(stream)) == Counter(wanted)
    assert FeatureSet(folder).vectors("layer4_word", unaligned=True).left_out == 0


def test_a_set_without_texts_has_no_strings(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "f", toy_part(text=False))
    (batch,) = FeatureSet(folder).vectors("last", "token", origins=True)
    assert batch.strings is None
    assert batch.positions is not None


# ── several columns, and what is dropped ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_several_columns_come_side_by_side(folder: Path, parts: tuple[Toy, ...], dtype: Any) -> None:
    names = ["layer3_token", "concat4", "sum4"]
    stream = FeatureSet(folder).vectors(names, "token", batch=7, memory=1, origins=True, dtype=dtype)
    assert [column.name for column in stream.columns] == ["layer3_token", "concat4_token", "sum4_token"]
    assert stream.width == 6 * H
    assert stream.dtype == np.float32  # something is computed
    wanted = [
        {each[1:3]: np.frombuffer(each[0], "f4") for each in expected(parts, operation, layers, "token")}
        for operation, layers in (("sum", [3]), ("concat", [1, 2, 3, 4]), ("sum", [1, 2, 3, 4]))
    ]
    seen = 0
    for batch in stream:
        assert batch.rows is not None
        assert batch.positions is not None
        for number, origin in enumerate(zip(batch.rows.tolist(), batch.positions.tolist(), strict=True)):
            for name, vectors in zip(batch.columns, wanted, strict=True):
                np.testing.assert_allclose(batch[name][number], vectors[origin], rtol=1e-3, atol=1e-3)
        seen += len(batch)
    assert seen == stream.vectors == len(wanted[0])
    with pytest.raises(UsageError, match="the stream has no column 'layer_token'; did you mean layer3_token"):
        next(iter(stream))["layer_token"]


def test_columns_that_are_stored_alone_stay_as_they_are(folder: Path) -> None:
    stream = FeatureSet(folder).vectors(["layer3", "layer4"], "token", batch=7)
    assert stream.dtype == np.float16
    whole = FeatureSet(folder).vectors(["layer3", "layer4"], "token", shuffle=False)
    (batch,) = whole
    for name in ("layer3_token", "layer4_token"):
        (alone,) = FeatureSet(folder).vectors(name, shuffle=False)
        np.testing.assert_array_equal(batch[name], alone.matrix)


def test_columns_of_different_units_are_refused(folder: Path) -> None:
    with pytest.raises(
        UsageError, match="columns of one unit, and not layer3_token of tokens and layer3_word of words"
    ):
        FeatureSet(folder).vectors(["layer3_token", "layer3_word"])
    with pytest.raises(UsageError, match="no column is named; stored are: "):
        FeatureSet(folder).vectors([])
    with pytest.raises(UsageError, match="drop_special=True; it is for tokens"):
        FeatureSet(folder).vectors("layer3_word", drop_special=True)
    for wrong in (0, -1.0):
        with pytest.raises(UsageError, match=r"drop_norms=.* give how many times the median, such as 10"):
            FeatureSet(folder).vectors("layer3_token", drop_norms=wrong)


@pytest.mark.parametrize("times", [0.9, 1.0, 1.2, 100.0])
@pytest.mark.parametrize("name", ["layer3_token", "concat4_mean", "layer4_word"])
def test_vectors_far_longer_than_the_median_are_left_out(
    folder: Path, parts: tuple[Toy, ...], name: str, times: float
) -> None:
    operation, layers, pooling = {**ASKED, "layer4_word": ("sum", [4], "word")}[name]
    wanted = [each for each in expected(parts, operation, layers, pooling) if pooling != "word" or each[3] != "🙂"]
    lengths = np.array([np.linalg.norm(np.frombuffer(each[0], "f4").astype("f8")) for each in wanted]).astype("f4")
    inside = lengths <= np.float32(times * np.median(lengths))
    stream = FeatureSet(folder).vectors(name, batch=5, memory=1, origins=True, drop_norms=times)
    assert stream.bounds == {name: pytest.approx(times * np.median(lengths), rel=1e-6)}
    assert stream.vectors == inside.sum()
    assert Counter(given_by(stream)) == Counter(each for each, stays in zip(wanted, inside, strict=True) if stays)
    assert given_by(pickle.loads(pickle.dumps(stream))) == given_by(stream)


def test_zero_vectors_do_not_count_in_the_median(tmp_path: Path) -> None:
    """Words that were cut off have such; here most vectors are."""
    toy = toy_part(poolings=("mean",), rows=20)
    vectors = toy.content.vectors["concat4_mean"]
    vectors[: len(vectors) - 4] = 0
    norms = np.linalg.norm(vectors.astype("f8"), axis=1).astype("f4")
    stream = FeatureSet(toy_set(tmp_path / "f", toy)).vectors("concat4_mean", drop_norms=1.05)
    assert stream.bounds["concat4_mean"] == pytest.approx(1.05 * np.median(norms[norms > 0]), rel=1e-6)
    assert stream.vectors == (norms <= np.float32(1.05 * np.median(norms[norms > 0]))).sum() > len(vectors) - 4
    vectors[:] = 0
    stream = FeatureSet(toy_set(tmp_path / "g", toy)).vectors("concat4_mean", drop_norms=1.05)
    assert (stream.vectors, stream.left_out, stream.bounds) == (len(vectors), 0, {"concat4_mean": np.inf})


def test_a_sink_that_the_type_does_not_hold_is_dropped(tmp_path: Path) -> None:
    """Its norm is known before it is made float16."""
    toy = toy_part(poolings=("mean",))
    toy.content.vectors["concat4_mean"][2] = 1e6
    folder = toy_set(tmp_path / "f", toy)
    with pytest.raises(FeatureSetError, match="a value is too large for float16"):
        list(FeatureSet(folder).vectors("concat4_mean", dtype="float16"))
    stream = FeatureSet(folder).vectors("concat4_mean", dtype="float16", drop_norms=100, origins=True)
    assert stream.left_out == 1
    assert len(given_by(stream)) == stream.vectors


def test_ranges_and_weights(folder: Path) -> None:
    features = FeatureSet(folder)
    for names in ("1..3", ["1..3"], "1,2,3", [1, 2, 3]):
        stream = features.vectors(names, "token")
        assert [column.name for column in stream.columns] == ["layer1_token", "layer2_token", "layer3_token"]
    assert features.vectors(["sum4"], "token", weights=[1.0, 2.0, 3.0, 4.0]).vectors
    with pytest.raises(UsageError, match="weights are those of one sum of layers"):
        features.vectors(["sum4", "last"], "token", weights=[1.0, 2.0, 3.0, 4.0])


def test_a_vector_is_left_out_if_it_is_long_in_one_of_the_columns(folder: Path, parts: tuple[Toy, ...]) -> None:
    wanted = [expected(parts, "sum", [layer], "token") for layer in (1, 4)]
    lengths = [np.array([np.linalg.norm(np.frombuffer(each[0], "f4")) for each in column]) for column in wanted]
    inside = np.logical_and.reduce([each <= 1.1 * np.median(each) for each in lengths])
    assert 0 < inside.sum() < len(inside)
    stream = FeatureSet(folder).vectors(["layer1", "layer4"], "token", origins=True, drop_norms=1.1)
    rows = {each[1:3] for each, stays in zip(wanted[0], inside, strict=True) if stays}
    assert {each[1:3] for each in given_by(stream)} == rows


def test_special_tokens_are_left_out(bert: Tiny, tmp_path: Path) -> None:
    texts = ["The bank of the river.", "A bank.", "He went to the bank to ask for money."]
    extractor(bert, layers="last,attn:2", pooling="token").extract(
        text_file(tmp_path / "t.txt", texts), tmp_path / "set"
    )
    features = FeatureSet(tmp_path / "set")
    stream = features.vectors(["last", "attn:2"], "token", origins=True, shuffle=False, drop_special=True)
    (batch,) = stream
    wanted = []
    for document in (features[row] for row in range(3)):
        assert document.tokens is not None
        wanted.append(document.matrix("attn2_token")[document.tokens.end > document.tokens.start])
    np.testing.assert_array_equal(batch["attn2_token"], np.concatenate(wanted))
    assert batch.strings is not None
    assert not {"[CLS]", "[SEP]"} & set(batch.strings)
    assert stream.left_out == 6 == len(features.matrix("last", "token")) - stream.vectors
    whole = features.vectors("last", "token", drop_special=True, drop_norms=100.0)
    assert (whole.vectors, whole.left_out) == (stream.vectors, 6)


@pytest.mark.parametrize("settings", [{}, {"drop_norms": 1.1}, {"shard": (1, 3), "start": 2, "batch": 2}], ids=str)
def test_statistics_are_those_of_all_vectors_that_are_given(folder: Path, settings: Any) -> None:
    stream = FeatureSet(folder).vectors(["layer1", "concat4"], "token", memory=1, **settings)
    found = stream.statistics()
    whole = replace(stream, settings=replace(stream.settings, shard=(0, 1), start=0, batch=10_000))
    (batch,) = whole
    assert list(found) == ["layer1_token", "concat4_token"]
    for name, statistics in found.items():
        vectors = batch[name].astype("f8")
        assert statistics.count == len(vectors) == stream.vectors
        np.testing.assert_allclose(statistics.mean, vectors.mean(0), rtol=0, atol=1e-6)
        assert statistics.norm == pytest.approx(np.linalg.norm(vectors, axis=1).mean(), rel=1e-6)
        assert statistics.sinks == 0


def test_sinks_are_told(tmp_path: Path) -> None:
    """They are what drop_norms=10 leaves out."""
    toy = toy_part(poolings=("mean",), rows=20)
    vectors = toy.content.vectors["concat4_mean"]
    vectors *= (np.median(lengths := np.linalg.norm(vectors, axis=1)) / lengths)[:, None]
    vectors[1:4] *= np.array([[2], [20], [1e4]])
    features = FeatureSet(toy_set(tmp_path / "f", toy))
    for name in ("concat4_mean", "layer4"):
        lengths = np.linalg.norm(features.matrix(name, "mean").astype("f8"), axis=1)
        wanted = int((lengths > 10 * np.median(lengths)).sum())
        (found,) = features.vectors(name, "mean").statistics().values()
        assert found.sinks == wanted == 2
        assert features.vectors(name, "mean", drop_norms=10).left_out == wanted


@pytest.mark.parametrize("count", [1, 2, 3, 5, 40])
@pytest.mark.parametrize("batch", [1, 3, 50])
def test_turns_are_the_batches_in_turn(folder: Path, count: int, batch: int) -> None:
    ways: tuple[Any, ...] = ({}, {"start": 1}, {"shard": (1, 2), "drop_last": True})
    for way in ways:
        stream = FeatureSet(folder).vectors("layer3_token", batch=batch, memory=1, origins=True, **way)
        whole = [each.matrix.tobytes() for each in stream]
        for index in range(count):
            assert [each.matrix.tobytes() for each in stream.turns(index, count)] == whole[index::count]


def test_a_turn_reads_no_chunk_without_a_batch_of_its_own(folder: Path) -> None:
    stream = FeatureSet(folder).vectors("layer3_token", batch=1, memory=1)
    chunks = stream._chunks()
    assert len(chunks) > 3
    assert stream._chunks(0, len(stream)) == chunks[:1]
    assert stream._chunks(len(stream) - 1, len(stream)) == chunks[-1:]


@pytest.mark.parametrize(("index", "count"), [(2, 2), (-1, 2), (0, 0)])
def test_no_such_turn(folder: Path, index: int, count: int) -> None:
    stream = FeatureSet(folder).vectors("layer3_token")
    with pytest.raises(UsageError, match=f"worker {index} of {count}; give which one, counted from 0"):
        stream.turns(index, count)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batch=st.integers(1, 70),
    count=st.integers(1, 9),
    chunk=st.integers(1, 80),
    seed=st.integers(0, 2**64 - 1),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
    start=st.integers(0, 3),
)
def test_shards_chunks_batches_and_starts_are_ranges_of_one_epoch(
    folder: Path, parts: tuple[Toy, ...], batch: int, count: int, chunk: int, seed: int, shuffle: bool, drop_last: bool,
    start: int,
) -> None:  # fmt: skip
    features = FeatureSet(folder)
    wanted = Counter(expected(parts, "sum", [4], "token"))
    seen: Counter[Origin] = Counter()
    lengths = set()
    for index in range(count):
        stream = features.vectors(
            "layer4_token", batch=batch, seed=seed, shuffle=shuffle, shard=(index, count), memory=2 * VECTOR * chunk,
            drop_last=drop_last, origins=True,
        )  # fmt: skip
        batches = list(stream)
        assert len(batches) == len(stream)
        assert all(len(each) == batch for each in batches[: None if drop_last else -1])
        lengths.add(len(stream))
        seen += Counter(given_by(stream))
        if start <= len(stream):
            resumed = list(stream.at_epoch(0, start))
            assert len(resumed) == len(stream) - start
            for one, other in zip(resumed, batches[start:], strict=True):
                np.testing.assert_array_equal(one.matrix, other.matrix)
                np.testing.assert_array_equal(one.rows, other.rows)
    assert seen <= wanted
    if drop_last:
        assert len(lengths) == 1
        assert wanted.total() - seen.total() < count * batch + count
    else:
        assert seen == wanted


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(outer=st.integers(1, 5), inner=st.integers(1, 5))
def test_a_shard_is_divided_into_shards_of_its_own(folder: Path, outer: int, inner: int) -> None:
    whole = FeatureSet(folder).vectors("layer4_token", shuffle=False, origins=True)
    for index in range(outer):
        shard = whole.divide(index, outer)
        together = [each for part in range(inner) for each in given_by(shard.divide(part, inner))]
        assert together == given_by(shard)


def test_a_shard_may_be_given_as_a_list(folder: Path) -> None:
    listed, paired = StreamSettings(shard=[1, 3]), StreamSettings(shard=(1, 3))  # type: ignore[arg-type]
    assert listed == paired
    assert len({listed, paired}) == 1
    assert (StreamSettings(shard=[0, 1]), listed.shard) == (StreamSettings(), (1, 3))  # type: ignore[arg-type]
    features = FeatureSet(folder)
    given = [features.vectors("layer4_token", origins=True, shard=shard) for shard in ([1, 3], (1, 3))]  # type: ignore[arg-type]
    assert given_by(given[0]) == given_by(given[1])


# ── the order ───────────────────────────────────────────────────────────────────────────────────────────────


def test_seed_and_epoch_decide_the_order(folder: Path) -> None:
    features = FeatureSet(folder)
    first = given_by(features.vectors("layer4_token", batch=7, memory=1, origins=True, seed=5, epoch=2))
    again = FeatureSet(folder).vectors("layer4_token", batch=16, memory=1, origins=True, seed=5)
    assert given_by(again.at_epoch(2)) == first  # whatever the batches
    assert given_by(pickle.loads(pickle.dumps(again.at_epoch(2)))) == first
    assert given_by(again.at_epoch(3)) != first
    assert given_by(features.vectors("layer4_token", memory=1, origins=True, seed=6, epoch=2)) != first


@pytest.mark.slow
def test_places_are_uniform(folder: Path) -> None:
    """Over 120 epochs no vector prefers a fifth of an epoch, and places do not go with the stored order.

    Each vector is tested alone, as those of one row group come near each other: Pearson's chi-square, at a level of
    0.1 % for all of them together. The mean rank correlation is within 4 standard errors of 0.
    """
    epochs, bins = 120, 5
    stream = FeatureSet(folder).vectors("layer4_token", memory=1, origins=True)
    assert len(stream._chunks()) >= 4
    stored = {each[1:3]: at for at, each in enumerate(sorted(given_by(stream), key=lambda each: each[1:3]))}
    counts = np.zeros((len(stored), bins))
    correlations = []
    for epoch in range(epochs):
        numbers = np.array([stored[each[1:3]] for each in given_by(stream.at_epoch(epoch))])
        places = np.arange(len(numbers))
        counts[numbers, places * bins // len(numbers)] += 1
        correlations.append(np.corrcoef(numbers, places)[0, 1])  # Spearman's, as both are ranks
    expected_counts = counts.sum(0) / len(stored)
    statistics = ((counts - expected_counts) ** 2 / expected_counts).sum(1)
    assert statistics.max() < chi2.isf(0.001 / len(stored), bins - 1)
    assert abs(np.mean(correlations)) < 4 * np.std(correlations) / np.sqrt(epochs)


def test_what_fits_the_memory_is_shuffled_as_a_whole(folder: Path) -> None:
    stream = FeatureSet(folder).vectors("layer4_token", memory=1 << 20)
    assert stream.capacity >= stream.vectors
    assert len(stream._chunks()) == 1


# ── memory, and what is read ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("memory", [1, 20 * 2 * VECTOR, 1 << 20])
def test_chunks_fit_half_the_memory_or_a_row_group(folder: Path, memory: int) -> None:
    stream = FeatureSet(folder).vectors("layer4_token", memory=memory)
    largest = int(stream.blocks.vectors.max())
    assert stream.capacity == max(largest, memory // (2 * VECTOR))
    sizes = [stop - first for first, stop in stream._chunks()]
    assert sum(sizes) == stream.vectors
    assert max(sizes) <= stream.capacity
    assert max(sizes) - min(sizes) <= 1


def test_two_chunks_are_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref[Any]] = []
    make_room = BlockReader.make_room

    def counted(self: BlockReader, number: int) -> StreamBatch:
        room = make_room(self, number)
        alive.append(weakref.ref(room.matrix))
        assert sum(chunk() is not None for chunk in alive) <= 2
        return room

    monkeypatch.setattr(BlockReader, "make_room", counted)
    stream = FeatureSet(folder).vectors("layer4_token", batch=2, memory=1)
    assert len(stream._chunks()) > 4
    for batch in stream:
        held = batch.matrix.base  # a batch that is kept keeps nothing else: NumPy's own memory, or that much of Arrow's
        assert held is None or memoryview(held).nbytes == batch.matrix.nbytes  # type: ignore[arg-type]  # a buffer
    assert len(alive) == 2
    gc.collect()
    assert [chunk() for chunk in alive] == [None, None]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The row groups that are read from now on."""
    read: list[int] = []
    original = PartReader.read_group

    def counted(self: PartReader, group: int, names: Sequence[str]) -> Any:
        read.append(group)
        return original(self, group, names)

    monkeypatch.setattr(PartReader, "read_group", counted)
    return read


def test_a_resumed_epoch_reads_what_is_left(folder: Path, reads: list[int]) -> None:
    stream = FeatureSet(folder).vectors("layer4_token", batch=8, memory=1)
    reads.clear()
    list(stream)
    assert len(reads) > 8
    reads.clear()
    list(stream.at_epoch(0, len(stream) - 1))
    assert 1 <= len(reads) <= 4
    reads.clear()
    assert list(stream.at_epoch(0, len(stream))) == []
    assert reads == []


def test_a_stream_that_is_left_stops_reading(folder: Path, reads: list[int]) -> None:
    batches = iter(FeatureSet(folder).vectors("layer4_token", batch=2, memory=1))
    reads.clear()
    next(batches)
    batches.close()  # type: ignore[attr-defined]  # a generator
    for thread in threading.enumerate():
        if thread.name.startswith("bertfeat-vectors"):
            thread.join(30)
            assert not thread.is_alive()
    assert len(reads) < 8


# ── types ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_dtype_is_the_stored_one_or_the_one_asked_for(folder: Path, parts: tuple[Toy, ...]) -> None:
    features = FeatureSet(folder)
    for name, dtype in (("layer4_token", "float16"), ("concat4_mean", "float32"), ("sum4_token", "float32")):
        assert features.vectors(name).dtype == next(iter(features.vectors(name))).matrix.dtype == dtype
    wide = next(iter(features.vectors("layer4_token", dtype="float32", shuffle=False))).matrix
    narrow = next(iter(features.vectors("layer4_token", shuffle=False))).matrix
    np.testing.assert_array_equal(wide, narrow.astype("f4"))


def test_what_float16_cannot_hold_is_refused(tmp_path: Path) -> None:
    toy = toy_part(poolings=["mean"])
    vectors = {"concat4_mean": np.full_like(toy.content.vectors["concat4_mean"], 1e6)}
    folder = toy_set(tmp_path / "f", replace(toy, content=replace(toy.content, vectors=vectors)))
    with pytest.raises(
        FeatureSetError, match=r"part-00000.*group 0: a value is too large for float16; dtype='float32'"
    ):
        list(FeatureSet(folder).vectors(dtype="float16"))


# ── what is wrong ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch": 0}, "batch=0; give a whole number from 1 on"),
        ({"batch": 2.5}, "batch=2.5: must be a whole number"),
        ({"memory": 0}, "memory=0"),
        ({"seed": -1}, "seed=-1; give a whole number from 0 on"),
        ({"epoch": "1"}, "epoch='1'"),
        ({"start": -1}, "start=-1"),
        ({"start": 10}, "start=10; there are 1 batches"),
        ({"shard": (4, 4)}, r"shard=\(4, 4\); give which one, counted from 0"),
        ({"shard": (-1, 4)}, "shard="),
        ({"shard": (0, 0)}, "shard="),
        ({"shard": 3}, "shard=3"),
        ({"shard": (0, 1, 2)}, "shard="),
        ({"shard": (0.0, 2)}, "shard="),
        ({"dtype": "float64"}, "dtype='float64': must be one of 'float16', 'float32'"),
    ],
)
def test_settings_that_cannot_be_right(folder: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        FeatureSet(folder).vectors("layer4_token", **wrong)


def test_a_column_that_is_not_there(folder: Path) -> None:
    with pytest.raises(NotDerivableError, match="no column 'nonsense'; stored are: concat4_mean"):
        FeatureSet(folder).vectors("nonsense")
    with pytest.raises(NotDerivableError, match="there is no column of middle"):
        FeatureSet(folder).vectors(pooling="middle")


def test_a_damaged_page_is_found(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    path = copy / "part-00001.parquet"
    content = bytearray(path.read_bytes())
    features = FeatureSet(copy)
    footer = features._parts.open(features.entries[1]).footer
    names = [footer.metadata.row_group(0).column(at).path_in_schema for at in range(footer.metadata.num_columns)]
    chunk = footer.metadata.row_group(0).column(names.index("concat4_token"))
    content[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 4
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=r"part-00001.*row group 0 cannot be read.*CRC"):
        list(FeatureSet(copy).vectors("layer4_token"))


def test_a_part_that_was_exchanged_is_found(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    features = FeatureSet(copy)
    stream = features.vectors("layer4_token")
    other = toy_set(tmp_path / "other", *toy_parts(poolings=("mean", "token", "word"), tags=True))
    shutil.copy(other / "part-00002.parquet", copy / "part-00002.parquet")
    with pytest.raises(DamagedError, match="not the part that the manifest lists"):
        list(pickle.loads(pickle.dumps(stream)))


def test_matrices_without_a_vector_for_each_token_are_refused(folder: Path) -> None:
    stream = FeatureSet(folder).vectors("layer4_token")
    stream.blocks.vectors[:] -= 1
    with pytest.raises(DamagedError, match="do not have a vector for each token"):
        list(stream)


def test_an_unfinished_set_is_streamed_too(folder: Path, tmp_path: Path, parts: tuple[Toy, ...]) -> None:
    copy = toy_set(tmp_path / "f", parts[0], finished=False)
    stream = FeatureSet(copy, allow_unfinished=True).vectors("layer4_token", origins=True)
    assert Counter(given_by(stream)) == Counter(expected(parts[:1], "sum", [4], "token"))
