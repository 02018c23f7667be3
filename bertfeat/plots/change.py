"""Pictures of words over slices, such as years: their frequency, how far they moved, and the shares of their senses."""

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

from bertfeat.arguments import checked, require_at_least
from bertfeat.errors import UsageError, parameter
from bertfeat.plots.figure import LEGEND_SIZE, GivenAxes, Sheet, drawing
from bertfeat.plots.palette import MARKERS, NAMED, NO_VALUE
from bertfeat.plots.texts import shortened, width_of
from bertfeat.study import ChangeReport, WordChange
from bertfeat.usages import Sense, Senses, SlicedUsages

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_PANELS = {"prt": "prototype distance", "apd": "average pairwise distance", "jsd": "divergence of senses"}
_LONGEST = 1.2  # inches that the name of a slice may take
_ASIDE = 0.3  # share of the distance between two slices over which the words of one step are spread
_Z = NormalDist().inv_cdf(0.975)  # standard deviations to either side that hold 95 %
_AROUND = 40  # characters of a usage on either side of the word
MOST_WORDS = len(NAMED)
"""The most words in one picture; where there are more, the most changed ones are drawn."""


@checked
def draw_change(
    report: ChangeReport,
    path: str | Path | None = None,
    *,
    axes: Sequence[GivenAxes] | None = None,
    words: int = MOST_WORDS,
) -> "Figure":
    """Draw how the most changed words differ between each slice and the next one, with intervals.

    ``report`` is what :func:`bertfeat.measure_change` gives; at most :data:`MOST_WORDS` are drawn,
    on three panels. ``path`` and ``axes``: see :mod:`bertfeat.plots`.

    Raises:
        UsageError: the name's ending stands for no form.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    require_at_least(1, words=words)
    changes = report.words[: min(words, MOST_WORDS)]
    texts = [report.by, *(change.word for change in changes), *(one.name for one in report.slices)]
    with drawing(path, axes, (_width(len(report.slices)), 7.0), texts) as sheet:
        _paint_change(sheet, report, changes)
    return sheet.figure


def _paint_change(sheet: Sheet, report: ChangeReport, changes: Sequence[WordChange]) -> None:
    note = f"Between each slice of {report.by} and the next one, with intervals of 95 %, on {report.column}"
    few = len(changes) < len(report.words)
    note += f"; the {len(changes)} most changed of {len(report.words):,} words." if few else "."
    above = any(
        getattr(step, measure).value > getattr(step, measure).high
        for change in changes
        for step in change.steps
        for measure in _PANELS
    )
    if above:  # possible with the basic bootstrap, see study/change.py
        note += " A mark above its line: chance is a part of the value, and the interval leaves it out."
    sheet.header("How far the usages of words moved", note)
    panels = sheet.panels(len(_PANELS), sharex=True)
    lines: Sequence[Line2D] = ()
    for panel, (measure, label) in zip(panels, _PANELS.items(), strict=True):
        panel.set(ylabel=label)
        panel.grid(axis="y")
        lines = [_draw_steps(panel, change, measure, (at, len(changes))) for at, change in enumerate(changes)]
        for at in range(len(report.slices) - 2):  # between two steps
            panel.axvline(at + 0.5, color=NO_VALUE, linewidth=0.6, linestyle=":")
    names = [one.name for one in report.slices]
    _name_places(sheet, panels[-1], [[first, f"to {last}"] for first, last in pairwise(names)])
    panels[-1].set(xlabel=report.by)
    sheet.figure.align_ylabels(panels)
    sheet.legend(lines, [change.word for change in changes])


@checked
def draw_senses(senses: Senses, path: str | Path | None = None, *, axes: GivenAxes | None = None) -> "Figure":
    """Draw the share of each sense in every slice, with intervals of 95 % (Wilson 1927).

    ``senses`` is what :func:`bertfeat.find_senses` gives with ``by``; the ten largest are drawn, each named by its most
    central usage. ``path`` and ``axes``: see :mod:`bertfeat.plots`.

    Raises:
        UsageError: the name's ending stands for no form, or the senses were not counted in slices.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    if senses.by is None:
        raise UsageError("these senses were not counted in slices", remedy=f"find them with {parameter('by', 'year')}")
    drawn = senses.senses[: len(NAMED)]
    names = [one.name for one in senses.slices]
    labels = [_name_sense(number, sense) for number, sense in enumerate(drawn, 1)]
    size = (_width(len(names)), 3.6 + 0.2 * len(drawn))
    with drawing(path, axes, size, [senses.word, senses.by, *labels, *names]) as sheet:
        note = f"Share of the usages in each slice of {senses.by}, with intervals of 95 %, on {senses.column}"
        few = len(drawn) < len(senses.senses)
        note += f"; the {len(drawn)} largest of {len(senses.senses)} senses." if few else "."
        sheet.header(f"The senses of {senses.word}", note)
        (panel,) = sheet.panels()
        totals = [sum(counts) for counts in zip(*(sense.counts for sense in senses.senses), strict=True)]
        lines = [_draw_shares(panel, sense.counts, totals, (at, len(drawn))) for at, sense in enumerate(drawn)]
        panel.set(ylabel="share", xlabel=senses.by, ylim=(-0.03, 1.03))
        panel.grid(axis="y")
        _name_places(sheet, panel, [[name] for name in names])
        sheet.legend(lines, labels, columns=1)
    return sheet.figure


