"""A map as a picture: dots by matplotlib, with a legend of names or a bar of numbers."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertfeat.plots.clusters import Cluster
from bertfeat.plots.figure import LEGEND_SIZE, MARGIN, GivenAxes, Sheet, drawing, fair_height, name_entries, refuse_size
from bertfeat.plots.map_content import NONE, OTHER, DocumentMap, NumberScale
from bertfeat.plots.palette import NAMED, NO_VALUE, OTHERS, SCALE
from bertfeat.plots.texts import height_of, number_labels, one_line, shortened, width_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 7.0  # inches: the width of the text on a journal's page
_BESIDE = 5.0  # inches of width from which the legend stands beside the map, not below it
_HANDLE = 0.3  # inches that a legend's dot takes before its name
_LABEL_SIZE = 7.0  # points: of the words of a cluster
_MOST_VECTOR_DOTS = 20_000  # more are rasterized even in pdf and svg, or no program would open those


def draw_points(
    content: DocumentMap,
    path: str | Path | None,
    axes: GivenAxes | None,
    width: float | None,
    height: float | None,
) -> "Figure":
    """Draw a map; a width or height of None is chosen to fit.

    Raises:
        UsageError: a size that does not fit the texts.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    refuse_size(axes, width, height)
    width = WIDTH if width is None else width
    texts = [content.title, *(content.label(code) for code in _legend_codes(content))]
    texts += [content.coloring.column] if content.coloring else []
    texts += [cluster.short_name for cluster in content.labels]
    high = fair_height(0.8 * width) if height is None else height
    with drawing(path, axes, (width, high), texts) as sheet:
        _paint_map(sheet, content, fixed_height=height is not None)
    return sheet.figure


