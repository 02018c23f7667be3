"""The trainings of a Table 7 that are done, each in a file of its own, and what they all have in common."""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from bertfeat.errors import TaggerError, parameter
from bertfeat.features import FeatureSet
from bertfeat.io import JsonFormat, canonical_json, storage_errors, to_plain, write_json
from bertfeat.tagging.sentences import sentences_digest
from bertfeat.tagging.settings import TrainingSettings
from bertfeat.tagging.table7.rows import FINE_TUNING, TableRow
from bertfeat.training import Extraction, GridPoint, extraction_of, parts_digest, record_place

FORMAT_VERSION = 2
"""Version of a table's files; since 2 they carry their own digests, and each run says of which table it is."""

SETTINGS_NAME = "_settings.json"
RUNS_NAME = "runs"

Measure = Literal["span F1", "accuracy"]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Count = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, slots=True)
class TableRun:
    """One training of one row."""

    row: str
    seed: Annotated[int, Meta(ge=0)]
    dev: _Share  # span F1, or accuracy of plain tags
    test: _Share | None
    best_epoch: _Count
    epochs: _Count
    seconds: Annotated[float, Meta(ge=0)]
    grid: GridPoint | None = None  # of fine-tuning

    @property
    def place(self) -> str:
        """Where it is kept below the folder of runs, without the file's ending."""
        point = self.grid
        if point is None:
            return f"{TableRow(self.row, '').folder}/seed-{self.seed}"
        return (
            f"{FINE_TUNING}/batch-{point.batch_size}-rate-{point.learning_rate:g}-epochs-{point.epochs}"
            f"-seed-{self.seed}"
        )


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it lies on disk."""

    run: TableRun
    measure: Measure


@dataclass(frozen=True, slots=True)
class TableIdentity:
    """The settings that all runs of a table share; they differ in row and seed."""

    data: Mapping[str, str]  # digest of the train, dev and test sentences; of their features in format 1
    model: str  # fingerprint
    training: TrainingSettings  # whose seed says nothing
    extraction: Extraction | None = None  # None in format 1
    numerics: int | None = None  # version of the numbers that extraction makes
    places: Mapping[str, str] = field(default_factory=dict)  # of the features, seen from the table's folder
    format_version: int = 1

    @classmethod
    def of(cls, folder: Path, sets: Mapping[str, FeatureSet], settings: TrainingSettings) -> "TableIdentity":
        """The identity of a table in a folder, on these feature sets."""
        train = sets["train"]
        return cls(
            {name: sentences_digest(features) for name, features in sets.items()},
            train.header.model.fingerprint,
            replace(settings, seed=_NO_SEED),
            extraction_of(train),
            train.header.settings.numerics,
            {name: record_place(features.folder, folder) for name, features in sets.items()},
            FORMAT_VERSION,
        )

    def in_first_format(self, sets: Mapping[str, FeatureSet]) -> "TableIdentity":
        """The same as format 1 has it."""
        data = {name: parts_digest(features) for name, features in sets.items()}
        return TableIdentity(data, self.model, self.training)

    @property
    def plain(self) -> dict[str, object]:
        """The same as JSON has it."""
        plain = to_plain(self)
        return plain | {"training": {k: v for k, v in to_plain(self.training).items() if k != "seed"}}

    @property
    def digest(self) -> str:
        """The digest that identifies a table, wherever its features are."""
        return hashlib.sha256(canonical_json(self._decisive)).hexdigest()

    def differences(self, other: "TableIdentity") -> list[str]:
        """The names of what differs and matters."""
        ours, theirs = self._decisive, other._decisive
        return [name for name in ours if ours[name] != theirs[name]]

    @property
    def _decisive(self) -> dict[str, object]:
        return {name: value for name, value in self.plain.items() if name not in ("places", "format_version")}


_NO_SEED = TrainingSettings().seed


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunFile(TableRun):
    measure: Measure
    table: str | None = None  # digest of its table's identity; None in format 1
    format_version: int = 1


_REMEDY = "remove it, and that run is done again"

_IDENTITY_FORMAT = JsonFormat(
    TableIdentity,
    FORMAT_VERSION,
    error=TaggerError,
    remedy=lambda: f"name another folder with {parameter('folder')}",
    digest_from=2,
)
_RUN_FORMAT = JsonFormat(_RunFile, FORMAT_VERSION, error=TaggerError, remedy=_REMEDY, digest_from=2)


def read_identity(folder: Path) -> TableIdentity | None:
    """Read what the runs of a table have in common; None where there is no table yet.

    Raises:
        TaggerError: it cannot be read, or a newer bertfeat wrote it.
    """
    path = folder / SETTINGS_NAME
    try:
        return _IDENTITY_FORMAT.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_identity(folder: Path, identity: TableIdentity) -> None:
    """Write what the runs of a table have in common, before the first of them."""
    write_json(folder / SETTINGS_NAME, identity.plain)


def run_path(folder: Path, place: str) -> Path:
    """The file of a run."""
    return folder / RUNS_NAME / f"{place}.json"


def write_run(folder: Path, run: TableRun, measure: Measure, identity: TableIdentity) -> None:
    """Keep a run that is done."""
    path = run_path(folder, run.place)
    with storage_errors(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
    file = _RunFile(**_run_fields(run), measure=measure, table=identity.digest, format_version=FORMAT_VERSION)
    write_json(path, file)


def read_run(path: Path, identity: TableIdentity) -> StoredRun | None:
    """Read a run that was kept; None where there is none.

    Raises:
        TaggerError: it cannot be read, is of another table, or contradicts its name or the table's settings.
    """
    try:
        file = _RUN_FORMAT.read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    run = TableRun(**_run_fields(file))
    if problem := _run_problem(run, file, path, identity):
        raise TaggerError(problem, where=path, remedy=_REMEDY)
    return StoredRun(run, file.measure)


def read_runs(folder: Path, identity: TableIdentity) -> Iterator[StoredRun]:
    """All runs of a table, in the order of their names.

    Raises:
        TaggerError: see :func:`read_run`.
    """
    for path in sorted((folder / RUNS_NAME).glob("*/*.json")):
        kept = read_run(path, identity)
        if kept is not None:
            yield kept


def _run_fields(run: TableRun) -> dict[str, Any]:
    return {attribute.name: getattr(run, attribute.name) for attribute in fields(TableRun)}


def _run_problem(run: TableRun, file: _RunFile, path: Path, identity: TableIdentity) -> str | None:
    if file.table is not None and file.table != identity.digest:
        return "this run is of another table"
    if file.table is None and file.format_version >= 2:
        return "it does not say of which table it is"
    if run_path(path.parent.parent.parent, run.place) != path:
        return f"it says of itself that it is {run.place}"
    if (run.grid is not None) != (run.row == FINE_TUNING):
        return "only fine-tuning has a point of a grid"
    if (run.test is not None) != ("test" in identity.data):
        return "a score on a test set, which the table lacks" if run.test is not None else "no score on the test set"
    most = identity.training.epochs if run.grid is None else run.grid.epochs
    if not run.best_epoch <= run.epochs <= most:
        return f"epoch {run.best_epoch} of {run.epochs} is the best, and there are {most} at most"
    return None
