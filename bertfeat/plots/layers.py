"""The scores of probes by layer: a line for each probe."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bertfeat.arguments import checked
from bertfeat.errors import UsageError
from bertfeat.plots.figure import drawing, fair_height, refuse_size
from bertfeat.plots.palette import MARKERS, NAMED, NO_VALUE
from bertfeat.plots.sheet import LEGEND_SIZE, GivenAxes, Sheet
from bertfeat.plots.texts import shortened, width_of
from bertfeat.probes import LayerProbe, ProbeReport, ProbeScores, read_probes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

MEASURES = {"macro-f1": "macro F1", "accuracy": "accuracy"}
"""The scores of a probe that can be drawn, with their names in the picture."""

_ASIDE = 0.12  # of the distance of two layers: the shift between the probes at one layer
_LINES: tuple[Literal["-", ":", "-."], ...] = ("-", ":", "-.")
_BASELINE = "dashed: always the most frequent"


@checked
def draw_layers(
    probes: Sequence[ProbeReport | str | Path],
    path: str | Path | None = None,
    *,
    axes: GivenAxes | None = None,
    measure: str = "macro-f1",
    width: float | None = None,
    height: float | None = None,
) -> "Figure":
    """Draw probes: a line each over the layers, the spread of the folds, its baseline dashed.

    ``probes`` are what :func:`bertfeat.probe_layers` gives, or files of what ``bertfeat probe --json`` printed.
    Combinations of layers stand to the right of the single ones. ``path``, ``axes`` and sizes: see
    :mod:`bertfeat.plots`.

    Raises:
        UsageError: no probes, an unknown measure or form, or a size that does not fit the texts.
        MissingLibraryError: matplotlib is not installed.
        StorageError: the file cannot be written.
    """
    if not probes:
        raise UsageError("there are no probes to draw", remedy="bertfeat probe FEATURES --label COL --json prints one")
    if measure not in MEASURES:
        raise UsageError(f"layers are drawn by {' or '.join(MEASURES)}, not by {measure!r}")
    refuse_size(axes, width, height)
    reports = [report for source in probes for report in _read_reports(source)]
    columns = layer_columns(reports)
    texts = [text for report in reports for text in (report.label, report.features, report.model)]
    width = min(12.0, max(5.5, 2.0 + 0.35 * len(columns))) if width is None else width
    height = fair_height(4.0 + 0.18 * len(reports)) if height is None else height
    with drawing(path, axes, (width, height), texts) as sheet:
        _paint_layers(sheet, reports, measure)
    return sheet.figure


def _read_reports(source: ProbeReport | str | Path) -> Sequence[ProbeReport]:
    return [source] if isinstance(source, ProbeReport) else read_probes(source)


def layer_columns(probes: Sequence[ProbeReport]) -> list[str]:
    """The columns of probes as the picture has them, from left to right: single layers, then combinations."""
    layers = [layer for report in probes for layer in report.layers]
    single = sorted({probe.layer for probe in layers if probe.layer is not None})
    combined = dict.fromkeys(probe.column for probe in layers if probe.layer is None)
    return [*(f"layer{layer}" for layer in single), *combined]


def _paint_layers(sheet: Sheet, probes: Sequence[ProbeReport], measure: str) -> None:
    models = list(dict.fromkeys(_model(report) for report in probes))
    folds = " or ".join(str(number) for number in sorted({report.folds for report in probes}))
    note = f"Logistic regression on each column: mean and spread of {folds} folds; {_BASELINE}."
    sheet.header(f"What the layers of {', '.join(models)} tell", note)
    (axes,) = sheet.panels()
    axes.set(ylabel=MEASURES[measure])
    columns = layer_columns(probes)
    lines = [_draw_probe(axes, report, columns, measure, (at, len(probes))) for at, report in enumerate(probes)]
    _name_columns(sheet, axes, columns)
    axes.grid(axis="y")
    sheet.legend(lines, [_name(report, len(models) > 1) for report in probes])


def _model(report: ProbeReport) -> str:
    return report.model.rstrip("/").rsplit("/", 1)[-1]


def _name(report: ProbeReport, of_several_models: bool) -> str:
    model = f"{_model(report)}, " if of_several_models else ""
    return f"{report.label}, {model}{Path(report.features).name}"


def _draw_probe(
    axes: "Axes", report: ProbeReport, columns: Sequence[str], measure: str, place: tuple[int, int]
) -> "Line2D":
    """Draw one of several probes and return its line for the legend."""
    number, of = place
    color, marker = NAMED[number % len(NAMED)], MARKERS[number % len(MARKERS)]
    line = _LINES[number // len(NAMED) % len(_LINES)]
    aside = _ASIDE * (number - (of - 1) / 2) * min(1.0, 4 / of)
    for joined, layers in (
        (line, [probe for probe in report.layers if probe.layer is not None]),
        ("", [probe for probe in report.layers if probe.layer is None]),
    ):
        at = [columns.index(probe.column if probe.layer is None else f"layer{probe.layer}") + aside for probe in layers]
        means, spreads = _means(layers, measure), _spreads(layers, measure)
        axes.errorbar(at, means, yerr=spreads, color=color, marker=marker, linestyle=joined, elinewidth=0.8, capsize=2)
    axes.axhline(_score_and_deviation(report.baseline, measure)[0], color=color, linestyle="--", linewidth=0.8)
    from matplotlib.lines import Line2D

    return Line2D([], [], color=color, marker=marker, linestyle=line)


def _name_columns(sheet: Sheet, axes: "Axes", columns: Sequence[str]) -> None:
    """Name the columns below; a name that is too wide for its place stands upright."""
    single = sum(column.startswith("layer") for column in columns)
    longest = sheet.height * 0.18
    shown = [shortened(sheet.figure, column.removeprefix("layer"), longest, LEGEND_SIZE) for column in columns]
    place = (sheet.width - 0.8) / len(columns)
    axes.set_xticks(range(len(columns)), shown)
    for label, name in zip(axes.get_xticklabels(), shown, strict=True):
        label.set_rotation(90 if width_of(sheet.figure, name, LEGEND_SIZE) > 0.9 * place else 0)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_xlabel("layer (0: embeddings)" + (", then combinations" if len(columns) > single else ""))
    if 0 < single < len(columns):
        axes.axvline(single - 0.5, color=NO_VALUE, linewidth=0.6)


def _means(layers: Sequence[LayerProbe], measure: str) -> list[float]:
    return [_score_and_deviation(probe.measured, measure)[0] for probe in layers]


def _spreads(layers: Sequence[LayerProbe], measure: str) -> list[float]:
    return [_score_and_deviation(probe.measured, measure)[1] for probe in layers]


def _score_and_deviation(scores: ProbeScores, measure: str) -> tuple[float, float]:
    if measure == "accuracy":
        return scores.accuracy, scores.accuracy_spread
    return scores.macro_f1, scores.macro_f1_spread
