"""The examples in docs/storage-format.md do what they say."""

import re
from pathlib import Path

import duckdb
import numpy as np
import pytest

from bertfeat.corpus import RESERVED_COLUMNS
from bertfeat.features.header import PartHeader
from tests.support.features_toy import toy_parts, toy_set

TEXT = (Path(__file__).parents[2] / "docs" / "storage-format.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(autouse=True)
def corpus_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    toy_set(tmp_path / "corpus.features", *toy_parts(layers="concat4,last"))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("code", EXAMPLES, ids=lambda code: code.split()[1])
def test_the_examples_run(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "datasets" in code:
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    found: dict[str, object] = {}
    exec(code, found)
    for name in {"vectors", "matrix", "weighted"} & set(found):
        array = found[name]
        assert isinstance(array, np.ndarray)
        assert array.dtype in (np.float32, np.float16)
        assert array.ndim == 2


def test_the_query_runs() -> None:
    (query,) = re.findall(r"```sql\n(.*?)```", TEXT, re.DOTALL)
    assert duckdb.execute(query).fetchall()[0] == ("1", "The bank, by the river.")


def test_every_column_and_field_is_documented() -> None:
    for name in (*RESERVED_COLUMNS, *PartHeader.__dataclass_fields__):
        assert f"`{name}`" in TEXT, name
