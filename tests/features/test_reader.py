import dataclasses
import json
import math
import multiprocessing
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from numpy.typing import NDArray

from bertfeat.core.features import (
    SUCCESSOR,
    FeatureSet,
    Pieces,
    content_documents,
    find_column,
    part as part_module,
    settle_successor,
)
from bertfeat.core.features.open_parts import PartReader
from bertfeat.core.grammar import feature_columns, parse_recipes
from bertfeat.core.recipe import Operation, Pooling
from bertfeat.errors import DamagedError, FeatureSetError, NotDerivableError, UsageError
from bertfeat.io import write_json
from bertfeat.usages import find_usages
from tests.support.features_toy import KEPT, H, L, Toy, ToyDocument, toy_part, toy_parts, toy_set


@pytest.fixture(scope="module")
def parts() -> tuple[Toy, ...]:
    return toy_parts(layers="concat4,last", poolings=("mean", "token", "word"), pairs=True, tags=True)


@pytest.fixture(scope="module")
def folder(parts: tuple[Toy, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of three parts of several row groups each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_module, "ROW_GROUP_BYTES", 2500)
        return toy_set(tmp_path_factory.mktemp("sets") / "toy.features", *parts)


@pytest.fixture(scope="module")
def documents(parts: tuple[Toy, ...]) -> list[ToyDocument]:
    return [doc for part in parts for doc in part.documents]


def stacked(
    documents: Sequence[ToyDocument], operation: str, layers: Sequence[int], pooling: str
) -> NDArray[np.float32]:
    found = [doc.feature(operation, layers, pooling) for doc in documents]
    return np.stack(found) if pooling in ("mean", "cls", "max") else np.concatenate(found)


# ── what there is ───────────────────────────────────────────────────────────────────────────────────────────


def test_opening_says_what_there_is(folder: Path, parts: tuple[Toy, ...]) -> None:
    features = FeatureSet(folder)
    assert len(features) == 5 + 3 + 7
    assert features.header == parts[0].header
    assert features.parts == tuple(part.header for part in parts)
    assert features.kept == KEPT
    assert features.counts.tokens == sum(part.header.counts.tokens for part in parts)
    assert [failure.row for failure in features.failures()] == [4]
    assert repr(features).endswith(
        "15 documents, concat4_mean, concat4_token, concat4_word, last_mean, last_token, last_word)"
    )
    assert [header.number for header in features.check()] == [0, 1, 2]


def test_opening_reads_one_part_only(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    path = copy / "part-00002.parquet"
    path.write_bytes(bytes(path.stat().st_size))
    features = FeatureSet(copy)
    assert len(features) == 15
    assert features[0].row == 0
    with pytest.raises(DamagedError, match="part-00002"):
        features.matrix("last_mean")
    with pytest.raises(DamagedError, match="part-00002"):
        list(features.check())


def test_a_damaged_page_is_found_when_it_is_read(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    path = copy / "part-00001.parquet"
    content = bytearray(path.read_bytes())
    features = FeatureSet(copy)
    chunk = features._parts.open(features.entries[1]).footer.metadata.row_group(0).column(0)
    content[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 4
    path.write_bytes(content)
    with pytest.raises(DamagedError, match=r"part-00001.*row group 0 cannot be read.*CRC"):
        FeatureSet(copy).matrix("last_mean")


# ── vectors ─────────────────────────────────────────────────────────────────────────────────────────────────

ASKED = {
    "concat4_mean": ("concat", [1, 2, 3, 4], "mean"),
    "last_mean": ("sum", [4], "mean"),
    "sum4_mean": ("sum", [1, 2, 3, 4], "mean"),
    "sum4": ("sum", [1, 2, 3, 4], "mean"),
    "mean4": ("mean", [1, 2, 3, 4], "mean"),
    "-2": ("sum", [3], "mean"),
    "layer2": ("sum", [2], "mean"),
    "second-to-last": ("sum", [3], "mean"),
    "second_to_last_mean": ("sum", [3], "mean"),
    "sum_2_3_mean": ("sum", [2, 3], "mean"),
    "concat=1+3_mean": ("concat", [1, 3], "mean"),
    "concat_1_plus_3_mean": ("concat", [1, 3], "mean"),
    "sum_all_mean": ("sum", [1, 2, 3, 4], "mean"),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_matrix_is_what_the_layers_give(folder: Path, documents: list[ToyDocument], name: str) -> None:
    matrix = FeatureSet(folder).matrix(name)
    assert matrix.dtype == np.float32
    np.testing.assert_allclose(matrix, stacked(documents, *ASKED[name]), rtol=1e-6, atol=1e-6)


def test_weights_replace_the_ones_of_a_sum(folder: Path, documents: list[ToyDocument]) -> None:
    weights = [0.5, 0.25, 0.125, 2.0]
    layers = [stacked(documents, "sum", [layer], "mean") for layer in (1, 2, 3, 4)]
    expected = sum(weight * layer for weight, layer in zip(weights, layers, strict=True))
    np.testing.assert_allclose(FeatureSet(folder).matrix("sum4", weights=weights), expected, rtol=1e-6, atol=1e-6)
    with pytest.raises(NotDerivableError, match="weights go with a sum"):
        FeatureSet(folder).matrix("concat4", weights=weights)
    with pytest.raises(NotDerivableError, match="3 weights were given for the 4 layers"):
        FeatureSet(folder).matrix("sum4", weights=weights[:3])


@pytest.mark.parametrize("pooling", ["token", "word"])
def test_token_and_word_vectors_say_whose_they_are(folder: Path, documents: list[ToyDocument], pooling: str) -> None:
    batches = list(FeatureSet(folder).batches("sum4", pooling))
    assert len(batches) > 3
    expected = stacked(documents, "sum", [1, 2, 3, 4], pooling)
    np.testing.assert_allclose(np.concatenate([batch.matrix for batch in batches]), expected, rtol=1e-6, atol=1e-6)
    pieces = [doc.words if pooling == "word" else doc.tokens for doc in documents]
    owners = [(doc.row, doc.id, at) for doc, each in zip(documents, pieces, strict=True) for at in range(len(each))]
    found = [owner for batch in batches for owner in zip(batch.rows, batch.ids, batch.positions, strict=True)]
    assert found == owners


def test_batches_are_bounded_and_in_order(folder: Path, documents: list[ToyDocument]) -> None:
    batches = list(FeatureSet(folder).batches("last_mean", batch_rows=2))
    assert max(map(len, batches)) <= 2
    assert [row for batch in batches for row in batch.rows] == [doc.row for doc in documents]
    assert [owner for batch in batches for owner in batch.ids] == [doc.id for doc in documents]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(start=st.integers(0, 20), length=st.integers(0, 20))
def test_a_slice_is_by_row(folder: Path, documents: list[ToyDocument], start: int, length: int) -> None:
    found = FeatureSet(folder).slice(start, start + length, "last_mean")
    expected = [doc for doc in documents if start <= doc.row < start + length]
    assert found.rows.tolist() == [doc.row for doc in expected]
    assert list(found.ids) == [doc.id for doc in expected]
    assert found.matrix.shape == (len(expected), H)
    if expected:
        np.testing.assert_allclose(found.matrix, stacked(expected, "sum", [4], "mean"), rtol=1e-6)


@pytest.mark.parametrize("end", [-5, -(10**30), 2.5, math.nan, "3"])
def test_rows_are_counted_from_0_by_whole_numbers(folder: Path, end: object) -> None:
    features = FeatureSet(folder)
    for ends in ({"start": end}, {"stop": end}):
        reads: list[Callable[..., object]] = [
            features.documents,
            features.stream,
            partial(features.batches, "last_mean"),
            lambda start=0, stop=None: features.slice(start, stop, "last_mean"),
        ]
        for read in reads:
            with pytest.raises(UsageError, match=next(iter(ends))):
                list(cast("Iterable[object]", read(**ends)))
    assert [doc.row for doc in features.documents(start=np.int64(3), stop=sys.maxsize)] == [  # type: ignore[arg-type]
        doc.row for doc in features if doc.row >= 3
    ]
    with pytest.raises(UsageError, match="batch_rows=0"):
        next(features.stream(batch_rows=0))
    assert sum(map(len, features.stream(batch_rows=2**63))) == len(features)


@pytest.mark.parametrize(("column", "pooling"), [("concat4_mean", None), ("sum4", "token"), ("last_word", None)])
def test_to_numpy_writes_what_can_be_mapped(
    folder: Path, documents: list[ToyDocument], tmp_path: Path, column: str, pooling: str | None
) -> None:
    FeatureSet(folder).to_numpy(tmp_path / "out.npy", column, pooling)
    assert os.listdir(tmp_path) == ["out.npy"]
    mapped = np.load(tmp_path / "out.npy", mmap_mode="r")
    found = FeatureSet(folder).find(column, pooling)
    operation = "sum" if found.recipe.operation is Operation.LAYER else str(found.recipe.operation)
    expected = stacked(documents, operation, found.recipe.layers, found.pooling)
    np.testing.assert_allclose(mapped, expected, rtol=1e-6, atol=1e-6)


# ── which column is meant ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "pooling", "message"),
    [
        (None, None, "several columns fit: concat4_mean, concat4_token"),
        ("nonsense", None, "no column 'nonsense'; stored are: concat4_mean"),
        ("0", None, "needs layer 0, which the stored columns"),
        ("layer9_mean", None, "no column 'layer9_mean'.*outside the model"),
        ("sum4_cls", None, "no column with cls pooling"),
        ("all", None, "means several columns"),
        ("sum4_mean", "word", "already names its pooling"),
        ("sum4", "middle", "unknown pooling 'middle'; there are: mean, cls"),
    ],
)
def test_what_cannot_be_had_lists_what_can(folder: Path, name: str, pooling: str, message: str) -> None:
    with pytest.raises(NotDerivableError, match=message):
        FeatureSet(folder).matrix(name, pooling)


def test_a_recipe_means_the_pooling_under_which_it_can_be_had() -> None:
    stored = feature_columns("concat4,cls", [Pooling.MEAN], num_layers=L, hidden_size=H, dtype="float32")
    assert find_column(stored, L, "sum4").name == "sum4_mean"
    assert find_column(stored, L, "cls").name == "last_cls"
    with pytest.raises(NotDerivableError, match="'last' may mean last_mean or last_cls"):
        find_column(stored, L, "last")


def test_one_column_need_not_be_named() -> None:
    stored = feature_columns("last", [Pooling.MEAN, Pooling.WORD], num_layers=L, hidden_size=H, dtype="float32")
    assert find_column(stored, L).name == "last_mean"
    assert find_column(stored, L, pooling="word").name == "last_word"


@given(layers=st.sets(st.integers(0, 12), min_size=1), operation=st.sampled_from(["sum", "mean", "concat"]))
def test_every_printed_name_is_understood(layers: set[int], operation: str) -> None:
    spec = f"{operation}={'+'.join(map(str, sorted(layers)))}"
    for recipe in (*parse_recipes(spec, 12), *parse_recipes("embeddings,second-to-last,sum-all,mean4", 12)):
        stored = feature_columns("concat=0..12", [Pooling.WORD], num_layers=12, hidden_size=2, dtype="float16")
        assert find_column(stored, 12, f"{recipe.name}_word").recipe == recipe


# ── documents ───────────────────────────────────────────────────────────────────────────────────────────────


def test_documents_come_whole(folder: Path, documents: list[ToyDocument]) -> None:
    for found, doc in zip(FeatureSet(folder), documents, strict=True):
        assert (found.row, found.id, found.text, found.pair) == (doc.row, doc.id, doc.text, doc.text[::-1])
        assert list(found.values.items()) == list(zip([kept.name for kept in KEPT], doc.kept, strict=True))
        assert found.n_tokens == len(doc.tokens)
        assert found.tags == ["O"] * len(doc.words)
        assert found.tokens is not None
        assert found.words is not None
        assert list(found.tokens.strings or ()) == doc.tokens
        assert list(found.words.strings or ()) == doc.words
        assert list(zip(found.words.start, found.words.end, strict=True)) == doc.spans()
        assert found.words.aligned is not None
        assert found.words.aligned.tolist() == [word != "🙂" for word in doc.words]
        assert found.tokens.aligned is None
        assert found.tokens.segment is not None
        np.testing.assert_array_equal(found.matrix("last_token"), doc.feature("sum", [4], "token"))
        np.testing.assert_allclose(found.matrix("sum4_word"), doc.feature("sum", [1, 2, 3, 4], "word"), atol=1e-5)
        np.testing.assert_allclose(found.vector("mean4"), doc.feature("mean", [1, 2, 3, 4], "mean"), atol=1e-6)


def test_documents_bring_only_what_is_asked_for(folder: Path) -> None:
    document = next(FeatureSet(folder).documents(["sum4_word"]))
    assert list(document.stored) == ["concat4_word"]
    with pytest.raises(NotDerivableError, match="stored are: none"):
        document.vector()
    assert not next(FeatureSet(folder).documents([])).stored


def test_vector_and_matrix_are_told_apart(folder: Path) -> None:
    document = FeatureSet(folder)[0]
    with pytest.raises(NotDerivableError, match=r"last_word is read by matrix\(\)"):
        document.vector("last_word")
    with pytest.raises(NotDerivableError, match=r"last_mean is read by vector\(\)"):
        document.matrix("last_mean")


def test_a_document_by_row(folder: Path, documents: list[ToyDocument]) -> None:
    features = FeatureSet(folder)
    for doc in documents:
        assert features[doc.row].id == doc.id
    for row, why in ((4, "it failed: the field 'text' is null"), (6, "blank line"), (18, "rows 0 to 17"), (-1, "rows")):
        with pytest.raises(FeatureSetError, match=f"row {row} is not here.*{why}"):
            features[row]


def test_documents_by_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_module, "ROW_GROUP_BYTES", 800)
    # Parquet's statistics of strings: long ones have none, others must be compared as bytes
    ids = ["", "\0", "a" * 9000, "z" * 9000, "\uffff", "🙂", "é", "e\u0301", "10", "9", "~"] * 4
    np.random.default_rng(0).shuffle(ids)
    toys = [toy_part(0, 0, 22, poolings=["mean"]), toy_part(1, 22, 22, poolings=["mean"])]
    written = [
        dataclasses.replace(toy, content=dataclasses.replace(toy.content, ids=ids[at : at + 22]))
        for at, toy in zip((0, 22), toys, strict=True)
    ]
    features = FeatureSet(toy_set(tmp_path / "f", *written))
    for wanted in set(ids):
        assert [doc.row for doc in features.by_id(wanted)] == [row for row, each in enumerate(ids) if each == wanted]
    assert features.by_id("nobody") == []


def test_documents_that_were_never_written(parts: tuple[Toy, ...], folder: Path) -> None:
    never = content_documents(parts[0].content, parts[0].header.columns, L)
    for one, other in zip(never, FeatureSet(folder), strict=False):
        assert (one.row, one.id, one.text, one.values) == (other.row, other.id, other.text, other.values)
        np.testing.assert_array_equal(one.matrix("concat4_word"), other.matrix("concat4_word"))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=8),
    lengths=st.lists(st.integers(0, 40), min_size=8, max_size=8),
    group=st.integers(1, 5000),
)
def test_whatever_is_written_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str], lengths: list[int], group: int
) -> None:
    monkeypatch.setattr(part_module, "ROW_GROUP_BYTES", group)
    toy = toy_part(rows=len(texts), poolings=["token"], layers="last")
    lengths = lengths[: len(texts)]
    cells = [np.random.default_rng(length).standard_normal((length, H)).astype(np.float16) for length in lengths]
    flat = np.concatenate([np.empty((0, H), np.float16), *cells])
    strings = [f"{at} {text}" for text, length in zip(texts, lengths, strict=True) for at in range(length)]
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    places = np.arange(len(flat), dtype=np.int32)
    positions = (offsets, places, places + 1, None, None)
    tokens = Pieces(*positions, strings=strings, matrices={"last_token": flat})
    content = dataclasses.replace(toy.content, ids=texts, texts=texts, tokens=tokens)
    features = FeatureSet(toy_set(tmp_path / "f", dataclasses.replace(toy, content=content)))
    for at, found in enumerate(features.documents()):
        assert (found.row, found.id, found.text) == (at, texts[at], texts[at])
        assert found.tokens is not None
        assert list(found.tokens.strings or ()) == strings[offsets[at] : offsets[at + 1]]
        np.testing.assert_array_equal(found.tokens.end, places[offsets[at] : offsets[at + 1]] + 1)
        np.testing.assert_array_equal(found.stored["last_token"], cells[at])
    assert len(features) == len(texts)


