"""How much processor time do the lines of a word take on the page of ``bertfeat serve``, and how much memory?

    python benchmarks/page_lines.py --data DATA [--work DIR] [--paragraphs 88331]

DATA holds novels/dated.csv.gz, of whose paragraphs lookups.py makes the set. In Chromium by Playwright, on the same
machine, words are looked up with 50 lines a page, as the page has them, and with 1,000. server: processor time of the
server's process from Enter until the lines are shown, in steps of 10 ms; browser: that of the page's main thread, all
drawing included. Medians in milliseconds. The server's memory is what it holds before the first look-up and at the end.
"""

import argparse
import json
import os
import re
import sys
from pathlib import Path
from statistics import median
from typing import Any

from _machine import machine
from lookups import extract_words, read_rows
from page_million import find_chromium
from serve import OURS, resident, server

RESULT = Path(__file__).parent / "results" / "page_lines.json"
WORDS = ("bank", "time", "said", "of course")
PAGES = (50, 1000)  # lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/lookups"))
    parser.add_argument("--paragraphs", type=int, default=88_331)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    chromium = find_chromium()
    options.work.mkdir(parents=True, exist_ok=True)
    rows = read_rows(options.data / "novels" / "dated.csv.gz", options.paragraphs)
    folder = extract_words(rows, options.work).folder
    found: dict[str, Any] = {"machine": machine("playwright"), "paragraphs": len(rows)}
    with server([*OURS, str(folder), "--port"]) as (port, pid):
        before = resident(pid)
        found["words"] = browse(f"http://127.0.0.1:{port}/#usages", pid, chromium, options.repeats)
        found["resident_mib"] = {"before": round(before), "after": round(resident(pid))}
    RESULT.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def browse(address: str, pid: int, chromium: str, repeats: int) -> dict[str, Any]:
    """For each word its usages, and the times of the server and of the browser for each size of a page."""
    from playwright.sync_api import expect, sync_playwright

    found: dict[str, Any] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for word in WORDS:
            found[word] = {}
            for lines in PAGES:
                times = []
                for _ in range(repeats):
                    page = browser.new_page(viewport={"width": 1280, "height": 900})
                    page.goto(address)
                    page.click("#usages-more summary")
                    page.fill("#usages-k", str(lines))
                    page.fill("#word", word)
                    watcher = page.context.new_cdp_session(page)
                    watcher.send("Performance.enable")
                    began = (seconds_of(pid), page_seconds(watcher))
                    page.press("#word", "Enter")
                    message = page.locator("#usages-message")
                    expect(message).to_contain_text("document", timeout=60_000)
                    page.wait_for_timeout(500)  # until it is painted
                    times.append((seconds_of(pid) - began[0], page_seconds(watcher) - began[1]))
                    number = re.sub(r"\D", "", message.inner_text().split()[0])
                    found[word]["usages"] = int(number or 0)
                    page.close()
                server_ms, page_ms = (round(1000 * median(each)) for each in zip(*times, strict=True))
                found[word][str(lines)] = {"server_ms": server_ms, "browser_ms": page_ms}
            print(word, json.dumps(found[word]), flush=True)
        browser.close()
    return found


def seconds_of(pid: int) -> float:
    """The processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def page_seconds(watcher: Any) -> float:
    """The time that the main thread of a page has worked."""
    metrics = watcher.send("Performance.getMetrics")["metrics"]
    return next(float(metric["value"]) for metric in metrics if metric["name"] == "TaskDuration")


if __name__ == "__main__":
    sys.exit(main())
