"""An index of other or more feature sets is replaced only when asked for; the command that is printed loses none."""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.errors import IndexFolderError
from bertfeat.search import BuildOptions, VectorIndex, build_index, update_index
from tests.support.features_toy import toy_part, toy_set
from tests.support.index_toy import clustered, files_of, ids_of, vector_set

EXACT = BuildOptions(type="flat", evaluate=False)


def made(folder: Path, count: int, seed: int) -> Path:
    """A feature set whose ids begin with its name."""
    return vector_set(folder, clustered(count, seed=seed), ids=[f"{folder.stem} {number}" for number in range(count)])


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """An index of two feature sets, of which the second one was appended."""
    build_index(made(tmp_path / "base.features", 40, 1), tmp_path / "z.index", options=EXACT)
    update_index(tmp_path / "z.index", made(tmp_path / "delta.features", 7, 2))
    return tmp_path / "z.index"


def build(folder: Path, *sets: str, **options: bool) -> None:
    build_index([folder.with_name(name) for name in sets], folder, options=EXACT, **options)  # type: ignore[arg-type]


def test_what_a_build_would_lose_is_told_and_nothing_changes(both: Path) -> None:
    made(both.with_name("other.features"), 3, 3)
    before = files_of(both)
    for sets, lost in (
        (["delta.features"], r"holds 40 documents of \S+/base\.features, which would be lost"),
        (["base.features", "other.features"], r"holds 7 documents of \S+/delta\.features, which"),
        (["other.features"], r"holds 47 documents of \S+/base\.features, \S+/delta\.features, which"),
    ):
        with pytest.raises(IndexFolderError, match=lost) as refused:
            build(both, *sets)
        assert re.search(
            r"name these feature sets too, append .*, name another folder, or give overwrite=True$", str(refused.value)
        )
    assert files_of(both) == before


def test_it_is_replaced_when_asked_for(both: Path) -> None:
    build(both, "delta.features", overwrite=True)
    assert ids_of(both) == {f"delta {number}" for number in range(7)}
    assert [Path(source.path).name for source in VectorIndex(both).settings.sources] == ["delta.features"]


def test_the_same_sets_and_more_need_not_be_asked_for(both: Path) -> None:
    made(both.with_name("other.features"), 3, 3)
    build(both, "delta.features", "base.features")
    build(both, "other.features", "base.features", "delta.features")
    assert len(ids_of(both)) == 50
    shutil.rmtree(both.with_name("delta.features"))
    made(both.with_name("delta.features"), 9, 4)  # another one in its place
    build(both, "other.features", "base.features", "delta.features")
    assert len(ids_of(both)) == 52
    both.with_name("delta.features").rename(both.with_name("moved.features"))  # the same one elsewhere
    build(both, "other.features", "base.features", "moved.features")
    assert len(ids_of(both)) == 52


# ── the command that is printed ─────────────────────────────────────────────────────────────────────────────


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--type hnsw --metric ip --target-recall 0.9",
        "--type flat --no-text --no-evaluate --query-prompt 'find: '",
        "--transform half-whiten:8",
    ],
)
def test_a_set_that_was_extracted_anew(options: str, tmp_path: Path) -> None:
    """As told by ``search``, ``verify`` and ``verify --json``, in folders with spaces and quotes in their names."""
    base, delta, index = (tmp_path / name for name in ("the 'base'.features", "a delta.features", "z z.index"))
    assert run("index", made(base, 300, 1), "-o", index, *shlex.split(options)).exit_code == 0
    assert run("index", made(delta, 20, 2), "-o", index, "--update").exit_code == 0
    shutil.rmtree(delta)
    made(delta, 30, 3)
    before = VectorIndex(index).settings
    np.save(tmp_path / "query.npy", clustered(1))
    searched, verified = run("search", index, "--vectors", tmp_path / "query.npy"), run("verify", index)
    assert (searched.exit_code, verified.exit_code) == (1, 0), verified.output
    commands = [re.search(r"bring it up to date: (bertfeat index .+)", each.stderr) for each in (searched, verified)]
    printed = {found[1] for found in commands if found} | {
        json.loads(run("verify", index, "--json").stdout)["update_command"]
    }
    assert len(printed) == 1
    assert run(*shlex.split(printed.pop())[1:]).exit_code == 0
    after = VectorIndex(index).settings
    assert ids_of(index) == {f"{base.stem} {at}" for at in range(300)} | {f"{delta.stem} {at}" for at in range(30)}
    for name in ("column", "type", "metric", "transform", "query_prompt", "has_text"):
        assert getattr(after, name) == getattr(before, name), name
    measured = [each.evaluation and each.evaluation.wanted for each in (before, after)]
    assert measured[0] == measured[1]
    assert run("search", index, "--vectors", tmp_path / "query.npy").exit_code == 0


@pytest.mark.parametrize(
    "options",
    [
        "--column concat4_mean --with-tokens concat4_token --pool-tokens 2",
        "--column concat4_token --spans sentences",
        "--column concat4_token --encode fde:64",
    ],
)
def test_vectors_of_other_kinds(options: str, tmp_path: Path) -> None:
    features, index = tmp_path / "toy.features", tmp_path / "toy.index"
    toy_set(features, toy_part(0, 0, 18))
    assert run("index", features, "-o", index, *options.split()).exit_code == 0
    before = VectorIndex(index).settings
    shutil.rmtree(features)
    toy_set(features, toy_part(0, 0, 12))
    command = json.loads(run("verify", index, "--json").stdout)["update_command"]
    assert run(*shlex.split(command)[1:]).exit_code == 0
    after = VectorIndex(index).settings
    assert after.documents == 12
    for name in ("contents", "spans"):
        assert getattr(after, name) == getattr(before, name), name
    kept = [each.tokens and (each.tokens.column.name, each.tokens.pooled) for each in (before, after)]
    assert kept[0] == kept[1]
