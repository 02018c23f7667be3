"""The runs of a head's Table 7 that are done, each in a file of its own, and the settings that they share."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta

from bertfeat.errors import HeadError, parameter
from bertfeat.heads.kinds import HeadKind, PairForm
from bertfeat.heads.settings import HeadSettings
from bertfeat.heads.table7.rows import FINE_TUNING, TableRow
from bertfeat.io import JsonFormat, canonical_json, storage_errors, to_plain, write_json
from bertfeat.recipe import Pooling
from bertfeat.training import Extraction, GridPoint

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
    precision: Literal["fp32", "bf16"] | None = None  # that fine-tuning was computed in

    @property
    def place(self) -> str:
        """Where it is kept below the folder of runs, without the file's ending."""
        if self.grid is None:
            return f"{TableRow(self.row, '').folder}/seed-{self.seed}"
        point = self.grid
        name = f"{self.precision}-batch-{point.batch_size}-rate-{point.learning_rate:g}-epochs-{point.epochs}"
        return f"{self.row}/{name}-seed-{self.seed}"


@dataclass(frozen=True, slots=True)
class _HeadRunFile:
    """A run as it lies on disk, with the digest of its table's identity."""

    format_version: int
    table: str
    run: HeadRun


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """The settings and data shared by all runs of a table: they differ in row and seed."""

    kind: HeadKind
    model: str  # fingerprint
    pooling: Pooling
    pairs: PairForm | None
    label: str | None
    extraction: Extraction
    training: HeadSettings  # whose seed says nothing
    data: Mapping[str, str]  # digest of the train, dev and test examples

    @property
    def digest(self) -> str:
        """The digest that identifies a table."""
        return hashlib.sha256(canonical_json(to_plain(self))).hexdigest()

    def differences(self, other: "TableIdentity") -> list[str]:
        """The names of what differs."""
        return [each.name for each in fields(self) if getattr(self, each.name) != getattr(other, each.name)]


@dataclass(frozen=True, slots=True)
class TableSettings:
    """The content of ``_settings.json``: the identity of a table, and where its features are."""

    format_version: int
    identity: TableIdentity
    places: Mapping[str, tuple[str, ...]]  # folders of the features, relative to the table's


class HeadRuns:
    """The folder of a table's runs.

    Raises:
        HeadError: it holds runs of a table with other data or settings.
    """

    def __init__(
        self, folder: Path, identity: TableIdentity, places: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self._table, self._identity = folder, identity
        self.folder = folder / RUNS_NAME
        self.digest = identity.digest
        existing = read_table_settings(folder)
        if existing is not None and (differ := identity.differences(existing.identity)):
            raise HeadError(
                f"{folder} holds a table with other {' and '.join(differ)}",
                remedy=f"name another folder with {parameter('folder')}, or remove that one",
            )
        if places is not None and (existing is None or existing.places != places):
            write_json(folder / SETTINGS_NAME, TableSettings(FORMAT_VERSION, identity, places))

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
        if problem := self._problem(file, place):
            raise HeadError(problem, where=path, remedy=_REMEDY)
        return file.run

    def _problem(self, file: "_HeadRunFile", place: str) -> str | None:
        """The contradiction between a run and its place or its table, if there is one."""
        run = file.run
        if file.table != self.digest:
            return "this run is of another table"
        if run.place != place:
            return f"it says of itself that it is {run.place}, and is in another's place"
        if (run.grid is not None) != (run.row == FINE_TUNING):
            return "only fine-tuning has a point of a grid"
        if (run.grid is None) != (run.precision is None):
            return "fine-tuning, and nothing else, says which precision it was computed in"
        has_test = "test" in self._identity.data
        if (run.test is not None) != has_test:
            return "no score on the test set" if has_test else "a score on a test set, which the table lacks"
        most = self._identity.training.epochs if run.grid is None else run.grid.epochs
        return f"{run.epochs} epochs, and there are {most} at most" if run.epochs > most else None

    def write(self, run: HeadRun) -> None:
        """Keep a run that is done."""
        path = self.path(run.place)
        with storage_errors(self._table):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(_HeadRunFile(FORMAT_VERSION, self.digest, run)))


def read_table_settings(folder: Path) -> TableSettings | None:
    """The settings of the table in a folder; None where there is none.

    Raises:
        HeadError: it cannot be read.
    """
    try:
        return _IDENTITY_FORMAT.read(folder / SETTINGS_NAME)
    except (FileNotFoundError, NotADirectoryError):
        return None


_REMEDY = "remove it, and that run is done again"
_RUN_FORMAT = JsonFormat(_HeadRunFile, FORMAT_VERSION, error=HeadError, remedy=_REMEDY)
_IDENTITY_FORMAT = JsonFormat(
    TableSettings,
    FORMAT_VERSION,
    error=HeadError,
    remedy=lambda: f"name another folder with {parameter('folder')}",
)
