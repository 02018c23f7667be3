"""Verification of a Table 7: it is derived again from its runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertfeat.errors import BertfeatError, DamagedError, TaggerError
from bertfeat.features import FeatureSet
from bertfeat.io import Address, JsonFormat, read_regular, real_path
from bertfeat.tagging.sentences import sentences_digest
from bertfeat.tagging.table7.report import MARKDOWN_NAME, RESULTS_NAME, RowResult, Table7, format_markdown
from bertfeat.tagging.table7.rows import FINE_TUNED_ROW, PAPER_ROWS, PAPER_SOURCE, TableRow
from bertfeat.tagging.table7.runs import FORMAT_VERSION, Measure, StoredRun, TableIdentity, read_identity, read_runs
from bertfeat.training import FeaturesState, find_place


@dataclass(frozen=True, slots=True)
class Table7VerifyReport:
    """A sound Table 7."""

    folder: Path
    rows: int  # of the table; 0 while it is not finished
    runs: int  # that are kept, those of rows that the table no longer shows, too
    unfinished: int  # trainings that were begun
    features: Mapping[str, FeaturesState]  # of train, dev and test


@dataclass(frozen=True, slots=True)
class _TableFile:
    """``table7.json`` as it is written; of its runs only the row and the seed are used."""

    model: str
    measure: Measure
    settings: TableIdentity
    rows: tuple[RowResult, ...]
    paper: str


def verify_table7(folder: str | Path) -> Table7VerifyReport:
    """Read every run of a table against its digest and the table's settings, and derive the table from them again.

    Feature sets that lie in the folder are read, every byte of them, and held against the settings, too.

    Raises:
        TaggerError: there is no table, or something of it does not hold.
        DamagedError: a feature set in the folder is not sound.
    """
    folder = Path(folder)
    identity = read_identity(folder)
    if identity is None:
        raise TaggerError("there is no Table 7 in it", where=folder, remedy="bertfeat tag table7 makes one")
    kept = tuple(read_runs(folder, identity))
    if len({stored.measure for stored in kept}) > 1:
        problem, remedy = "its runs are measured in different ways", "remove those that do not belong to it"
        raise TaggerError(problem, where=folder, remedy=remedy)
    results = _read_results(folder)
    if results is not None:
        _check_results(folder, identity, results, kept)
    return Table7VerifyReport(
        folder=folder,
        rows=0 if results is None else len(results.rows),
        runs=len(kept),
        unfinished=len(list((folder / "runs").glob("*/*.tagger"))),
        features={name: _table_features_state(folder, identity, name) for name in identity.data},
    )


def _read_results(folder: Path) -> _TableFile | None:
    path = folder / RESULTS_NAME
    try:
        return _TABLE_FORMAT.read(path)
    except FileNotFoundError as error:
        if (folder / MARKDOWN_NAME).exists():  # which is written after it
            raise TaggerError("it is missing", where=path, remedy=_REMEDY) from error
        return None


def _check_results(folder: Path, identity: TableIdentity, results: _TableFile, kept: Sequence[StoredRun]) -> None:
    """Put the rows and seeds that the table shows together again, from the runs alone."""
    runs = {stored.run.place: stored.run for stored in kept}
    path = folder / RESULTS_NAME
    rows = []
    for result in results.rows:
        if result.row != _standard_row(result.row):
            raise TaggerError(
                f"there is no row {result.row.title!r} as it has", where=folder / RESULTS_NAME, remedy=_REMEDY
            )
        if lacking := [run.place for run in result.runs if run.place not in runs]:
            raise TaggerError(f"the run {lacking[0]} is not there", where=path, remedy=_REMEDY)
        if strange := [run.row for run in result.runs if run.row != result.row.name]:
            raise TaggerError(
                f"row {result.row.name} has a run of {strange[0]}", where=folder / RESULTS_NAME, remedy=_REMEDY
            )
        rows.append(RowResult(result.row, tuple(runs[run.place] for run in result.runs)))
    measure = kept[0].measure if kept else results.measure
    derived = Table7(results.model, measure, results.settings, tuple(rows))
    written = Table7(results.model, results.measure, results.settings, results.rows)
    if derived != written or identity.differences(results.settings) or results.paper != PAPER_SOURCE:
        raise TaggerError("it does not say what the runs say", where=path, remedy=_REMEDY)
    _check_markdown(folder, derived)


def _standard_row(row: TableRow) -> TableRow:
    """The row of that name as every table has it."""
    known: dict[str, TableRow] = {standard.name: standard for standard in (*PAPER_ROWS, FINE_TUNED_ROW)}
    layer = row.name.isascii() and row.name.isdigit() and row.title == f"Layer {row.name}"
    return known.get(row.name) or (TableRow(row.name, row.title) if layer else TableRow(row.name, row.name))


def _check_markdown(folder: Path, table: Table7) -> None:
    path = folder / MARKDOWN_NAME
    try:
        text = read_regular(path)
    except FileNotFoundError as error:
        raise TaggerError(
            "it is missing: a run was killed before it was written", where=path, remedy=_REMEDY
        ) from error
    except OSError as error:
        raise TaggerError(f"cannot be read ({error})", where=path, remedy=_REMEDY) from error
    if text != format_markdown(table).encode("utf-8", "backslashreplace"):
        raise TaggerError(f"it does not show what {RESULTS_NAME} says", where=path, remedy=_REMEDY)


def _table_features_state(folder: Path, identity: TableIdentity, name: str) -> FeaturesState:
    """The state of a feature set; one in the table's own folder is read, every byte of it."""
    try:
        place = find_place(folder, identity.places.get(name, "."))
        features = FeatureSet(place)
    except DamagedError:
        raise
    except BertfeatError:
        return FeaturesState.ABSENT  # or not finished
    if not isinstance(place, Address) and real_path(folder) in real_path(place).parents:
        for _ in features.check():
            pass
    same = sentences_digest(features) == identity.data[name]
    return FeaturesState.SAME if same else FeaturesState.CHANGED


_REMEDY = "run the same bertfeat tag table7 command again: what is done is not done again"

_TABLE_FORMAT = JsonFormat(_TableFile, FORMAT_VERSION, error=TaggerError, remedy=_REMEDY, digest_from=2)
