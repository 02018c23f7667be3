"""Row groups of a part are found by their rows and ids, with statistics and without."""

from pathlib import Path

import pytest

from bertfeat.core.features import part as part_module, write_part
from bertfeat.core.features.open_parts import PartReader
from bertfeat.core.features.part import read_footer
from tests.support.features_toy import toy_part


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PartReader:
    """A part of the rows 0, 2, 3 and 4, each in a row group of its own."""
    monkeypatch.setattr(part_module, "ROW_GROUP_BYTES", 1)
    toy = toy_part(rows=5, blank=[1])
    write_part(tmp_path, toy.header, toy.table)
    return PartReader(read_footer(tmp_path / "part-00000.parquet"))


@pytest.mark.parametrize("lacking", [(), (0,), (1,), (3,), (0, 1, 2, 3)], ids=str)
def test_row_groups_without_statistics_keep_their_numbers(
    lacking: tuple[int, ...], reader: PartReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    statistics = PartReader._statistics
    monkeypatch.setattr(
        PartReader, "_statistics", lambda self, group, at: None if group in lacking else statistics(self, group, at)
    )
    assert reader.bounds == [(0, 0), (2, 2), (3, 3), (4, 4)]
    assert [reader.group_of(row) for row in range(6)] == [0, None, 1, 2, 3, None]
    assert [reader.rows_of_id(str(row + 1)) for row in range(6)] == [[0], [], [2], [3], [4], []]
    batches = reader.batches(["row"], start=2, stop=4, batch_rows=10)
    assert [batch.column("row").to_pylist() for batch in batches] == [[2], [3]]
