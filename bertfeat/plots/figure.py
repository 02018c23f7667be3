"""The frame of every picture: the sheet that it is drawn on, its size, its layout, and the file that it is written to.

The sheet is a figure of its own with a header, or axes of a figure of the user's. A file's form goes by the ending of
its name, and the same input gives the same bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from bertfeat.errors import BertfeatError, StorageError, UsageError, needed_library, parameter, pluralize
from bertfeat.io import check_output, output_file
from bertfeat.plots.texts import choose_fonts, height_of, shortened, width_of, wrapped

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

FORMS = ("png", "pdf", "svg")
"""The forms of every picture, and the endings that stand for them."""

_MIN_WIDTH, _MIN_HEIGHT, _MOST_INCHES = 3.0, 2.5, 30.0
_METADATA: Mapping[str, Mapping[str, str | None]] = {  # without dates, and without matplotlib's version
    "png": {"Software": "bertfeat"},
    "pdf": {"Creator": "bertfeat", "Producer": "matplotlib", "CreationDate": None},
    "svg": {"Creator": "bertfeat", "Date": None},
}
LEGEND_SIZE = 8.0
_LEAST_AXES = 0.7  # inches: the least width and height of axes
_ROUNDING = 0.005  # inches by which rounding may make texts seem to lie outside
_TITLE_SIZE, _NOTE_SIZE = 10.5, 8.5
_GAP = 0.05  # inches below the title, and below the note
_HANDLE = 0.45  # inches that a legend's line takes before its name
MARGIN = 0.1  # inches that stay free around a picture


class GivenAxes(Protocol):
    """Axes of matplotlib."""

    @property
    def figure(self) -> object:
        """The figure that they are on."""
        ...

    @property
    def xaxis(self) -> object:
        """The axis below, which a figure does not have."""
        ...


@dataclass(frozen=True, slots=True)
class Sheet:
    """A figure of our own, or axes that the user gave."""

    figure: "Figure"
    given: tuple["Axes", ...] = ()  # none: the figure is our own

    @classmethod
    def of(cls, axes: GivenAxes | Sequence[GivenAxes]) -> "Sheet":
        """The sheet of axes that the user gave."""
        given = cast("tuple[Axes, ...]", tuple(axes) if isinstance(axes, Sequence) else (axes,))
        if not given:
            raise UsageError("there are none", where=parameter("axes", []))
        return cls(given[0].figure.canvas.figure, given)

    @contextmanager
    def plain_texts(self) -> Iterator[None]:
        """Keep texts that the block puts on given axes from being read as formulas, even if names have dollar signs."""
        from matplotlib.text import Text

        before = {id(text) for axes in self.given for text in axes.texts}
        yield
        for text in (text for axes in self.given for text in axes.findobj(Text) if id(text) not in before):
            text.set_parse_math(False)

    @property
    def width(self) -> float:
        """Inches from left to right: of the figure, or of the narrowest of the axes."""
        if not self.given:
            return float(self.figure.get_figwidth())
        return min(axes.get_window_extent().width for axes in self.given) / self.figure.dpi

    @property
    def height(self) -> float:
        """Inches from top to bottom: of the figure, or of the shortest of the axes."""
        if not self.given:
            return float(self.figure.get_figheight())
        return min(axes.get_window_extent().height for axes in self.given) / self.figure.dpi

    def header(self, title: str, note: str = "") -> float:
        """Write title and note at the upper left, wrapped to the picture's width, and keep the layout below them.

        Axes that were given get the title alone. Returns the height at which they end, as a share of the picture's.
        """
        if self.given:
            self.given[0].set_title(title)
            return 1.0
        below = self.height - MARGIN
        for text, size, color in ((title, _TITLE_SIZE, "black"), (note, _NOTE_SIZE, "#555555")):
            if text:
                lines = wrapped(self.figure, text, self.width - 2 * MARGIN, size)
                x, y = MARGIN / self.width, below / self.height
                self.figure.text(x, y, lines, ha="left", va="top", size=size, color=color, linespacing=1.2)
                below -= height_of(lines.count("\n") + 1, size) + _GAP
        self.constrain(rect=(0, 0, 1, below / self.height), w_pad=MARGIN, h_pad=MARGIN / 2)
        return below / self.height

    def constrain(self, **parameters: object) -> None:
        """Set parameters of the figure's constrained layout."""
        from matplotlib.layout_engine import ConstrainedLayoutEngine

        engine = self.figure.get_layout_engine()
        assert isinstance(engine, ConstrainedLayoutEngine)
        engine.set(**parameters)  # type: ignore[arg-type]  # the names and types are matplotlib's

    def panels(self, rows: int = 1, columns: int = 1, *, sharex: bool = False, sharey: bool = False) -> list["Axes"]:
        """The panels of a picture, row by row; axes that were given must be as many."""
        count = rows * columns
        if not self.given:
            return list(self.figure.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False).flat)
        if len(self.given) != count:
            problem = f"this picture has {pluralize(count, 'panel')}, and axes for {len(self.given)} are given"
            raise UsageError(problem, remedy=f"make them by plt.subplots({rows}, {columns})")
        return list(self.given)

    def legend(self, handles: Sequence["Artist"], names: Sequence[str], *, columns: int | None = None) -> "Legend":
        """A legend below the panels, in as many columns as fit; on axes that were given, in the last of them."""
        room = self.width - 2 * MARGIN
        shown = [shortened(self.figure, name, room - _HANDLE, LEGEND_SIZE) for name in names]
        if columns is None:
            widest = max(width_of(self.figure, name, LEGEND_SIZE) for name in shown) + _HANDLE
            columns = max(1, int(room / widest))
        blank = [""] * len(shown)
        if self.given:
            legend = self.given[-1].legend(handles, blank, handletextpad=0.5)
        else:
            legend = self.figure.legend(handles, blank, loc="outside lower left", ncols=columns, handletextpad=0.5)
        name_entries(legend, shown)
        return legend


