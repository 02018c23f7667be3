"""Colors of the map's points: every point's entry against its own document; the page's colors against the palette."""

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from bertfeat import CorpusSettings, Extractor, build_index
from bertfeat.plots import palette
from bertfeat.server import ServerSettings, open_service
from bertfeat.server.app import create_app
from bertfeat.server.page_assets import page_assets
from tests.support.live_server import answered
from tests.support.tiny_models import Tiny

KEPT = ("year", "lang", "town", "rating", "printed", "short", "shelf")
ROWS: list[dict[str, Any]] = [
    {
        "text": f"He sat on the bank of river {number}.",
        "year": 1790 + 7 * number,
        "lang": (None, "de", "en", "en")[number % 4],
        "town": f"town {min(number, 12)}",
        "rating": None if number == 3 else number / 7,
        "printed": number % 3 == 0,
        "short": number % 4,
        "shelf": f"S {number}",
    }
    for number in range(60)
]


@pytest.fixture(scope="module")
def client(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    place = tmp_path_factory.mktemp("colors")
    (place / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    extractor = Extractor(tiny("bert").folder, pooling="mean", precision="fp32")
    extractor.extract(place / "c.jsonl", place / "c.features", corpus_settings=CorpusSettings(keep=KEPT))
    build_index(place / "c.features", place / "c.index")
    with TestClient(create_app(open_service([place / "c.index"], ServerSettings())), "http://localhost") as client:
        yield client


def colors(client: TestClient, column: str) -> tuple[list[dict[str, Any]], list[int]]:
    """The entries of a column, and each point's; the map has all documents in their order."""
    answer = answered(client, "/page/colors", column=column)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    codes = np.frombuffer(base64.b64decode(body["codes"]), np.uint8).tolist()
    assert len(codes) == len(ROWS)
    counts = Counter(codes)
    assert [entry["count"] for entry in body["entries"]] == [counts[at] for at in range(len(body["entries"]))]
    return body["entries"], codes


def test_few_values_have_a_color_each(client: TestClient) -> None:
    for column, shown in (("lang", {None: "no value"}), ("printed", {True: "true", False: "false"})):
        entries, codes = colors(client, column)
        for row, code in zip(ROWS, codes, strict=True):
            assert entries[code]["label"] == shown.get(row[column], row[column])
        assert [entry["paint"] for entry in entries] == ["name", "name", "others", "none"]


def test_the_most_frequent_of_many_values_have_a_color_each(client: TestClient) -> None:
    entries, codes = colors(client, "town")
    assert entries[0] == {"label": "town 12", "paint": "name", "number": 0, "count": 48}
    assert [entry["paint"] for entry in entries] == ["name"] * 9 + ["others", "none"]
    named = {entry["label"] for entry in entries[:9]}
    for row, code in zip(ROWS, codes, strict=True):
        assert entries[code]["label"] == (row["town"] if row["town"] in named else "other values")


@pytest.mark.parametrize("column", ["year", "rating", "short"])
def test_numbers_have_a_scale(client: TestClient, column: str) -> None:
    entries, codes = colors(client, column)
    shades = [entry["number"] for entry in entries[:-1]]
    assert shades == sorted(set(shades))
    assert (shades[0], shades[-1]) == (0, 8)
    for row, code in zip(ROWS, codes, strict=True):
        label = entries[code]["label"]
        if row[column] is None:
            assert label == "no value"
            continue
        ends = [float(end) for end in label.split(" – ")]
        slack = 0.01 if column == "rating" else 0  # of three digits
        assert ends[0] - slack <= row[column] <= ends[-1] + slack


def test_what_has_no_colors(client: TestClient) -> None:
    colors(client, "year")  # the map is there
    for column in ("shelf", "nothing", "text"):
        answer = client.get("/page/colors", params={"column": column})
        assert answer.status_code == 422
        assert column in answer.json()["error"]
    assert client.get("/page/colors").status_code == 422


def test_the_style_sheet_has_the_palette() -> None:
    css = page_assets()["style.css"].content.decode()
    found = re.findall(r"--(n|s)(\d): (#[0-9a-f]{6})", css)
    for letter, light, dark in (
        ("n", palette.NAMED, palette.NAMED_ON_DARK),
        ("s", palette.SCALE, palette.SCALE_ON_DARK),
    ):
        ours = [color for part, _, color in found if part == letter]
        assert ours == [*light, *dark]
    greys = [palette.OTHERS, palette.NO_VALUE, palette.OTHERS_ON_DARK, palette.NO_VALUE_ON_DARK]
    assert re.findall(r"--(?:others|none): (#[0-9a-f]{6})", css) == greys
    assert f"--paper: {palette.DARK_PAPER}" in css