# ── streams ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stream_gives_the_asked_columns_in_the_asked_order(folder: Path, documents: list[ToyDocument]) -> None:
    batches = list(FeatureSet(folder).stream(["text", "good.or.bad", "id"], batch_rows=2))
    assert {tuple(batch.schema.names) for batch in batches} == {("text", "good.or.bad", "id")}
    assert max(batch.num_rows for batch in batches) <= 2
    assert [text for batch in batches for text in batch.column("text").to_pylist()] == [doc.text for doc in documents]
    with pytest.raises(FeatureSetError, match=r"no column 'texts'; did you mean text[?] there are: row, id, text"):
        list(FeatureSet(folder).stream(["texts"]))


def test_an_empty_set_is_readable(tmp_path: Path) -> None:
    features = FeatureSet(toy_set(tmp_path / "f", toy_part(rows=2, failures=[0], blank=[1])))
    assert len(features) == 0
    assert features.matrix().shape == (0, 4 * H)
    assert list(features) == []
    assert features.by_id("1") == []
    features.to_numpy(tmp_path / "v.npy", "last_word")
    assert np.load(tmp_path / "v.npy").shape == (0, H)
    with pytest.raises(FeatureSetError, match="it failed"):
        features[0]


def test_opening_a_thousand_parts_is_quick(tmp_path: Path) -> None:
    toy = toy_part(rows=1)
    folder = toy_set(tmp_path / "f", toy)
    manifest = json.loads((folder / ".bertfeat/manifest.json").read_text())
    (entry,) = manifest["parts"]
    manifest["parts"] = []
    for number in range(1000):
        name = f"part-{number:05d}.parquet"
        if number:
            os.link(folder / entry["name"], folder / name)
        manifest["parts"].append({**entry, "number": number, "name": name, "first_row": number, "last_row": number + 1})
    write_json(
        folder / ".bertfeat/manifest.json", {name: value for name, value in manifest.items() if name != "digest"}
    )
    started = time.perf_counter()
    assert len(FeatureSet(folder)) == 1000
    assert time.perf_counter() - started < 1


