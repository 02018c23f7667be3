"""The folder of a table of layers: its rows, their runs, and the table as JSON and as Markdown."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Literal

from msgspec import Meta

from bertfeat.arguments import checked
from bertfeat.core import Pooling
from bertfeat.display import displayed, format_duration
from bertfeat.errors import HeadError, parameter
from bertfeat.io import (
    JsonFormat,
    atomic,
    canonical_json,
    check_output,
    read_regular,
    remove_file,
    storage_errors,
    to_plain,
    write_json,
)
from bertfeat.learning.inputs import Extraction, FeaturesState, features_state, parse_input
from bertfeat.learning.kinds import HeadKind, PairForm
from bertfeat.learning.settings import GridPoint, HeadSettings, Schedule
from bertfeat.learning.tasks import task_of
from bertfeat.progress import Milestone

# ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────


FINE_TUNING = "fine-tuning"
PAPER_SOURCE = "Devlin et al. 2019, Table 7: BERT base (cased), development set of CoNLL-2003, mean of 5 runs"


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of the table: a way to make features of layers, or fine-tuning."""

    name: str  # as on the command line: a layer specification, or "fine-tuning"
    title: str
    paper: float | None = None  # F1 in the paper, 0 to 100

    @property
    def folder(self) -> str:
        """The name of the folder that its runs are kept in."""
        return self.name.replace("=", "_").replace("..", "to").replace("+", "_")


PAPER_ROWS = (
    TableRow("embeddings", "Embeddings", 91.0),
    TableRow("second-to-last", "Second-to-Last Hidden", 95.6),
    TableRow("last", "Last Hidden", 94.9),
    TableRow("mix4", "Weighted Sum Last Four Hidden", 95.9),
    TableRow("concat4", "Concat Last Four Hidden", 96.1),
    TableRow("mix-all", "Weighted Sum All Layers", 95.5),
)
FINE_TUNED_ROW = TableRow(FINE_TUNING, "Fine-tuned", 96.4)
"""The paper's row of BERT base; BERT large came to 96.6."""


MOST_FREQUENT, COSINE = "most-frequent", "cosine"
"""The names of the baselines, which have rows in the table but no files of runs."""


def parse_rows(rows: Iterable[str | TableRow], num_layers: int) -> tuple[TableRow, ...]:
    """Parse the names of rows: ``paper`` for the paper's six, ``all`` for every single layer, or layer specifications.

    Raises:
        RecipeError: a name that is none of these.
    """
    known = {row.name: row for row in PAPER_ROWS}
    parsed: dict[str, TableRow] = {}
    for name in rows:
        if isinstance(name, TableRow):
            parsed[name.name] = name
            continue
        if name == "paper":
            parsed |= known
        elif name == "all":
            parsed |= {str(layer): TableRow(str(layer), f"Layer {layer}") for layer in range(num_layers + 1)}
        else:
            parse_input(name, num_layers)
            parsed[name] = known.get(name) or TableRow(name, name)
    return tuple(parsed.values())


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────


FORMAT_VERSION = 1
SETTINGS_NAME = "_settings.json"
_RUNS_NAME = "runs"


def run_place(row: TableRow, seed: int) -> str:
    """The path of the file of a training, below the folder of runs, without the ending."""
    return f"{row.folder}/seed-{seed}"


def tuned_place(point: GridPoint, precision: str | None, seed: int) -> str:
    """The path of the file of a fine-tuning, below the folder of runs, without the ending."""
    name = f"{precision}-batch-{point.batch_size}-rate-{point.learning_rate:g}-epochs-{point.epochs}"
    return f"{FINE_TUNING}/{name}-seed-{seed}"


