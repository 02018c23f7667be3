"""A map as a picture: dots by matplotlib, with a legend of names or a bar of numbers."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertfeat.plots.coloring import NONE, OTHER, NumberScale
from bertfeat.plots.figure import drawing, fair_height
from bertfeat.plots.header import MARGIN, constrain, header
from bertfeat.plots.map_content import MapContent
from bertfeat.plots.palette import NAMED, NO_VALUE, OTHERS, SCALE
from bertfeat.plots.texts import height_of, number_labels, one_line, shortened, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.0  # inches: the text of a journal's page
_BESIDE = 5.0  # inches, from which on the legend stands beside the map, not below it
_LEGEND_SIZE = 8.0
_HANDLE = 0.3  # inches that a legend's dot takes before its name
_VECTORS = 20_000  # points; more are drawn as dots even in pdf and svg, or no program would open those
_SHUFFLE = 4171


def draw_points(content: MapContent, path: Path, width: float | None, height: float | None) -> None:
    """Write a map as png, pdf or svg; what is left out of its size is chosen to fit.

    Raises:
        UsageError: a size that does not fit the texts.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    width = WIDTH if width is None else width
    texts = [content.title, *(content.label(code) for code in _legend_codes(content))]
    texts += [content.coloring.column] if content.coloring else []
    high = fair_height(0.8 * width) if height is None else height
    with drawing(path, width, high, texts) as figure:
        paint_map(figure, content, fixed_height=height is not None)


