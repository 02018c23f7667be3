"""How soon does the page of ``bertfeat serve`` open, and answer a search, over an index of a million documents?

    python benchmarks/page_million.py --data NOVELS [--work DIR] [--count 1000000]

The sentences of NOVELS/sentences.txt, numbered, with a year, through a random BERT of one layer and the default model's
width, so that the index has its size; the default model takes some 7 ms more for a query. Chromium by Playwright, on
the same machine, each time with an empty cache. opened: until the search form can be used, after a new start of the
server and later. searched: from Enter until the hits are on the page; answered: the request alone.
"""

import argparse
import json
import re
import shutil
import statistics
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from _machine import machine
from _models import random_model
from serve import OURS, resident, server

RESULTS = Path(__file__).parent / "results" / "page_million.json"
ONE_LAYER = {"hidden_size": 384, "num_hidden_layers": 1, "num_attention_heads": 12, "intermediate_size": 1536}
QUERIES = ("the river in winter", "he had no money left", "a letter from her brother", "the old house by the mill")
QUERIES += ("they walked home in silence", "the horse was tired", "she laughed", "a storm at sea")


def main() -> None:
    options = _options()
    chromium = find_chromium()
    index = make_index(options.work, options.data, options.count)
    results: dict[str, Any] = {"machine": machine("faiss-cpu", "playwright"), "documents": options.count}
    began = time.monotonic()
    with server([*OURS, "--model", str(options.work / "one-layer"), str(index), "--port"]) as (port, pid):
        results["server_start_s"] = round(time.monotonic() - began, 1)
        results |= browse(f"http://127.0.0.1:{port}/", chromium)
        results["answered_ms"] = answer_times(port)
        results["resident_mib"] = round(resident(pid))
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


def make_index(work: Path, data: Path, count: int) -> Path:
    """The index, made once."""
    from bertfeat import CorpusSettings, Extractor, build_index

    folder = work / f"{count}.index"
    if folder.exists():
        return folder
    work.mkdir(parents=True, exist_ok=True)
    sentences = (data / "sentences.txt").read_text("utf-8").splitlines()
    corpus = work / f"{count}.jsonl"
    with corpus.open("w", encoding="utf-8") as file:
        for number in range(count):
            row = {"text": f"{sentences[number % len(sentences)]} {number}", "year": 1800 + number % 120}
            file.write(json.dumps(row) + "\n")
    model = random_model(work / "one-layer", ONE_LAYER)
    extractor = Extractor(model, layers="last", pooling="mean")
    extractor.extract(corpus, work / f"{count}.features", corpus_settings=CorpusSettings(keep=("year",)))
    build_index(work / f"{count}.features", folder)
    return folder


def find_chromium() -> str:
    """The browser, or the end of the program where there is none."""
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    return found or sys.exit("there is no Chromium: install the system's package chromium")


def browse(address: str, chromium: str) -> dict[str, Any]:
    """Times in the browser."""
    from playwright.sync_api import sync_playwright

    opened, searched, shown = [], [], []  # shown: by the page itself, until the answer is there
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        browser.new_page().close()
        for _ in range(6):
            context = browser.new_context()
            page = context.new_page()
            began = time.perf_counter()
            page.goto(address, wait_until="commit")
            page.wait_for_selector("#query:visible")
            opened.append(time.perf_counter() - began)
            context.close()
        page = browser.new_page()
        page.goto(address)
        page.wait_for_selector("#facet-form input", state="attached", timeout=120_000)  # they are read meanwhile
        for query in QUERIES:
            page.evaluate("document.getElementById('hits').replaceChildren()")
            page.fill("#query", query)
            began = time.perf_counter()
            page.press("#query", "Enter")
            page.wait_for_selector("#hits > li:nth-child(10)")
            searched.append(time.perf_counter() - began)
            shown.append(int(re.search(r"in ([\d,]+) ms", page.inner_text("#search-message"))[1].replace(",", "")))
        browser.close()
    return {
        "opened_first_ms": round(1000 * opened[0]),
        "opened_ms": round(1000 * statistics.median(opened[1:])),
        "searched_first_ms": round(1000 * searched[0]),
        "searched_ms": {"median": round(1000 * statistics.median(searched)), "slowest": round(1000 * max(searched))},
        "shown_ms": {"median": statistics.median(shown), "slowest": max(shown)},
    }


def answer_times(port: int) -> dict[str, int]:
    seconds = []
    for query in QUERIES * 3:
        body = json.dumps({"query": query, "k": 10}).encode()
        asked = urllib.request.Request(
            f"http://127.0.0.1:{port}/search", body, headers={"Content-Type": "application/json"}
        )
        began = time.perf_counter()
        with urllib.request.urlopen(asked) as reply:
            assert len(json.load(reply)["hits"]) == 10
        seconds.append(time.perf_counter() - began)
    return {"median": round(1000 * statistics.median(seconds)), "slowest": round(1000 * max(seconds))}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("build/page"))
    parser.add_argument("--count", type=int, default=1_000_000)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