@dataclass(frozen=True, slots=True)
class HeadRun:
    """One training of one row, or a baseline."""

    row: str
    seed: Annotated[int, Meta(ge=0)]
    dev: float
    test: float | None
    scores: Mapping[str, float]  # further scores, on the test set, or without one on the development set
    epochs: int = 0
    seconds: Annotated[float, Meta(ge=0)] = 0.0  # of learning
    grid: GridPoint | None = None  # of fine-tuning
    precision: Literal["fp32", "bf16"] | None = None  # that fine-tuning was computed in

    @property
    def place(self) -> str:
        """The path of its file below the folder of runs, without the ending."""
        if self.grid is None:
            return run_place(TableRow(self.row, ""), self.seed)
        return tuned_place(self.grid, self.precision, self.seed)


@dataclass(frozen=True, slots=True)
class TableRun(Milestone):
    """The progress of a table: one run is done."""

    title: str  # of its row
    run: HeadRun
    stored: bool  # an earlier call did the run
    done: int  # runs of the table, this one included
    total: int

    @property
    def fraction(self) -> float:
        """The share of the table's runs that is done."""
        return self.done / self.total

    def __str__(self) -> str:
        run = self.run
        test = "" if run.test is None else f", test {run.test:.4f}"
        how = "there already" if self.stored else f"{run.epochs} epochs, {format_duration(run.seconds)}"
        point = "" if run.grid is None else f" {run.grid.batch_size}:{run.grid.learning_rate:g}:{run.grid.epochs}"
        return f"{self.title}{point}, seed {run.seed}: dev {run.dev:.4f}{test} ({how})"


@dataclass(frozen=True, slots=True)
class _HeadRunFile:
    """The content of a run's file, with the digest of its table's identity."""

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
    training: HeadSettings  # with the default seed: seeds belong to runs
    data: Mapping[str, str]  # digest of the train, dev and test examples

    @property
    def digest(self) -> str:
        """The digest that identifies a table."""
        return hashlib.sha256(canonical_json(to_plain(self))).hexdigest()

    def differences(self, other: "TableIdentity") -> list[str]:
        """The names of what differs."""
        return [each.name for each in fields(self) if getattr(self, each.name) != getattr(other, each.name)]


@dataclass(frozen=True, slots=True)
class _TableSettings:
    """The content of ``_settings.json``: the identity of a table, and where its features are."""

    format_version: int
    identity: TableIdentity
    places: Mapping[str, tuple[str, ...]]  # folders of the features, relative to the table's


class HeadRuns:
    """The folder of a table's runs."""

    def __init__(
        self, folder: Path, identity: TableIdentity, places: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self._table = folder
        self.folder = folder / _RUNS_NAME
        self.digest = identity.digest
        existing = _read_table_settings(folder)
        if existing is not None and (differ := identity.differences(existing.identity)):
            raise HeadError(
                f"{folder} holds a table with other {' and '.join(differ)}",
                remedy=f"name another folder with {parameter('folder')}, or remove that one",
            )
        if places is not None and (existing is None or existing.places != places):
            write_json(folder / SETTINGS_NAME, _TableSettings(FORMAT_VERSION, identity, places))

    def path(self, place: str) -> Path:
        """The file of a run."""
        return self.folder / f"{place}.json"

    def read(self, place: str) -> HeadRun | None:
        """Read a run that was kept; None where there is none."""
        path = self.path(place)
        file = _RUN_FORMAT.read(path)
        if file is None:
            return None
        if problem := self._problem(file, place):
            raise HeadError(problem, where=path, remedy=_REMEDY)
        return file.run

    def _problem(self, file: "_HeadRunFile", place: str) -> str | None:
        """The contradiction between a run and its place or table, if there is one: the file may have been copied."""
        if file.table != self.digest:
            return "this run is of another table"
        if file.run.place != place:
            return f"it says of itself that it is {file.run.place}, and is in another's place"
        return None

    def write(self, run: HeadRun) -> None:
        """Keep a run that is done."""
        path = self.path(run.place)
        with storage_errors(self._table):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(_HeadRunFile(FORMAT_VERSION, self.digest, run)))


def _read_table_settings(folder: Path) -> _TableSettings | None:
    """The settings of the table in a folder; None where there is none."""
    return _IDENTITY_FORMAT.read(folder / SETTINGS_NAME)