# ── rows at random, and other processes ─────────────────────────────────────────────────────────────────────


def test_documents_asked_for_by_row_read_their_row_group_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = FeatureSet(toy_set(tmp_path / "f", *toy_parts()))
    rows = [document.row for document in features]
    reads: list[int] = []
    read = PartReader.read_group

    def counted(self: PartReader, group: int, names: Sequence[str]) -> Any:
        reads.append(group)
        return read(self, group, names)

    monkeypatch.setattr(PartReader, "read_group", counted)
    for row in rows:
        assert features[row].row == row
    assert len(reads) == 3  # one a part, which has one row group
    with pytest.raises(FeatureSetError, match="row 4 is not here: it failed"):
        features[4]
    for wrong in (-1, 10**9):
        with pytest.raises(FeatureSetError, match="the corpus has rows 0 to 17"):
            features[wrong]


@pytest.mark.parametrize("wrong", [1.5, None, np.float64(2)], ids=repr)
def test_a_row_is_a_whole_number(folder: Path, wrong: Any) -> None:
    with pytest.raises(UsageError, match="must be a whole number"):
        FeatureSet(folder)[wrong]
    assert FeatureSet(folder)[cast(int, np.int64(2))].row == 2


@pytest.mark.parametrize("finished", [True, False])
def test_a_set_goes_through_pickle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: bool) -> None:
    toy_set(tmp_path / "f", *toy_parts(), finished=finished)
    monkeypatch.chdir(tmp_path)
    features = FeatureSet("f", allow_unfinished=not finished)
    features[0]
    matrix, pickled = features.matrix(), pickle.dumps(features)
    monkeypatch.chdir("/")  # as a worker that was started elsewhere
    again = pickle.loads(pickled)
    assert len(pickled) < 1000
    np.testing.assert_array_equal(again.matrix(), matrix)


