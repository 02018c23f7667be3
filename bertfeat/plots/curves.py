"""Curves of a head's training: loss and score by epoch."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict

from bertfeat.arguments import checked
from bertfeat.plots.figure import drawing
from bertfeat.plots.palette import NAMED, NO_VALUE
from bertfeat.plots.sheet import GivenAxes, Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _EpochScores(TypedDict):
    """The part of an epoch that the curves show."""

    loss: float
    score: float


class _HasName(Protocol):
    """A model, or what a head reads of it."""

    @property
    def name(self) -> str: ...


class _LearningHistory(Protocol):
    """The part of a head that the curves show; the record of a saved one (``Head(folder).record``) has it."""

    @property
    def model(self) -> _HasName: ...
    @property
    def input(self) -> _HasName: ...
    @property
    def measure(self) -> str: ...
    @property
    def history(self) -> Sequence[_EpochScores]: ...
    @property
    def best_epoch(self) -> int: ...
    @property
    def score(self) -> float: ...


@checked
def draw_curves(
    settings: _LearningHistory, path: str | Path | None = None, *, axes: Sequence[GivenAxes] | None = None
) -> "Figure":
    """Draw how a head learned, on two panels: loss, and score on the development set, the best epoch marked.

    ``settings`` is the record of a saved head: ``Head(folder).record``. ``path`` and ``axes``: see
    :mod:`bertfeat.plots`.

    Raises:
        UsageError: the name's ending stands for no form.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    with drawing(path, axes, (5.5, 4.5), [settings.model.name]) as sheet:
        _paint_curves(sheet, settings)
    return sheet.figure


def _paint_curves(sheet: Sheet, settings: _LearningHistory) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    measure = settings.measure
    note = f"Best: {measure} {settings.score:.4f} on the development set, in epoch {settings.best_epoch}"
    note += f" of {len(settings.history)} (dotted)."
    sheet.header(f"A tagger learns from {settings.input.name} of {settings.model.name.rsplit('/', 1)[-1]}", note)
    losses, scores = sheet.panels(2, sharex=True)
    epochs = range(1, len(settings.history) + 1)
    values = [epoch["loss"] for epoch in settings.history]
    losses.plot(epochs, values, "o-", markersize=3, color=NAMED[0])
    losses.set(ylabel="training loss of a word")
    if min(values, default=0) > 0:
        losses.set_yscale("log")
        losses.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        losses.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        losses.yaxis.set_minor_formatter(NullFormatter())
    scores.plot(epochs, [epoch["score"] for epoch in settings.history], "s-", markersize=3, color=NAMED[1])
    scores.set(ylabel=f"{measure}, development", xlabel="epoch")
    scores.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1, steps=[1, 2, 2.5, 5, 10]))
    scores.set_xlim(0.5, len(settings.history) + 0.5)
    sheet.figure.align_ylabels([losses, scores])
    for axes in (losses, scores):
        axes.axvline(settings.best_epoch, color=NO_VALUE, linestyle=":", linewidth=1)
        axes.grid(axis="y")