_REMEDY = "remove it, and that run is done again"
_RUN_FORMAT = JsonFormat(_HeadRunFile, FORMAT_VERSION, error=HeadError, remedy=_REMEDY)
_IDENTITY_FORMAT = JsonFormat(
    _TableSettings,
    FORMAT_VERSION,
    error=HeadError,
    remedy=lambda: f"name another folder with {parameter('folder')}",
)


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────


_RESULTS_NAME = "table7.json"
_MARKDOWN_NAME = "table7.md"
PICTURE_NAME = "table7.png"


@displayed
@dataclass(frozen=True, slots=True)
class HeadRow:
    """A row of the table and its runs."""

    name: str  # a layer specification, "fine-tuning", or a baseline
    title: str
    runs: tuple[HeadRun, ...]
    dev: tuple[float, ...]  # the score of each run on the development set
    test: tuple[float, ...]  # the score of each run on the test set; empty where there is none
    paper: float | None = None  # span F1 in the paper, 0 to 100; None where it has none, as for all other tasks

    @classmethod
    def of(cls, name: str, title: str, runs: Sequence[HeadRun], paper: float | None = None) -> "HeadRow":
        """The row of some runs."""
        test = tuple(run.test for run in runs if run.test is not None)
        return cls(name, title, tuple(runs), tuple(run.dev for run in runs), test, paper)

    @property
    def seconds(self) -> float:
        """The mean time that a run took to learn, in seconds."""
        return sum(run.seconds for run in self.runs) / max(1, len(self.runs))


@displayed
@dataclass(frozen=True, slots=True)
class HeadTable:
    """A finished table: its rows, in order, and what they were trained for."""

    kind: HeadKind
    task: str
    model: str
    measure: str
    rows: Annotated[tuple[HeadRow, ...], Meta(min_length=1)]
    schedule: Schedule = "plateau"

    @property
    def purpose(self) -> str:
        """The purpose for which layers are compared: the kind of head."""
        return str(self.kind)


def write_head_table(folder: Path, table: HeadTable) -> None:
    """Write ``table7.json`` and ``table7.md``; a picture of an earlier table is removed."""
    for name in (_RESULTS_NAME, _MARKDOWN_NAME, PICTURE_NAME):
        check_output(folder / name)
    for name in (_MARKDOWN_NAME, PICTURE_NAME):  # nothing stays beside a table that it does not show
        remove_file(folder / name)
    write_json(folder / _RESULTS_NAME, {"format_version": FORMAT_VERSION, **asdict(table)})
    with atomic(folder / _MARKDOWN_NAME) as temporary:
        temporary.write_text(format_head_table(table), encoding="utf-8", errors="backslashreplace")


@checked
def format_head_table(table: HeadTable) -> str:
    """The table in Markdown: mean and standard deviation over seeds, and the time of learning."""
    has_test, has_paper = any(row.test for row in table.rows), any(row.paper for row in table.rows)
    head = ["features", "layers", f"dev {table.measure}", *([f"test {table.measure}"] if has_test else []), "seconds"]
    head += ["paper*"] if has_paper else []
    lines = [markdown_line(head), markdown_line(["---", "---", *["---:"] * (len(head) - 2)])]
    for row in table.rows:
        scores = [format_scores(row.dev), *([format_scores(row.test)] if has_test else [])]
        paper = [f"{row.paper:.1f}" if row.paper else ""] if has_paper else []
        seconds = f"{row.seconds:.1f}" if row.seconds else ""
        lines.append(markdown_line([row.title, row.name, *scores, seconds, *paper]))
    seeds = max(len(row.runs) for row in table.rows)
    over = f"{seeds} seed{'' if seeds == 1 else 's'}"
    note = f"{table.model}; mean ± standard deviation over {over}; seconds of learning, without extraction. "
    lines += ["", note + " ".join(_further_notes(table)), ""]
    if has_paper:
        lines += [f"* Another model and other data: {PAPER_SOURCE}. Its fine-tuned BERT large: 96.6.", ""]
    return "\n".join(lines)


