"""``export --to saelens``: a folder that ``datasets`` opens, with a row for each context.

SAELens itself reads it in tests/ecosystem.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from datasets import Array2D, List, Value, load_from_disk

from bertfeat import CorpusSettings, FeatureSet, export_features
from bertfeat.cli import main
from bertfeat.contexts import ContextSettings, write_contexts
from bertfeat.core.features import saelens_files
from bertfeat.core.grammar import hook_name, parse_recipes
from bertfeat.core.recipe import BlockSite, Operation, Place
from bertfeat.errors import NotDerivableError, StorageError
from tests.support.features_toy import toy_part, toy_set
from tests.support.runs import extractor, jsonl_file, lines, text_file
from tests.support.tiny_models import Tiny

SIZE = 16
HOOKS = {
    "mlp3_token": "blocks.2.hook_mlp_out",
    "layer0_token": "blocks.0.hook_resid_pre",
    "layer2_token": "blocks.1.hook_normalized_resid_post",
    "pre_norm2_token": "blocks.1.hook_resid_post",
    "concat_attn_1_3_token": "concat_attn_1_3_token",
}


@pytest.fixture
def folder(bert: Tiny, tmp_path: Path) -> Path:
    """Features of contexts: 12 rows and more in several parts."""
    corpus = text_file(tmp_path / "c.txt", lines(40))
    write_contexts(corpus, tmp_path / "c.parquet", ContextSettings(size=SIZE), model=bert.folder)
    reading = CorpusSettings(pretokenized=True, text_columns=("token_ids",))
    made = extractor(bert, layers="mlp:3,0,2,pre-norm:2,concat=attn:1..3", pooling="token,mean")
    made.extract(tmp_path / "c.parquet", tmp_path / "f.features", corpus_settings=reading, part_rows=5)
    return tmp_path / "f.features"


@pytest.mark.parametrize("rows_of_a_file", [1000, 5, 1])
def test_what_datasets_reads(folder: Path, tmp_path: Path, rows_of_a_file: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(saelens_files, "_SHARD", rows_of_a_file * SIZE * 2 * 7 * 32)  # four columns of 32, one of 96
    features = FeatureSet(folder)
    exported = export_features(folder, "saelens", tmp_path / "out")
    assert (exported.documents, exported.vectors) == (len(features), len(features) * SIZE)
    found = load_from_disk(tmp_path / "out")
    assert len(found) == len(features) > 12
    assert found.features["token_ids"] == List(Value("int32"), length=SIZE)
    ids = features.to_arrow(["token_ids"])["token_ids"].to_pylist()
    assert found["token_ids"][:] == ids
    assert set(found.column_names) == {"token_ids", *HOOKS.values()}
    as_arrays = found.with_format("numpy")
    for name, hook in HOOKS.items():
        wanted = features.matrix(name)
        assert found.features[hook] == Array2D((SIZE, wanted.shape[1]), "float16")
        given = np.stack([as_arrays[row][hook] for row in range(len(found))])
        np.testing.assert_array_equal(given.reshape(wanted.shape), wanted)
    files = [path.name for path in (tmp_path / "out").glob("*.arrow")]
    assert len(files) == -(-len(features) // rows_of_a_file)
    assert json.loads((tmp_path / "out" / "index.json").read_text())["written by"] == "bertfeat export --to saelens"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_chosen_and_derived_columns(folder: Path, tmp_path: Path) -> None:
    export_features(folder, "saelens", tmp_path / "out", column="blocks.1.hook_attn_out")
    found = load_from_disk(tmp_path / "out").with_format("numpy")
    assert set(found.column_names) == {"token_ids", "blocks.1.hook_attn_out"}
    wanted = FeatureSet(folder).matrix("attn:2", "token")
    np.testing.assert_array_equal(found[0]["blocks.1.hook_attn_out"], wanted[:SIZE])
    with pytest.raises(StorageError, match="this folder is there already; choose another name or overwrite it"):
        export_features(folder, "saelens", tmp_path / "out")
    export_features(folder, "saelens", tmp_path / "out", column="mlp:3", overwrite=True)
    assert set(load_from_disk(tmp_path / "out").column_names) == {"blocks.2.hook_mlp_out", "token_ids"}
    (tmp_path / "out" / "mine.txt").write_text("notes")
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "index.json").write_text('{"pages": 3}')
    for other in ("out", "site"):
        before = sorted(path.name for path in (tmp_path / other).iterdir())
        with pytest.raises(StorageError, match="this is no folder of saelens alone, so that it is not overwritten"):
            export_features(folder, "saelens", tmp_path / other, overwrite=True)
        assert sorted(path.name for path in (tmp_path / other).iterdir()) == before


def test_a_folder_that_comes_meanwhile_stays(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is slower is refused."""
    write = saelens_files._write_dataset

    def slowly(*arguments: Any) -> int:
        monkeypatch.setattr(saelens_files, "_write_dataset", write)
        export_features(folder, "saelens", tmp_path / "out", column="2")
        return write(*arguments)

    monkeypatch.setattr(saelens_files, "_write_dataset", slowly)
    with pytest.raises(StorageError, match="this folder is there already"):
        export_features(folder, "saelens", tmp_path / "out", column="mlp:3")
    assert "blocks.1.hook_normalized_resid_post" in load_from_disk(tmp_path / "out").column_names


