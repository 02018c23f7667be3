"""The title above every picture, and the note below it."""

from typing import TYPE_CHECKING

from bertfeat.plots.texts import height_of, wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARGIN = 0.1  # inches that stay free around a picture
_TITLE_SIZE, _NOTE_SIZE = 10.5, 8.5
_GAP = 0.05


def header(figure: "Figure", title: str, note: str = "") -> float:
    """Write title and note at the upper left, wrapped to the picture's width, and keep the rest of the layout below.

    Returns the height at which they end, as a share of the picture's.
    """
    width, height = figure.get_size_inches()
    below = height - MARGIN
    for text, size, color in ((title, _TITLE_SIZE, "black"), (note, _NOTE_SIZE, "#555555")):
        if text:
            lines = wrapped(figure, text, width - 2 * MARGIN, size)
            x, y = MARGIN / width, below / height
            figure.text(x, y, lines, ha="left", va="top", size=size, color=color, linespacing=1.2)
            below -= height_of(lines.count("\n") + 1, size) + _GAP
    constrain(figure, rect=(0, 0, 1, below / height), w_pad=MARGIN, h_pad=MARGIN / 2)
    top: float = below / height
    return top


def constrain(figure: "Figure", **parameters: object) -> None:
    """Set parameters of a figure's constrained layout."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    engine.set(**parameters)  # type: ignore[arg-type]  # the names and types are matplotlib's