def _further_notes(table: HeadTable) -> Iterator[str]:
    tuned = [row for row in table.rows if row.name == FINE_TUNING]
    by_epoch = table.schedule == "plateau"
    reasons = {
        "head": not task_of(table.kind, table.task).recurrent,
        "epoch": by_epoch,
        "point of the grid": bool(tuned),
    }
    if chosen := [name for name, is_chosen in reasons.items() if is_chosen]:
        yield f"Chosen by the development set: {', '.join(chosen)}."
    if not by_epoch:
        yield "The last epoch of each run."
    slowest = max((row.seconds for row in table.rows if row not in tuned), default=0.0)
    for row in tuned:
        run = row.runs[0]
        if (point := run.grid) is not None:
            ratio = f" in {row.seconds / slowest:,.0f} times the seconds of the slowest head" if slowest else ""
            settings = f"batches of {point.batch_size}, rate {point.learning_rate:g}, {point.epochs} epochs"
            yield f"Fine-tuned in {run.precision} with {settings}{ratio}."


def format_scores(values: Sequence[float]) -> str:
    """Mean and standard deviation (of the sample, n-1) in percent: ``91.2 ± 0.4``."""
    if not values:
        return ""
    percent = [100 * value for value in values]
    mean = fmean(percent)
    return f"{mean:.1f} ± {stdev(percent):.1f}" if len(values) > 1 else f"{mean:.1f}"


def markdown_line(cells: Iterable[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


# ── verification ────────────────────────────────────────────────────────────────────────────────────────────


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
    """Check that every run belongs to the head's table, and compare the table with the runs and with its Markdown.

    Raises:
        HeadError: there is no table, or a file of it is damaged or contradicts another.
    """
    folder = Path(folder)
    settings = _read_table_settings(folder)
    if settings is None:
        raise HeadError("there is no Table 7 in it", where=folder, remedy=_AGAIN)
    runs = HeadRuns(folder, settings.identity)
    kept = {path.relative_to(runs.folder).with_suffix("").as_posix() for path in runs.folder.glob("*/*.json")}
    for place in kept:
        runs.read(place)
    table = _read_table(folder)
    if table is not None:
        _check_table(folder, table, runs)
    return Table7VerifyReport(
        folder=folder,
        rows=0 if table is None else len(table.rows),
        runs=len(kept),
        unfinished=len(list(runs.folder.glob("*/*.head"))),
        features={
            name: features_state(folder, settings.places.get(name, ()), digest)
            for name, digest in settings.identity.data.items()
        },
    )


def _read_table(folder: Path) -> HeadTable | None:
    table = _TABLE_FORMAT.read(folder / _RESULTS_NAME)
    if table is None and (folder / _MARKDOWN_NAME).exists():  # which is written after it
        raise HeadError("it is missing", where=folder / _RESULTS_NAME, remedy=_AGAIN)
    return table


def _check_table(folder: Path, table: HeadTable, runs: HeadRuns) -> None:
    """Compare a table with the runs that are kept (baselines are not), and with its Markdown."""
    for run in (run for row in table.rows if row.name not in (MOST_FREQUENT, COSINE) for run in row.runs):
        kept = runs.read(run.place)
        if kept != run:
            problem = f"the run {run.place} is {'not there' if kept is None else 'another one'}"
            raise HeadError(problem, where=folder / _RESULTS_NAME, remedy=_AGAIN)
    path = folder / _MARKDOWN_NAME
    try:
        text = read_regular(path)
    except FileNotFoundError as error:
        raise HeadError("it is missing", where=path, remedy=_AGAIN) from error
    except OSError as error:
        raise HeadError(f"cannot be read ({error})", where=path, remedy=_AGAIN) from error
    if text != format_head_table(table).encode("utf-8", "backslashreplace"):
        raise HeadError(f"it does not show what {_RESULTS_NAME} says", where=path, remedy=_AGAIN)


_AGAIN = "run the same table7 command again: what is done is not done again"
_TABLE_FORMAT = JsonFormat(HeadTable, FORMAT_VERSION, error=HeadError, remedy=_AGAIN)