def test_through_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "out")
    for overwrite in (False, True):
        export_features(folder, "saelens", tmp_path / "link", overwrite=overwrite)
    assert (tmp_path / "link").is_symlink()
    assert len(load_from_disk(tmp_path / "disk" / "out")) == len(FeatureSet(folder))


def test_int8_and_rows_that_failed(bert: Tiny, tmp_path: Path) -> None:
    rows: list[object] = [[5, 6, 7], "no ids", [8, 9, 10], [11, 12, 10**6], [13, 14, 15]]
    corpus = jsonl_file(tmp_path / "ids.jsonl", [{"token_ids": row} for row in rows])
    reading = CorpusSettings(pretokenized=True, text_columns=("token_ids",))
    made = extractor(bert, layers="2", pooling="token", dtype="int8")
    made.extract(corpus, tmp_path / "f", corpus_settings=reading, part_rows=2)
    export_features(tmp_path / "f", "saelens", tmp_path / "out")
    found = load_from_disk(tmp_path / "out").with_format("numpy")
    assert found["token_ids"][:].tolist() == [[5, 6, 7], [8, 9, 10], [13, 14, 15]]
    (name,) = set(found.column_names) - {"token_ids"}
    given = np.concatenate([found[row][name] for row in range(3)])
    assert given.dtype == np.float32
    np.testing.assert_array_equal(given, FeatureSet(tmp_path / "f").matrix("2", "token"))


def test_rows_of_several_lengths_are_refused(tmp_path: Path) -> None:
    toy = toy_set(tmp_path / "f", toy_part(poolings=("token",)))
    with pytest.raises(NotDerivableError, match=r"row \d+ has \d+, not \d+; make rows of one length with bertfeat con"):
        export_features(toy, "saelens", tmp_path / "out")
    of_texts = toy_set(tmp_path / "m", toy_part(poolings=("mean",)))
    with pytest.raises(NotDerivableError, match="saelens needs the ids of tokens"):
        export_features(of_texts, "saelens", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_failure_leaves_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = {path.name for path in tmp_path.iterdir()}
    monkeypatch.setattr("datasets.Dataset.save_to_disk", full)
    with pytest.raises(StorageError, match="No space left"):
        export_features(folder, "saelens", tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == before


def test_in_the_shell(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["export", "f.features", "--to", "saelens", "--column", "mlp:3"])
    assert done.exit_code == 0, done.output
    assert "f.saelens" in done.stdout
    assert done.stderr == ""
    assert len(load_from_disk(tmp_path / "f.saelens")) == len(FeatureSet(folder))


def test_every_hook_has_one_name() -> None:
    """Which the grammar reads."""
    for place in (Place(0), *(Place(layer, site) for layer in (1, 5) for site in BlockSite)):
        spec = str(place.layer) if place.site is BlockSite.OUTPUT else f"{place.site}:{place.layer}"
        (recipe,) = parse_recipes(spec, 5)
        name = hook_name(recipe)
        assert name is not None
        (read,) = parse_recipes(name, 5)
        assert (read.operation, read.places) == (Operation.LAYER, (place,))
    named = {
        "heads:7": "blocks.6.attn.hook_z",
        "attn:7": "blocks.6.hook_attn_out",
        "mid:7": "blocks.6.hook_resid_mid",
        "mlp-in:7": "blocks.6.mlp.hook_in",
        "mlp:7": "blocks.6.hook_mlp_out",
        "pre-norm:7": "blocks.6.hook_resid_post",
    }
    assert {spec: hook_name(parse_recipes(spec, 7)[0]) for spec in named} == named
    (several,) = parse_recipes("sum=mlp:1+2", 5)
    assert hook_name(several) is None
