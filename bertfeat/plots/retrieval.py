"""A picture of the layers that search best: a dot for each column and transform, with its interval over the queries."""

from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.arguments import checked
from bertfeat.plots.figure import drawing, fair_height, refuse_size
from bertfeat.plots.palette import MARKERS, NAMED, NO_VALUE
from bertfeat.plots.sheet import GivenAxes
from bertfeat.plots.texts import shortened
from bertfeat.search import RANKED_BY, LayerTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_LABEL_SIZE = 8.0
_LONGEST = 2.0  # inches of a column's name
_APART = 0.7  # of the distance of two columns: what the transforms of one take


@checked
def draw_retrieval(
    table: LayerTable,
    path: str | Path | None = None,
    *,
    axes: GivenAxes | None = None,
    width: float | None = None,
    height: float | None = None,
) -> "Figure":
    """Draw which layers search best: nDCG@10 of each column, a color for each transform.

    ``table`` is what :func:`bertfeat.evaluate_layers` gives; bars are its intervals of 95 %, and a line stands at the
    best row. ``path``, ``axes`` and sizes: see :mod:`bertfeat.plots`.

    Raises:
        UsageError: the name's ending stands for no form, or a size does not fit the texts.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    refuse_size(axes, width, height)
    columns = list(dict.fromkeys(row.column for row in table.rows))
    transforms = list(dict.fromkeys(row.transform for row in table.rows))
    width = 6.5 if width is None else width
    each = 0.13 + 0.11 * len(transforms)
    height = fair_height(1.7 + each * len(columns)) if height is None else height
    with drawing(path, axes, (width, height), [table.model, table.features]) as sheet:
        model = table.model.rstrip("/").rsplit("/", 1)[-1]
        sheet.header(f"Which layers of {model} search best", _retrieval_note(table))
        (panel,) = sheet.panels()
        panel.set(xlabel=f"{RANKED_BY.title}, mean and interval of 95 %")
        handles = _draw_rows(panel, table, columns, transforms)
        panel.set_yticks(
            range(len(columns)), [shortened(sheet.figure, column, _LONGEST, _LABEL_SIZE) for column in columns]
        )
        panel.set_ylim(len(columns) - 0.4, -0.6)
        panel.grid(axis="x")
        panel.tick_params(axis="y", length=0)
        if len(transforms) > 1:
            sheet.legend(handles, transforms, columns=min(4, len(transforms)))
    return sheet.figure


def _retrieval_note(table: LayerTable) -> str:
    name = Path(table.features).name
    return f"{name}: exact search for {table.queries:,} queries among {table.documents:,} documents, by cosine."


def _draw_rows(axes: "Axes", table: LayerTable, columns: list[str], transforms: list[str]) -> "list[Line2D]":
    """Draw every row and return a handle of each transform for the legend."""
    from matplotlib.lines import Line2D

    handles = []
    for at, transform in enumerate(transforms):
        aside = _APART * (at - (len(transforms) - 1) / 2) / len(transforms)
        rows = [row for row in table.rows if row.transform == transform]
        scores = [row.scores[RANKED_BY.key] for row in rows]
        color, marker = NAMED[at % len(NAMED)], MARKERS[at % len(MARKERS)]
        axes.errorbar(
            [score.value for score in scores],
            [columns.index(row.column) + aside for row in rows],
            xerr=[
                [max(0.0, score.value - score.low) for score in scores],
                [max(0.0, score.high - score.value) for score in scores],
            ],
            color=color,
            marker=marker,
            linestyle="",
            elinewidth=0.8,
        )
        handles.append(Line2D([], [], color=color, marker=marker, linestyle=""))
    axes.axvline(table.best.scores[RANKED_BY.key].value, color=NO_VALUE, linestyle="--", linewidth=0.8)
    axes.set_xlim(left=0.0)
    return handles
