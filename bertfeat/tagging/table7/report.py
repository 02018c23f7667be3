"""The result of a Table 7 as JSON and as Markdown."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev

from bertfeat.io import atomic, refuse_folder_path, remove_file, write_json
from bertfeat.tagging.table7.rows import FINE_TUNING, PAPER_SOURCE, TableRow
from bertfeat.tagging.table7.runs import FORMAT_VERSION, Measure, TableIdentity, TableRun

RESULTS_NAME = "table7.json"
MARKDOWN_NAME = "table7.md"
PICTURE_NAME = "table7.png"


@dataclass(frozen=True, slots=True)
class RowResult:
    """A row and its runs."""

    row: TableRow
    runs: tuple[TableRun, ...]

    @property
    def title(self) -> str:
        """The name of the row."""
        return self.row.title

    @property
    def paper(self) -> float | None:
        """F1 in the paper, 0 to 100."""
        return self.row.paper

    @property
    def dev(self) -> tuple[float, ...]:
        """The score of each run on the development set."""
        return tuple(run.dev for run in self.runs)

    @property
    def test(self) -> tuple[float, ...]:
        """The score of each run on the test set; empty where there is none."""
        return tuple(run.test for run in self.runs if run.test is not None)


@dataclass(frozen=True, slots=True)
class Table7:
    """The rows that were trained, in order, and what they were trained on."""

    model: str
    measure: Measure
    settings: TableIdentity
    rows: tuple[RowResult, ...]

    @property
    def purpose(self) -> str:
        """What the layers are compared for."""
        return "tag"

    @property
    def plain(self) -> dict[str, object]:
        """The same as JSON has it."""
        return asdict(self) | {"settings": self.settings.plain}


def write_table7(folder: Path, table: Table7) -> None:
    """Write ``table7.json`` and ``table7.md``; a picture of an earlier table is removed.

    Raises:
        StorageError: the folder cannot be written.
    """
    for name in (RESULTS_NAME, MARKDOWN_NAME, PICTURE_NAME):
        refuse_folder_path(folder / name)
    for name in (MARKDOWN_NAME, PICTURE_NAME):  # nothing stays beside a table that it does not show
        remove_file(folder / name)
    write_json(folder / RESULTS_NAME, {"format_version": FORMAT_VERSION, **table.plain, "paper": PAPER_SOURCE})
    with atomic(folder / MARKDOWN_NAME) as temporary:
        temporary.write_text(format_markdown(table), encoding="utf-8", errors="backslashreplace")


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation (of the sample, n-1) of percentages; the spread of one value is 0."""
    percent = [100 * value for value in values]
    return fmean(percent), stdev(percent) if len(percent) > 1 else 0.0


def format_markdown(table: Table7) -> str:
    """The table in Markdown, with the paper's numbers beside it."""
    has_test = any(result.test for result in table.rows)
    head = ["features", "layers", f"dev {table.measure}", *([f"test {table.measure}"] if has_test else []), "paper*"]
    lines = [markdown_line(head), markdown_line(["---", "---", *["---:"] * (len(head) - 2)])]
    for result in table.rows:
        scores = [format_scores(result.dev), *([format_scores(result.test)] if has_test else [])]
        paper = "" if result.row.paper is None else f"{result.row.paper:.1f}"
        lines.append(markdown_line([result.row.title, result.row.name, *scores, paper]))
    return "\n".join([*lines, "", *(line for note in _table_notes(table) for line in (note, ""))])


def _table_notes(table: Table7) -> list[str]:
    seeds = max(len(result.runs) for result in table.rows)
    linear = table.settings.training.schedule == "linear"
    epoch = "the last epoch of each run" if linear else "the development set also chose the epoch"
    notes = [
        f"{table.model}; mean ± standard deviation over {seeds} seed{'' if seeds == 1 else 's'}; {epoch}.",
        f"* Another model and other data: {PAPER_SOURCE}. Its fine-tuned BERT large: 96.6.",
    ]
    tuned = [result.runs[0].grid for result in table.rows if result.row.name == FINE_TUNING and result.runs]
    for point in tuned:
        if point is not None:
            settings = f"Fine-tuned with batches of {point.batch_size}, rate {point.learning_rate:g}"
            notes.insert(1, f"{settings}, {point.epochs} epochs.")
    return notes


def format_scores(values: Sequence[float]) -> str:
    """Mean and standard deviation in percent: ``91.2 ± 0.4``."""
    if not values:
        return ""
    mean, spread = mean_and_deviation(values)
    return f"{mean:.1f} ± {spread:.1f}" if len(values) > 1 else f"{mean:.1f}"


def markdown_line(cells: Iterable[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"
