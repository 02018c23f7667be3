"""The page in Chromium, driven by Playwright; what it shows against what the library says.

Skipped without ``playwright`` (pip install playwright; its own browsers are not needed) and without Chromium. With
``axe-playwright-python`` installed, or the path of an axe.min.js in BERTFEAT_AXE, every view is checked by axe as well.
"""

import importlib.util
import io
import json
import os
import re
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from bertfeat import (
    CorpusSettings,
    Extractor,
    Index,
    build_index,
    find_collocates,
    find_senses,
    find_usages,
    find_usages_by,
    remove_documents,
)
from bertfeat.server import ServerSettings, open_service
from tests.support.live_server import serving
from tests.support.tiny_models import Tiny

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect
SECONDS = 60  # before a condition that does not come true fails its test
expect.set_options(timeout=SECONDS * 1000)

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,  # half a minute
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
]

TEXTS = ["He sat on the bank of the river.", "The bank lends money.", "Water runs under the old mill by the bank."]
HEBREW = "הוא ישב על הבנק ליד הנהר."
ROWS = [
    {"text": f"{TEXTS[number % 3]} {number}", "year": 1900 + number, "lang": "de" if number % 3 else "en"}
    for number in range(40)
] + [{"text": HEBREW, "year": 1950, "lang": "he"}]
NO_WEBGL = """const own = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (kind, ...more) {
  return kind === "webgl" ? null : own.call(this, kind, ...more);
};"""


@pytest.fixture(scope="module")
def place(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("browser")
    (place / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS))
    kept = CorpusSettings(keep=("year", "lang"))
    folder = tiny("bert").folder
    extractor = Extractor(folder, pooling="mean,word", layers="last,1,2", precision="fp32")
    extractor.extract(place / "c.jsonl", place / "c.features", corpus_settings=kept)
    tokens = Extractor(folder, pooling="token", layers="1", precision="fp32")
    tokens.extract(place / "c.jsonl", place / "tokens.features", corpus_settings=kept)
    build_index(place / "c.features", place / "c.index", column="last_mean")
    build_index(place / "c.features", place / "words.index", column="last_word")
    return place


@contextmanager
def page_of(folders: list[Path], settings: ServerSettings) -> Iterator[str]:
    """The address of the page of a server; what visits it is closed first, since its pages go on asking."""
    with serving(open_service(folders, settings)) as live:
        yield f"http://127.0.0.1:{live.port}{settings.prefix}/"


@pytest.fixture(scope="module")
def address(place: Path) -> Iterator[str]:
    with page_of([place / "c.index", place / "c.features"], ServerSettings(prefix="/under/here")) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


class Visit:
    """Pages that are watched: errors in them, refused requests, and requests to anywhere else."""

    def __init__(self, browser: Any) -> None:
        self._browser, self._contexts = browser, list[Any]()
        self.problems: list[str] = []

    def open(self, url: str, *, script: str | None = None, clusters: bool = True, **settings: Any) -> Any:
        """Open a page in a context of those settings; without ``clusters``, its map has neither these nor labels."""
        context = self._browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **settings})
        self._contexts.append(context)
        if script is not None:
            context.add_init_script(script)
        page = context.new_page()
        page.set_default_timeout(SECONDS * 1000)
        if not clusters:
            none: dict[str, Any] = {"column": "", "entries": [], "codes": "", "labels": [], "missing": None}
            page.route("**/page/clusters?*", lambda route: route.fulfill(json=none))
        origin = re.match(r"https?://[^/]+/", url)
        assert origin is not None
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._hear)
        page.on("request", lambda asked: self._check(asked.url, origin[0]))
        page.goto(url)
        return page

    def _hear(self, told: Any) -> None:
        if told.type in ("error", "warning"):
            self.problems.append(told.text)

    def _check(self, url: str, origin: str) -> None:
        if not url.startswith((origin, "blob:", "data:")):
            self.problems.append(f"asked {url}")

    def close(self) -> None:
        while self._contexts:
            self._contexts.pop().close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    visit = Visit(browser)
    yield visit
    visit.close()
    assert visit.problems == []


def axe_script() -> str | None:
    if path := os.environ.get("BERTFEAT_AXE"):
        return Path(path).read_text("utf-8")
    found = importlib.util.find_spec("axe_playwright_python")
    if found is None or not found.submodule_search_locations:
        return None
    return (Path(found.submodule_search_locations[0]) / "axe.min.js").read_text("utf-8")


def check_by_axe(page: Any) -> None:
    if (script := axe_script()) is None:
        return
    page.evaluate(script)
    found = page.evaluate("axe.run().then((found) => found.violations.map((each) => [each.id, each.nodes[0].html]))")
    assert found == []


