"""Two feature sets compared layer by layer, as heat maps: a cell for each pair of layers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.plots.figure import GivenAxes, Sheet, drawing, fair_height, refuse_size
from bertfeat.plots.palette import OTHERS, SCALE
from bertfeat.plots.texts import shortened, width_of
from bertfeat.study import ComparisonReport, Measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANELS: tuple[tuple[Measure, str], ...] = (("cka", "CKA"), ("rsa", "RSA"), ("neighbors", "neighbors"))
_CELL = 0.3  # inches, of which a number takes most
_NUMBER_SIZE, _LABEL_SIZE = 6.5, 8.0
_BESIDE = 1.0  # inches for the color bar and the names of the layers
_LONGEST = 1.0  # inches that a name may take
_LIGHT = 0.62  # the colors of higher values are so light that numbers on them are black


@checked
def draw_comparison(
    comparison: ComparisonReport,
    path: str | Path | None = None,
    *,
    axes: Sequence[GivenAxes] | None = None,
    width: float | None = None,
    height: float | None = None,
) -> "Figure":
    """Draw a comparison on three panels: CKA, RSA and common neighbors of each pair of layers, the first set's as rows.

    ``comparison`` is what :func:`bertfeat.compare_features` gives. Colors go from 0 to 1 in every picture; where RSA
    is below 0, from its least value on. Cells without a value are gray. ``path``, ``axes`` and sizes: see
    :mod:`bertfeat.plots`.

    Raises:
        UsageError: the name's ending stands for no form, or a size does not fit the texts.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    refuse_size(axes, width, height)
    down, across = len(comparison.first.layers), len(comparison.second.layers)
    width = min(16.0, max(6.5, _BESIDE + len(_PANELS) * (0.5 + _CELL * across))) if width is None else width
    cell = (width - _BESIDE - 0.5 * len(_PANELS)) / len(_PANELS) / across
    height = fair_height(1.4 + cell * down) if height is None else height
    texts = [text for each in (comparison.first, comparison.second) for text in (each.model, each.features)]
    with drawing(path, axes, (width, height), texts) as sheet:
        _paint_comparison(sheet, comparison)
    return sheet.figure


def _paint_comparison(sheet: Sheet, comparison: ComparisonReport) -> None:
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    first, second = comparison.first, comparison.second
    names = [f"{each.model.rstrip('/').rsplit('/', 1)[-1]} {each.precision}" for each in (first, second)]
    folders = " and ".join(Path(each.features).name for each in (first, second))
    note = f"{folders}: {comparison.pooling} vectors, {comparison.items:,} of each; RSA and the {comparison.k} nearest"
    note += f" neighbors of {comparison.sample:,}."
    sheet.header(f"{names[0]} (down) and {names[1]} (across)", note)
    least = min(0.0, float(np.nanmin([*comparison.matrix("rsa").flat, 0.0])))
    scale = LinearSegmentedColormap.from_list("likeness", SCALE).with_extremes(bad=OTHERS)
    panels = sheet.panels(1, len(_PANELS), sharey=True)
    for axes, (measure, title) in zip(panels, _PANELS, strict=True):
        values = comparison.matrix(measure)
        image = axes.imshow(values, cmap=scale, norm=Normalize(least, 1.0))
        axes.set_title(title)
        _label_layers(sheet, axes, comparison)
        _write_numbers(sheet.figure, axes, values)
    sheet.figure.colorbar(image, ax=panels, shrink=0.8, pad=0.02)


def _label_layers(sheet: Sheet, axes: "Axes", comparison: ComparisonReport) -> None:
    """Name the layers of the second set below and those of the first on the left; wide names below stand upright."""
    down, across = (
        [shortened(sheet.figure, name.removeprefix("layer"), _LONGEST, _LABEL_SIZE) for name in compared.layers]
        for compared in (comparison.first, comparison.second)
    )
    axes.set_xticks(range(len(across)), across)
    axes.set_yticks(range(len(down)), down)
    wide = sheet.width if sheet.given else (sheet.width - _BESIDE) / len(_PANELS)
    place = wide / len(across)
    for label, name in zip(axes.get_xticklabels(), across, strict=True):
        label.set_rotation(90 if width_of(sheet.figure, name, _LABEL_SIZE) > 0.9 * place else 0)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _write_numbers(figure: "Figure", axes: "Axes", values: NDArray[np.float64]) -> None:
    """Write each value into its cell, where cells have room for it."""
    figure.draw_without_rendering()
    box = axes.get_window_extent()
    if min(box.width / values.shape[1], box.height / values.shape[0]) < _CELL * figure.dpi * 0.85:
        return
    for (down, across), value in np.ndenumerate(values):
        if not np.isnan(value):
            color = "black" if value > _LIGHT else "white"
            axes.text(across, down, f"{value:.2f}", ha="center", va="center", size=_NUMBER_SIZE, color=color)
