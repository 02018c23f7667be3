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
from bertfeat.errors import FeatureSetError, NotDerivableError, StorageError
from tests.support.features_toy import toy_part, toy_set
from tests.support.runs import extractor, lines, text_file
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


@pytest.mark.parametrize("bytes_of_a_file", [1 << 28, 1])
def test_what_datasets_reads(folder: Path, tmp_path: Path, bytes_of_a_file: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(saelens_files, "_SHARD", bytes_of_a_file)
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
    assert len(files) == (1 if bytes_of_a_file > 1 else len(features))
    assert json.loads((tmp_path / "out" / "index.json").read_text())["written by"] == "bertfeat export --to saelens"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_chosen_and_derived_columns(folder: Path, tmp_path: Path) -> None:
    export_features(folder, "saelens", tmp_path / "out", column="blocks.1.hook_attn_out")
    found = load_from_disk(tmp_path / "out").with_format("numpy")
    assert set(found.column_names) == {"token_ids", "blocks.1.hook_attn_out"}
    wanted = FeatureSet(folder).matrix("attn:2", "token")
    np.testing.assert_array_equal(found[0]["blocks.1.hook_attn_out"], wanted[:SIZE])
    with pytest.raises(FeatureSetError, match="this folder is there already; choose another name or overwrite it"):
        export_features(folder, "saelens", tmp_path / "out")
    export_features(folder, "saelens", tmp_path / "out", column="mlp:3", overwrite=True)
    assert set(load_from_disk(tmp_path / "out").column_names) == {"blocks.2.hook_mlp_out", "token_ids"}
    (tmp_path / "out" / "mine.txt").write_text("notes")
    with pytest.raises(FeatureSetError, match="this is no folder of saelens alone, so that it is not overwritten"):
        export_features(folder, "saelens", tmp_path / "out", overwrite=True)


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
    (several,) = parse_recipes("sum=mlp:1+2", 5)
    assert hook_name(several) is None
