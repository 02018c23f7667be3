"""The page of a map: what it carries, what it must not do, and, where there is a Chromium, what it does."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections import Counter
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.core.corpus import KeptColumn
from bertfeat.core.features import FeatureSet
from bertfeat.plots import write_map_page
from bertfeat.plots.palette import NAMED, NAMED_ON_DARK
from tests.support.index_toy import clustered, vector_set
from tests.support.plots_toy import COUNT, KEPT, LONG, Page, kept, plotted

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=20000", "--dump-dom"),
)


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    return plotted(tmp_path_factory.mktemp("plots") / "<b>&toy {{data}}.features")


@pytest.fixture(scope="module")
def path(features: FeatureSet, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pages") / "map.html"
    write_map_page(features, path, color="hostile", method="pca")
    return path


@pytest.fixture(scope="module")
def page(path: Path) -> Page:
    return Page(path)


# ── what it carries ─────────────────────────────────────────────────────────────────────────────────────────


def test_points_lie_where_the_pca_puts_them(features: FeatureSet, page: Page) -> None:
    vectors = features.matrix("last_mean").astype(np.float64)
    centerd = vectors - vectors.mean(axis=0)
    _, _, directions = np.linalg.svd(centerd, full_matrices=False)
    for name, direction in (("x", directions[0]), ("y", directions[1])):
        wanted, told = centerd @ direction, np.array(page.data[name])
        if (wanted * told).sum() < 0:
            wanted = -wanted
        np.testing.assert_allclose(told, wanted, atol=1e-4 * np.ptp(wanted))


def test_documents_are_told_in_full(features: FeatureSet, page: Page) -> None:
    documents = list(features)
    assert page.data["texts"] == [[document.text for document in documents]]
    fields = {field["name"]: field["values"] for field in page.data["fields"]}
    assert list(fields) == ["id", *(column.name if column.name != LONG else LONG[:299] + "…" for column in KEPT)]
    assert fields["id"] == [document.id for document in documents]
    assert fields["year"] == kept("year")
    assert fields["good"] == kept("good")
    assert fields["hostile"] == kept("hostile")
    assert fields["huge"] == [str(value) for value in kept("huge")]  # JavaScript would round them
    assert set(map(str, fields["part"])) >= {"nan", "inf", "0.2857142857142857"}
    assert fields["none"] == [None] * COUNT


def test_groups_are_those_of_the_column(page: Page) -> None:
    counted = Counter(map(str, kept("hostile")))
    data = page.data
    members = Counter(data["of"])
    assert data["column"] == "hostile"
    assert [group["light"] for group in data["groups"]] == list(NAMED)
    assert [group["dark"] for group in data["groups"]] == list(NAMED_ON_DARK)
    assert [members[at] for at in range(len(members))] == [counted[name] for name in sorted(counted)]
    assert {group["label"] for group in data["groups"]} >= {"_hidden", "$x_2$", "\N{REPLACEMENT CHARACTER}"}


def test_numbers_are_on_a_scale(features: FeatureSet, tmp_path: Path) -> None:
    write_map_page(features, tmp_path / "map.html", color="year")
    data = Page(tmp_path / "map.html").data
    assert data["scale"]["ends"] == ["1900", "2019"]
    for at, (year, share, group) in enumerate(zip(kept("year"), data["scale"]["at"], data["of"], strict=True)):
        if at == 3:
            assert (share, data["groups"][group]["label"]) == (-1, "no number")
        else:
            assert isinstance(year, int)
            assert (share, data["groups"][group]["grey"]) == (pytest.approx((year - 1900) / 119, abs=1e-5), False)


def test_long_texts_are_cut_and_missing_ones_left_out(tmp_path: Path) -> None:
    column = KeptColumn("title", "string")
    long = ["é" * 10_000, "short", "x" * 200, "y" * 201]
    vector_set(tmp_path / "set.features", clustered(4), ids=long, kept={column: long}, text=False)
    write_map_page(FeatureSet(tmp_path / "set.features"), tmp_path / "map.html")
    data = Page(tmp_path / "map.html").data
    assert data["texts"] == []
    cut = ["é" * 199 + "…", "short", "x" * 200, "y" * 199 + "…"]
    assert data["fields"] == [{"name": "id", "values": cut}, {"name": "title", "values": cut}]
    vector_set(tmp_path / "texts.features", clustered(4), ids=long)
    write_map_page(FeatureSet(tmp_path / "texts.features"), tmp_path / "texts.html")
    (texts,) = Page(tmp_path / "texts.html").data["texts"]
    assert (len(texts[0]), texts[0][-1], texts[1]) == (1000, "…", "text of short")


# ── what it must not do ─────────────────────────────────────────────────────────────────────────────────────


def test_hostile_texts_are_no_markup(features: FeatureSet, page: Page) -> None:
    assert [tag for tag, _ in page.found if tag in ("script", "img", "b")] == ["script", "script"]
    assert page.texts("title") == page.texts("h1") == [f"last_mean of {features.folder.name} (model)"]
    assert [name for _, attributes in page.found for name in attributes if name.startswith("on")] == []
    assert "{{" not in page.texts("script")[1]
    for sign in "<>&\N{LINE SEPARATOR}":
        assert sign not in page.texts("script")[0]


def test_it_asks_nothing_of_any_network(page: Page) -> None:
    own = page.source.replace(page.texts("script")[0], "")
    assert re.search(r"https?:|//\w|url\(|@import|fetch|XMLHttp|WebSocket|sendBeacon|innerHTML|eval", own) is None
    asking = ("src", "href", "srcset", "action", "data", "poster", "style")
    assert [name for _, attributes in page.found for name in attributes if name in asking] == []
    (policy,) = [each["content"] for tag, each in page.found if tag == "meta" and "http-equiv" in each]
    digests = [
        f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'"
        for source in (page.texts("style")[0], page.texts("script")[1])
    ]
    assert policy == f"default-src 'none'; style-src {digests[0]}; script-src {digests[1]}"


# ── what it does ────────────────────────────────────────────────────────────────────────────────────────────

DRIVER = r"""
<script>
setTimeout(function drive() {
  // 300 by 150 is a canvas that has had no size yet: the frame that gives it one comes late on a busy machine
  if (canvas.width === 300 && canvas.height === 150) { setTimeout(drive, 20); return; }
  const out = {};
  const box = canvas.getBoundingClientRect();
  const at = (x, y) => ({ clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true, button: 0 });
  const pointer = (kind, x, y, id = 1, type = "mouse") =>
    canvas.dispatchEvent(new PointerEvent(kind, { ...at(x, y), pointerId: id, pointerType: type }));
  const where = (x, y) => [(x - view.x) / view.scale, (view.y - y) / view.scale];
  const say = (value, name = "search") => {
    document.getElementById(name).value = value;
    document.getElementById(name).dispatchEvent(new Event("input"));
    return found.textContent;
  };
  const card = document.getElementById("card");
  const told = () => card.hidden ? null : card.textContent;
  out.title = document.title;
  out.size = [canvas.width, canvas.height, document.documentElement.scrollWidth, innerWidth];
  const seen = (i) => screenX(i) > 0 && screenY(i) > 0 && screenX(i) < size.width && screenY(i) < size.height;
  out.inside = data.x.every((_, i) => seen(i));
  draw();
  const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
  out.ink = pixels.reduce((sum, value, k) => sum + (k % 4 === 3 && value > 0 ? 1 : 0), 0);
  out.cards = [0, 1, 57].map((i) => {
    pointer("pointermove", screenX(i), screenY(i));
    const near = nearest({ x: screenX(i), y: screenY(i) }, 14);
    return [told(), Math.hypot(data.x[near] - data.x[i], data.y[near] - data.y[i])];
  });
  pointer("pointermove", 1, 1);
  out.away = told();
  const x = Math.ceil(box.left + 100) - box.left, y = Math.ceil(box.top + 120) - box.top; // wheels have whole places
  const before = where(x, y);
  canvas.dispatchEvent(new WheelEvent("wheel", { ...at(x, y), deltaY: -300 }));
  out.wheel = [before, where(x, y), view.scale / wholeScale];
  pointer("pointerdown", 50, 50); pointer("pointermove", 90, 80); pointer("pointerup", 90, 80);
  out.drag = [before, where(x + 40, y + 30)];
  showWhole();
  pointer("pointerdown", 100, 100, 1, "touch"); pointer("pointerdown", 200, 100, 2, "touch");
  const between = where(150, 100);
  pointer("pointermove", 50, 100, 1, "touch"); pointer("pointermove", 250, 100, 2, "touch");
  pointer("pointerup", 50, 100, 1, "touch"); pointer("pointerup", 250, 100, 2, "touch");
  out.pinch = [between, where(150, 100), view.scale / wholeScale];
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "0" }));
  out.home = view.scale / wholeScale;
  pointer("pointerdown", screenX(5), screenY(5), 1, "touch"); pointer("pointerup", screenX(5), screenY(5), 1, "touch");
  out.tapped = [told() !== null, card.className];
  document.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  out.escaped = told();
  out.searches = SEARCHES.map((wanted) => say(wanted));
  say(SEARCHES[0]);
  const legendButtons = [...document.querySelectorAll("#legend button")];
  out.legend = legendButtons.map((button) => button.textContent);
  legendButtons[0].click();
  out.hidden = [legendButtons[0].getAttribute("aria-pressed"), found.textContent];
  legendButtons[0].dispatchEvent(new MouseEvent("dblclick"));
  out.only = [shown.filter(Boolean).length, found.textContent];
  legendButtons[legendButtons.length - 1].click();
  out.all = found.textContent;
  say("text of 2");
  const steps = [];
  for (let k = 0; k < 3; k++) { document.getElementById("next").click(); steps.push(current); }
  out.steps = steps;
  out.elements = document.querySelectorAll("img, #card script, #legend script").length;
  document.body.dataset.result = JSON.stringify(out);
}, 500);
</script>
"""
SEARCHES = ("TEXT OF", "document.title", "은행", "2019", "nothing at all", "<img")


@pytest.fixture(scope="module")
def done(path: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What came of a visit: pointer, wheel, keys, search and legend are used by a script in the page itself."""
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    driven = path.with_name("driven.html")
    source = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", path.read_text("utf-8"))
    script = DRIVER.replace("SEARCHES", json.dumps(SEARCHES).replace("<", "\\u003c"))
    driven.write_text(source.replace("</body>", f"{script}</body>"), "utf-8")
    return json.loads(visited(driven, tmp_path_factory.mktemp("profile"), "400,700")["result"])