def _paint_map(sheet: Sheet, content: DocumentMap, *, fixed_height: bool) -> None:
    """Draw a map; a figure of our own becomes higher for a legend below the map unless its height is fixed."""
    width, figure = sheet.width, sheet.figure
    beside = not sheet.given and (width >= _BESIDE or (fixed_height and sheet.height < width))
    codes = _legend_codes(content)
    room = 0.3 * width if beside else (width - 2 * MARGIN) / 2 - _HANDLE
    labels = [shortened(figure, content.label(code), room, LEGEND_SIZE) for code in codes]
    columns = 1 if beside or sheet.given else _count_legend_columns(figure, labels)
    if not fixed_height and not beside and not sheet.given:
        figure.set_figheight(width + 0.5 + height_of(-(-len(labels) // columns) + 1, LEGEND_SIZE))
    top = sheet.header(content.title, content.note)
    (axes,) = sheet.panels()
    axes.set(xticks=[], yticks=[], xlabel=content.axis_names[0], ylabel=content.axis_names[1])
    axes.set_aspect("equal", adjustable="datalim")  # a distance is the same in every direction
    axes.margins(0.03)
    axes.spines[:].set_visible(True)
    axes.spines[:].set_color("#bbbbbb")
    _scatter(axes, content, sheet.width * sheet.height)
    if isinstance(content.coloring, NumberScale):
        _draw_color_bar(figure, axes, content.coloring, beside or bool(sheet.given))
    if codes:
        _legend(sheet, content, codes, labels, columns, top if beside else None)
    _label_clusters(sheet, axes, content.labels)


def _scatter(axes: "Axes", content: DocumentMap, room: float) -> None:
    """Draw gray dots below, and the colored ones above them in random order, so that no color hides another."""
    from matplotlib.colors import LinearSegmentedColormap

    codes, numbers = content.codes(), content.numbers()
    size, alpha = _dots(room, len(codes))
    dot = partial(axes.scatter, s=size, alpha=alpha, linewidths=0.0, rasterized=len(codes) > _MOST_VECTOR_DOTS)
    dot(*content.flat[codes == OTHER].T, color=OTHERS)
    dot(*content.flat[codes == NONE].T, color=NO_VALUE, marker="x", linewidths=max(0.4, size**0.5 / 8))
    order = np.random.default_rng(4171).permutation(np.flatnonzero(codes >= 0))
    if isinstance(content.coloring, NumberScale) and numbers is not None:
        low, high = _ends(content.coloring)
        scale = LinearSegmentedColormap.from_list("numbers", SCALE)
        dot(*content.flat[order].T, c=numbers[order], cmap=scale, vmin=low, vmax=high)
    else:
        dot(*content.flat[order].T, color=[NAMED[code] for code in codes[order]])


def _dots(room: float, count: int) -> tuple[float, float]:
    """The area of a dot in square points and how opaque it is: many dots are smaller, and show what lies below.

    ``room`` is that of the picture, in square inches.
    """
    area = float(np.clip(0.18 * room * 72**2 / count, 3.0, 40.0))
    return area, float(np.clip((1500 / count) ** 0.25, 0.55, 0.9))


def _label_clusters(sheet: Sheet, axes: "Axes", clusters: Sequence[Cluster]) -> None:
    """Write the first words of clusters at their middles, each where there is room for it."""
    from matplotlib.transforms import Bbox

    figure = sheet.figure
    axes.apply_aspect() if sheet.given else figure.draw_without_rendering()  # so that places are those of the picture
    inside, taken = axes.get_window_extent(), list[Bbox]()
    for cluster in clusters:
        name = one_line(cluster.short_name)
        x, y = axes.transData.transform((cluster.x, cluster.y))
        wide, high = width_of(figure, name, _LABEL_SIZE) * figure.dpi, height_of(1, _LABEL_SIZE) * figure.dpi
        x = min(max(x, inside.x0 + wide / 2), inside.x1 - wide / 2)
        y = min(max(y, inside.y0 + high / 2), inside.y1 - high / 2)
        box = Bbox.from_bounds(x - wide / 2, y - high / 2, wide, high)
        if name and wide < inside.width and not box.count_overlaps(taken):
            taken.append(box)
            left, bottom = axes.transData.inverted().transform((x, y))
            text = axes.text(left, bottom, name, size=_LABEL_SIZE, ha="center", va="center", zorder=5)
            text.set_bbox({"facecolor": "white", "edgecolor": "none", "alpha": 0.6, "pad": 0.6})
            text.set_in_layout(False)


# ── legends ─────────────────────────────────────────────────────────────────────────────────────────────────


def _legend_codes(content: DocumentMap) -> list[int]:
    """The groups in the legend: those drawn, the frequent ones first; with a scale, only points without a number."""
    if content.coloring is None:
        return []
    drawn = set(content.codes().tolist())
    if isinstance(content.coloring, NumberScale):
        return [NONE] if NONE in drawn else []
    return [*sorted(code for code in drawn if code >= 0), *(code for code in (OTHER, NONE) if code in drawn)]


def _count_legend_columns(figure: "Figure", labels: Sequence[str]) -> int:
    """Count the columns of a legend that fit side by side below the map."""
    widest = max((width_of(figure, label, LEGEND_SIZE) for label in labels), default=0.0)
    return max(1, min(len(labels), int((figure.get_figwidth() - 2 * MARGIN) / (widest + _HANDLE))))


def _legend(
    sheet: Sheet, content: DocumentMap, codes: Sequence[int], labels: Sequence[str], columns: int, top: float | None
) -> None:
    """Draw the legend at the upper right, below ``top``; without it below the map, or on the axes that were given."""
    from matplotlib.lines import Line2D

    looks = {OTHER: ("o", OTHERS), NONE: ("x", NO_VALUE)} | {at: ("o", color) for at, color in enumerate(NAMED)}
    handles = [
        Line2D([], [], marker=marker, color=color, linestyle="", markersize=5.0)
        for marker, color in (looks[code] for code in codes)
    ]
    look = {"ncols": columns, "handlelength": 1.0, "handletextpad": 0.4, "columnspacing": 1.0, "alignment": "left"}
    draw = partial((sheet.given[0] if sheet.given else sheet.figure).legend, handles, [""] * len(labels), **look)
    if top is not None:
        legend = draw(loc="upper right", bbox_to_anchor=(0, 0, 1, top))
    else:
        legend = draw(loc="best" if sheet.given else "outside lower left")
    name_entries(legend, labels)
    assert content.coloring is not None
    room = sheet.width - 2 * MARGIN if top is None else 0.3 * sheet.width
    legend.set_title(shortened(sheet.figure, content.coloring.column, room, LEGEND_SIZE))
    if top is not None:
        sheet.constrain(rect=(0, 0, 1 - legend.get_window_extent().width / sheet.figure.bbox.width, top))


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
