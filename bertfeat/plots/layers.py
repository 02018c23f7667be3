"""Which layers are best: pictures of the scores that each has, in probes, in searches, and in Table 7 of the paper.

A probe is a line over the layers; a search has a dot for each column and transform, with its interval over the queries;
a row of Table 7 has a dot for each seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from bertfeat.arguments import checked
from bertfeat.errors import UsageError
from bertfeat.plots.figure import LEGEND_SIZE, GivenAxes, Sheet, drawing, fair_height, refuse_size
from bertfeat.plots.palette import MARKERS, NAMED, NO_VALUE
from bertfeat.plots.texts import shortened, width_of, wrapped
from bertfeat.search import LayerTable
from bertfeat.study import ProbeReport, ProbeScores, read_probes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MEASURES = {"macro-f1": "macro F1", "accuracy": "accuracy"}
"""The scores of a probe that can be drawn, with their names in the picture."""

_LINES: tuple[Literal["-", ":", "-."], ...] = ("-", ":", "-.")


@checked
def draw_layers(
    probes: Sequence[ProbeReport | str | Path],
    path: str | Path | None = None,
    *,
    axes: GivenAxes | None = None,
    measure: str = "macro-f1",
    width: float | None = None,
    height: float | None = None,
) -> "Figure":
    """Draw probes: for each a line over the layers, with the spread of its folds, and its baseline dashed.

    ``probes`` are what :func:`bertfeat.probe_layers` gives, or files with the output of ``bertfeat probe --json``.
    Combinations of layers stand to the right of the single ones. ``path``, ``axes`` and sizes: see
    :mod:`bertfeat.plots`.

    Raises:
        UsageError: no probes, an unknown measure or form, or a size that does not fit the texts.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    if not probes:
        raise UsageError("there are no probes to draw", remedy="bertfeat probe FEATURES --label COL --json prints one")
    if measure not in MEASURES:
        raise UsageError(f"layers are drawn by {' or '.join(MEASURES)}, not by {measure!r}")
    refuse_size(axes, width, height)
    reports: list[ProbeReport] = []
    for source in probes:
        reports += [source] if isinstance(source, ProbeReport) else read_probes(source)
    columns = layer_columns(reports)
    texts = [text for report in reports for text in (report.label, report.features, report.model)]
    width = min(12.0, max(5.5, 2.0 + 0.35 * len(columns))) if width is None else width
    height = fair_height(4.0 + 0.18 * len(reports)) if height is None else height
    with drawing(path, axes, (width, height), texts) as sheet:
        _paint_layers(sheet, reports, measure)
    return sheet.figure


def layer_columns(probes: Sequence[ProbeReport]) -> list[str]:
    """The columns of probes as the picture has them, from left to right: single layers, then combinations."""
    layers = [layer for report in probes for layer in report.layers]
    single = sorted({probe.layer for probe in layers if probe.layer is not None})
    combined = dict.fromkeys(probe.column for probe in layers if probe.layer is None)
    return [*(f"layer{layer}" for layer in single), *combined]


def _paint_layers(sheet: Sheet, probes: Sequence[ProbeReport], measure: str) -> None:
    models = list(dict.fromkeys(_base_name(report.model) for report in probes))
    folds = " or ".join(str(number) for number in sorted({report.folds for report in probes}))
    note = f"Logistic regression on each column: mean and spread of {folds} folds; dashed: always the most frequent."
    sheet.header(f"What the layers of {', '.join(models)} tell", note)
    (axes,) = sheet.panels()
    axes.set(ylabel=MEASURES[measure])
    columns = layer_columns(probes)
    lines = [_draw_probe(axes, report, columns, measure, (at, len(probes))) for at, report in enumerate(probes)]
    _name_columns(sheet, axes, columns)
    axes.grid(axis="y")
    entries = []
    for report in probes:
        model = f"{_base_name(report.model)}, " if len(models) > 1 else ""
        entries.append(f"{report.label}, {model}{Path(report.features).name}")
    sheet.legend(lines, entries)


