"""Files whose contents are wrong though every digest holds: what somebody would write who knows how it is done."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bertfeat.core.features.part import HEADER_KEY, read_footer
from bertfeat.core.features.parts import part_entry
from bertfeat.core.features.sealed_file import EMPTY_SEAL, SEAL_KEY, check_footer, write_seal
from bertfeat.io import digest_file, write_json

Header = dict[str, Any]
ChangePart = Callable[[pa.Table, Header], tuple[pa.Table, Header]]


def forge_part(path: Path, change: ChangePart) -> None:
    """Change the table and the header of a part, seal it anew, and let the manifest say what it is now."""
    metadata = pq.read_metadata(path).metadata
    table, header = change(pq.read_table(path), json.loads(metadata[HEADER_KEY]))
    with pq.ParquetWriter(path, table.schema.remove_metadata(), write_page_checksum=True) as writer:
        writer.write_table(table.replace_schema_metadata(None))
        writer.add_key_value_metadata({HEADER_KEY: json.dumps(header).encode(), SEAL_KEY: EMPTY_SEAL})
    write_seal(path, (0, b""))
    manifest = path.parent / ".bertfeat" / "manifest.json"
    value = json.loads(manifest.read_text("utf-8"))
    del value["digest"]
    value["parts"] = [_entry(path, entry) if entry["name"] == path.name else entry for entry in value["parts"]]
    write_json(manifest, value)


def _entry(path: Path, before: dict[str, Any]) -> dict[str, Any]:
    try:
        return dataclasses.asdict(part_entry(read_footer(path)))
    except Exception:  # it is not even a part: then its digest and size will do
        return {**before, "bytes": path.stat().st_size, "sha256": check_footer(path).sha256}


def forge_index(folder: Path, name: str) -> None:
    """Let the record say that a file of the index is as it was written."""
    path = folder / ".bertfeat" / "index.json"
    value = json.loads(path.read_text("utf-8"))
    del value["digest"]
    value["files"][name] = dataclasses.asdict(digest_file(folder / value["version"] / name))
    write_json(path, value)


def forge_tagger(folder: Path) -> None:
    """Let ``head.json`` say that the weights are as they were written."""
    path = folder / "head.json"
    value = json.loads(path.read_text("utf-8"))
    del value["digest"]
    value["weights"] = dataclasses.asdict(digest_file(folder / "head.safetensors"))
    write_json(path, value)
