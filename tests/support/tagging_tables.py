"""A small Table 7, made once for the tests that go on with it, look into it, or damage it."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bertfeat.core.features import FeatureSet
from bertfeat.io import write_json
from bertfeat.learning import HeadSettings, HeadTable, parse_rows, train_head_table7
from tests.support.tagging_toy import feature_set

QUICK = HeadSettings(hidden=4, epochs=2, dropout=0.1, learning_rate=0.01, batch_size=8)
ROWS = parse_rows(["last", "mix4"], 5)
SEEDS = (1, 2)
SIZES = {"train": 40, "dev": 20, "test": 12}
RUN = "runs/last/seed-1.json"

Sets = Mapping[str, FeatureSet]


def made_sets(model: Path, home: Path, **settings: object) -> Sets:
    """The feature sets of a table."""
    return {name: feature_set(model, home / name, size, size, **settings) for name, size in SIZES.items()}


def made_table(sets: Sets, folder: Path, **changes: Any) -> HeadTable:
    """Make a table, or go on with it."""
    settings: dict[str, Any] = {"rows": ROWS, "seeds": SEEDS, "settings": QUICK} | changes
    return train_head_table7(
        "tag", sets["train"], sets["dev"], sets.get("test"), folder, picture=False, **settings
    ).table


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change values of a file of ours and give it the digest that belongs to them."""
    raw: dict[str, Any] = json.loads(path.read_bytes())
    raw.pop("digest", None)
    change(raw)
    write_json(path, raw)