def test_processes_that_are_spawned_take_a_set(folder: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(len, (FeatureSet(folder),)) == len(FeatureSet(folder))


@pytest.mark.parametrize("used", [False, True])
def test_a_set_that_is_replaced_while_it_is_open(tmp_path: Path, used: bool) -> None:
    poolings = ("mean", "word")
    folder = toy_set(tmp_path / "x", toy_part(poolings=poolings), toy_part(1, 6, poolings=poolings))
    other = toy_set(tmp_path / "y", toy_part(rows=7, poolings=poolings), toy_part(1, 7, poolings=poolings))
    shutil.copytree(folder, tmp_path / "copy")
    features = FeatureSet(folder)
    if used:
        assert len(list(features)) == 12
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)  # other files with the same bytes are as good
    assert [document.text for document in features] == [document.text for document in FeatureSet(other)][:12]
    reads: list[Callable[[], Any]] = [
        lambda: list(features),
        lambda: features.slice(0, 5, "concat4_mean"),
        lambda: features[0],
        lambda: features[8],
        lambda: features.by_id("8"),
        lambda: list(features.vectors("concat4_word", batch=4)),
        lambda: features.matrix("concat4_mean"),
        lambda: find_usages(features, "bank"),
    ]
    for replacement in (None, other):
        shutil.rmtree(folder)
        if replacement:
            shutil.copytree(replacement, folder)
        for read in reads:
            with pytest.raises(FeatureSetError, match=r"the set was replaced while it was open; open it again"):
                read()
        folder.mkdir(exist_ok=True)