def paint_map(figure: "Figure", content: MapContent, *, fixed_height: bool) -> None:
    """Draw a map on an empty figure, which becomes higher for a legend below the map unless its height is fixed."""
    width, height = figure.get_size_inches()
    beside = width >= _BESIDE or (fixed_height and height < width)
    codes = _legend_codes(content)
    room = 0.3 * width if beside else (width - 2 * MARGIN) / 2 - _HANDLE
    labels = [shortened(figure, content.label(code), room, _LEGEND_SIZE) for code in codes]
    columns = 1 if beside else _count_legend_columns(figure, labels)
    if not fixed_height and not beside:
        figure.set_figheight(width + 0.5 + height_of(-(-len(labels) // columns) + 1, _LEGEND_SIZE))
    top = header(figure, content.title, content.note)
    axes = figure.add_subplot()
    _dress(axes, content.axes)
    _scatter(axes, content)
    if isinstance(content.coloring, NumberScale):
        _draw_color_bar(figure, axes, content.coloring, beside)
    if codes:
        _legend(figure, content, codes, labels, columns, top if beside else None)


def _dress(axes: "Axes", names: tuple[str, str]) -> None:
    axes.set(xticks=[], yticks=[], xlabel=names[0], ylabel=names[1])
    axes.set_aspect("equal", adjustable="datalim")  # a distance is the same in every direction
    axes.margins(0.03)
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color("#bbbbbb")


def _scatter(axes: "Axes", content: MapContent) -> None:
    """Grey dots below, the coloured ones above them in no order, so that no colour hides another."""
    from matplotlib.colors import LinearSegmentedColormap

    codes, numbers = content.codes(), content.numbers()
    size, alpha = _dots(axes, len(codes))
    dot = partial(axes.scatter, s=size, alpha=alpha, linewidths=0.0, rasterized=len(codes) > _VECTORS)
    dot(*content.flat[codes == OTHER].T, color=OTHERS)
    dot(*content.flat[codes == NONE].T, color=NO_VALUE, marker="x", linewidths=max(0.4, size**0.5 / 8))
    order = np.random.default_rng(_SHUFFLE).permutation(np.flatnonzero(codes >= 0))
    if isinstance(content.coloring, NumberScale) and numbers is not None:
        low, high = _ends(content.coloring)
        scale = LinearSegmentedColormap.from_list("numbers", SCALE)
        dot(*content.flat[order].T, c=numbers[order], cmap=scale, vmin=low, vmax=high)
    else:
        dot(*content.flat[order].T, color=[NAMED[code] for code in codes[order]])


def _dots(axes: "Axes", count: int) -> tuple[float, float]:
    """The area of a dot in square points and how opaque it is: many dots are smaller, and show what lies below."""
    width, height = axes.figure.get_size_inches()  # type: ignore[union-attr]  # it is on a figure
    area = float(np.clip(0.18 * width * height * 72**2 / count, 3.0, 40.0))
    return area, float(np.clip((1500 / count) ** 0.25, 0.55, 0.9))


# ── legends ─────────────────────────────────────────────────────────────────────────────────────────────────


def _legend_codes(content: MapContent) -> list[int]:
    """The groups that are named: those drawn, the frequent ones first; of a scale only what has no number."""
    if content.coloring is None:
        return []
    drawn = set(content.codes().tolist())
    if isinstance(content.coloring, NumberScale):
        return [NONE] if NONE in drawn else []
    return [*sorted(code for code in drawn if code >= 0), *(code for code in (OTHER, NONE) if code in drawn)]


def _count_legend_columns(figure: "Figure", labels: Sequence[str]) -> int:
    """How many columns of a legend stand side by side below the map."""
    widest = max((width_of(figure, label, _LEGEND_SIZE) for label in labels), default=0.0)
    return max(1, min(len(labels), int((figure.get_figwidth() - 2 * MARGIN) / (widest + _HANDLE))))


def _legend(
    figure: "Figure", content: MapContent, codes: Sequence[int], labels: Sequence[str], columns: int, top: float | None
) -> None:
    from matplotlib.lines import Line2D

    looks = {OTHER: ("o", OTHERS), NONE: ("x", NO_VALUE)} | {at: ("o", color) for at, color in enumerate(NAMED)}
    handles = [
        Line2D([], [], marker=marker, color=color, linestyle="", markersize=5.0)
        for marker, color in (looks[code] for code in codes)
    ]
    legend = figure.legend(
        handles,
        [""] * len(labels),
        loc="outside lower left" if top is None else "upper right",
        bbox_to_anchor=None if top is None else (0, 0, 1, top),
        ncols=columns,
        handlelength=1.0,
        handletextpad=0.4,
        columnspacing=1.0,
        alignment="left",
    )
    for text, label in zip(legend.get_texts(), labels, strict=True):
        text.set_text(label)  # a legend leaves out labels that begin with an underscore
    assert content.coloring is not None
    room = 0.3 * figure.get_figwidth() if top is not None else figure.get_figwidth() - 2 * MARGIN
    legend.set_title(shortened(figure, content.coloring.column, room, _LEGEND_SIZE))
    if top is not None:
        constrain(figure, rect=(0, 0, 1 - legend.get_window_extent().width / figure.bbox.width, top))


def _draw_color_bar(figure: "Figure", axes: "Axes", scale: NumberScale, beside: bool) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize
    from matplotlib.ticker import MaxNLocator

    low, high = _ends(scale)
    marks = [float(mark) for mark in MaxNLocator(5, integer=scale.whole).tick_values(low, high)]
    ticks = [mark for mark in marks if low <= mark <= high and (mark.is_integer() or not scale.whole)]
    colors = ScalarMappable(Normalize(low, high), LinearSegmentedColormap.from_list("numbers", SCALE))
    draw = partial(figure.colorbar, colors, ax=axes, pad=0.02)
    bar = draw(location="right", aspect=30, shrink=0.9) if beside else draw(location="bottom", aspect=35)
    bar.outline.set_visible(False)
    bar.set_ticks(ticks, labels=number_labels(ticks))
    bar.set_label(one_line(scale.column))


def _ends(scale: NumberScale) -> tuple[float, float]:
    aside = max(0.5, abs(scale.low) * 1e-6)  # else a scale of one number has no length
    return (scale.low, scale.high) if scale.low < scale.high else (scale.low - aside, scale.high + aside)
