"""docs/storage-format.md is complete; tests/test_documents.py runs its examples."""

from pathlib import Path

from bertfeat.core.corpus import RESERVED_COLUMNS
from bertfeat.core.features.part import PartHeader

TEXT = (Path(__file__).parents[2] / "docs" / "storage-format.md").read_text(encoding="utf-8")


def test_every_column_and_field_is_documented() -> None:
    for name in (*RESERVED_COLUMNS, *PartHeader.__dataclass_fields__):
        assert f"`{name}`" in TEXT, name