def visited(path: Path, profile: Path, size: str) -> dict[str, str]:
    """The title and the body's data after a visit by Chromium."""
    command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", f"--window-size={size}", path.as_uri()]
    dom = subprocess.run(command, check=True, capture_output=True, timeout=120).stdout.decode()
    (title,) = re.findall(r"<title>(.*?)</title>", dom)
    result = re.search(r'<body data-result="([^"]*)"', dom)
    return {"title": unescape(title), "dom": dom, "result": unescape(result[1]) if result else ""}


def test_the_page_as_it_is_runs(path: Path, page: Page, tmp_path: Path) -> None:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium")
    seen = visited(path, tmp_path, "900,600")
    assert seen["title"] == page.texts("title")[0]
    assert seen["dom"].count('aria-pressed="true"') == len(page.data["groups"])  # its script ran
    assert unescape(re.findall(r"<figcaption[^>]*>(.*?)</figcaption>", seen["dom"])[0]).startswith("→ component 1")


def test_all_points_are_drawn_and_nothing_sticks_out(done: Any) -> None:
    width, height, wide, window = done["size"]
    assert min(width, height) > 200
    assert wide <= window
    assert done["inside"] is True
    assert 120 * 4 < done["ink"] < width * height / 2


def test_hovering_shows_the_nearest_document(features: FeatureSet, done: Any) -> None:
    documents = list(features)
    for at, (card, distance) in zip((0, 1, 57), done["cards"], strict=True):
        assert distance == pytest.approx(0)
        for told in map(str, (documents[at].text, documents[at].id, kept("hostile")[at])):
            assert told.replace("\0", "\N{REPLACEMENT CHARACTER}") in card.replace("\0", "\N{REPLACEMENT CHARACTER}")
    assert done["away"] is None


