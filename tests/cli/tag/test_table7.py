"""``bertfeat tag table7`` beside features that are there already, its own and others."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.learning import verify_head_table7
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


@pytest.mark.slow
def test_features_beside_the_corpus_are_left_alone(home: Path) -> None:
    """A table reads features that it is given; of a corpus it makes its own."""
    before = [snapshot(f"{name}.features") for name in NAMES]
    own = table7("last,mix4,sum4")
    assert own.exit_code == 0, own.output
    assert FeatureSet("t/features/train.features").names.count("layer0_word") == 1
    assert [snapshot(f"{name}.features") for name in NAMES] == before
    sets = ["--train", "train.features", "--dev", "dev.features", *QUICK[:6], "--seeds", "1"]
    given = CliRunner().invoke(main, ["tag", "table7", *sets, "-o", "given", "--rows", "last,mix4,sum4"])
    assert given.exit_code == 0, given.output
    assert not Path("given/features").exists()
    scores = [
        {
            path.parent.name: json.loads(path.read_text())["run"]["dev"]
            for path in Path(f"{table}/runs").glob("*/*.json")
        }
        for table in ("t", "given")
    ]
    assert scores[0] == scores[1]


@pytest.mark.slow
def test_rows_that_need_more_layers_are_extracted_into_the_same_table(home: Path) -> None:
    assert table7("last").exit_code == 0
    kept = snapshot("t/runs")
    more = table7("last,embeddings")
    assert more.exit_code == 0, more.output
    assert [len(FeatureSet(f"t/features/{name}.features")) for name in NAMES] == [40, 20]
    assert kept.items() <= snapshot("t/runs").items()
    report = verify_head_table7("t")
    assert (report.rows, report.runs) == (2, 2)
    assert {str(state) for state in report.features.values()} == {"the same"}
    before = [snapshot(f"t/features/{name}.features") for name in NAMES]
    again = table7("last,embeddings,mix-all")
    assert again.exit_code == 0, again.output
    assert [snapshot(f"t/features/{name}.features") for name in NAMES] == before


def test_a_mixture_of_features_and_corpora(home: Path) -> None:
    given = ["tag", "table7", "--train", "train.features", "--dev", "dev.conll", *QUICK[:6], "--seeds", "1", "-o", "t"]
    done = CliRunner().invoke(main, [*given, "--rows", "last"])
    assert done.exit_code == 0, done.output
    assert "t/features/dev.features: 20 sentences" in done.stderr
    named = CliRunner().invoke(main, [*given, "--rows", "last", "--precision", "fp32", "--model", "model"])
    assert named.exit_code == 2
    assert re.search(r"--model, --precision apply to .*; train.features is .* records its own", named.stderr)
