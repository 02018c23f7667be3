"""Figures that pictures return: with a path or without one, on the user's axes, shown by notebooks."""

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.features import FeatureSet
from bertfeat.errors import UsageError
from bertfeat.plots import (
    draw_change,
    draw_comparison,
    draw_curves,
    draw_frequencies,
    draw_layers,
    draw_map,
    draw_pretraining,
    draw_retrieval,
    draw_senses,
    draw_table7,
    draw_why,
)
from tests.support.drawn_reports import (
    comparison_of,
    frequencies_of,
    head_table_of,
    history_of,
    layer_table_of,
    pretraining_of,
    probed,
    report_of,
    senses_of,
    why_of,
)
from tests.support.plots_toy import plotted

pytest.importorskip("matplotlib")

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

mpl.use("Agg")
YEARS = ["1850", "1875", "1900"]


@dataclass(frozen=True)
class Drawn:
    draw: Callable[..., Figure]
    made: Callable[[], Any]
    shape: tuple[int, int] = (1, 1)  # of its panels


PICTURES = {
    "change": Drawn(draw_change, lambda: report_of(["cell", "_door"], YEARS), (3, 1)),
    "comparison": Drawn(draw_comparison, lambda: comparison_of(4), (1, 3)),
    "curves": Drawn(draw_curves, lambda: history_of(4), (2, 1)),
    "frequencies": Drawn(draw_frequencies, lambda: frequencies_of("cell", YEARS, [(9, 900), (0, 0), (0, 50)])),
    "layers": Drawn(draw_layers, lambda: [probed(["layer0", "layer1", "concat4"]), probed(["layer1"], "_kind")]),
    "map": Drawn(draw_map, lambda: None),
    "pretraining": Drawn(draw_pretraining, lambda: pretraining_of(pairs=True), (2, 1)),
    "retrieval": Drawn(draw_retrieval, lambda: layer_table_of(["last_mean", "sum4_mean"], ["none", "whiten"])),
    "senses": Drawn(draw_senses, lambda: senses_of("cell", YEARS, [(9, 0, 2), (1, 0, 8)])),
    "table7": Drawn(draw_table7, lambda: head_table_of([("Last", 94.9), ("First", None)], 2, True), (1, 3)),
    "why": Drawn(draw_why, lambda: why_of(["a", "_storm"], ["one", "gale", "_name"])),
}
every_picture = pytest.mark.parametrize("name", PICTURES)


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    return plotted(tmp_path_factory.mktemp("figures") / "toy.features")


def drawn(name: str, features: FeatureSet, *arguments: object, **options: object) -> Figure:
    picture = PICTURES[name]
    if name == "map":
        return picture.draw(features, *arguments, color="lang", **options)
    return picture.draw(picture.made(), *arguments, **options)


def png_size(content: bytes) -> tuple[int, int]:
    assert content.startswith(b"\x89PNG")
    wide, high = struct.unpack(">II", content[16:24])
    return wide, high


@pytest.mark.sampled(1, 2)
@every_picture
def test_a_figure_is_returned_shown_and_written_later_as_if_at_once(
    features: FeatureSet, tmp_path: Path, name: str
) -> None:
    rows, columns = PICTURES[name].shape
    drawn(name, features, tmp_path / "at-once.png")
    before = dict(mpl.rcParams)
    figure: Any = drawn(name, features)  # a Figure that has _repr_png_
    assert len([axes for axes in figure.axes if axes.get_label() != "<colorbar>"]) == rows * columns
    assert dict(mpl.rcParams) == before
    content, shown_at = figure._repr_png_()
    wide, high = figure.get_size_inches()
    assert png_size(content) == pytest.approx((200 * wide, 200 * high), abs=1)
    assert shown_at == {"width": round(100 * wide), "height": round(100 * high)}
    with mpl.rc_context({"font.family": "monospace", "axes.facecolor": "red", "text.color": "blue"}):
        assert figure._repr_png_()[0] == content
        figure.savefig(tmp_path / "later.png", dpi=300, metadata={"Software": "bertfeat"}, facecolor="white")
    assert (tmp_path / "later.png").read_bytes() == (tmp_path / "at-once.png").read_bytes()


@pytest.mark.sampled(1, 5)
@every_picture
@pytest.mark.parametrize("dpi", [72, 100, 200])
def test_no_line_is_cut_at_any_resolution(features: FeatureSet, name: str, dpi: int) -> None:
    """Lines are broken where a picture is made, and drawn at the resolution of whoever shows it."""
    figure = drawn(name, features)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=dpi)
    content.seek(0)
    edge = plt.imread(content)[:, -dpi // 50 :, :3]
    assert (edge == 1).all()


@pytest.mark.sampled(1, 6)
@every_picture
@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_axes_of_the_user(features: FeatureSet, name: str, form: str) -> None:
    rows, columns = PICTURES[name].shape
    with mpl.rc_context({"backend": form if form != "png" else "agg", "font.size": 15.0}):
        figure, axes = plt.subplots(rows, columns, figsize=(9, 7), squeeze=False)
        before = dict(mpl.rcParams)
        given = list(axes.flat) if rows * columns > 1 else axes[0, 0]
        assert drawn(name, features, axes=given) is figure
        assert dict(mpl.rcParams) == before
    assert all(panel.has_data() or panel.images for panel in axes.flat)
    assert axes[0, 0].get_title()
    assert [*figure.texts, *figure.legends] == []
    assert axes[0, 0].xaxis.label.get_size() == axes[0, 0].yaxis.label.get_size() == pytest.approx(15.0)
    assert tuple(figure.get_size_inches()) == (9, 7)
    written = io.BytesIO()
    figure.savefig(written, format=form)
    plt.close(figure)
    assert len(written.getvalue()) > 1000


@pytest.mark.sampled(3)
@every_picture
def test_axes_are_no_file(features: FeatureSet, tmp_path: Path, name: str) -> None:
    rows, columns = PICTURES[name].shape
    figure, axes = plt.subplots(rows, columns, squeeze=False)
    given = list(axes.flat) if rows * columns > 1 else axes[0, 0]
    with pytest.raises(UsageError, match=r"axes are of a figure of yours, which its savefig.* writes; leave out path"):
        drawn(name, features, tmp_path / "x.png", axes=given)
    if name in ("comparison", "layers", "map", "retrieval"):
        with pytest.raises(UsageError, match=r"axes are of a figure of yours, which has a size; leave out width"):
            drawn(name, features, axes=given, width=5.0)
    if rows * columns > 1:
        with pytest.raises(UsageError, match=f"this picture has {rows * columns} panels, and axes for 1 are given"):
            drawn(name, features, axes=[axes[0, 0]])
        with pytest.raises(UsageError, match=r"axes=.*: there are none"):
            drawn(name, features, axes=[])
    for wrong in (figure, "axes", 3):
        with pytest.raises(UsageError, match=r"axes=.*must be"):
            drawn(name, features, axes=wrong)
    plt.close(figure)
    assert list(tmp_path.iterdir()) == []


def test_axes_of_a_subfigure(features: FeatureSet) -> None:
    figure = plt.figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subfigures(1, 2, squeeze=False)[0]
    assert drawn("map", features, axes=left.subplots()) is figure
    drawn("senses", features, axes=right.subplots())
    figure.savefig(io.BytesIO(), format="png")
    plt.close(figure)


def test_a_page_is_no_picture(features: FeatureSet, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"map.html: the form of a picture goes by .*: \.png, \.pdf or \.svg"):
        draw_map(features, tmp_path / "map.html")