@checked
def draw_frequencies(
    usages: SlicedUsages, path: str | Path | None = None, *, axes: GivenAxes | None = None
) -> "Figure":
    """Draw how often a word stands in a million words of every slice, with intervals of 95 % (Wilson 1927).

    ``usages`` is what :func:`bertfeat.find_usages_by` gives. The intervals take usages for independent of one another;
    where a few documents have most of them, they are too narrow. ``path`` and ``axes``: see :mod:`bertfeat.plots`.

    Raises:
        UsageError: the name's ending stands for no form.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    counts = [(one.found, one.words) for one in usages.slices]
    names = [one.slice.name for one in usages.slices]
    what = usages.word if usages.near is None else f"{usages.word} near {usages.near}"
    with drawing(path, axes, (_width(len(names)), 3.6), [what, usages.by, *names]) as sheet:
        total = sum(one.found for one in usages.slices)
        note = f"Usages in a million words of each slice of {usages.by}, {total:,} in all, with intervals of 95 %"
        note += " that take usages for independent of one another."
        sheet.header(f"The frequency of {what}", note)
        (panel,) = sheet.panels()
        shares = [found / words if words else 0.0 for found, words in counts]
        panel.bar(range(len(counts)), [1e6 * share for share in shares], width=0.7, color=NAMED[0], alpha=0.7)
        for at, (found, words) in enumerate(counts):
            low, high = _wilson_interval(found, words) if words else (0.0, 0.0)
            panel.vlines(at, 1e6 * low, 1e6 * high, color="black", linewidth=0.8)
        panel.set(ylabel="per million words", xlabel=usages.by)
        panel.grid(axis="y")
        _name_places(sheet, panel, [[name] for name in names])
    return sheet.figure


def _wilson_interval(count: int, total: int) -> tuple[float, float]:
    """The interval of 95 % of a share (Wilson 1927)."""
    share, square = count / total, _Z * _Z / total
    middle = share + square / 2
    spread = _Z * math.sqrt(share * (1 - share) / total + square / (4 * total))
    return max(0.0, (middle - spread) / (1 + square)), min(1.0, (middle + spread) / (1 + square))


def _width(slices: int) -> float:
    return min(12.0, max(5.5, 1.5 + 1.1 * slices))


def _name_sense(number: int, sense: Sense) -> str:
    """A sense by its number and the middle of its most central usage."""
    usage = sense.usages[0]
    left, right = usage.left[-_AROUND:], usage.right[:_AROUND]
    before, after = ("…" if len(part) == _AROUND else "" for part in (left, right))
    return f"sense {number}: {before}{left}{usage.word}{right}{after}"


def _draw_shares(panel: "Axes", counts: Sequence[int], totals: Sequence[int], place: tuple[int, int]) -> "Line2D":
    """Draw the shares of one sense; a slice without usages has none. ``place``: its number, and that of all senses."""
    number, of = place
    aside = _ASIDE * ((number + 0.5) / of - 0.5)
    known = [at for at, total in enumerate(totals) if total]
    intervals = [_wilson_interval(counts[at], totals[at]) for at in known]
    at = [slice_ + aside for slice_ in known]
    low, high = [interval[0] for interval in intervals], [interval[1] for interval in intervals]
    panel.vlines(at, low, high, color=NAMED[number], linewidth=0.8)
    shares = [counts[slice_] / totals[slice_] for slice_ in known]
    (line,) = panel.plot(at, shares, color=NAMED[number], marker=MARKERS[number])
    return line


def _name_places(sheet: Sheet, panel: "Axes", names: Sequence[Sequence[str]]) -> None:
    """Label the x axis with the slices or steps; where one label is too wide for its place, all stand upright."""
    shown = [[shortened(sheet.figure, line, _LONGEST, LEGEND_SIZE) for line in name] for name in names]
    place = (sheet.width - 1) / len(names)
    upright = any(width_of(sheet.figure, line, LEGEND_SIZE) > 0.9 * place for name in shown for line in name)
    panel.set_xticks(range(len(names)), ["\n".join(name) for name in shown], rotation=90 if upright else 0)
    panel.set_xlim(-0.5, len(names) - 0.5)


def _draw_steps(panel: "Axes", change: WordChange, measure: str, place: tuple[int, int]) -> "Line2D":
    """Draw the values and intervals of one word by step. ``place``: its number, and that of all words."""
    number, of = place
    aside = _ASIDE * ((number + 0.5) / of - 0.5)
    intervals = [getattr(step, measure) for step in change.steps]
    at = [step + aside for step in range(len(intervals))]
    # not as error bars: an interval need not hold its value
    low, high = [interval.low for interval in intervals], [interval.high for interval in intervals]
    panel.vlines(at, low, high, color=NAMED[number], linewidth=0.8)
    (line,) = panel.plot(at, [interval.value for interval in intervals], color=NAMED[number], marker=MARKERS[number])
    return line
