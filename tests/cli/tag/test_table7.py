"""``bertfeat tag table7`` and features that are there already: used as they are where they are those of the corpus."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.extraction import Extractor
from bertfeat.features import FeatureSet
from bertfeat.tagging import verify_table7
from tests.support.tagging_toy import sentences, write_conll
from tests.support.tiny_models import Tiny

QUICK = ("--hidden", "4", "--epochs", "1", "--batch-size", "8", "--precision", "fp32", "--seeds", "1")
PAIR = ("--train", "train.conll", "--dev", "dev.conll")
NAMES = ("train", "dev")


@pytest.fixture
def home(tiny: Callable[[str], Tiny], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Corpora with features of the last four layers beside them, as tag train makes them."""
    for number, name in ((40, "train"), (20, "dev")):
        write_conll(tmp_path / f"{name}.conll", sentences(number, number))
    (tmp_path / "model").symlink_to(tiny("bert").folder)
    (tmp_path / "other").symlink_to(tiny("roberta").folder)
    monkeypatch.chdir(tmp_path)
    for name in NAMES:
        extracted(name)
    return tmp_path


def extracted(name: str, **settings: object) -> None:
    given = {"layers": "concat4", "pooling": "word", "precision": "fp32", "device": "cpu"} | settings
    Extractor("model", **given).extract(f"{name}.conll", f"{name}.features")  # type: ignore[arg-type]


def table7(rows: str, *more: str) -> Result:
    return CliRunner().invoke(
        main, ["tag", "table7", *PAIR, *QUICK, "--model", "model", "-o", "t", "--rows", rows, *more]
    )


def snapshot(folder: str) -> dict[str, tuple[int, bytes]]:
    found = (path for path in Path(folder).rglob("*") if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in found}


def test_features_beside_the_corpus_are_used_and_left_as_they_are(home: Path) -> None:
    before = [snapshot(f"{name}.features") for name in NAMES]
    done = table7("last,mix4,second-to-last,sum4,3")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("with these layers already") == 2
    assert not Path("t/features").exists()
    assert [snapshot(f"{name}.features") for name in NAMES] == before
    from_these = {path.name: json.loads(path.read_text())["dev"] for path in Path("t/runs").glob("*/seed-1.json")}
    # the very scores that features of its own would give
    for name in NAMES:
        shutil.move(f"{name}.features", f"moved-{name}.features")
    alone = table7("last,mix4,second-to-last,sum4,3", "-o", "own")
    assert alone.exit_code == 0, alone.output
    assert FeatureSet("own/features/train.features").names.count("layer0_word") == 1
    own = {path.name: json.loads(path.read_text())["dev"] for path in Path("own/runs").glob("*/seed-1.json")}
    assert own == from_these


def test_rows_that_need_more_layers_are_extracted_into_the_same_table(home: Path) -> None:
    assert table7("last").exit_code == 0
    kept = snapshot("t/runs")
    more = table7("last,embeddings")
    assert more.exit_code == 0, more.output
    assert "with these layers already" not in more.stderr
    assert [len(FeatureSet(f"t/features/{name}.features")) for name in NAMES] == [40, 20]
    assert kept.items() <= snapshot("t/runs").items()
    report = verify_table7("t")
    assert (report.rows, report.runs) == (2, 2)
    assert {str(state) for state in report.features.values()} == {"the same"}
    before = [snapshot(f"t/features/{name}.features") for name in NAMES]
    again = table7("last,embeddings,mix-all")
    assert again.exit_code == 0, again.output
    assert [snapshot(f"t/features/{name}.features") for name in NAMES] == before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda: write_conll(Path("train.conll"), sentences(41, 40)), id="a longer corpus"),
        pytest.param(lambda: Path("train.conll").write_text(swapped(), "utf-8"), id="another tag"),
        pytest.param(lambda: remade(model="other"), id="another model"),
        pytest.param(lambda: remade(subword="mean"), id="another subword"),
        pytest.param(lambda: remade(dtype="float32"), id="another dtype"),
        pytest.param(lambda: remade(max_length=20), id="another length"),
        pytest.param(lambda: remade(layers="0..2"), id="other layers"),
        pytest.param(lambda: remade(pooling="mean"), id="no words"),
        pytest.param(lambda: Path("train.features/.bertfeat/manifest.json").unlink(), id="not finished"),
        pytest.param(lambda: Path("train.features/part-00000.parquet").write_bytes(b""), id="damaged"),
    ],
)
def test_features_that_are_not_those_wanted_are_left_alone(home: Path, change: Callable[[], object]) -> None:
    change()
    before = snapshot("train.features")
    done = table7("last")
    assert done.exit_code == 0, done.output
    assert done.stderr.count("with these layers already") == 1  # the development set's
    assert snapshot("train.features") == before
    assert FeatureSet("t/features/train.features").columns[0].name == "layer0_word"


def swapped() -> str:
    return Path("train.conll").read_text("utf-8").replace("B-LOC", "B-ORG", 1)


def remade(model: str = "model", layers: str = "concat4", pooling: str = "word", **settings: object) -> None:
    shutil.rmtree("train.features")
    given = {"precision": "fp32", "device": "cpu"} | settings
    layers = "concat=0..2" if layers == "0..2" else layers
    Extractor(model, layers=layers, pooling=pooling, **given).extract("train.conll", "train.features")  # type: ignore[arg-type]


def test_a_dry_run_counts_on_features_that_are_there(home: Path) -> None:
    with_them = json.loads(table7("last", "--dry-run", "--json").stdout)
    assert with_them["extraction"] == 0
    assert with_them["epochs"] == 1
    without = json.loads(table7("embeddings", "--dry-run", "--json").stdout)
    assert without["extraction"] > 0
    assert not Path("t").exists()


def test_a_mixture_of_features_and_corpora(home: Path) -> None:
    given = ["tag", "table7", "--train", "train.features", "--dev", "dev.conll", *QUICK[:6], "--seeds", "1", "-o", "t"]
    done = CliRunner().invoke(main, [*given, "--rows", "last"])
    assert done.exit_code == 0, done.output
    assert "dev.features: 20 sentences, with these layers already" in done.stderr
    named = CliRunner().invoke(main, [*given, "--rows", "last", "--precision", "fp32", "--model", "model"])
    assert named.exit_code == 2
    assert "--model, --precision: for corpora; the feature set that is given records its own" in " ".join(
        named.stderr.split()
    )
