"""A picture's file: its form by the ending, the same bytes for the same input, a size that its texts fit into."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bertfeat.errors import BertfeatError, StorageError, UsageError, needed_library, parameter
from bertfeat.io import is_special, output_file, output_target, refuse_folder_path, storage_errors
from bertfeat.plots.font_choice import choose_fonts
from bertfeat.plots.sheet import GivenAxes, Sheet
from bertfeat.plots.texts import wrapped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMS = ("png", "pdf", "svg")
"""The forms of every picture, and the endings that stand for them."""
MIN_WIDTH, MIN_HEIGHT, MOST_INCHES = 3.0, 2.5, 30.0
_LEAST_AXES = 0.7  # inches, of the part that shows something
_ROUNDING = 0.005  # inches, by which texts may seem to stand out

_METADATA: Mapping[str, Mapping[str, str | None]] = {  # without dates, and without matplotlib's version
    "png": {"Software": "bertfeat"},
    "pdf": {"Creator": "bertfeat", "Producer": "matplotlib", "CreationDate": None},
    "svg": {"Creator": "bertfeat", "Date": None},
}


def picture_path(path: str | Path, forms: tuple[str, ...] = FORMS) -> Path:
    """Check that a picture can be written there, before anything is computed for it.

    Raises:
        UsageError: the ending of its name is not one of the ``forms``.
        StorageError: it is a folder, or in a folder that is not there or cannot be written.
    """
    path = Path(path)
    refuse_folder_path(path)
    if form_of(path) not in forms:
        endings = [f".{form}" for form in forms]
        problem = f"the form of a picture goes by the ending of its name: {', '.join(endings[:-1])} or {endings[-1]}"
        raise UsageError(problem, where=path)
    target = output_target(path)
    if isinstance(target, int) or is_special(target):
        return path
    with storage_errors(target.parent):
        os.close(os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY))
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
    return path


def draw_if_possible(draw: Callable[[], object]) -> tuple[str, ...]:
    """Draw the picture beside a result; returns a warning if something that it needs is missing.

    Raises:
        StorageError: the file cannot be written.
    """
    try:
        draw()
    except StorageError:
        raise
    except BertfeatError as error:
        return (f"no picture: {error}",)
    return ()


def form_of(path: Path) -> str:
    """The form that a name's ending stands for: ``pdf`` for ``Map.PDF``."""
    return path.suffix.lower().removeprefix(".")


@contextmanager
def drawing(
    path: str | Path | None,
    axes: GivenAxes | Sequence[GivenAxes] | None,
    size: tuple[float, float],
    texts: Iterable[str] = (),
) -> Iterator[Sheet]:
    """Yield an empty figure of that size in inches, or the given axes, and lay it out at the end of the block.

    A figure is written to ``path``, if there is one. In the block matplotlib's own defaults hold, not the user's
    settings, but for axes of theirs. ``texts`` are those that come from outside; fonts that know their characters are
    looked for.

    Raises:
        UsageError: the size is out of bounds, or too small for the texts; another form; or axes and a path.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    with needed_library("pictures need matplotlib", "bertfeat[analysis]"):
        from bertfeat.plots.picture import DPI, Picture, styled
    path = None if path is None else picture_path(path)
    if axes is not None:
        if path is not None:
            problem = f"{parameter('axes')} are of a figure of yours, which its savefig() writes"
            raise UsageError(problem, remedy=f"leave out {parameter('path')}")
        sheet = Sheet.of(axes)
        with sheet.plain_texts():
            yield sheet
        return
    _check_picture_size(*size)
    is_text = path is not None and form_of(path) == "svg"  # the reader's fonts draw it
    fonts = choose_fonts(texts, warn=not is_text)
    with styled(fonts):
        figure = Picture(*size, fonts)
        yield Sheet(figure)
        _lay_out(figure)
        if path is not None:
            figure.set_layout_engine("none")
            form = form_of(path)
            with output_file(path) as temporary:
                figure.savefig(temporary, format=form, dpi=DPI, metadata=dict(_METADATA[form]))
        figure.finish()


def refuse_size(axes: object, width: float | None, height: float | None) -> None:
    """Refuse a size where axes are given, whose figure has one.

    Raises:
        UsageError: says so.
    """
    for name, value in (("width", width), ("height", height)):
        if axes is not None and value is not None:
            remedy = f"leave out {parameter(name)}"
            raise UsageError(f"{parameter('axes')} are of a figure of yours, which has a size", remedy=remedy)


def fair_height(inches: float) -> float:
    """The height nearest to that which a picture may have."""
    return min(max(inches, MIN_HEIGHT), MOST_INCHES)


def _check_picture_size(width: float, height: float) -> None:
    for name, value, least in (("wide", width, MIN_WIDTH), ("high", height, MIN_HEIGHT)):
        if not least <= value <= MOST_INCHES:
            raise UsageError(f"a picture is {least:g} to {MOST_INCHES:g} inches {name}, not {value:g}")


def _lay_out(figure: "Figure") -> None:
    """Lay the figure out, and check that no text is cut off."""
    try:
        fit_labels(figure)
        if not all_inside(figure):
            raise UserWarning
    except UserWarning as error:  # matplotlib's, of a layout that does not work out, too
        width, height = figure.get_size_inches()
        raise UsageError(
            f"{width:g} × {height:g} inches are too few for the texts of this picture",
            remedy="give it more width or height",
        ) from error


def fit_labels(figure: "Figure") -> None:
    """Lay the figure out, with the names of its axes wrapped to the lengths that the axes have."""
    figure.draw_without_rendering()
    changed = False
    for axes in figure.axes:
        box = axes.get_window_extent()
        width, height = box.width / figure.dpi, box.height / figure.dpi
        for label, length in ((axes.xaxis.label, width), (axes.yaxis.label, height)):
            before = label.get_text()
            label.set_text(wrapped(figure, before, length, float(label.get_fontsize()), lines=2))
            changed |= label.get_text() != before
    if changed:
        figure.draw_without_rendering()


def all_inside(figure: "Figure") -> bool:
    """Whether everything that is drawn lies inside the picture, and its axes have not shrunk to nearly nothing."""
    bars = "<colorbar>"  # matplotlib's name for the axes of color bars, which are thin
    axes = [panel.get_window_extent() for panel in figure.axes if panel.get_label() != bars]
    least = _LEAST_AXES * figure.dpi
    drawn = figure.get_tightbbox()  # in inches
    width, height = figure.get_size_inches() + _ROUNDING
    inside = min(drawn.x0, drawn.y0) >= -_ROUNDING and drawn.x1 <= width and drawn.y1 <= height
    return inside and all(box.width >= least and box.height >= least for box in axes)
