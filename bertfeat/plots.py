"""Every picture: maps of vectors, what probes found layer by layer, how a tagger learnt, and Table 7."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Value
from bertfeat.errors import BertfeatError, UsageError
from bertfeat.features import FeatureSet
from bertfeat.features.files import atomic
from bertfeat.probes import Measured, Probed

if TYPE_CHECKING:
    from bertfeat.tagging import Table, TaggerSettings

MOST_POINTS = 20_000
MOST_NAMES = 20  # values of a column that get a colour and a line in the legend each
SEED = 4171
_BATCH = 4096


@dataclass(frozen=True, slots=True)
class MapDrawn:
    """A map that was drawn."""

    path: Path
    points: int
    of: int  # documents in the feature set
    explained: float | None  # share of the variance that the two dimensions keep, under PCA


@dataclass(frozen=True, slots=True)
class _Points:
    vectors: NDArray[np.float32]  # [n, W]
    values: list[Value]  # [n] of the column that gives the colour


def draw_map(
    features: FeatureSet,
    path: str | Path,
    *,
    column: str | None = None,
    color: str | None = None,
    method: str = "pca",
    points: int = MOST_POINTS,
) -> MapDrawn:
    """Draw the vectors of a document column as points of a PNG, by PCA or t-SNE, coloured by a kept column.

    At most ``points`` documents are drawn, an even sample of all.

    Raises:
        UsageError: no such column, an unknown method, or fewer than three documents.
        BertfeatError: matplotlib (or scikit-learn, for t-SNE) is not installed.
    """
    found = features.find(column)
    if not found.pooling.per_document:
        raise UsageError(f"{found.name} has a matrix for each document; a map shows document columns")
    if color is not None and color not in (known := ["row", "id", *(kept.name for kept in features.kept)]):
        raise UsageError(f"there is no kept column {color!r} to colour by; there are: {', '.join(known)}")
    if method not in _METHODS:
        raise UsageError(f"a map is drawn by {' or '.join(_METHODS)}, not by {method!r}")
    sample = _sample(features, found.name, color, points)
    if len(sample.vectors) < 3:
        raise UsageError(f"{features.folder}: a map needs at least 3 documents; there are {len(sample.vectors)}")
    flat, explained = _METHODS[method](sample.vectors)
    shown = "PCA" if explained is not None else "t-SNE"
    share = f", {explained:.0%} of the variance" if explained is not None else ""
    title = f"{found.name} of {len(flat):,} documents, {shown}{share}"
    _draw(flat, sample.values if color else None, title, color, Path(path))
    return MapDrawn(Path(path), len(flat), len(features), explained)


def _sample(features: FeatureSet, column: str, color: str | None, points: int) -> _Points:
    count = len(features)
    wanted = np.arange(count) if count <= points else np.linspace(0, count - 1, points).astype(np.int64)
    vectors: list[NDArray[np.float32]] = []
    values: list[Value] = []
    start = 0
    others = features.stream([color or "row"], batch_rows=_BATCH)
    for batch, other in zip(features.batches(column, batch_rows=_BATCH), others, strict=True):
        chosen = wanted[(wanted >= start) & (wanted < start + len(batch))] - start
        vectors.append(batch.matrix[chosen])
        listed = other.column(0).to_pylist()
        values.extend(listed[at] for at in chosen)
        start += len(batch)
    return _Points(np.concatenate(vectors) if vectors else np.empty((0, 1), np.float32), values)


def _pca(vectors: NDArray[np.float32]) -> tuple[NDArray[np.floating], float | None]:
    """The two directions of most variance: ``[n, W]`` → ``[n, 2]``, and the share of the variance that they keep."""
    centred = vectors.astype(np.float64) - vectors.mean(axis=0, dtype=np.float64)
    variances, directions = np.linalg.eigh(centred.T @ centred)
    best = directions[:, ::-1][:, :2]
    best = best * np.sign(best[np.abs(best).argmax(axis=0), np.arange(best.shape[1])])  # same picture every time
    flat = centred @ best
    if flat.shape[1] < 2:
        flat = np.pad(flat, ((0, 0), (0, 1)))
    total = float(variances.sum())
    return flat, float(variances[-2:].sum()) / total if total > 0 else 1.0


def _tsne(vectors: NDArray[np.float32]) -> tuple[NDArray[np.floating], float | None]:
    try:
        from sklearn.manifold import TSNE
    except ImportError as error:
        raise BertfeatError("t-SNE needs scikit-learn: pip install 'bertfeat[analysis]'") from error
    perplexity = min(30.0, (len(vectors) - 1) / 3)
    return TSNE(init="pca", perplexity=perplexity, random_state=SEED).fit_transform(vectors), None


_METHODS: dict[str, Callable[[NDArray[np.float32]], tuple[NDArray[np.floating], float | None]]] = {
    "pca": _pca,
    "tsne": _tsne,
}


def _draw(
    flat: NDArray[np.floating], values: Sequence[Value] | None, title: str, color: str | None, path: Path
) -> None:
    figure = _figure(9, 7)
    axes = figure.add_subplot(title=title, xticks=[], yticks=[])
    size = float(np.clip(20_000 / len(flat), 2, 30))
    if values is None:
        axes.scatter(flat[:, 0], flat[:, 1], s=size, linewidths=0)
    elif _is_scale(values):
        numbers = np.array([np.nan if value is None else float(value) for value in values])
        points = axes.scatter(flat[:, 0], flat[:, 1], s=size, c=numbers, linewidths=0, plotnonfinite=True)
        figure.colorbar(points, label=color)
    else:
        _named_points(axes, flat, values, size, color or "")
    _save(figure, path)


def _is_scale(values: Sequence[Value]) -> bool:
    """Whether values are numbers, too many different ones for a legend."""
    numbers = all(
        value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in values
    )
    return numbers and len(set(values)) > MOST_NAMES


def _named_points(axes: Any, flat: NDArray[np.floating], values: Sequence[Value], size: float, color: str) -> None:
    """One colour for each of the most frequent values, grey for the others."""
    names = np.array([_name(value) for value in values])
    listed, counts = np.unique(names, return_counts=True)
    frequent = listed[np.argsort(-counts, kind="stable")][:MOST_NAMES]
    rest = ~np.isin(names, frequent)
    if rest.any():
        label = f"{len(listed) - len(frequent):,} others"
        axes.scatter(*flat[rest].T, s=size, color="lightgrey", linewidths=0, label=label)
    from matplotlib import colormaps

    palette = colormaps["tab20"]
    for number, name in enumerate(frequent):
        axes.scatter(*flat[names == name].T, s=size, color=palette(number % 20), linewidths=0, label=name)
    axes.legend(title=color, loc="center left", bbox_to_anchor=(1, 0.5), markerscale=max(1.0, (30 / size) ** 0.5))


def _name(value: Value) -> str:
    """A value for the legend; a dollar sign would begin a formula, an underscore would hide the line."""
    text = "none" if value is None else str(value)
    text = text if len(text) <= 30 else f"{text[:29]}…"
    return text.replace("$", r"\$") if not text.startswith("_") else f" {text}".replace("$", r"\$")


# ── layers ──────────────────────────────────────────────────────────────────────────────────────────────────

MEASURES = {"macro-f1": "macro F1", "accuracy": "accuracy"}
"""What may be drawn of a probe, and its name in the picture."""


@dataclass(frozen=True, slots=True)
class LayersDrawn:
    """Probes that were drawn."""

    path: Path
    probes: int
    columns: tuple[str, ...]  # from left to right


def draw_layers(probes: Sequence[Probed], path: str | Path, *, measure: str = "macro-f1") -> LayersDrawn:
    """Draw probes as a PNG: a line each over the layers, with the spread of the folds, and its baseline dashed.

    Combinations of layers stand to the right of the single ones.

    Raises:
        UsageError: no probes, or an unknown measure.
        BertfeatError: matplotlib is not installed.
    """
    if not probes:
        raise UsageError("there are no probes to draw; bertfeat probe FEATURES --label COL --json prints one")
    if measure not in MEASURES:
        raise UsageError(f"layers are drawn by {' or '.join(MEASURES)}, not by {measure!r}")
    found = [each for probed in probes for each in probed.layers]
    single = sorted({each.layer for each in found if each.layer is not None})
    columns = [*(f"layer{layer}" for layer in single), *dict.fromkeys(e.column for e in found if e.layer is None)]
    figure = _figure(max(6.0, 2.5 + 0.55 * len(columns)), 4.5)
    axes = figure.add_subplot(ylabel=f"{MEASURES[measure]} (mean and spread of the folds)")
    for number, probed in enumerate(probes):
        _probe_lines(axes, probed, columns, measure, f"C{number}")
    shown = [column.removeprefix("layer") for column in columns]
    axes.set_xticks(range(len(columns)), shown, rotation=45 if len(columns) > len(single) else 0)
    axes.set_xlabel("layer (0: embeddings)")
    axes.set_title(_layers_title(probes))
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize="small")
    _save(figure, Path(path))
    return LayersDrawn(Path(path), len(probes), tuple(columns))


def _probe_lines(axes: Any, probed: Probed, columns: Sequence[str], measure: str, color: str) -> None:
    label = _name(f"{probed.label}, {Path(probed.features).name}")
    for joined, layers in (
        (True, [each for each in probed.layers if each.layer is not None]),
        (False, [each for each in probed.layers if each.layer is None]),
    ):
        if not layers:
            continue
        at = [columns.index(each.column) for each in layers]
        means, spreads = zip(*(_measure(each.measured, measure) for each in layers), strict=True)
        style = {"fmt": "o-" if joined else "D", "markersize": 4, "capsize": 2, "color": color}
        axes.errorbar(at, means, yerr=spreads, label=label, **style)
        label = "_nolegend_"
    axes.axhline(_measure(probed.baseline, measure)[0], color=color, linestyle="--", linewidth=1)


def _measure(measured: Measured, measure: str) -> tuple[float, float]:
    if measure == "accuracy":
        return measured.accuracy, measured.accuracy_spread
    return measured.macro_f1, measured.macro_f1_spread


def _layers_title(probes: Sequence[Probed]) -> str:
    models = ", ".join(dict.fromkeys(probed.model.rsplit("/", 1)[-1] for probed in probes))
    return f"linear probes of {models} (dashed: always the most frequent)".replace("$", r"\$")


def draw_curves(settings: "TaggerSettings", path: str | Path) -> None:
    """Draw how a tagger learnt as a PNG: loss and score on the development set by epoch, the best one marked.

    Raises:
        BertfeatError: matplotlib is not installed.
    """
    figure = _figure(6.5, 4.0)
    epochs = range(1, len(settings.history) + 1)
    measure = "span F1" if settings.labels.has_spans else "accuracy"
    axes = figure.add_subplot(xlabel="epoch", ylabel="training loss of a word", title=_name(settings.input.name))
    axes.plot(epochs, [epoch["loss"] for epoch in settings.history], "o-", markersize=3, color="C0", label="loss")
    axes.set_yscale("log")
    axes.xaxis.get_major_locator().set_params(integer=True)
    scores = axes.twinx()
    scores.plot(epochs, [epoch["score"] for epoch in settings.history], "s-", markersize=3, color="C1", label=measure)
    scores.set_ylabel(f"{measure} on the development set")
    scores.axvline(settings.best_epoch, color="C1", linestyle=":", linewidth=1)
    figure.legend(loc="outside lower center", ncols=2, fontsize="small")
    _save(figure, Path(path))


def draw_table(table: "Table", path: str | Path) -> None:
    """Draw Table 7 as a PNG: a dot a seed, a bar at their mean, and beside them the paper's numbers in grey.

    Raises:
        BertfeatError: matplotlib is not installed.
    """
    has_test = any(result.test for result in table.rows)
    figure = _figure(10.0 if has_test else 8.0, 1.6 + 0.45 * len(table.rows))
    panels = figure.subplots(1, 3 if has_test else 2, sharey=True)
    places = range(len(table.rows))
    names = ["development set", *(["test set"] if has_test else [])]
    for number, (axes, name) in enumerate(zip(panels, names, strict=False)):
        for place, result in zip(places, table.rows, strict=True):
            values = [100 * value for value in (result.test if number else result.dev)]
            axes.plot(values, [place] * len(values), "o", markersize=4, alpha=0.6, color=f"C{number}")
            if values:
                axes.plot([float(np.mean(values))], [place], "|", markersize=16, color="black")
        axes.set(title=name, xlabel=f"{table.measure}, %")
    paper = [(result.row.paper, place) for place, result in zip(places, table.rows, strict=True) if result.row.paper]
    panels[-1].plot([value for value, _ in paper], [place for _, place in paper], "D", markersize=5, color="grey")
    panels[-1].set(title="the paper's: another model,\nother data", xlabel="span F1, %\n(BERT base, CoNLL-2003 dev)")
    panels[0].set_yticks(list(places), [_name(result.row.title) for result in table.rows])
    panels[0].set_ylim(len(table.rows) - 0.4, -0.6)
    for axes in panels:
        axes.grid(axis="both", alpha=0.3)
    figure.suptitle(_name(table.model.rsplit("/", 1)[-1]))
    _save(figure, Path(path))


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise BertfeatError("pictures need matplotlib: pip install 'bertfeat[analysis]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Any, path: Path) -> None:
    with atomic(path) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
