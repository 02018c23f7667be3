"""Golden heads and tables: folders of every format version are read, and go on, as when they were made."""

import json
import shutil
from pathlib import Path

import pytest

from bertfeat.core.features import FeatureSet
from bertfeat.learning import Head, HeadPrediction, TableRun, train_head_table7, verify_head, verify_head_table7
from bertfeat.learning.head_files import FORMAT_VERSION
from bertfeat.learning.table7 import results
from bertfeat.progress import AnyProgress
from tests.golden.make_learning import LABEL, TABLE

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = [("classifier", FORMAT_VERSION), ("table7", results.FORMAT_VERSION)]


@pytest.mark.parametrize(("kind", "version"), VERSIONS)
def test_every_version_is_there(kind: str, version: int) -> None:
    assert sorted(path.name for path in GOLDEN.glob(f"{kind}-*")) == [f"{kind}-{n}" for n in range(1, version + 1)]


@pytest.mark.parametrize("version", range(1, FORMAT_VERSION + 1))
def test_a_golden_classifier_predicts_as_when_it_was_trained(version: int) -> None:
    golden = GOLDEN / f"classifier-{version}"
    expected = json.loads((golden / "expected.json").read_text())
    head, features = Head(golden / "head", device="cpu"), FeatureSet(golden / "features")
    found = head.predict(features)
    assert [row.value for row in found.rows if isinstance(row, HeadPrediction)] == expected["labels"]
    assert found.scores is not None
    assert found.scores.value == head.record.score == expected["score"]
    assert (str(head.record.chosen), len(head.record.candidates)) == (expected["chosen"], expected["candidates"])
    assert head.record.columns.label == LABEL
    report = verify_head(golden / "head")
    assert (report.format_version, set(map(str, report.features.values()))) == (version, {"the same"})


@pytest.mark.parametrize("version", range(1, results.FORMAT_VERSION + 1))
def test_a_golden_table_goes_on(version: int, tmp_path: Path) -> None:
    golden = Path(shutil.copytree(GOLDEN / f"table7-{version}", tmp_path / "golden"))
    expected = json.loads((golden / "expected.json").read_text())
    report = verify_head_table7(golden / "table")
    assert (report.rows, report.runs, report.unfinished) == (len(expected), 4, 0)
    assert set(map(str, report.features.values())) == {"the same"}
    features, told = FeatureSet(golden / "features"), list[AnyProgress]()
    more = train_head_table7(
        "tag", features, features, None, golden / "table", picture=False, device="cpu", progress=told.append, **TABLE
    )
    assert {row.name: list(row.dev) for row in more.table.rows} == expected
    assert [each.stored for each in told if isinstance(each, TableRun)] == [True] * 4