def _draw_probe(
    axes: "Axes", report: ProbeReport, columns: Sequence[str], measure: str, place: tuple[int, int]
) -> "Line2D":
    """Draw one of several probes and return its line for the legend."""
    number, of = place
    color, marker = NAMED[number % len(NAMED)], MARKERS[number % len(MARKERS)]
    line = _LINES[number // len(NAMED) % len(_LINES)]
    aside = 0.12 * (number - (of - 1) / 2) * min(1.0, 4 / of)  # as a share of the distance between two layers
    for joined, layers in (
        (line, [probe for probe in report.layers if probe.layer is not None]),
        ("", [probe for probe in report.layers if probe.layer is None]),
    ):
        at = [columns.index(probe.column if probe.layer is None else f"layer{probe.layer}") + aside for probe in layers]
        scores = [_score_and_deviation(probe.measured, measure) for probe in layers]
        means, spreads = [mean for mean, _ in scores], [spread for _, spread in scores]
        axes.errorbar(at, means, yerr=spreads, color=color, marker=marker, linestyle=joined, elinewidth=0.8, capsize=2)
    axes.axhline(_score_and_deviation(report.baseline, measure)[0], color=color, linestyle="--", linewidth=0.8)
    from matplotlib.lines import Line2D

    return Line2D([], [], color=color, marker=marker, linestyle=line)


def _name_columns(sheet: Sheet, axes: "Axes", columns: Sequence[str]) -> None:
    """Name the columns below; a name that is too wide for its place stands upright."""
    single = sum(column.startswith("layer") for column in columns)
    longest = sheet.height * 0.18
    shown = [shortened(sheet.figure, column.removeprefix("layer"), longest, LEGEND_SIZE) for column in columns]
    place = (sheet.width - 0.8) / len(columns)
    axes.set_xticks(range(len(columns)), shown)
    for label, name in zip(axes.get_xticklabels(), shown, strict=True):
        label.set_rotation(90 if width_of(sheet.figure, name, LEGEND_SIZE) > 0.9 * place else 0)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_xlabel("layer (0: embeddings)" + (", then combinations" if len(columns) > single else ""))
    if 0 < single < len(columns):
        axes.axvline(single - 0.5, color=NO_VALUE, linewidth=0.6)


def _score_and_deviation(scores: ProbeScores, measure: str) -> tuple[float, float]:
    if measure == "accuracy":
        return scores.accuracy, scores.accuracy_spread
    return scores.macro_f1, scores.macro_f1_spread


@checked
def draw_retrieval(
    table: LayerTable,
    path: str | Path | None = None,
    *,
    axes: GivenAxes | None = None,
    width: float | None = None,
    height: float | None = None,
) -> "Figure":
    """Draw which layers search best: nDCG@10 of each column, or another first metric, a color for each transform.

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
        note = f"{Path(table.features).name}: exact search for {table.queries:,} queries"
        note += f" among {table.documents:,} documents, by cosine."
        sheet.header(f"Which layers of {_base_name(table.model)} search best", note)
        (panel,) = sheet.panels()
        panel.set(xlabel=f"{table.ranked_by.title}, mean and interval of 95 %")
        handles = _draw_rows(panel, table, columns, transforms)
        panel.set_yticks(range(len(columns)), [shortened(sheet.figure, column, 2.0, LEGEND_SIZE) for column in columns])
        panel.set_ylim(len(columns) - 0.4, -0.6)
        panel.grid(axis="x")
        panel.tick_params(axis="y", length=0)
        if len(transforms) > 1:
            sheet.legend(handles, transforms, columns=min(4, len(transforms)))
    return sheet.figure


def _draw_rows(axes: "Axes", table: LayerTable, columns: list[str], transforms: list[str]) -> "list[Line2D]":
    """Draw every row and return a handle of each transform for the legend."""
    from matplotlib.lines import Line2D

    handles = []
    for at, transform in enumerate(transforms):
        aside = 0.7 * (at - (len(transforms) - 1) / 2) / len(transforms)  # of the distance of two columns
        rows = [row for row in table.rows if row.transform == transform]
        scores = [row.scores[table.ranked_by.key] for row in rows]
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
    axes.axvline(table.best.scores[table.ranked_by.key].value, color=NO_VALUE, linestyle="--", linewidth=0.8)
    axes.set_xlim(left=0.0)
    return handles


_PAPER_MARKER = "D"  # matplotlib's diamond, for the paper's numbers alone


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
    def purpose(self) -> str: ...  # a verb for the title, such as "tag"
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
    """Draw Table 7: one dot per seed, a bar at their mean, and beside them the paper's numbers in gray.

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
        sheet.header(f"Which layers of {_base_name(table.model)} {table.purpose} best", _table_note(table, panels))
        drawn = sheet.panels(1, len(panels), sharey=True)
        for place, panel in zip(drawn, panels, strict=True):
            _draw_panel(place, panel)
            place.set_xlabel(f"{'span F1' if panel.marker == _PAPER_MARKER else table.measure}, %")
        shown = [wrapped(sheet.figure, title, 2.0, LEGEND_SIZE, lines=2) for title in titles]
        drawn[0].set_yticks(range(len(titles)), shown)
        drawn[0].set_ylim(len(titles) - 0.4, -0.6)
    return sheet.figure


def _panels(table: _TableScores) -> list[_Panel]:
    """The panels: development set, test set and the paper's numbers, the latter two only where there are scores."""
    dev = tuple(tuple(100 * value for value in result.dev) for result in table.rows)
    test = tuple(tuple(100 * value for value in result.test) for result in table.rows)
    paper = tuple(() if result.paper is None else (result.paper,) for result in table.rows)
    panels = [
        _Panel("development set", dev, NAMED[0], "o"),
        _Panel("test set", test, NAMED[1], "s"),
        _Panel("in the paper", paper, NO_VALUE, _PAPER_MARKER),
    ]
    return [panels[0], *(panel for panel in panels[1:] if any(panel.values))]


def _table_note(table: _TableScores, panels: Sequence[_Panel]) -> str:
    seeds = max((len(result.dev) for result in table.rows), default=0)
    note = f"A dot is a run, a bar the mean of {seeds} seeds." if seeds > 1 else "A dot is a run."
    if any(panel.marker == _PAPER_MARKER for panel in panels):
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


def _base_name(model: str) -> str:
    """A model's name without its folder or owner."""
    return model.rstrip("/").rsplit("/", 1)[-1]
