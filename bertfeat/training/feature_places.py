"""Where the feature sets are that a tagger or a table was made from, as its folder records it."""

import os
from pathlib import Path

from bertfeat.errors import TrainingError
from bertfeat.io import Address, Location, as_location, is_address, real_path


def record_place(features: Location, folder: Path) -> str:
    """Where features are, seen from a folder, so that both may be moved together; an address is as it is."""
    return str(features) if isinstance(features, Address) else os.path.relpath(real_path(features), real_path(folder))


def find_place(folder: Path, recorded: str) -> Location:
    """The place that a folder records.

    Raises:
        TrainingError: no place can have that name.
    """
    if "\0" in recorded:
        raise TrainingError(f"it records {recorded!r} as the place of its features", where=folder)
    return as_location(recorded) if is_address(recorded) else folder / recorded
