"""The golden taggers, and ways to damage a copy of one without its digests telling."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bertfeat.io import write_json

GOLDEN = Path(__file__).parents[1] / "golden"
JSON, WEIGHTS = "head.json", "head.safetensors"


def rewritten(folder: Path, change: Callable[[dict[str, Any]], object], name: str = JSON) -> None:
    """Change values of a file of ours and give it the digest that belongs to them."""
    raw: dict[str, Any] = json.loads((folder / name).read_bytes())
    del raw["digest"]
    change(raw)
    write_json(folder / name, raw)


def put(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    def change(raw: Any) -> None:
        for key in path[:-1]:
            raw = raw[key]
        raw[path[-1]] = to

    return change