def check_width(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def search(page: Any, query: str) -> None:
    page.fill("#query", query)
    page.press("#query", "Enter")
    expect(page.locator("#search-message")).to_contain_text("hits in")


def usages(page: Any, word: str) -> Any:
    """Look up a word; the message."""
    page.fill("#word", word)
    page.press("#word", "Enter")
    message = page.locator("#usages-message")
    expect(message).to_contain_text("usages in")
    return message


def saved(page: Any, button: str) -> str:
    """What a button saves."""
    with page.expect_download() as download:
        page.click(button)
    return Path(download.value.path()).read_bytes().decode("utf-8-sig")


def test_search_shows_what_the_index_finds(visit: Visit, address: str, place: Path) -> None:
    page = visit.open(address)
    search(page, "money from a bank")
    hits = Index(place / "c.index").search("money from a bank", 10).hits
    assert page.locator("#hits .head span:nth-child(2)").all_inner_texts() == [f"id {hit.id}" for hit in hits]
    assert page.locator("#hits .score").all_inner_texts() == [f"{hit.score:.4f}" for hit in hits]
    assert page.locator("#hits li > p").all_inner_texts() == [hit.text for hit in hits]
    expect(page.locator("#hits mark").first).to_be_visible()
    assert set(page.locator("#hits mark").all_inner_texts()) & {"money", "bank"}
    assert saved(page, "#search-tools >> text=Save as CSV").count("\r\n") == 11
    assert "Query: money from a bank" in saved(page, "#search-tools >> text=Save citation")
    check_by_axe(page)


def test_a_new_version_of_the_index_is_shown(visit: Visit, place: Path, tmp_path: Path) -> None:
    """The page loads itself again, and asks anew what its address has: the question that was asked last."""
    index = Path(shutil.copytree(place / "c.index", tmp_path / "c.index"))
    with serving(open_service([index], ServerSettings())) as live:
        page = visit.open(f"http://127.0.0.1:{live.port}/")
        search(page, "money from a bank")
        (gone,) = {hit.id for hit in Index(index).search("money from a bank", 1).hits}
        remove_documents(index, [gone])
        live.service.look(at_once=True)
        search(page, "the old mill")
        expect(page.locator("#query")).to_have_value("the old mill")
        found = [hit.text for hit in Index(index).search("the old mill", 10).hits]
        expect(page.locator("#hits li > p")).to_have_text(found)
        page.click("nav a[href^='#about']")
        expect(page.locator("#about-content")).to_contain_text("version-2")
        page.screenshot(path=os.environ.get("BERTFEAT_SHOT", str(tmp_path / "about.png")), full_page=True)
        visit.close()


def test_filters_and_addresses(visit: Visit, address: str, place: Path) -> None:
    page = visit.open(address)
    search(page, "the old mill")
    page.get_by_role("checkbox", name="en").check()
    expect(page.locator("#search-message")).to_contain_text("lang = 'en'")
    page.get_by_label("year, from").fill("1910")
    expect(page.locator("#search-message")).to_contain_text("year >= 1910")
    ids = page.locator("#hits .head span:nth-child(2)").all_inner_texts()
    hits = Index(place / "c.index").search("the old mill", 10, where="lang = 'en' and year >= 1910").hits
    assert ids == [f"id {hit.id}" for hit in hits]
    again = visit.open(page.url)
    expect(again.locator("#hits li")).to_have_count(10)
    assert again.locator("#hits .head span:nth-child(2)").all_inner_texts() == ids
    assert again.get_by_role("checkbox", name="en").is_checked()
    page.go_back()
    expect(page.locator("#search-message")).not_to_contain_text("year")


def test_a_wrong_condition_is_told(visit: Visit, address: str) -> None:
    page = visit.open(address)
    search(page, "bank")
    page.fill("#where", "nothing =")
    page.press("#where", "Enter")
    expect(page.locator("#search-message.bad")).to_contain_text("the condition")
    assert not re.search("--|where", page.inner_text("#search-message"))
    expect(page.locator("#hits li")).to_have_count(0)
    check_by_axe(page)
    assert len(visit.problems) == 1
    assert "422" in visit.problems.pop()


def test_usages_by_likeness_and_layer(visit: Visit, address: str, place: Path) -> None:
    page = visit.open(f"{address}#usages")
    message = usages(page, "bank")
    expect(message).to_contain_text("40 usages in 41 documents")
    check_by_axe(page)
    page.locator(".choose").nth(1).click()
    expect(message).to_contain_text("nearest by last_word")
    like = page.input_value("#like")
    assert like == "The *bank* lends money. 1"
    for column in ("last_word", "layer1_word", "layer2_word"):
        page.locator("#layer").fill("012"[["layer1_word", "layer2_word", "last_word"].index(column)])
        expect(message).to_contain_text(f"nearest by {column}")
        oracle = find_usages(place / "c.features", "bank", like=like, column=column, k=50).usages
        shown = page.locator(".line .score").all_inner_texts()
        assert shown == [f"{usage.score:.4f}" for usage in oracle]
    assert "Compared with: The *bank* lends money. 1" in saved(page, "#usages-tools >> text=Save citation")


def test_senses_frequency_and_collocates(visit: Visit, address: str, place: Path) -> None:
    page = visit.open(f"{address}#usages")
    usages(page, "bank")
    page.click("#ways >> text=Senses")
    page.fill("#senses", "2")
    page.press("#senses", "Enter")
    expect(page.locator("#usages-shown h3")).to_have_count(2)
    senses = find_senses(place / "c.features", "bank", 2, column="last_word", k=10).senses
    titles = [f"Sense {at}: {sense.count} usage{'s' * (sense.count != 1)}" for at, sense in enumerate(senses, 1)]
    assert page.locator("#usages-shown h3").all_inner_texts() == titles
    assert saved(page, "#usages-tools >> text=Save as CSV").count("\r\n") == 1 + sum(len(one.usages) for one in senses)
    check_by_axe(page)
    page.click("#ways >> text=Frequency")
    expect(page.locator(".bars rect")).to_have_count(5)
    rows = [row.split("\t") for row in page.locator(".counts tbody tr").all_inner_texts()]
    sliced = find_usages_by(place / "c.features", "bank", "year", "every:10", k=0).slices
    assert [row[0] for row in rows] == ["1900-1909", "1910-1919", "1920-1929", "1930-1939", "1950-1959"]
    assert [row[1:4] for row in rows] == [[str(one.slice.documents), str(one.words), str(one.found)] for one in sliced]
    assert [float(row[4].replace(",", "")) for row in rows] == pytest.approx(
        [one.per_million for one in sliced], abs=0.1
    )
    places = [page.locator(".bars rect").nth(at).bounding_box()["x"] for at in range(5)]
    assert np.diff(places) == pytest.approx([56, 56, 56, 112])  # no document is of the forties
    assert "<svg" in saved(page, "#usages-tools >> text=Save picture")
    assert saved(page, "#usages-tools >> text=Save as CSV").count("\r\n") == 6
    check_by_axe(page)
    page.select_option("#by", "lang")
    expect(page.locator(".counts tbody th")).to_have_text(["de", "en", "he"])
    page.click("#ways >> text=Collocates")
    expect(page.locator(".counts thead")).to_contain_text("logDice")
    page.fill("#near-left", "2")
    page.fill("#near-right", "0")
    page.press("#near-right", "Enter")
    expect(page.locator("#usages-message")).to_contain_text("up to 2 before and 0 after")
    found = find_collocates(place / "c.features", "bank", left=2, right=0, k=50).collocates
    assert page.locator(".counts tbody th").all_inner_texts() == [one.word for one in found]
    numbers = [cell.replace(",", "") for cell in page.locator(".counts tbody td:nth-child(9)").all_inner_texts()]
    assert numbers == [f"{one.log_likelihood:.1f}" for one in found]
    check_by_axe(page)
    again = visit.open(page.url)
    expect(again.locator(".counts tbody th")).to_have_count(len(found))
    page.locator(".counts .more").first.click()
    expect(page.locator("#word")).to_have_value("bank")
    expect(page.locator("#near")).to_have_value(found[0].word)
    lines = find_usages(place / "c.features", "bank", near=found[0].word, left=2, right=0, k=50)
    expect(page.locator(".line")).to_have_count(len(lines.usages))
    expect(page.locator("#usages-message")).to_contain_text(f"{lines.found} usages near “{found[0].word}”")
    check_by_axe(page)
    expect(visit.open(page.url).locator(".line")).to_have_count(len(lines.usages))
    page.fill("#near", "")
    expect(page.locator("#near-left")).to_be_hidden()
    page.press("#near", "Enter")
    expect(page.locator("#usages-message")).not_to_contain_text("near")
    page.select_option("#within", "sentences")
    expect(page.locator("#usages-message")).to_contain_text("within sentences")
    page.fill("#near", "river")
    expect(page.locator("#near-left")).to_have_value("2")
    for side in ("left", "right"):
        page.fill(f"#near-{side}", "")
    page.press("#near", "Enter")
    lines = find_usages(place / "c.features", "bank", near="river", spans="sentences", k=50)
    expect(page.locator("#usages-message")).to_contain_text(f"{lines.found} usages near “river” within sentences")
    left = [" ".join(usage.left.split()) for usage in lines.usages]
    assert [text.strip() for text in page.locator(".line .left").all_text_contents()] == left
    check_by_axe(page)
    again = visit.open(page.url)
    expect(again.locator("#usages-message")).to_contain_text(f"{lines.found} usages near “river” within sentences")
    expect(again.locator("#near-left")).to_have_value("")
    page.click("#ways >> text=Collocates")
    expect(page.locator("#near-left")).to_have_value("5")
    page.click("#ways >> text=Lines")
    expect(page.locator("#near-left")).to_have_value("")
    page.fill("#near-left", "2")
    page.select_option("#within", "paragraphs")
    expect(page.locator("#usages-message")).to_contain_text("within paragraphs")
    expect(page.locator("#near-left")).to_have_value("2")
    expect(page.locator("#near-right")).to_have_value("")
    other = visit.open(f"{address}#usages?word=bank&spans=words:3")
    expect(other.locator("#usages-message")).to_contain_text("within words:3")
    expect(other.locator("#within")).to_have_value("words:3")
    other.locator(".choose").first.click()
    expect(other.locator(".line[aria-current]")).to_have_count(1)
    other.select_option("#within", "sentences")
    expect(other.locator("#usages-message")).to_contain_text("within sentences")
    expect(other.locator(".line[aria-current]")).to_have_count(1)


def test_lines_in_pages_in_every_order(visit: Visit, address: str, place: Path) -> None:
    page = visit.open(f"{address}#usages")
    usages(page, "bank")
    page.click("#usages-more summary")
    page.fill("#usages-k", "15")
    page.press("#usages-k", "Enter")
    expect(page.locator("#line-range")).to_have_text("1 to 15 of 40")

    def shown(**asked: Any) -> None:
        oracle = find_usages(place / "c.features", "bank", k=15, **asked).usages
        expect(page.locator(".line .right")).to_have_text([usage.right for usage in oracle])
        expect(page.locator(".line .value:nth-child(4)")).to_have_text([str(usage.values["year"]) for usage in oracle])

    shown()
    page.click("#lines-after")
    expect(page.locator("#line-range")).to_have_text("16 to 30 of 40")
    shown(page=2)
    page.click("#lines-after")
    expect(page.locator("#line-range")).to_have_text("31 to 40 of 40")
    expect(page.locator("#lines-after")).to_be_disabled()
    shown(page=3)
    page.get_by_role("button", name="right", exact=True).click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("right")
    shown(sort="right")
    page.select_option("#sort", "lang")
    shown(sort="lang")
    page.click("#lines-after")
    shown(sort="lang", page=2)
    again = visit.open(page.url)
    expect(again.locator("#line-range")).to_have_text("16 to 30 of 40")
    expect(again.locator("#sort")).to_have_value("lang")
    page.fill("#sample", "5")
    page.press("#sample", "Enter")
    expect(page.locator("#usages-message")).to_contain_text("a random sample of 5")
    shown(sort="lang", sample=5)
    expect(page.locator("#line-pages")).to_be_hidden()
    assert saved(page, "#usages-tools >> text=Save as CSV").count("\r\n") == 6
    check_by_axe(page)


def test_reading_on(visit: Visit, address: str) -> None:
    page = visit.open(f"{address}#usages?word=bank&sort=year")
    expect(page.locator(".line")).to_have_count(40)
    page.get_by_role("button", name="read around bank").nth(1).click()
    texts = page.locator(".texts p[dir]")
    expect(texts).to_have_text([row["text"] for row in ROWS[:3]])
    assert page.locator(".texts mark").all_inner_texts() == ["bank"]
    expect(page.locator(".texts >> text=Earlier")).to_be_disabled()
    check_by_axe(page)
    page.click(".texts >> text=Later")
    expect(texts).to_have_text([row["text"] for row in ROWS[:6]])
    page.locator(".line .left").nth(1).click()
    expect(page.locator(".texts")).to_have_count(0)
    page.locator(".line .right").last.click()
    expect(texts).to_have_text([row["text"] for row in ROWS[38:]])
    expect(page.locator(".texts >> text=Later")).to_be_disabled()
    page.click(".texts >> text=Earlier")
    expect(texts).to_have_text([row["text"] for row in ROWS[35:]])


def test_every_word_is_compared_with_a_marked_one(visit: Visit, address: str) -> None:
    page = visit.open(f"{address}#usages")
    usages(page, "bank")
    page.fill("#like", "He sat on the bank of the river.")
    page.fill("#word", "*")
    page.press("#word", "Enter")
    expect(page.locator("#usages-message.bad")).to_contain_text("mark the word that is meant")
    assert "422" in visit.problems.pop()
    page.fill("#like", "")
    assert "million" in usages(page, "*").text_content()
    for way in ("Frequency", "Collocates", "Lines"):
        page.click(f"#ways >> text={way}")
        expect(page.locator("#usages-message")).to_contain_text("usages in")
    page.fill("#like", "He sat on the *bank* of the river.")
    message = usages(page, "*")
    expect(message).to_contain_text("nearest")
    other = page.locator(".line", has=page.locator(".word", has_not_text="bank")).first
    word = other.locator(".word").text_content()  # inner_text is empty for what is not drawn
    other.locator(".choose").click()
    expect(page.locator("#like")).to_have_value(re.compile(re.escape(f"*{word}*")))
    expect(page.locator(".line[aria-current]")).to_have_count(1)
    assert page.input_value("#word") == "*"


def test_what_comes_before_a_hebrew_word_stands_on_its_right(visit: Visit, address: str) -> None:
    page = visit.open(f"{address}#usages?word=%D7%94%D7%91%D7%A0%D7%A7")
    line = page.locator(".line").first
    left, word, right = (line.locator(f".{side} bdi").bounding_box() for side in ("left", "word", "right"))
    assert left["x"] >= word["x"] + word["width"] - 1
    assert right["x"] + right["width"] <= word["x"] + 1


def points_of(page: Any, address: str) -> tuple[NDArray[np.float32], dict[str, float]]:
    """Where the points of the whole map are on the screen, ``[n, 2]``, and the box of the canvas."""
    expect(page.locator("#map-note")).to_contain_text("t-SNE")
    with urllib.request.urlopen(f"{address}page/map?layout=tsne") as answer:
        flat = np.frombuffer(answer.read(), "<f4", 2 * len(ROWS)).reshape(2, -1).T
    page.evaluate("scrollTo(0, 0)")
    box = page.locator("#points").bounding_box()
    low, high = flat.min(axis=0), flat.max(axis=0)
    scale = min((box["width"] - 48) / (high[0] - low[0]), (box["height"] - 48) / (high[1] - low[1]))
    off = (flat - (low + high) / 2) * scale * [1, -1]
    places: NDArray[np.float32] = off + np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
    return places, box


def eventually(page: Any, holds: Callable[[], bool]) -> None:
    """Wait until something holds that no locator tells: a color, an address."""
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, "this did not come true"
        page.wait_for_timeout(50)


def painted(page: Any, places: NDArray[np.float32]) -> list[str]:
    """The colors that places of the screen have."""
    shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    pixels = np.asarray(shot)
    return [f"#{pixels[round(float(y)), round(float(x))].tobytes().hex()}" for x, y in places]


@pytest.mark.parametrize("script", [None, NO_WEBGL], ids=["webgl", "plain"])
def test_a_lasso_picks_and_lists_what_is_inside(visit: Visit, address: str, script: str | None) -> None:
    page = visit.open(f"{address}#map", script=script, clusters=False)
    expect(page.locator("#map-note")).to_contain_text("all 41")
    places, box = points_of(page, address)
    inner = np.sort(places[:, 0])[5:-5]
    gap = int(np.diff(inner).argmax())
    edge = float(inner[gap : gap + 2].mean())
    inside = places[:, 0] < edge
    page.keyboard.down("Shift")
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    page.mouse.down()
    bottom = box["y"] + box["height"] - 2
    for x, y in ((edge, box["y"] + 2), (edge, bottom), (box["x"] + 2, bottom)):
        page.mouse.move(x, y, steps=8)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(page.locator("#picked h3")).to_have_text(f"{inside.sum()} documents inside of the lasso")
    rows = saved(page, "#picked >> text=Save as CSV").splitlines()[1:]
    assert sorted(int(row.split(",")[0]) for row in rows) == np.flatnonzero(inside).tolist()
    places, _ = points_of(page, address)
    far = np.abs(places[:, None] - places[None]).max(axis=2)
    apart = ~((far < 16) & (inside[:, None] != inside[None])).any(axis=1)  # from points of the other kind
    assert apart[inside].sum() > 3
    assert apart[~inside].sum() > 3
    eventually(page, lambda: set(painted(page, places[inside & apart])) == {"#037364"})
    assert "#037364" not in painted(page, places[~inside & apart])
    check_by_axe(page)


def test_colors_hits_and_keys_of_the_map(visit: Visit, address: str) -> None:
    page = visit.open(address, clusters=False)
    search(page, "bank lends money")
    page.click("text=Show the hits on the map")
    expect(page.locator("#map-hits")).to_contain_text("10 hits")
    page.select_option("#color", "lang")
    legend = page.locator("#legend button")
    expect(legend).to_have_count(3)
    assert [text.split() for text in legend.all_inner_texts()] == [["de", "26"], ["en", "14"], ["he", "1"]]
    check_by_axe(page)
    page.focus("#points")
    page.keyboard.press("n")
    expect(page.locator("#card")).to_contain_text("The bank lends money.")
    page.keyboard.press("Escape")
    expect(page.locator("#card")).to_be_hidden()
    legend.nth(2).click()
    expect(page.locator("#picked")).to_contain_text(HEBREW)
    places, _ = points_of(page, address)
    picked = "#56aeee"  # the third color of names; a picked point is painted fully
    eventually(page, lambda: painted(page, places[-1:]) == [picked])
    again = visit.open(page.url, color_scheme="dark", clusters=False)
    expect(again.locator("#legend button")).to_have_count(3)
    again.locator("#legend button").nth(2).click()
    expect(again.locator("#picked")).to_contain_text(HEBREW)
    places, _ = points_of(again, address)
    eventually(again, lambda: painted(again, places[-1:]) == ["#95a4bc"])


def squeezed(found: Any) -> list[str]:
    """The texts of elements, each run of white space as one space."""
    return [" ".join(text.split()) for text in found.all_inner_texts()]


def clusters_of(address: str, layout: str) -> list[str]:
    """The names and sizes of the clusters of a layout; none while they are computed."""
    with urllib.request.urlopen(f"{address}page/clusters?layout={layout}") as answer:
        return [f"{entry['label']} {entry['count']}" for entry in json.load(answer).get("entries", ())]


def test_a_query_in_a_language_that_the_model_does_not_know(visit: Visit, address: str) -> None:
    page = visit.open(address)
    search(page, "река течёт в море")
    warning = page.locator("#search-message strong")
    expect(warning).to_contain_text("But the model does not know the language of this text")
    check_by_axe(page)
    search(page, "the river")
    expect(warning).to_have_count(0)


def test_clusters_and_layouts(visit: Visit, address: str) -> None:
    page = visit.open(f"{address}#map")
    note, legend = page.locator("#map-note"), page.locator("#legend button")
    expect(note).to_contain_text("Laid out by t-SNE.")
    expect(legend.first).to_be_visible()
    shown = squeezed(legend)
    assert shown == clusters_of(address, "tsne")
    check_by_axe(page)
    legend.first.click()
    name, _, number = shown[0].rpartition(" ")
    expect(page.locator("#picked h3")).to_have_text(f"{number} documents of the cluster “{name}”")
    assert "t-SNE" in saved(page, "#picked >> text=Save citation")
    page.select_option("#layout", "pca")
    expect(note).to_contain_text("Laid out by PCA, which keeps")
    eventually(
        page, lambda: [" ".join(text.split()) for text in legend.all_inner_texts()] == clusters_of(address, "pca")
    )
    eventually(page, lambda: "layout=pca" in page.url)
    again = visit.open(page.url)
    expect(again.locator("#map-note")).to_contain_text("Laid out by PCA")
    expect(again.locator("#layout")).to_have_value("pca")


def test_pca_until_the_layout_is_there(visit: Visit, address: str) -> None:
    page = visit.open(address)
    left = 3

    def not_yet(route: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            route.continue_()
        else:
            route.fulfill(status=202, headers={"Retry-After": "1"}, json={"state": "computing"})

    page.route("**/page/map?layout=tsne", not_yet)
    page.click("nav >> text=Map")
    expect(page.locator("#map-note")).to_contain_text("Laid out by PCA")
    expect(page.locator("#map-message")).to_contain_text("The map by t-SNE is being computed")
    expect(page.locator("#map-note")).to_contain_text("Laid out by t-SNE")
    expect(page.locator("#map-message")).to_be_empty()
    assert "layout" not in page.url


def test_a_color_that_is_chosen_while_the_map_is_loading(visit: Visit, address: str) -> None:
    page = visit.open(address)
    held: list[Any] = []
    page.route("**/page/map?*", lambda route: held.append(route))
    page.click("nav >> text=Map")
    eventually(page, lambda: bool(held))
    page.select_option("#color", "lang")
    held[0].continue_()
    expect(page.locator("#legend button")).to_have_count(3)


def test_a_lasso_by_touch_leaves_nothing_behind(visit: Visit, address: str) -> None:
    page = visit.open(f"{address}#map", clusters=False, has_touch=True, viewport={"width": 360, "height": 740})
    expect(page.locator("#map-note")).to_contain_text("all 41")
    page.click("#lasso")
    page.locator("#points").scroll_into_view_if_needed()
    box, session = page.locator("#points").bounding_box(), page.context.new_cdp_session(page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        touched = [{"x": x, "y": y, "id": at} for at, (x, y) in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": touched})
        page.evaluate("() => new Promise(requestAnimationFrame)")  # the page has seen this touch before the next

    x, y, wide, high = box["x"] + 4, box["y"] + 4, box["width"] - 8, box["height"] - 8
    touch("touchStart", (x, y))
    for right, down in ((0.5, 0), (1, 0), (1, 0.5), (1, 1), (0.5, 1), (0, 1)):
        touch("touchMove", (x + right * wide, y + down * high))
    touch("touchEnd")
    expect(page.locator("#picked h3")).to_have_text("41 documents inside of the lasso")
    ink = """() => { const canvas = document.querySelector("#overlay"), pen = canvas.getContext("2d");
      return pen.getImageData(0, 0, canvas.width, canvas.height).data.some((part) => part); }"""
    eventually(page, lambda: not page.evaluate(ink))
    page.click("#lasso")
    scrolled = page.evaluate("scrollY")
    page.locator("#points").scroll_into_view_if_needed()
    box = page.locator("#points").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    touch("touchStart", (x - 20, y), (x + 20, y))
    for step in range(1, 6):
        touch("touchMove", (x - 20 - 12 * step, y), (x + 20 + 12 * step, y))
    touch("touchEnd")

    def zoomed() -> bool:
        found = re.search(r"zoom=([\d.]+)", page.url)
        return found is not None and float(found[1]) == pytest.approx(4, rel=0.1)

    eventually(page, zoomed)
    assert scrolled >= 0


def test_the_keyboard_alone(visit: Visit, address: str) -> None:
    page = visit.open(address)
    expect(page.locator("#search")).to_be_visible()

    def tab_to(selector: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if page.evaluate("(selector) => document.activeElement.matches(selector)", selector):
                return
        raise AssertionError(f"Tab does not reach {selector}")

    page.keyboard.press("Tab")
    page.keyboard.press("Enter")  # skip to the content
    tab_to("#query")
    page.keyboard.type("the river")
    page.keyboard.press("Enter")
    expect(page.locator("#hits li")).to_have_count(10)
    page.reload()
    tab_to("nav a[href^='#usages']")
    page.keyboard.press("Enter")
    tab_to("#word")
    page.keyboard.type("bank")
    page.keyboard.press("Enter")
    expect(page.locator(".line")).to_have_count(40)
    tab_to(".choose")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#usages-message")).to_contain_text("nearest")
    expect(page.locator(".line[aria-current] .choose")).to_be_focused()
    page.reload()
    tab_to("nav a[href^='#map']")
    page.keyboard.press("Enter")
    tab_to("#points")
    expect(page.locator("#map-note")).to_contain_text("all 41")
    page.keyboard.press("n")
    expect(page.locator("#card")).to_be_visible()
    page.keyboard.press("l")
    expect(page.locator("#picked h3")).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_on_a_phone(visit: Visit, address: str, scheme: str) -> None:
    page = visit.open(address, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    expect(page.locator("#search-message")).to_contain_text("41 documents")
    search(page, "bank")
    page.click("#facets summary")
    check_width(page)
    check_by_axe(page)
    page.click("nav >> text=Usages")
    usages(page, "bank")
    page.locator(".choose").nth(2).click()
    expect(page.locator("#usages-message")).to_contain_text("nearest")
    check_width(page)
    check_by_axe(page)
    page.click("nav >> text=Map")
    expect(page.locator("#map-hits")).to_contain_text("hits")
    page.select_option("#color", "year")
    expect(page.locator("#legend li").first).to_be_visible()
    check_width(page)
    check_by_axe(page)
    page.click("nav >> text=About")
    expect(page.locator("#about-content")).to_contain_text("/v1/embeddings")
    check_width(page)
    check_by_axe(page)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 29)"}[scheme]


def test_words_and_several_sets_behind_a_key(visit: Visit, place: Path) -> None:
    folders = [place / "words.index", place / "c.features", place / "tokens.features"]
    with page_of(folders, ServerSettings(api_keys=("secret",))) as address, closing(visit):
        page = visit.open(address)
        for key in ("wrong", "secret"):
            expect(page.locator("#key-form")).to_be_visible()
            check_by_axe(page)
            page.fill("#key", key)
            page.press("#key", "Enter")
        expect(page.locator("#query-hint")).to_be_visible()
        assert all("401" in problem for problem in visit.problems)
        visit.problems.clear()
        search(page, "He sat on the *bank* of the river.")
        assert page.locator("#hits mark").all_inner_texts() == ["bank"] * 10
        page.click("nav >> text=Map")
        expect(page.locator("#map-note")).to_contain_text("Each point is a word")
        page.focus("#points")
        page.keyboard.press("n")
        expect(page.locator("#card mark")).to_have_text("bank")
        page.click("nav >> text=Usages")
        usages(page, "river")
        page.click("#usages-more summary")
        page.select_option("#set", "tokens.features")
        expect(page.locator("#usages-message")).to_contain_text("usages in")
        page.wait_for_url("**set=tokens.features**")
        assert "column=layer1_token" in page.url
        check_by_axe(page)


def test_one_hit_of_each_text_that_was_split(visit: Visit, address: str, place: Path) -> None:
    texts = ["The bank lends money. The bank was closed.", "Water runs under the old mill. He went to the bank."]
    (place / "split.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    extractor = Extractor(Index(place / "c.index").settings.model.name, pooling="mean", precision="fp32")
    settings = CorpusSettings(split="sentences")
    extractor.extract(place / "split.jsonl", place / "split.features", corpus_settings=settings)
    build_index(place / "split.features", place / "split.index")
    expect(visit.open(address).get_by_label("One hit a text")).to_be_hidden()  # each document has one vector
    with page_of([place / "split.index"], ServerSettings()) as split:
        page = visit.open(split)
        search(page, "the bank")
        expect(page.locator("#hits li")).to_have_count(4)
        page.get_by_label("One hit a text").check()
        expect(page.locator("#hits li")).to_have_count(2)
        answer = Index(place / "split.index").search("the bank", one_per_document=True)
        shown = page.locator("#hits .head span:nth-child(2)").all_inner_texts()
        assert shown == [f"id {hit.id}" for hit in answer.hits]
        check_by_axe(page)
        check_width(page)
        again = visit.open(page.url)
        expect(again.locator("#hits li")).to_have_count(2)
        assert again.get_by_label("One hit a text").is_checked()
        visit.close()


def test_hits_in_pages_whose_words_are_marked_on_the_screen(visit: Visit, address: str, place: Path) -> None:
    page = visit.open(address, viewport={"width": 1000, "height": 500})
    asked: list[list[int]] = []
    page.on(
        "request",
        lambda each: (
            asked.append(each.post_data_json["numbers"])
            if each.method == "POST" and each.url.endswith("/page/why")
            else None
        ),
    )
    page.fill("#search-k", "41")
    search(page, "money from a bank")
    hits = Index(place / "c.index").search("money from a bank", 41).hits
    expect(page.locator("#hits mark").first).to_be_visible()
    assert page.locator("#hits li").count() == 25
    assert 0 < sum(map(len, asked)) < 25
    assert page.inner_text("#hit-range") == "1 to 25 of 41"
    assert saved(page, "#search-tools >> text=Save as CSV").count("\r\n") == 42
    page.click("#hits-after")
    expect(page.locator("#hits li")).to_have_count(16)
    assert page.locator("#hits .head span:nth-child(2)").all_inner_texts() == [f"id {hit.id}" for hit in hits[25:]]
    assert page.locator("#hits-after").is_disabled()
    check_by_axe(page)
    again = visit.open(page.url)
    expect(again.locator("#hit-range")).to_have_text("26 to 41 of 41")
    page.go_back()
    expect(page.locator("#hit-range")).to_have_text("1 to 25 of 41")
    assert len(asked) == len({tuple(numbers) for numbers in asked})


def test_words_are_shaded_by_the_word_of_the_query_that_is_pointed_at(visit: Visit, address: str, place: Path) -> None:
    page = visit.open(address)
    search(page, "money from a bank")
    why = Index(place / "c.index").search("money from a bank", 1, why=True).hits[0].why
    assert why is not None
    first = page.locator("#hits li").first.locator("mark")
    expect(first.first).to_be_visible()

    def strongest(shares: Any) -> str:
        own = [at for at, word in enumerate(why.words) if word.origin == "text" and word.string.isalnum()]
        return why.words[max(own, key=lambda at: shares[at])].string

    rows = [at for at, word in enumerate(why.query) if word.origin == "text"]
    assert strongest(why.shares[rows].sum(0)) in first.all_inner_texts()
    words = page.locator("#query-words button")
    assert words.all_inner_texts() == ["money", "from", "a", "bank"]
    for at, row in enumerate(rows):
        words.nth(at).hover()
        assert strongest(why.shares[row]) in page.locator("#hits li").first.locator("mark.w3").all_inner_texts()
    words.first.click()
    expect(words.first).to_have_attribute("aria-pressed", "true")
    page.mouse.move(0, 0)
    assert strongest(why.shares[rows[0]]) in page.locator("#hits li").first.locator("mark.w3").all_inner_texts()
    check_by_axe(page)
    words.first.click()
    expect(words.first).to_have_attribute("aria-pressed", "false")
    search(page, "the river")
    expect(words).to_have_text(["the", "river"])


def test_nothing_is_left_over_when_another_word_or_way_follows(visit: Visit, address: str, place: Path) -> None:
    page = visit.open(f"{address}#usages?word=bank")
    expect(page.locator(".line")).to_have_count(40)
    page.locator(".choose").nth(1).click()
    expect(page.locator(".line[aria-current]")).to_have_count(1)
    page.fill("#word", "river")
    page.press("#word", "Enter")
    expect(page.locator("#usages-message")).to_contain_text("14 usages in")
    expect(page.locator("#like")).to_have_value("")
    page.fill("#like", "Water runs under the old *mill*.")
    page.fill("#word", "mill|river")
    page.press("#like", "Enter")
    expect(page.locator("#usages-message")).to_contain_text("nearest")
    page.click("#ways >> text=Collocates")
    expect(page.locator(".counts")).to_be_visible()
    page.go_back()
    expect(page.locator("#usages-message")).to_contain_text("nearest")
    page.fill("#near-left", "500", force=True)
    page.fill("#word", "river")
    page.fill("#like", "")
    page.press("#word", "Enter")
    expect(page.locator("#usages-message")).to_contain_text("14 usages in")
    page.click("#ways >> text=Collocates")
    page.fill("#near-left", "500")
    page.fill("#near-right", "")
    page.click("#ways >> text=Lines")
    expect(page.locator(".line").first).to_be_visible()
    page.click("#ways >> text=Collocates")
    expect(page.locator("#near-left")).to_have_value("100")
    expect(page.locator("#usages-message")).to_contain_text("up to 100 before and 5 after")
    page.goto(f"{address}#usages?word=bank&k=15&page=9")
    expect(page.locator("#line-range")).to_have_text("no lines of 40")
    page.fill("#word", "mill")
    page.click("#lines-before")
    expect(page.locator("#usages-message")).to_contain_text("page 8 has none")
    expect(page.locator("#word")).to_have_value("bank")


HOSTILE_NAMES = ("constructor", "__proto__", "toString", "hasOwnProperty", "valueOf", "__lookupGetter__")


def test_columns_and_values_that_are_names_of_javascript(
    visit: Visit, tiny: Callable[[str], Tiny], tmp_path: Path
) -> None:
    rows = [
        {
            "text": f"{TEXTS[at % 3]} {at}",
            **{name: HOSTILE_NAMES[(at + shift) % 6] for shift, name in enumerate(HOSTILE_NAMES)},
            "year": at,
        }
        for at in range(24)
    ]
    (tmp_path / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    extractor = Extractor(tiny("bert").folder, pooling="mean,word", precision="fp32")
    extractor.extract(
        tmp_path / "c.jsonl", tmp_path / "f", corpus_settings=CorpusSettings(keep=(*HOSTILE_NAMES, "year"))
    )
    build_index(tmp_path / "f", tmp_path / "i", column="last_mean")
    with (
        page_of([tmp_path / "i", tmp_path / "f"], ServerSettings()) as address,
        closing(visit),
    ):
        page = visit.open(address)
        search(page, "bank")
        for number, name in enumerate(HOSTILE_NAMES):
            field = page.locator("#facet-form fieldset").nth(number)
            expect(field.locator("legend")).to_have_text(name)
            assert field.locator("input:checked").count() == 0
            field.get_by_label("toString", exact=False).check()
            expect(page.locator("#search-message")).to_contain_text(f"{name} = 'toString'")
            shown = page.locator("#hits dl.values div").filter(has=page.locator(f"dt:text-is('{name}')"))
            assert set(shown.locator("dd").all_inner_texts()) == {"toString"}
            again = visit.open(page.url)
            expect(again.locator("#facet-form input:checked")).to_have_count(1)
            expect(again.locator("#search-message")).to_contain_text(f"{name} = 'toString'")
            field.get_by_label("toString", exact=False).uncheck()
            expect(page.locator("#search-message")).not_to_contain_text("where")
            for each in (page, again):
                each.wait_for_load_state("networkidle")
        header, *lines = saved(page, "#search-tools >> text=Save as CSV").splitlines()
        assert header.split(",")[-7:] == [*HOSTILE_NAMES, "year"]
        assert all(set(line.split(",")[-7:-1]) == set(HOSTILE_NAMES) for line in lines)
        page.click("nav >> text=Map")
        page.select_option("#color", "__proto__")
        expect(page.locator("#legend button")).to_have_count(6)
        page.focus("#points")
        page.keyboard.press("n")
        expect(page.locator("#card dt").filter(has_text="constructor")).to_be_visible()
        page.click("nav >> text=Usages")
        usages(page, "bank")
        line = page.locator(".line").first
        expect(line.locator(".value")).to_have_text([HOSTILE_NAMES[shift] for shift in range(4)])
        expect(line.locator(".value[data-name=constructor]")).to_have_text("constructor")
        line.locator(".open .more").click()
        expect(page.locator(".texts .own dt").filter(has_text="__lookupGetter__")).to_be_visible()
        page.click("#ways >> text=Frequency")
        expect(page.locator(".bars rect")).to_have_count(24)
        page.select_option("#by", "__proto__")
        expect(page.locator(".bars rect")).to_have_count(6)
        wrong = "%5B%5B%22__proto__%22%2C%7B%22constructor%22%3A1%7D%5D%2C%5B1%5D%2C3%2Cnull%5D"
        odd = visit.open(f"{address}#search?q=bank&facets={wrong}")
        expect(odd.locator("#search-message")).to_contain_text("hits in")
        assert odd.locator("#facet-form input:checked").count() == 0


def test_a_line_on_a_phone_has_more_than_six_words_and_labels_are_whole(
    visit: Visit, tiny: Callable[[str], Tiny], tmp_path: Path
) -> None:
    before = "long before that the old man whom nobody in the village knew came down the hill and sat on the"
    (tmp_path / "c.txt").write_text(
        f"{before} bank of the river until it was dark and nobody looked for him any more at all\n" * 3
    )
    Extractor(tiny("bert").folder, pooling="word", precision="fp32").extract(tmp_path / "c.txt", tmp_path / "f")
    with page_of([tmp_path / "f"], ServerSettings()) as address, closing(visit):
        page = visit.open(f"{address}#usages", viewport={"width": 360, "height": 740})
        usages(page, "bank")
        line = page.locator(".line").first
        text = "".join(line.locator(".left, .word, .right").all_inner_texts())
        assert len(text.split()) > 15
        assert text.startswith("…")
        assert text.endswith("…")
        box, word = line.bounding_box(), line.locator(".word").bounding_box()
        assert box["x"] <= word["x"]
        assert word["x"] + word["width"] <= box["x"] + box["width"]
        broken = page.evaluate(
            """() => [...document.querySelectorAll("label, button, summary, legend, th")].flatMap((each) => {
              const walker = document.createTreeWalker(each, NodeFilter.SHOW_TEXT);
              const found = [], range = document.createRange();
              while (walker.nextNode()) for (const word of walker.currentNode.data.matchAll(/\\S+/g)) {
                range.setStart(walker.currentNode, word.index);
                range.setEnd(walker.currentNode, word.index + word[0].length);
                const lines = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
                if (lines.size > 1 && !word[0].includes("-")) found.push(word[0]);
              }
              return found;
            })"""
        )
        assert broken == []
        check_width(page)
        check_by_axe(page)


def test_slash_reaches_the_query(visit: Visit, address: str) -> None:
    page = visit.open(address)
    expect(page.locator("#search-message")).to_contain_text("documents")
    page.keyboard.press("/")
    expect(page.locator("#query")).to_be_focused()
    page.keyboard.type("a/b")
    assert page.input_value("#query") == "a/b"
    page.click("nav >> text=Usages")
    expect(page.locator("#word")).to_be_visible()
    page.keyboard.press("/")
    expect(page.locator("#word")).to_be_focused()