def test_a_pooling_is_shown_by_its_name(folder: Path) -> None:
    with pytest.raises(NotDerivableError, match="leave out 'token'"):
        FeatureSet(folder).find("concat4_mean", Pooling.TOKEN)


def test_reading_loads_no_model_libraries(folder: Path) -> None:
    code = (
        "import sys; from bertfeat.core.features import FeatureSet, export_features\n"
        "features = FeatureSet(sys.argv[1]); features.matrix('last_mean'); features[0].tokens; list(features.check())\n"
        "print(*{'torch', 'transformers', 'faiss', 'tokenizers', 'click'}.intersection(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code, folder], check=True, capture_output=True, text=True)
    assert result.stdout.strip() == ""


def test_documents_at_rows_that_there_are(folder: Path) -> None:
    features = FeatureSet(folder)
    every = {document.row: document for document in features}
    found = list(features.documents_at([10**9, 17, -1, 4, *sorted(every)[:3], 6, 17], ["last_mean"]))
    assert [each.row for each in found] == sorted({17, *sorted(every)[:3]} & set(every))
    for each in found:
        assert each.text == every[each.row].text
        np.testing.assert_array_equal(each.vector("last_mean"), every[each.row].vector("last_mean"))
        assert set(each.stored) == {"last_mean"} or "last_mean" not in features.find("last_mean").derivation.columns
    assert list(features.documents_at([])) == []


def test_a_set_that_is_opened_while_its_successor_is_put_in_place(tmp_path: Path) -> None:
    """Its parts are moved after they were opened, as those of a server that looks just then."""
    folder = toy_set(tmp_path / "features")
    assert isinstance(folder, Path)
    rows = [row for batch in FeatureSet(folder).stream(["row"]) for row in batch.column("row").to_pylist()]
    successor = folder / SUCCESSOR
    successor.mkdir()
    for name in (*(path.name for path in folder.glob("part-*")), ".bertfeat/manifest.json", ".bertfeat/failures.jsonl"):
        if (folder / name).exists():
            (folder / name).rename(successor / Path(name).name)
    opened = FeatureSet(folder)
    assert len([*opened.documents_at(rows)]) == len(rows)
    settle_successor(folder)
    assert not successor.exists()
    assert [row for batch in opened.stream(["row"]) for row in batch.column("row").to_pylist()] == rows
    assert len([*opened.documents_at(rows)]) == len(rows)
