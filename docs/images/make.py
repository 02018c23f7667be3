"""Make the pictures of README.md with the tool itself, from examples/: python docs/images/make.py.

map.svg and layers.svg are ``bertfeat plot``'s, precision.svg is ``bertfeat compare``'s; usages.svg is what
``bertfeat usages`` prints on a terminal; maxsim.svg and left-context.svg show how a score and a context come about.
pipeline.svg is drawn by hand.
serve-*.png are the page of ``bertfeat serve`` in Chromium, where that and playwright are installed.
"""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from bertfeat import Extractor
from bertfeat.core import unit_vectors
from bertfeat.plots.figure import drawing
from bertfeat.plots.palette import NAMED

IMAGES = Path(__file__).resolve().parent
CORPUS = IMAGES.parent.parent / "examples" / "corpus.txt"
COLUMNS = 96

# Lines of corpus.txt that are of one topic, counted from 1.
TOPICS = {
    "rivers": (24, 36),
    "money": (51, 61),
    "cooking": (126, 139),
    "stars": (140, 151),
    "medicine": (163, 173),
    "law": (174, 184),
    "programming": (185, 197),
}


def bertfeat(folder: Path, *arguments: str) -> str:
    """Run a command in a folder, on a terminal; give what it prints there."""
    environment = os.environ | {"COLUMNS": str(COLUMNS), "HF_HUB_OFFLINE": "1", "TERM": "xterm-256color"}
    command = [str(Path(sys.executable).parent / "bertfeat"), *arguments]
    terminal, stdout = pty.openpty()
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=stdout, stderr=subprocess.DEVNULL) as process:
        os.close(stdout)
        printed = b""
        try:
            while block := os.read(terminal, 65536):
                printed += block
        except OSError:  # the terminal is closed: the command has ended
            pass
        os.close(terminal)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {process.returncode}")
    return printed.decode().replace("\r\n", "\n")