def name_entries(legend: "Legend", names: Sequence[str]) -> None:
    """Name the entries of a legend, which leaves out labels that begin with an underscore."""
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)


def picture_path(path: str | Path, forms: tuple[str, ...] = FORMS) -> Path:
    """Check that a picture can be written there, before anything is computed for it.

    Raises:
        UsageError: the ending of its name is not one of the ``forms``.
        StorageError: it is a folder, or in a folder that is not there or cannot be written.
    """
    path = Path(path)
    check_output(path)
    if form_of(path) not in forms:
        endings = [f".{form}" for form in forms]
        problem = f"the form of a picture goes by the ending of its name: {', '.join(endings[:-1])} or {endings[-1]}"
        raise UsageError(problem, where=path)
    return path


def form_of(path: Path) -> str:
    """The form that a name's ending stands for: ``pdf`` for ``Map.PDF``."""
    return path.suffix.lower().removeprefix(".")


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


@contextmanager
def drawing(
    path: str | Path | None,
    axes: GivenAxes | Sequence[GivenAxes] | None,
    size: tuple[float, float],
    texts: Iterable[str] = (),
) -> Iterator[Sheet]:
    """Yield an empty figure of that size in inches, or the given axes, and lay it out at the end of the block.

    A figure is written to ``path``, if there is one. In the block bertfeat's style applies, on matplotlib's defaults;
    the user's settings hold only for axes that they gave. ``texts`` are those that come from outside: fonts are chosen
    that have their characters.

    Raises:
        UsageError: the size is out of bounds, or too small for the texts; the name's ending stands for no form; or both
            axes and a path are given.
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
    for name, inches, least in zip(("wide", "high"), size, (_MIN_WIDTH, _MIN_HEIGHT), strict=True):
        if not least <= inches <= _MOST_INCHES:
            raise UsageError(f"a picture is {least:g} to {_MOST_INCHES:g} inches {name}, not {inches:g}")
    is_text = path is not None and form_of(path) == "svg"  # which is drawn with the fonts of whoever opens it
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
    """Refuse a size where axes are given: their figure already has one."""
    for name, value in (("width", width), ("height", height)):
        if axes is not None and value is not None:
            remedy = f"leave out {parameter(name)}"
            raise UsageError(f"{parameter('axes')} are of a figure of yours, which has a size", remedy=remedy)


def fair_height(inches: float) -> float:
    """The height nearest to ``inches`` that a picture may have."""
    return min(max(inches, _MIN_HEIGHT), _MOST_INCHES)


def _lay_out(figure: "Figure") -> None:
    """Lay the figure out, and check that no text is cut off."""
    try:
        _fit_labels(figure)
        if not _all_inside(figure):
            raise UserWarning
    except UserWarning as error:  # also matplotlib's own, of a layout that does not work out
        width, height = figure.get_size_inches()
        raise UsageError(
            f"{width:g} × {height:g} inches are too few for the texts of this picture",
            remedy="give it more width or height",
        ) from error


def _fit_labels(figure: "Figure") -> None:
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


def _all_inside(figure: "Figure") -> bool:
    """Whether everything that is drawn lies inside the picture, and its axes have not shrunk to nearly nothing."""
    bars = "<colorbar>"  # matplotlib's name for the axes of color bars, which are thin
    axes = [panel.get_window_extent() for panel in figure.axes if panel.get_label() != bars]
    least = _LEAST_AXES * figure.dpi
    drawn = figure.get_tightbbox()  # in inches
    width, height = figure.get_size_inches() + _ROUNDING
    inside = min(drawn.x0, drawn.y0) >= -_ROUNDING and drawn.x1 <= width and drawn.y1 <= height
    return inside and all(box.width >= least and box.height >= least for box in axes)
