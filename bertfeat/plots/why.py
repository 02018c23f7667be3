"""Why a text is near a query, as a heat map: a cell for each pair of their words."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertfeat.arguments import checked
from bertfeat.errors import UsageError
from bertfeat.plots.figure import GivenAxes, drawing, fair_height, refuse_size
from bertfeat.plots.palette import NAMED
from bertfeat.plots.texts import shortened
from bertfeat.search import Why

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL = 0.24  # inches
_BESIDE, _ABOVE = 2.2, 1.9  # inches for the words of the query and the color bar; for the header and the words below
_LONGEST = 1.0  # inches that a word may take
_SIZE = 8.0  # points of a word
_MOST = 48  # words of a text


@checked
def draw_why(
    why: Why,
    path: str | Path | None = None,
    *,
    axes: GivenAxes | None = None,
    width: float | None = None,
    height: float | None = None,
) -> "Figure":
    """Draw the shares of pairs of words in a score: the words of the query down, those of the text across.

    ``why`` is what :func:`bertfeat.explain` and ``Index.search(why=True)`` give. Special tokens and prompts are
    left out; of a text of more than 48 words those are shown that add most. ``path``, ``axes`` and sizes: see
    :mod:`bertfeat.plots`.

    Raises:
        UsageError: no word stands in one of the texts, the name's ending stands for no form, or a size does not fit.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    refuse_size(axes, width, height)
    down, across = ([at for at, word in enumerate(side) if word.is_own] for side in (why.query, why.words))
    if not down or not across:
        raise UsageError("there is no word in the query, or in the text, and so no pair to draw")
    sums = why.shares[np.ix_(down, across)].sum(0)
    across = [across[at] for at in sorted(np.argsort(-sums, kind="stable")[:_MOST].tolist())]
    width = min(16.0, max(4.5, _BESIDE + _CELL * len(across))) if width is None else width
    height = fair_height(_ABOVE + _CELL * len(down)) if height is None else height
    rows, columns = [why.query[at].string for at in down], [why.words[at].string for at in across]
    with drawing(path, axes, (width, height), [*rows, *columns]) as sheet:
        from matplotlib.colors import LinearSegmentedColormap

        note = f"The shares of pairs of words; special tokens and prompts add {why.of_frame:.3f}."
        sheet.header(f"A score of {why.score:.3f}", note)
        (panel,) = sheet.panels()
        shares = why.shares[np.ix_(down, across)]
        scale = LinearSegmentedColormap.from_list("shares", ["#ffffff", NAMED[2]])
        image = panel.imshow(shares, cmap=scale, vmin=0.0, vmax=max(float(shares.max()), 1e-9))
        for name, words in (("x", columns), ("y", rows)):
            shown: Sequence[str] = [shortened(sheet.figure, word, _LONGEST, _SIZE) for word in words]
            getattr(panel, f"set_{name}ticks")(range(len(shown)), shown, fontsize=_SIZE)
        for label in panel.get_xticklabels():
            label.set_rotation(90)
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
        sheet.figure.colorbar(image, ax=panel, shrink=0.8, pad=0.02)
    return sheet.figure
