"""The result of a head's Table 7 as JSON and as Markdown."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.table7.runs import FORMAT_VERSION, HeadRun
from bertfeat.io import atomic, write_json
from bertfeat.tagging import FINE_TUNING, format_scores, markdown_line
from bertfeat.training import Schedule

RESULTS_NAME = "table7.json"
MARKDOWN_NAME = "table7.md"
PICTURE_NAME = "table7.png"


@dataclass(frozen=True, slots=True)
class HeadRow:
    """A row of the table and its runs."""

    name: str  # a layer specification, "fine-tuning", or a baseline
    title: str
    runs: tuple[HeadRun, ...]
    dev: tuple[float, ...]  # the score of each run on the development set
    test: tuple[float, ...]  # and on the test set; empty where there is none

    @classmethod
    def of(cls, name: str, title: str, runs: Sequence[HeadRun]) -> "HeadRow":
        """The row of some runs."""
        test = tuple(run.test for run in runs if run.test is not None)
        return cls(name, title, tuple(runs), tuple(run.dev for run in runs), test)

    @property
    def paper(self) -> None:
        """The paper has no numbers for frozen features of these tasks."""

    @property
    def seconds(self) -> float:
        """The mean time of learning of a run."""
        return sum(run.seconds for run in self.runs) / max(1, len(self.runs))


@dataclass(frozen=True, slots=True)
class HeadTable:
    """The rows that were trained, in order."""

    kind: HeadKind
    model: str
    measure: str
    rows: tuple[HeadRow, ...]
    schedule: Schedule = "plateau"

    @property
    def purpose(self) -> str:
        """What the layers are compared for."""
        return str(self.kind)


def write_head_table(folder: Path, table: HeadTable) -> None:
    """Write ``table7.json`` and ``table7.md``.

    Raises:
        StorageError: the folder cannot be written.
    """
    write_json(folder / RESULTS_NAME, {"format_version": FORMAT_VERSION, **asdict(table)})
    with atomic(folder / MARKDOWN_NAME) as temporary:
        temporary.write_text(format_head_table(table), encoding="utf-8", errors="backslashreplace")


def format_head_table(table: HeadTable) -> str:
    """The table in Markdown: mean and standard deviation over seeds, and the time of learning."""
    has_test = any(row.test for row in table.rows)
    head = ["features", "layers", f"dev {table.measure}", *([f"test {table.measure}"] if has_test else []), "seconds"]
    lines = [markdown_line(head), markdown_line(["---", "---", *["---:"] * (len(head) - 2)])]
    for row in table.rows:
        scores = [format_scores(row.dev), *([format_scores(row.test)] if has_test else [])]
        lines.append(markdown_line([row.title, row.name, *scores, f"{row.seconds:.1f}" if row.seconds else ""]))
    seeds = max(len(row.runs) for row in table.rows)
    over = f"{seeds} seed{'' if seeds == 1 else 's'}"
    note = f"{table.model}; mean ± standard deviation over {over}; seconds of learning, without extraction. "
    return "\n".join([*lines, "", note + " ".join(_further_notes(table)), ""])


def _further_notes(table: HeadTable) -> Iterator[str]:
    tuned = [row for row in table.rows if row.name == FINE_TUNING]
    points = " and the grid's point" if tuned else ""
    if table.schedule == "plateau":
        yield f"The development set also chose the epoch{points}."
    else:
        yield "The last epoch of each run."
    slowest = max((row.seconds for row in table.rows if row not in tuned), default=0.0)
    for row in tuned:
        point = row.runs[0].grid
        if point is not None:
            ratio = f" in {row.seconds / slowest:,.0f} times the seconds of the slowest head" if slowest else ""
            settings = f"batches of {point.batch_size}, rate {point.learning_rate:g}, {point.epochs} epochs"
            yield f"Fine-tuned with {settings}{ratio}."
