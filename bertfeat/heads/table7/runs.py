"""The runs of a head's Table 7 that are done, each in a file of its own, and what they have in common."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from bertfeat.errors import HeadError, parameter
from bertfeat.io import JsonFormat, canonical_json, read_regular, storage_errors, write_json
from bertfeat.tagging import TableRow
from bertfeat.training import GridPoint

FORMAT_VERSION = 1
SETTINGS_NAME = "_settings.json"
RUNS_NAME = "runs"

_Score = Annotated[float, Meta(ge=-1, le=1)]


@dataclass(frozen=True, slots=True)
class HeadRun:
    """One training of one row, or a baseline."""

    row: str
    seed: Annotated[int, Meta(ge=0)]
    dev: _Score
    test: _Score | None
    scores: Mapping[str, float]  # further ones, of the test set, or else of the development set
    epochs: int = 0
    seconds: Annotated[float, Meta(ge=0)] = 0.0  # of learning
    grid: GridPoint | None = None  # of fine-tuning

    @property
    def place(self) -> str:
        """Where it is kept below the folder of runs, without the file's ending."""
        if self.grid is None:
            return f"{TableRow(self.row, '').folder}/seed-{self.seed}"
        point = self.grid
        name = f"batch-{point.batch_size}-rate-{point.learning_rate:g}-epochs-{point.epochs}"
        return f"{self.row}/{name}-seed-{self.seed}"


@dataclass(frozen=True, slots=True)
class _HeadRunFile:
    """A run as it lies on disk, with the digest of its table's identity."""

    format_version: int
    table: str
    run: HeadRun


@dataclass(frozen=True, slots=True)
class _IdentityFile:
    format_version: int
    identity: Mapping[str, object]


class HeadRuns:
    """The folder of a table's runs.

    Raises:
        HeadError: it holds runs of a table with other data or settings.
    """

    def __init__(self, folder: Path, identity: Mapping[str, object]) -> None:
        self._table = folder
        self.folder = folder / RUNS_NAME
        self.digest = hashlib.sha256(canonical_json(identity)).hexdigest()
        existing = read_table_identity(folder)
        if existing is None:
            write_json(folder / SETTINGS_NAME, _IdentityFile(FORMAT_VERSION, identity))
        elif differ := [name for name in identity if identity[name] != existing.get(name)]:
            raise HeadError(
                f"{folder} holds a table with other {' and '.join(differ)}",
                remedy=f"name another folder with {parameter('folder')}, or remove that one",
            )

    def path(self, place: str) -> Path:
        """The file of a run."""
        return self.folder / f"{place}.json"

    def read(self, place: str) -> HeadRun | None:
        """Read a run that was kept; None where there is none.

        Raises:
            HeadError: it cannot be read, or is of another table.
        """
        path = self.path(place)
        try:
            file = _RUN_FORMAT.read(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if file.table != self.digest or file.run.place != place:
            raise HeadError("this run is of another table, or in another's place", where=path, remedy=_REMEDY)
        return file.run

    def write(self, run: HeadRun) -> None:
        """Keep a run that is done."""
        path = self.path(run.place)
        with storage_errors(self._table):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(_HeadRunFile(FORMAT_VERSION, self.digest, run)))


def read_table_identity(folder: Path) -> Mapping[str, object] | None:
    """What all runs of the table in a folder have in common; None where there is none.

    Raises:
        HeadError: it cannot be read.
    """
    try:
        return _IDENTITY_FORMAT.read(folder / SETTINGS_NAME).identity
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_head_table(folder: Path) -> bool:
    """Whether the Table 7 in a folder is that of a head, rather than of a tagger."""
    try:
        return "identity" in json.loads(read_regular(folder / SETTINGS_NAME))
    except (OSError, ValueError, TypeError):
        return False


_REMEDY = "remove it, and that run is done again"
_RUN_FORMAT = JsonFormat(_HeadRunFile, FORMAT_VERSION, error=HeadError, remedy=_REMEDY, digest_from=1)
_IDENTITY_FORMAT = JsonFormat(
    _IdentityFile,
    FORMAT_VERSION,
    error=HeadError,
    remedy=lambda: f"name another folder with {parameter('folder')}",
    digest_from=1,
)
