import csv
import json
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from bertfeat.core.features import export_features, exports as exports_module
from bertfeat.errors import FeatureSetError, NotDerivableError, StorageError, UsageError
from tests.support.features_toy import KEPT, H, Toy, ToyDocument, toy_part, toy_parts, toy_set


@pytest.fixture(scope="module")
def parts() -> tuple[Toy, ...]:
    return toy_parts(layers="concat4,last")


@pytest.fixture(scope="module")
def folder(parts: tuple[Toy, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toy_set(tmp_path_factory.mktemp("exports") / "toy.features", *parts)


@pytest.fixture(scope="module")
def documents(parts: tuple[Toy, ...]) -> list[ToyDocument]:
    return [doc for part in parts for doc in part.documents]


def json_lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def csv_lines(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def close(found: object, expected: NDArray[np.float32]) -> None:
    np.testing.assert_allclose(np.array(found, np.float32).reshape(expected.shape), expected, rtol=1e-6, atol=1e-6)


# ── npy ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_npy_of_documents(folder: Path, documents: list[ToyDocument], tmp_path: Path) -> None:
    exported = export_features(folder, "npy", tmp_path / "v.npy", column="sum4_mean")
    assert (exported.documents, exported.vectors) == (15, 15)
    assert exported.files == (tmp_path / "v.npy", tmp_path / "v.ids.jsonl")
    assert sorted(os.listdir(tmp_path)) == ["v.ids.jsonl", "v.npy"]
    close(np.load(tmp_path / "v.npy"), np.stack([doc.feature("sum", [1, 2, 3, 4], "mean") for doc in documents]))
    assert json_lines(tmp_path / "v.ids.jsonl") == [{"row": doc.row, "id": doc.id} for doc in documents]


def test_npy_of_words(folder: Path, documents: list[ToyDocument], tmp_path: Path) -> None:
    words = [
        {"row": doc.row, "id": doc.id, "position": at, "string": word, "start": start, "end": end}
        for doc in documents
        for at, (word, (start, end)) in enumerate(zip(doc.words, doc.spans(), strict=True))
    ]
    assert export_features(folder, "npy", tmp_path / "v.npy", column="last_word").vectors == len(words)
    close(np.load(tmp_path / "v.npy"), np.concatenate([doc.feature("sum", [4], "word") for doc in documents]))
    assert json_lines(tmp_path / "v.ids.jsonl") == words


# ── jsonl ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_jsonl_holds_everything(folder: Path, documents: list[ToyDocument], tmp_path: Path) -> None:
    export_features(folder, "jsonl", tmp_path / "v.jsonl")
    for found, doc in zip(json_lines(tmp_path / "v.jsonl"), documents, strict=True):
        assert (found["row"], found["id"], found["text"]) == (doc.row, doc.id, doc.text)
        assert [found[kept.name] for kept in KEPT] == list(doc.kept)
        assert (found["tokens"], found["words"]) == (doc.tokens, doc.words)
        # exactly: text gives back the very same float32
        assert np.array_equal(np.array(found["last_mean"], np.float32), doc.feature("sum", [4], "mean"))
        close(found["last_token"], doc.feature("sum", [4], "token"))
        close(found["concat4_word"], doc.feature("concat", [1, 2, 3, 4], "word"))
        assert len(found["concat4_word"]) == len(doc.words)  # type: ignore[arg-type]


def test_jsonl_of_one_column(folder: Path, documents: list[ToyDocument], tmp_path: Path) -> None:
    export_features(folder, "jsonl", tmp_path / "v.jsonl", column="second-to-last_mean")
    for found, doc in zip(json_lines(tmp_path / "v.jsonl"), documents, strict=True):
        assert [name for name in found if name.endswith(("_mean", "_token"))] == ["second_to_last_mean"]
        close(found["second_to_last_mean"], doc.feature("sum", [3], "mean"))


def test_jsonl_knows_no_infinities(tmp_path: Path) -> None:
    toy = toy_part(poolings=["mean"], layers="last")
    toy.content.vectors["last_mean"][1, 2:5] = [np.inf, np.nan, -np.inf]
    next(values for kept, values in toy.content.kept.items() if kept.name == "score")[0] = float("nan")  # type: ignore[index]
    export_features(toy_set(tmp_path / "f", toy), "jsonl", tmp_path / "v.jsonl")

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    found = [json.loads(line, parse_constant=refuse) for line in (tmp_path / "v.jsonl").read_text().splitlines()]
    assert found[1]["last_mean"][2:5] == [None] * 3
    assert None not in found[1]["last_mean"][5:]
    assert found[0]["score"] is None


# ── google's form ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("column", "layers"), [(None, [4, 3, 2, 1]), ("concat=2..3", [3, 2]), ("last_token", [4])])
def test_bert_jsonl_is_googles(
    folder: Path, documents: list[ToyDocument], tmp_path: Path, column: str | None, layers: list[int]
) -> None:
    exported = export_features(folder, "bert-jsonl", tmp_path / "v.jsonl", column=column)
    assert exported.vectors == sum(len(doc.tokens) for doc in documents)
    for found, doc in zip(json_lines(tmp_path / "v.jsonl"), documents, strict=True):
        # what google's extract_features.py writes, spelled out
        expected = {
            "linex_index": doc.row,
            "features": [
                {
                    "token": token,
                    "layers": [
                        {"index": layer - 5, "values": [round(float(x), 6) for x in doc.hidden[layer][at]]}
                        for layer in layers
                    ],
                }
                for at, token in enumerate(doc.tokens)
            ],
        }
        assert found == expected
        assert list(found) == list(expected)


def test_bert_jsonl_needs_single_layers_of_tokens(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(NotDerivableError, match=r"sum4 does not give.*layers='-1,-2,-3,-4' pooling='token'"):
        export_features(folder, "bert-jsonl", tmp_path / "v", column="sum4")
    with pytest.raises(NotDerivableError, match="already names its pooling"):
        export_features(folder, "bert-jsonl", tmp_path / "v", column="last_word")
    without = toy_set(tmp_path / "f", toy_part(text=False))
    with pytest.raises(NotDerivableError, match="made with keep_text=False"):
        export_features(without, "bert-jsonl", tmp_path / "v")
    assert not (tmp_path / "v").exists()


# ── csv ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_csv_of_documents(folder: Path, documents: list[ToyDocument], tmp_path: Path) -> None:
    export_features(folder, "csv", tmp_path / "v.csv", column="last_mean")
    header, *lines = csv_lines(tmp_path / "v.csv")
    assert header == ["id", *(f"v{at}" for at in range(H))]
    assert [line[0] for line in lines] == [doc.id for doc in documents]
    values = np.array([line[1:] for line in lines], np.float32)
    np.testing.assert_array_equal(values, np.stack([doc.feature("sum", [4], "mean") for doc in documents]))


@pytest.mark.parametrize("text", [True, False])
def test_csv_of_tokens(tmp_path: Path, text: bool) -> None:
    toys = toy_parts(layers="last", text=text)
    export_features(toy_set(tmp_path / "f", *toys), "csv", tmp_path / "v.csv", column="last_token")
    header, *lines = csv_lines(tmp_path / "v.csv")
    assert header == ["id", "position", *(["string"] if text else []), "start", "end", *(f"v{at}" for at in range(H))]
    documents = [doc for toy in toys for doc in toy.documents]
    expected = [
        [doc.id, str(at), *([token] if text else []), str(start), str(end)]
        for doc in documents
        for at, (token, (start, end)) in enumerate(zip(doc.tokens, [(0, 0), *doc.spans(), (0, 0)], strict=True))
    ]
    assert [line[:-H] for line in lines] == expected
    close([line[-H:] for line in lines], np.concatenate([doc.feature("sum", [4], "token") for doc in documents]))


# ── all forms ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", exports_module.EXPORT_FORMATS)
def test_an_empty_set_gives_an_empty_file(tmp_path: Path, form: str) -> None:
    exported = export_features(toy_set(tmp_path / "f", toy_part(rows=1, blank=[0])), form, tmp_path / "out.x")
    assert (exported.documents, exported.vectors) == (0, 0)
    assert all(path.exists() for path in exported.files)
    lines = (tmp_path / "out.x").read_bytes().count(b"\n")
    assert lines == (1 if form in ("npy", "csv") else 0)


@pytest.mark.parametrize("form", exports_module.EXPORT_FORMATS)
def test_files_are_overwritten_only_when_told(folder: Path, tmp_path: Path, form: str) -> None:
    column = None if form == "bert-jsonl" else "last_mean"
    (tmp_path / "out.x").write_text("precious")
    with pytest.raises(StorageError, match=r"out\.x: this file is there already"):
        export_features(folder, form, tmp_path / "out.x", column=column)
    assert (tmp_path / "out.x").read_text() == "precious"
    exported = export_features(folder, form, tmp_path / "out.x", column=column, overwrite=True)
    assert b"precious" not in (tmp_path / "out.x").read_bytes()
    assert sorted(os.listdir(tmp_path)) == sorted(path.name for path in exported.files)


@pytest.mark.parametrize("form", exports_module.EXPORT_FORMATS)
def test_an_export_that_fails_leaves_nothing(tmp_path: Path, form: str) -> None:
    folder = toy_set(tmp_path / "f", *toy_parts())
    path = folder / "part-00002.parquet"
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(FeatureSetError, match="part-00002"):
        export_features(folder, form, tmp_path / "out.x")
    assert os.listdir(tmp_path) == ["f"]


def test_an_empty_csv_has_all_its_columns(tmp_path: Path) -> None:
    export_features(
        toy_set(tmp_path / "f", toy_part(rows=1, blank=[0])), "csv", tmp_path / "v.csv", column="layer2_word"
    )
    names = ["id", "position", "string", "start", "end", *(f"v{at}" for at in range(H))]
    assert csv_lines(tmp_path / "v.csv") == [names]


def test_an_unknown_form_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'xml'; there are: npy, jsonl, bert-jsonl, csv"):
        export_features(folder, "xml", tmp_path / "v")
    with pytest.raises(NotDerivableError, match="several columns fit"):
        export_features(folder, "csv", tmp_path / "v")


# ── hidden states as vLLM writes them ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("column", [None, "concat4", "1..3", "layer2"])
def test_hidden_states_of_every_document(tmp_path: Path, column: str | None) -> None:
    """Read by safetensors itself."""
    toy = toy_part(poolings=("token",), failures=[3])
    out = tmp_path / "v.hidden_states"
    exported = export_features(toy_set(tmp_path / "f", toy), "hidden-states", out, column=column)
    assert (exported.files, exported.documents) == ((out,), len(toy.documents))
    assert exported.vectors == sum(len(document.tokens) for document in toy.documents)
    layers = {"concat4": [1, 2, 3, 4], "1..3": [1, 2, 3], "layer2": [2]}
    for document in toy.documents:
        tensors = load_file(out / f"{document.row:08}.safetensors")
        assert tensors["token_ids"].dtype == np.int64
        assert tensors["token_ids"].tolist() == [sum(map(ord, token)) for token in document.tokens]
        wanted = [document.feature("sum", [layer], "token") for layer in layers.get(column or "", [1, 2, 3, 4])]
        states = tensors["hidden_states"]
        assert states.shape[0] == len(document.tokens)
        assert states.dtype == np.float16
        if column is not None:
            np.testing.assert_array_equal(states, np.stack(wanted, 1).astype("f2"))
    assert len(list(out.iterdir())) == len(toy.documents) + 1
    assert json.loads((out / "index.json").read_text())["tokens"] == exported.vectors
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_folder_of_hidden_states_is_replaced_only_if_it_is_one(tmp_path: Path) -> None:
    folder, out = toy_set(tmp_path / "f", toy_part(poolings=("token",))), tmp_path / "out"
    export_features(folder, "hidden-states", out)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(StorageError, match="this folder is there already; choose another name or overwrite it"):
        export_features(folder, "hidden-states", out)
    export_features(folder, "hidden-states", out, overwrite=True)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    (out / "mine.txt").write_text("notes")
    for foreign in (out, tmp_path / "f"):
        kept = sorted(path.name for path in foreign.iterdir())
        with pytest.raises(StorageError, match="this is no folder of hidden-states alone, so that it is not over"):
            export_features(folder, "hidden-states", foreign, overwrite=True)
        assert sorted(path.name for path in foreign.iterdir()) == kept


def test_a_failure_leaves_no_hidden_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = toy_set(tmp_path / "f", toy_part(poolings=("token",)))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.numpy.save_file", full)
    with pytest.raises(StorageError, match="No space left"):
        export_features(folder, "hidden-states", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_hidden_states_that_cannot_be(tmp_path: Path) -> None:
    without = toy_set(tmp_path / "w", toy_part(poolings=("token",), text=False))
    with pytest.raises(NotDerivableError, match="hidden-states needs the ids of tokens; stored are row"):
        export_features(without, "hidden-states", tmp_path / "out")
    of_texts = toy_set(tmp_path / "m", toy_part(poolings=("mean",)))
    with pytest.raises(NotDerivableError, match="needs the ids of tokens"):
        export_features(of_texts, "hidden-states", tmp_path / "out")
    tokens = toy_set(tmp_path / "t", toy_part(poolings=("token",)))
    with pytest.raises(NotDerivableError):
        export_features(tokens, "hidden-states", tmp_path / "out", column="attn:1")
    (tmp_path / "file").write_text("notes")
    for overwrite in (False, True):
        with pytest.raises(StorageError, match="a file of this name is there, and hidden-states is a folder"):
            export_features(tokens, "hidden-states", tmp_path / "file", overwrite=overwrite)
    with pytest.raises(UsageError, match="spans"):
        export_features(tokens, "hidden-states", tmp_path / "out", spans="sentences")
    assert not (tmp_path / "out").exists()