def test_zooming_and_moving_keep_the_place_under_the_pointer(done: Any) -> None:
    for (before, after, factor), wanted in ((done["wheel"], np.exp(0.6)), (done["pinch"], 2)):
        assert after == pytest.approx(before)
        assert factor == pytest.approx(wanted)
    assert done["drag"][1] == pytest.approx(done["drag"][0])
    assert done["home"] == 1


def test_a_tap_keeps_the_card_until_escape(done: Any) -> None:
    assert done["tapped"] == [True, "kept"]
    assert done["escaped"] is None


def test_search_finds_what_is_there(features: FeatureSet, done: Any) -> None:
    hay = [
        "\n".join(map(str, [document.text, document.id, *(values[at] for values in KEPT.values())])).lower()
        for at, document in enumerate(features)
    ]
    counts = [sum(wanted.lower() in text for text in hay) for wanted in SEARCHES]
    assert done["searches"] == [f"{count} of 120 match" for count in counts]
    assert (min(counts), max(counts)) == (0, 120)


def test_the_legend_hides_and_isolates(page: Page, done: Any) -> None:
    members = Counter(page.data["of"])
    for at, group in enumerate(page.data["groups"]):
        assert done["legend"][at] == f"{group['label']}{members[at]}"
    assert done["hidden"] == ["false", f"{120 - members[0]} of 120 match"]
    assert done["only"] == [1, f"{members[0]} of 120 match"]
    assert done["all"] == "120 of 120 match"


def test_next_goes_from_match_to_match(features: FeatureSet, done: Any) -> None:
    matching = [at for at, document in enumerate(features) if "text of 2" in str(document.text)]
    assert done["steps"] == matching[:3]
    assert done["title"] == f"last_mean of {features.folder.name} (model)"  # no text became a script
    assert done["elements"] == 0
