"""The surface that a picture is drawn on: a figure of its own with a header, or axes of a figure of the user's."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

from bertfeat.errors import UsageError, parameter, pluralize
from bertfeat.plots.texts import height_of, shortened, width_of, wrapped

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

MARGIN = 0.1  # inches that stay free around a picture
LEGEND_SIZE = 8.0
_TITLE_SIZE, _NOTE_SIZE = 10.5, 8.5
_GAP = 0.05
_HANDLE = 0.45  # inches that a legend's line takes before its name


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
        """Take no text that the block puts on given axes for a formula, whatever dollar signs a name has."""
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
        """Inches from top to bottom: of the figure, or of the lowest of the axes."""
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
        """The panels of a picture, row by row.

        Raises:
            UsageError: other than so many axes were given.
        """
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
