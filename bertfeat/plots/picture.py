"""The matplotlib figure of all plots, which keeps its style wherever it is drawn, and shows in notebooks."""

import io
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DPI = 300  # dots per inch: the resolution that journals ask for
_SHOWN = 100  # dots per inch on a screen

_STYLE: dict[str, object] = {
    "font.family": ["sans-serif"],  # an SVG lists it last, after the chosen fonts
    "font.size": 9.0,
    "axes.labelsize": 9.0,
    "axes.titlesize": 9.0,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.fontsize": 8.0,
    "legend.title_fontsize": 8.0,
    "legend.frameon": False,
    "figure.titlesize": 10.0,
    "figure.dpi": DPI,  # texts are measured in the dots that they are drawn in
    "axes.linewidth": 0.6,
    "axes.edgecolor": "#555555",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "text.hinting": "none",  # else the width of a text depends on the resolution, and a line that fits is cut
    "text.parse_math": False,  # a dollar sign in a name is no formula
    "svg.fonttype": "none",  # text stays text, to be searched and edited
    "svg.hashsalt": "bertfeat",  # else every file gets other ids
    "pdf.fonttype": 42,
}
_DRAWING = threading.RLock()  # matplotlib's settings are those of the whole process


@contextmanager
def styled(fonts: Sequence[str]) -> Iterator[None]:
    """Apply the pictures' style, with these fonts, in place of the user's settings within the block."""
    with _DRAWING, matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # choose_fonts() warns once
        warnings.filterwarnings("error", message="constrained_layout not applied")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE | {"font.sans-serif": list(fonts)})  # type: ignore[arg-type]  # names: a Literal
        yield


class Picture(Figure):
    """A matplotlib figure that keeps its style; create it under :func:`styled`."""

    def __init__(self, width: float, height: float, fonts: Sequence[str]) -> None:
        super().__init__(figsize=(width, height), layout="constrained")
        self._fonts = fonts
        FigureCanvasAgg(self)

    def draw(self, renderer: RendererBase) -> None:
        """Draw the figure, in its own style."""
        with styled(self._fonts):
            super().draw(renderer)

    def finish(self) -> None:
        """Freeze the layout, and set the resolution of a screen."""
        self.set_layout_engine("none")  # an engine would compute the same layout again
        self.set_dpi(_SHOWN)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture as PNG, at twice its displayed resolution, for sharp screens."""
        content = io.BytesIO()
        with styled(self._fonts):
            self.savefig(content, format="png", dpi=2 * _SHOWN)
        width, height = (round(_SHOWN * inches) for inches in self.get_size_inches())
        return content.getvalue(), {"width": width, "height": height}
