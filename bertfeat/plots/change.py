"""How words changed from slice to slice: a panel a measure, a line a word."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.plots.figure import drawing, picture_path
from bertfeat.plots.header import MARGIN, header
from bertfeat.plots.palette import MARKERS, NAMED, NO_VALUE
from bertfeat.plots.texts import shortened, width_of
from bertfeat.study import ChangeReport, WordChange

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_PANELS = {"apd": "average pairwise distance", "prt": "prototype distance", "jsd": "divergence of senses"}
_SIZE = 8.0  # of the words and of the names of slices
_LONGEST = 1.2  # inches of the name of a slice
_HANDLE = 0.45  # inches that a legend's line takes before its word
_ASIDE = 0.3  # of the distance of two slices: all words at one step together
MOST_WORDS = len(NAMED)
"""Words in one picture; of more the most changed ones are drawn."""


def draw_change(report: ChangeReport, path: str | Path, *, words: int = MOST_WORDS) -> None:
    """Draw how the most changed words differ between each slice and the next one, as png, pdf or svg, with intervals.

    ``report`` is what :func:`bertfeat.measure_change` gives; at most :data:`MOST_WORDS` are drawn.

    Raises:
        UsageError: the name's ending stands for no form.
        BertfeatError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    path = picture_path(path)
    changes = report.words[: min(words, MOST_WORDS)]
    texts = [report.by, *(change.word for change in changes), *(one.name for one in report.slices)]
    width = min(12.0, max(5.5, 1.5 + 1.1 * len(report.slices)))
    with drawing(path, width, 7.0, texts) as figure:
        paint_change(figure, report, changes)


def paint_change(figure: "Figure", report: ChangeReport, changes: Sequence[WordChange]) -> None:
    """Draw these words on an empty figure."""
    note = f"Between each slice of {report.by} and the next one, with intervals of 95 %, on {report.column}"
    few = len(changes) < len(report.words)
    note += f"; the {len(changes)} most changed of {len(report.words):,} words." if few else "."
    header(figure, "How far the usages of words moved", note)
    panels: Sequence[Axes] = figure.subplots(len(_PANELS), 1, sharex=True)
    lines: Sequence[Line2D] = ()
    for panel, (measure, label) in zip(panels, _PANELS.items(), strict=True):
        panel.set(ylabel=label)
        panel.grid(axis="y")
        lines = [_draw_steps(panel, change, measure, (at, len(changes))) for at, change in enumerate(changes)]
        for at in range(len(report.slices)):
            panel.axvline(at, color=NO_VALUE, linewidth=0.6, linestyle=":")
    _name_slices(figure, panels[-1], [one.name for one in report.slices])
    panels[-1].set(xlabel=report.by)
    figure.align_ylabels()
    _name_words(figure, lines, changes)


def _name_slices(figure: "Figure", panel: "Axes", names: Sequence[str]) -> None:
    """Name the slices below; where a name is too wide for its place, all stand upright."""
    shown = [shortened(figure, name, _LONGEST, _SIZE) for name in names]
    place = (figure.get_figwidth() - 1) / len(names)
    upright = any(width_of(figure, name, _SIZE) > 0.9 * place for name in shown)
    panel.set_xticks(range(len(names)), shown, rotation=90 if upright else 0)
    panel.set_xlim(-0.5, len(names) - 0.5)


def _draw_steps(panel: "Axes", change: WordChange, measure: str, place: tuple[int, int]) -> "Line2D":
    """Draw the steps of one of several words midway between their slices."""
    number, of = place
    aside = _ASIDE * ((number + 0.5) / of - 0.5)
    intervals = [getattr(step, measure) for step in change.steps]
    at = [step + 0.5 + aside for step in range(len(intervals))]
    # not as error bars: an interval need not hold its value
    low, high = [interval.low for interval in intervals], [interval.high for interval in intervals]
    panel.vlines(at, low, high, color=NAMED[number], linewidth=0.8)
    (line,) = panel.plot(at, [interval.value for interval in intervals], color=NAMED[number], marker=MARKERS[number])
    return line


def _name_words(figure: "Figure", lines: Sequence["Line2D"], changes: Sequence[WordChange]) -> None:
    """Name the words below the panels, in as many columns as fit."""
    room = figure.get_figwidth() - 2 * MARGIN - _HANDLE
    names = [shortened(figure, change.word, room, _SIZE) for change in changes]
    widest = max(width_of(figure, name, _SIZE) for name in names) + _HANDLE
    fitting = max(1, int((room + _HANDLE) / widest))
    legend = figure.legend(lines, [""] * len(names), loc="outside lower left", ncols=fitting, handletextpad=0.5)
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)
