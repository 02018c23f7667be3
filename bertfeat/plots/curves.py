"""Curves of training: the loss and score of a head by epoch, and the losses of a pre-training by step.

Protocols name the parts of the records that are drawn, since the packages that train import this one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypedDict

from bertfeat.arguments import checked
from bertfeat.plots.figure import GivenAxes, Sheet, drawing
from bertfeat.plots.palette import NAMED, NO_VALUE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _EpochScores(TypedDict):
    """The part of an epoch that the curves show."""

    loss: float
    score: float


class _HasName(Protocol):
    """A model, or the layers of it that a head reads."""

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
    sheet.header(f"A head learns from {settings.input.name} of {settings.model.name.rsplit('/', 1)[-1]}", note)
    losses, scores = sheet.panels(2, sharex=True)
    epochs = range(1, len(settings.history) + 1)
    values = [epoch["loss"] for epoch in settings.history]
    losses.plot(epochs, values, "o-", markersize=3, color=NAMED[0])
    losses.set(ylabel="mean training loss")
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


class _StepLosses(Protocol):
    """A point of a pre-training's history."""

    @property
    def step(self) -> int: ...
    @property
    def words(self) -> float: ...
    @property
    def pairs(self) -> float | None: ...
    @property
    def anchor(self) -> float | None: ...


class _HeldOutLosses(Protocol):
    """Scores of held-out sequences."""

    @property
    def loss(self) -> float: ...
    @property
    def unigram_loss(self) -> float: ...
    @property
    def copying_loss(self) -> float: ...
    @property
    def accuracy(self) -> float: ...


class _PretrainingHistory(Protocol):
    """The part of a pre-training's record that the curves show."""

    @property
    def model(self) -> str | None: ...
    @property
    def steps(self) -> int: ...
    @property
    def history(self) -> Sequence[_StepLosses]: ...
    @property
    def before(self) -> _HeldOutLosses | None: ...
    @property
    def after(self) -> _HeldOutLosses | None: ...


@checked
def draw_pretraining(
    record: _PretrainingHistory, path: str | Path | None = None, *, axes: Sequence[GivenAxes] | None = None
) -> "Figure":
    """Draw the losses of a pre-training by step: predicted pieces, next sentences and anchor, each on its own panel.

    ``path`` and ``axes``: see :mod:`bertfeat.plots`.

    Raises:
        UsageError: the name's ending stands for no form.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    with drawing(path, axes, (5.5, 4.5), [record.model or ""]) as sheet:
        _paint_pretraining(sheet, record)
    return sheet.figure


def _paint_pretraining(sheet: Sheet, record: _PretrainingHistory) -> None:
    name = "A new model" if record.model is None else record.model.rsplit("/", 1)[-1]
    sheet.header(f"{name} learns for {record.steps:,} steps", _note(record))
    below = [
        (label, values)
        for label, values in (
            ("loss of next sentences", [point.pairs for point in record.history]),
            ("distance from the old vectors", [point.anchor for point in record.history]),
        )
        if any(value is not None for value in values)
    ]
    panels = sheet.panels(1 + len(below), sharex=True)
    steps = [point.step for point in record.history]
    panels[0].plot(steps, [point.words for point in record.history], color=NAMED[0])
    panels[0].set(ylabel="loss of predicted pieces")
    if record.after is not None:
        panels[0].axhline(record.after.unigram_loss, color=NO_VALUE, linestyle=":", linewidth=1)
        panels[0].axhline(record.after.copying_loss, color=NO_VALUE, linestyle="--", linewidth=1)
    for panel, (label, values) in zip(panels[1:], below, strict=True):
        panel.plot(steps, [float("nan") if value is None else value for value in values], color=NAMED[1])
        panel.set(ylabel=label)
    panels[-1].set(xlabel="step")
    sheet.figure.align_ylabels(panels)
    for panel in panels:
        panel.grid(axis="y")


def _note(record: _PretrainingHistory) -> str:
    if record.before is None or record.after is None:
        return "Nothing was held out."
    return (
        f"Held out: loss {record.before.loss:.3f} before, {record.after.loss:.3f} after; "
        f"accuracy {record.before.accuracy:.1%} before, {record.after.accuracy:.1%} after; "
        f"loss by frequencies alone (dotted) {record.after.unigram_loss:.3f}, "
        f"with unchanged pieces copied (dashed) {record.after.copying_loss:.3f}."
    )
