"""Verification of a head's Table 7: it is derived again from its runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.errors import HeadError
from bertfeat.io import JsonFormat, read_regular
from bertfeat.learning.inputs import FeaturesState, features_state
from bertfeat.learning.record import Outputs
from bertfeat.learning.spans import Scheme
from bertfeat.learning.table7.results import (
    FORMAT_VERSION,
    MARKDOWN_NAME,
    RESULTS_NAME,
    HeadRow,
    HeadRuns,
    HeadTable,
    TableIdentity,
    format_head_table,
    read_table_settings,
)
from bertfeat.learning.table7.table import TITLES
from bertfeat.learning.tasks.table import task_of


@displayed
@dataclass(frozen=True, slots=True)
class Table7VerifyReport:
    """A sound Table 7."""

    folder: Path
    rows: int  # of the table; 0 while it is not finished
    runs: int  # that are kept, those of rows that the table no longer shows, too
    unfinished: int  # trainings that were begun
    features: Mapping[str, FeaturesState]  # of train, dev and test


@checked
def verify_head_table7(folder: str | Path) -> Table7VerifyReport:
    """Read every run of a head's table against its digest and the table's settings, and derive the table from them.

    Of the baselines, which are not kept as runs, the table's scores are only held against one another.

    Raises:
        HeadError: there is no table, or something of it does not hold.
    """
    folder = Path(folder)
    settings = read_table_settings(folder)
    if settings is None:
        raise HeadError("there is no Table 7 in it", where=folder, remedy=_AGAIN)
    identity = settings.identity
    runs = HeadRuns(folder, identity)
    kept = {path.relative_to(runs.folder).with_suffix("").as_posix() for path in runs.folder.glob("*/*.json")}
    for place in kept:
        runs.read(place)
    table = _read_table(folder)
    if table is not None:
        _check_table(folder, table, identity, runs)
    return Table7VerifyReport(
        folder=folder,
        rows=0 if table is None else len(table.rows),
        runs=len(kept),
        unfinished=len(list(runs.folder.glob("*/*.head"))),
        features={
            name: features_state(folder, settings.places.get(name, ()), digest)
            for name, digest in identity.data.items()
        },
    )


def _read_table(folder: Path) -> HeadTable | None:
    path = folder / RESULTS_NAME
    try:
        return _TABLE_FORMAT.read(path)
    except FileNotFoundError as error:
        if (folder / MARKDOWN_NAME).exists():  # which is written after it
            raise HeadError("it is missing", where=path, remedy=_AGAIN) from error
        return None


def _check_table(folder: Path, table: HeadTable, identity: TableIdentity, runs: HeadRuns) -> None:
    """Put the rows and seeds that the table shows together again, from the runs alone."""
    rows = tuple(_derived_row(folder, row, runs) for row in table.rows)
    kind, training = identity.kind, identity.training
    task = task_of(kind, training.task)
    measures = {task.measure, task.measure_of(Outputs(scheme=str(Scheme.PLAIN)))}  # tags may be spans or not
    if table.measure not in measures:
        raise HeadError(f"its scores are no {table.measure}", where=folder / RESULTS_NAME, remedy=_AGAIN)
    derived = HeadTable(kind, table.model, table.measure, rows, training.schedule)
    if derived != table:
        raise HeadError("it does not say what the runs say", where=folder / RESULTS_NAME, remedy=_AGAIN)
    path = folder / MARKDOWN_NAME
    try:
        text = read_regular(path)
    except FileNotFoundError as error:
        raise HeadError("it is missing", where=path, remedy=_AGAIN) from error
    except OSError as error:
        raise HeadError(f"cannot be read ({error})", where=path, remedy=_AGAIN) from error
    if text != format_head_table(table).encode("utf-8", "backslashreplace"):
        raise HeadError(f"it does not show what {RESULTS_NAME} says", where=path, remedy=_AGAIN)


def _derived_row(folder: Path, row: HeadRow, runs: HeadRuns) -> HeadRow:
    """The row as the runs that are kept make it."""
    if strange := [run.row for run in row.runs if run.row != row.name]:
        problem = f"row {row.name} has a run of {strange[0]}"
        raise HeadError(problem, where=folder / RESULTS_NAME, remedy=_AGAIN)
    if row.name in TITLES:
        return HeadRow.of(row.name, TITLES[row.name], row.runs)
    kept = [runs.read(run.place) for run in row.runs]
    found = [run for run in kept if run is not None]
    if len(found) < len(kept):
        lacking = row.runs[kept.index(None)].place
        raise HeadError(f"the run {lacking} is not there", where=folder / RESULTS_NAME, remedy=_AGAIN)
    return HeadRow.of(row.name, row.title, found, row.paper)


_AGAIN = "run the same table7 command again: what is done is not done again"
_TABLE_FORMAT = JsonFormat(HeadTable, FORMAT_VERSION, error=HeadError, remedy=_AGAIN)
