"""A picture of a pre-training: the losses by step, and the scores of held-out sequences before and after."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bertfeat.arguments import checked
from bertfeat.plots.figure import drawing
from bertfeat.plots.palette import NAMED, NO_VALUE
from bertfeat.plots.sheet import GivenAxes, Sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class _StepLosses(Protocol):
    """A point of the history."""

    @property
    def step(self) -> int: ...
    @property
    def words(self) -> float: ...
    @property
    def pairs(self) -> float | None: ...
    @property
    def anchor(self) -> float | None: ...


class _Predicted(Protocol):
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
    def before(self) -> _Predicted | None: ...
    @property
    def after(self) -> _Predicted | None: ...


@checked
def draw_pretraining(
    record: _PretrainingHistory, path: str | Path | None = None, *, axes: Sequence[GivenAxes] | None = None
) -> "Figure":
    """Draw the losses of a pre-training by step: of words, and those of pairs and of the anchor, a panel each.

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