def screen(commands: list[tuple[tuple[str, ...], str]]) -> str:
    """Draw commands and what each printed as SVG, without the font that rich would fetch."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    for words, printed in commands:
        typed = " ".join(f'"{word}"' if " " in word else word for word in ("bertfeat", *words))
        console.print(Text(f"$ {typed}"))
        console.print(Text.from_ansi(printed), end="")
    form = re.sub(r"\s*@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    form = form.replace("Fira Code", "ui-monospace, Menlo, DejaVu Sans Mono")
    return console.export_svg(title="", code_format=form, unique_id="usages")


def write_topics(path: Path) -> None:
    """Write the lines of one topic each as JSONL, with the topic."""
    lines = CORPUS.read_text("utf-8").splitlines()
    records = [
        {"text": text, "topic": topic} for topic, (first, last) in TOPICS.items() for text in lines[first - 1 : last]
    ]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")


def write_page_corpus(path: Path) -> None:
    """Write both corpora of one language as JSONL, with what is known of each line."""
    topics = {line: topic for topic, (first, last) in TOPICS.items() for line in range(first, last + 1)}
    lines = enumerate(CORPUS.read_text("utf-8").splitlines(), 1)
    records = [{"text": text, "topic": topics.get(line)} for line, text in lines]
    logs = CORPUS.with_name("logs.jsonl").read_text("utf-8").splitlines()
    records += [json.loads(log) | {"topic": "ships' logs"} for log in logs]
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), "utf-8")


def photograph_page(folder: Path) -> None:
    """Serve an index, and save the three views of its page as a visitor has them after a search."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        sys.stderr.write("no pictures of the page: they need playwright and Chromium\n")
        return
    write_page_corpus(folder / "page.jsonl")
    kept = ("--keep", "topic,writer,year", "--layers", "all", "--pooling", "mean,word", "--precision", "fp32")
    bertfeat(folder, "extract", "page.jsonl", *kept)
    bertfeat(folder, "index", "page.features", "--column", "last_mean")
    command = [str(Path(sys.executable).parent / "bertfeat"), "serve", "page.index", "page.features", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server, sync_playwright() as play:
        assert server.stderr is not None
        address = next(found[0] for line in server.stderr if (found := re.search(r"http://[^\s/]+/", line)))
        graphics = ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
        try:
            browser = play.chromium.launch(executable_path=chromium, args=graphics)
            page = browser.new_page(viewport={"width": 1200, "height": 800})
            page.set_default_timeout(20_000)
            page.goto(address)
            page.fill("#query", "bank lending money")
            page.press("#query", "Enter")
            page.wait_for_selector("#hits mark")
            page.screenshot(path=IMAGES / "serve-search.png")

            page.set_viewport_size({"width": 1200, "height": 900})
            page.click("text=Show the hits on the map")
            page.wait_for_selector("#map-note:has-text('t-SNE')")
            page.wait_for_selector("#legend button")
            page.focus("#points")
            page.keyboard.press("n")
            page.wait_for_selector("#card:not([hidden])")
            page.screenshot(path=IMAGES / "serve-map.png")

            page.set_viewport_size({"width": 1200, "height": 840})
            page.click("nav >> text=Usages")
            page.fill("#word", "bank")
            page.press("#word", "Enter")
            page.locator(".choose").nth(1).click()
            page.wait_for_selector("text=nearest by")
            page.evaluate("scrollTo(0, 0)")
            page.screenshot(path=IMAGES / "serve-usages.png")
            browser.close()
        finally:
            server.terminate()


def draw_maxsim(path: Path, query: str, document: str) -> None:
    """Draw the cosines of a query's tokens with a document's, and which is the largest of each."""
    features = Extractor(layers="last", pooling="token").features([query, document])
    names = [each.tokens.strings[1:-1] for each in features]  # without [CLS] and [SEP]
    units = [unit_vectors(each.matrix("last_token")[1:-1]) for each in features]
    cosines = units[0] @ units[1].T
    with drawing(path, None, (7.0, 3.4)) as sheet:
        sheet.header(
            "The largest cosine of each token of the query counts",
            f"“{query}” against “{document}”, last layer",
        )
        (axes,) = sheet.panels()
        axes.imshow(cosines, cmap=LinearSegmentedColormap.from_list("white", ["#ffffff", NAMED[2]]), vmin=0, vmax=1)
        for row, values in enumerate(cosines):
            best = int(values.argmax())
            axes.text(best, row, f"{values[best]:.2f}", ha="center", va="center", size=7)
        label(axes, columns=names[1], rows=names[0])


def draw_left_context(path: Path, words: list[str], before: int) -> None:
    """Draw which words each word's vector was computed from."""
    read = [[max(0, at - before) <= other <= at for other in range(len(words))] for at in range(len(words))]
    with drawing(path, None, (4.2, 3.2)) as sheet:
        sheet.header(f"--context left:{before}", "Which words (across) the vector of each word (down) has read")
        (axes,) = sheet.panels()
        axes.imshow(read, cmap=LinearSegmentedColormap.from_list("white", ["#ffffff", NAMED[2]]), vmin=0, vmax=1)
        for at in range(len(words)):
            axes.plot(at, at, "o", color=NAMED[0])
        label(axes, columns=words, rows=words)


def label(axes: Axes, *, columns: list[str], rows: list[str]) -> None:
    """Name the columns and rows of a matrix."""
    axes.set_xticks(range(len(columns)), columns, rotation=45, ha="right")
    axes.set_yticks(range(len(rows)), rows)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def main() -> None:
    """Extract examples/ in a temporary folder, and draw."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "corpus.txt").write_bytes(CORPUS.read_bytes())
        bertfeat(folder, "extract", "corpus.txt", "--layers", "concat4", "--pooling", "word")
        likes = ("He sat on the bank of the river.", "She paid the money into the bank.")
        asked = [("usages", "corpus.features", "bank", "--like", like, "-k", "4") for like in likes]
        shown = screen([(command, bertfeat(folder, *command)) for command in asked])
        (IMAGES / "usages.svg").write_text(shown, "utf-8")

        for precision in ("fp32", "bf16"):
            way = ("-o", f"{precision}.features", "--layers", "all", "--pooling", "mean", "--precision", precision)
            bertfeat(folder, "extract", "corpus.txt", *way)
        bertfeat(folder, "compare", "fp32.features", "bf16.features", "--plot", str(IMAGES / "precision.svg"))

        write_topics(folder / "topics.jsonl")
        bertfeat(folder, "extract", "topics.jsonl", "--keep", "topic", "--layers", "all", "--pooling", "mean")
        drawn = ("--column", "last_mean", "--color", "topic", "--width", "6.5", "--height", "4")
        bertfeat(folder, "plot", "map", "topics.features", *drawn, "-o", str(IMAGES / "map.svg"))
        probes = bertfeat(folder, "probe", "topics.features", "--label", "topic", "--json")
        (folder / "topics.json").write_text(probes, "utf-8")
        size = ("--width", "6.5", "--height", "3.5")
        bertfeat(folder, "plot", "layers", "topics.json", *size, "-o", str(IMAGES / "layers.svg"))
        photograph_page(folder)

    sentence = CORPUS.read_text("utf-8").splitlines()[32]
    draw_maxsim(IMAGES / "maxsim.svg", "where does the river flow into the sea?", sentence)
    draw_left_context(IMAGES / "left-context.svg", ["So", "he", "sat", "down", "on", "the", "bank"], 3)


if __name__ == "__main__":
    main()
