"""A picture's file: its form, where it may be written, and the same bytes for the same input."""

import os
import struct
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from click.testing import CliRunner

from bertfeat.cli import main
from bertfeat.core.features import FeatureSet
from bertfeat.errors import BertfeatError, StorageError, UsageError
from bertfeat.plots import draw_map, write_map_page
from tests.support.index_toy import clustered, vector_set
from tests.support.plots_toy import Page, plotted, svg_texts


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    return plotted(tmp_path_factory.mktemp("plots") / "toy.features")


def refused(features: FeatureSet, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["plot", "map", str(features.folder), *arguments])
    assert "Traceback" not in result.output
    assert result.stderr.count("\n") == 1, result.stderr
    return result.exit_code, result.stderr


def test_the_ending_says_the_form(features: FeatureSet, tmp_path: Path) -> None:
    for name in ("map.png", "MAP.PDF", "map.svg"):
        draw_map(features, tmp_path / name, width=4.0, color="lang")
    write_map_page(features, tmp_path / "map.html", color="lang")
    png = (tmp_path / "map.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">I", png[16:20]) == (1200,)  # 4 inches of 300 dots
    assert (tmp_path / "MAP.PDF").read_bytes().startswith(b"%PDF-")
    svg = ElementTree.parse(tmp_path / "map.svg").getroot()
    assert (svg.tag, svg.get("width")) == ("{http://www.w3.org/2000/svg}svg", "288pt")
    assert Page(tmp_path / "map.html").source.startswith("<!DOCTYPE html>")
    assert len(list(tmp_path.iterdir())) == 4


@pytest.mark.parametrize("name", ["map", "map.jpg", "map.png.gz", ".png", "map.htm", "x.features"])
def test_other_endings_are_refused(features: FeatureSet, tmp_path: Path, name: str) -> None:
    code, said = refused(features, "-o", str(tmp_path / name))
    assert (code, ".png, .pdf, .svg or .html" in said) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_page_by_its_ending(features: FeatureSet, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = CliRunner().invoke(main, ["plot", "map", str(features.folder), "-o", str(page)])
    assert (result.exit_code, Page(page).source.startswith("<!DOCTYPE html>")) == (0, True), result.output


@pytest.mark.slow
def test_more_dots_than_programs_open_are_one_image(tmp_path: Path) -> None:
    sizes = {}
    for count in (20_000, 20_001):
        features = FeatureSet(vector_set(tmp_path / f"{count}.features", clustered(count, 4)))
        draw_map(features, tmp_path / f"{count}.svg", points=count, width=3.0, clusters=0)
        source = (tmp_path / f"{count}.svg").read_text()
        sizes[count] = (source.count("<use"), source.count("<image"))
        assert "component 1" in source
    assert sizes == {20_000: (20_000, 0), 20_001: (0, 1)}


@pytest.mark.parametrize("output", [".", "/", "..", ""])
def test_a_folder_is_no_file(features: FeatureSet, output: str) -> None:
    code, said = refused(features, "-o", output)
    assert (code, "is a folder" in said) == (1, True)


def test_a_file_in_a_folder_that_cannot_be_written(
    features: FeatureSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "map.png").mkdir()
    assert "is a folder" in refused(features, "-o", str(tmp_path / "map.png"))[1]
    code, said = refused(features, "-o", str(tmp_path / "missing" / "map.png"))
    assert (code, f"{tmp_path / 'missing'}: No such file or directory; create it" in said) == (1, True)
    (tmp_path / "file").touch()
    assert "Not a directory" in refused(features, "-o", str(tmp_path / "file" / "map.png"))[1]
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    with pytest.raises(StorageError, match="Permission denied; change its permissions"):
        draw_map(features, tmp_path / "x.png")


def test_nothing_is_computed_for_a_file_that_cannot_be_written(features: FeatureSet, tmp_path: Path) -> None:
    before = time.process_time()
    refused(features, "-o", str(tmp_path / "missing" / "map.png"), "--method", "tsne")
    assert time.process_time() - before < 1


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("form", ["png", "pdf", "svg", "html"])
def test_equal_input_gives_equal_bytes(features: FeatureSet, tmp_path: Path, form: str) -> None:
    (tmp_path / "matplotlibrc").write_text("axes.facecolor: red\nfont.size: 30\nsavefig.dpi: 30\ntext.usetex: True\n")
    for name, settings in (("here", {}), ("there", {"MATPLOTLIBRC": str(tmp_path), "PYTHONHASHSEED": "7"})):
        environment = os.environ | settings | {"XDG_CACHE_HOME": str(tmp_path / name)}  # no layout is kept
        arguments = [str(features.folder), "-o", str(tmp_path / f"{name}.{form}"), "--color", "lang"]
        command = [sys.executable, "-c", "from bertfeat.cli import main; main()", "plot", "map", *arguments]
        subprocess.run(command, check=True, env=environment)  # another second, which a date would have
    here = (tmp_path / f"here.{form}").read_bytes()
    assert here == (tmp_path / f"there.{form}").read_bytes()
    assert b"CreationDate" not in here
    assert b"<dc:date>" not in here


def test_texts_stay_texts(features: FeatureSet, tmp_path: Path) -> None:
    draw_map(features, tmp_path / "map.svg", color="lang")
    assert "component 1" in " ".join(svg_texts(tmp_path / "map.svg"))
    assert "sans-serif" in (tmp_path / "map.svg").read_text()
    draw_map(features, tmp_path / "map.pdf", color="lang")
    pdf = (tmp_path / "map.pdf").read_bytes()
    assert b"/FontFile2" in pdf  # TrueType, which can be searched and edited, not glyphs as drawings
    assert b"/Type3" not in pdf


def test_the_users_settings_are_as_before(features: FeatureSet, tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.rcParams["font.size"] = 31
    try:
        before = dict(matplotlib.rcParams)
        draw_map(features, tmp_path / "map.png")
        assert dict(matplotlib.rcParams) == before
    finally:
        matplotlib.rcdefaults()


@pytest.mark.parametrize(("width", "height"), [(2, None), (31, None), (7, 1), (7, 31), (float("nan"), None)])
def test_sizes_out_of_bounds(features: FeatureSet, tmp_path: Path, width: float, height: float | None) -> None:
    with pytest.raises(UsageError, match=r"a picture is .* to 30 inches|must be a finite number"):
        draw_map(features, tmp_path / "map.png", width=width, height=height)


def test_a_page_has_no_size(features: FeatureSet, tmp_path: Path) -> None:
    code, said = refused(features, "-o", str(tmp_path / "map.html"), "--width", "5")
    assert (code, "fits itself to its window" in said) == (2, True)


def test_without_matplotlib(features: FeatureSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "bertfeat.plots.picture", raising=False)
    with pytest.raises(BertfeatError, match=r"pip install 'bertfeat\[analysis\]'"):
        draw_map(features, tmp_path / "map.png")
    write_map_page(features, tmp_path / "map.html", color="lang")  # needs none
    assert [path.name for path in tmp_path.iterdir()] == ["map.html"]
