"""The figure of every picture: drawn in a style of its own, wherever that happens, and shown by notebooks."""

import io
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import matplotlib
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DPI = 300  # dots an inch: what journals ask of a picture in dots
_SHOWN = 100  # dots an inch on a screen

_STYLE: dict[str, object] = {
    "font.family": ["sans-serif"],  # an svg names it last, after the fonts in mind
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
    "text.parse_math": False,  # a dollar sign in a name is no formula
    "svg.fonttype": "none",  # text stays text, to be searched and edited
    "svg.hashsalt": "bertfeat",  # else every file gets other ids
    "pdf.fonttype": 42,
}
_DRAWING = threading.RLock()  # matplotlib's settings are the process's


@contextmanager
def styled(fonts: Sequence[str]) -> Iterator[None]:
    """Let the style of pictures hold in the block, not the user's settings, in these fonts."""
    with _DRAWING, matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # choose_fonts() warns once
        warnings.filterwarnings("error", message="constrained_layout not applied")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE | {"font.sans-serif": list(fonts)})  # type: ignore[arg-type]  # names: a Literal
        yield


class Picture(Figure):
    """A figure of matplotlib that keeps its style; made where :func:`styled` holds."""

    def __init__(self, width: float, height: float, fonts: Sequence[str]) -> None:
        super().__init__(figsize=(width, height), layout="constrained")
        self._fonts = fonts
        FigureCanvasAgg(self)

    def draw(self, renderer: RendererBase) -> None:
        """Draw the figure, in its own style."""
        with styled(self._fonts):
            super().draw(renderer)

    def finish(self) -> None:
        """Keep the layout as it is, and take the size that a screen wants."""
        self.set_layout_engine("none")  # which would compute the same layout once more
        self.set_dpi(_SHOWN)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """The picture in twice as many dots as it has on the page, which sharp screens show."""
        content = io.BytesIO()
        with styled(self._fonts):
            self.savefig(content, format="png", dpi=2 * _SHOWN)
        width, height = (round(_SHOWN * inches) for inches in self.get_size_inches())
        return content.getvalue(), {"width": width, "height": height}
