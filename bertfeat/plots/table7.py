"""Table 7 as a picture: the scores of each row, a dot for each seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bertfeat.arguments import checked
from bertfeat.plots.figure import drawing, fair_height
from bertfeat.plots.palette import NAMED, NO_VALUE
from bertfeat.plots.sheet import GivenAxes
from bertfeat.plots.texts import wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LABEL_SIZE = 8.0
_PAPERS = "D"  # the mark of the paper's numbers


class _RowScores(Protocol):
    """The part of a row of Table 7 that the picture shows. Scores are 0 to 1."""

    @property
    def title(self) -> str: ...
    @property
    def paper(self) -> float | None: ...  # F1 in the paper, 0 to 100
    @property
    def dev(self) -> Sequence[float]: ...  # of each run
    @property
    def test(self) -> Sequence[float]: ...  # of each run; empty where there is no test set


class _TableScores(Protocol):
    """The part of a Table 7 that the picture shows; :class:`bertfeat.learning.HeadTable` has it."""

    @property
    def model(self) -> str: ...
    @property
    def measure(self) -> str: ...
    @property
    def purpose(self) -> str: ...  # "tag"
    @property
    def rows(self) -> Sequence[_RowScores]: ...


@dataclass(frozen=True, slots=True)
class _Panel:
    title: str
    values: tuple[tuple[float, ...], ...]  # percent, of each row
    color: str
    marker: str


@checked
def draw_table7(
    table: _TableScores, path: str | Path | None = None, *, axes: Sequence[GivenAxes] | None = None
) -> "Figure":
    """Draw Table 7: a dot a seed, a bar at their mean, and beside them the paper's numbers in gray.

    ``table`` is a :class:`bertfeat.learning.HeadTable`. There is a panel for the development set, one for the test set
    and one for the paper, where there are such scores. ``path`` and ``axes``: see :mod:`bertfeat.plots`.

    Raises:
        UsageError: the name's ending stands for no form.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    panels = _panels(table)
    titles = [result.title for result in table.rows]
    size = (2.2 + 2.0 * len(panels), fair_height(1.6 + 0.35 * len(titles)))
    with drawing(path, axes, size, [*titles, table.model]) as sheet:
        sheet.header(
            f"Which layers of {table.model.rstrip('/').rsplit('/', 1)[-1]} {table.purpose} best",
            _table_note(table, panels),
        )
        drawn = sheet.panels(1, len(panels), sharey=True)
        for place, panel in zip(drawn, panels, strict=True):
            _draw_panel(place, panel)
            place.set_xlabel(f"{'span F1' if panel.marker == _PAPERS else table.measure}, %")
        shown = [wrapped(sheet.figure, title, 2.0, _LABEL_SIZE, lines=2) for title in titles]
        drawn[0].set_yticks(range(len(titles)), shown)
        drawn[0].set_ylim(len(titles) - 0.4, -0.6)
    return sheet.figure


def _panels(table: _TableScores) -> list[_Panel]:
    """The development set, the test set and the paper's numbers, those that there are."""
    dev = tuple(tuple(100 * value for value in result.dev) for result in table.rows)
    test = tuple(tuple(100 * value for value in result.test) for result in table.rows)
    paper = tuple(() if result.paper is None else (result.paper,) for result in table.rows)
    panels = [
        _Panel("development set", dev, NAMED[0], "o"),
        _Panel("test set", test, NAMED[1], "s"),
        _Panel("in the paper", paper, NO_VALUE, _PAPERS),
    ]
    return [panels[0], *(panel for panel in panels[1:] if any(panel.values))]


def _table_note(table: _TableScores, panels: Sequence[_Panel]) -> str:
    seeds = max((len(result.dev) for result in table.rows), default=0)
    note = f"A dot is a run, a bar the mean of {seeds} seeds." if seeds > 1 else "A dot is a run."
    if any(panel.marker == _PAPERS for panel in panels):
        note += " The paper's numbers are of BERT base (cased) on the development set of CoNLL-2003: other data."
    return note


def _draw_panel(axes: "Axes", panel: _Panel) -> None:
    for place, values in enumerate(panel.values):
        axes.plot(values, [place] * len(values), panel.marker, markersize=4, alpha=0.7, color=panel.color, mew=0)
        if values:
            mean = sum(values) / len(values)
            axes.plot([mean], [place], "|" if len(values) > 1 else "", markersize=14, color="black")
            axes.annotate(f"{mean:.1f}", (mean, place), (0, 8), textcoords="offset points", ha="center", size=7)
    axes.set_title(panel.title)
    axes.grid(axis="both")
    axes.tick_params(length=0)
    axes.margins(x=0.12)
