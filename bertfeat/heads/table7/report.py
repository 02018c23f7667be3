"""The result of a head's Table 7 as JSON and as Markdown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated

from msgspec import Meta

from bertfeat.arguments import checked
from bertfeat.display import displayed
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.table7.rows import FINE_TUNING, PAPER_SOURCE
from bertfeat.heads.table7.runs import FORMAT_VERSION, HeadRun
from bertfeat.heads.tasks.table import task_of
from bertfeat.io import atomic, refuse_folder_path, remove_file, write_json
from bertfeat.training import Schedule

RESULTS_NAME = "table7.json"
MARKDOWN_NAME = "table7.md"
PICTURE_NAME = "table7.png"


@displayed
@dataclass(frozen=True, slots=True)
class HeadRow:
    """A row of the table and its runs."""

    name: str  # a layer specification, "fine-tuning", or a baseline
    title: str
    runs: tuple[HeadRun, ...]
    dev: tuple[float, ...]  # the score of each run on the development set
    test: tuple[float, ...]  # and on the test set; empty where there is none
    paper: float | None = None  # span F1 in the paper, 0 to 100; it has numbers for tags alone

    @classmethod
    def of(cls, name: str, title: str, runs: Sequence[HeadRun], paper: float | None = None) -> "HeadRow":
        """The row of some runs."""
        test = tuple(run.test for run in runs if run.test is not None)
        return cls(name, title, tuple(runs), tuple(run.dev for run in runs), test, paper)

    @property
    def seconds(self) -> float:
        """The mean time of learning of a run."""
        return sum(run.seconds for run in self.runs) / max(1, len(self.runs))


@displayed
@dataclass(frozen=True, slots=True)
class HeadTable:
    """The rows that were trained, in order."""

    kind: HeadKind
    model: str
    measure: str
    rows: Annotated[tuple[HeadRow, ...], Meta(min_length=1)]
    schedule: Schedule = "plateau"

    @property
    def purpose(self) -> str:
        """The purpose that the layers are compared for."""
        return str(self.kind)


def write_head_table(folder: Path, table: HeadTable) -> None:
    """Write ``table7.json`` and ``table7.md``; a picture of an earlier table is removed.

    Raises:
        StorageError: the folder cannot be written.
    """
    for name in (RESULTS_NAME, MARKDOWN_NAME, PICTURE_NAME):
        refuse_folder_path(folder / name)
    for name in (MARKDOWN_NAME, PICTURE_NAME):  # nothing stays beside a table that it does not show
        remove_file(folder / name)
    write_json(folder / RESULTS_NAME, {"format_version": FORMAT_VERSION, **asdict(table)})
    with atomic(folder / MARKDOWN_NAME) as temporary:
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
    reasons = {"head": not task_of(table.kind).recurrent, "epoch": by_epoch, "point of the grid": bool(tuned)}
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
