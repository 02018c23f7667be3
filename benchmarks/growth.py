"""Do time and memory grow in a straight line from 1,000 to 1,000,000 documents?

    python benchmarks/growth.py [--sizes 1000,10000] [--tiny-sizes 1000,1000000] [--shapes all] [--work DIR]

Distinct short documents, mean vectors; each size is a run of its own process, of which time and peak memory are
reported. The same with a tiny random BERT, in which what grows with the number of documents is not hidden by the model.

And with the tiny BERT what is out of proportion: one line of 50 MB (which fails, with the reason), the longest line
that is read and a quarter of it, a line that is one word, 30,000 columns that are kept and a quarter of them, 10,000
long documents. Given sizes replace those rows of the results alone.
"""

import argparse
import json
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _commands import json_printed
from _machine import machine
from _models import TINY, random_model

RESULTS = Path(__file__).parent / "results" / "growth.json"
WORDS = (
    "river",
    "bank",
    "money",
    "water",
    "old",
    "mill",
    "stone",
    "north",
    "wind",
    "house",
    "letter",
    "garden",
    "light",
)


def main() -> None:
    options = _options()
    if options.step:
        print(json.dumps(step(*options.step)))
        return
    before = json.loads(options.out.read_text()) if options.out.exists() else {}
    results: dict[str, Any] = {**before, "note": " ".join((__doc__ or "").split("\n\n")[2].split())}
    if options.sizes or options.tiny_sizes:
        results["machine"] = machine()
    if options.shapes:
        results["shapes_machine"] = machine()
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        tiny = random_model(Path(work) / "tiny", TINY)
        for name, model, sizes in (("default", "", options.sizes), ("tiny", str(tiny), options.tiny_sizes)):
            if sizes:
                results[name] = [measured(Path(work), size, model) for size in _numbers(sizes)]
        if options.shapes:
            results["shapes"] = [shaped(Path(work), name, str(tiny)) for name in SHAPES]
    for name in {"default", "tiny"} & set(results):
        peaks = {each["documents"]: each["peak_mib"] for each in results[name]}
        if {100_000, 1_000_000} <= set(peaks):
            results[f"peak_growth_100k_to_1m_{name}"] = round(peaks[1_000_000] / peaks[100_000] - 1.0, 4)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")


def measured(work: Path, size: int, model: str) -> dict[str, Any]:
    """Run one size in a process of its own."""
    return {"documents": size, **_in_its_own_process(corpus(work / f"{size}.txt", size), work, model)}


def shaped(work: Path, name: str, model: str) -> dict[str, Any]:
    """Run one shape in a process of its own."""
    path = work / f"shape{SHAPES[name].ending}"
    with path.open("w", encoding="utf-8") as file:
        file.writelines(SHAPES[name].lines())
    return {"shape": name, "input_bytes": path.stat().st_size, **_in_its_own_process(path, work, model)}


def _in_its_own_process(path: Path, work: Path, model: str) -> dict[str, Any]:
    command = [sys.executable, __file__, "--step", str(path), str(work / "features"), model]
    result = json_printed(command)
    shutil.rmtree(work / "features")
    path.unlink()
    print(result, flush=True)
    return result


def step(path: str, folder: str, model: str) -> dict[str, Any]:
    from bertfeat.core.corpus import CorpusSettings
    from bertfeat.core.extraction import Extractor

    reading = CorpusSettings(keep=("all",) if path.endswith(".jsonl") else ())
    extractor = Extractor(model or None, pooling="mean")
    extractor.encode(["A text that loads the model."])
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.perf_counter()
    report = extractor.extract(path, folder, corpus_settings=reading)
    return {
        "failed": report.failed,
        "over_loaded_model_mib": round((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) / 1024, 1),
        "seconds": round(time.perf_counter() - begin, 2),
        "peak_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "parts": report.parts,
        "tokens": report.counts.tokens,
        "tokens_per_second": round(report.tokens_per_second),
        "waited_for_tokens": round(report.waited_for_tokens, 2),
        "waited_for_disk": round(report.waited_for_disk, 2),
        "bytes": report.bytes,
    }


@dataclass(frozen=True, slots=True)
class Shape:
    """A corpus that is out of proportion."""

    ending: str
    lines: Callable[[], Iterator[str]]


def _lines(text: str, characters: int, number: int = 1) -> Iterator[str]:
    yield "one short line before\n"
    for at in range(number):
        yield f"{at} {(text * (characters // len(text) + 1))[: characters - 10]}\n"


def _columns(number: int) -> Iterator[str]:
    for row in range(20):
        yield json.dumps({"text": "a river bank", **{f"field {at}": row * at for at in range(number)}}) + "\n"


_SENTENCE = "The river runs past the old mill and into the sea. "
_LONGEST = 16 * 2**20
SHAPES = {
    "one line of 50 MB": Shape(".txt", lambda: _lines(_SENTENCE, 50_000_000)),
    "one line of 16 Mi characters": Shape(".txt", lambda: _lines(_SENTENCE, _LONGEST)),
    "one line of 4 Mi characters": Shape(".txt", lambda: _lines(_SENTENCE, _LONGEST // 4)),
    "one line of 16 Mi characters, xy z over and over": Shape(".txt", lambda: _lines("xy z ", _LONGEST)),
    "one word of 16 Mi characters": Shape(".txt", lambda: _lines("x", _LONGEST)),
    "30,000 kept columns": Shape(".jsonl", lambda: _columns(30_000)),
    "7,500 kept columns": Shape(".jsonl", lambda: _columns(7_500)),
    "10,000 documents of 5,000 characters": Shape(".txt", lambda: _lines(_SENTENCE, 5_000, 10_000)),
    "1,000 documents of 5,000 characters": Shape(".txt", lambda: _lines(_SENTENCE, 5_000, 1_000)),
}


def corpus(path: Path, size: int) -> Path:
    """Distinct texts of 5 to 15 words."""
    draw = random.Random(0)
    with path.open("w") as file:
        for number in range(size):
            file.write(f"{' '.join(draw.choices(WORDS, k=draw.randrange(4, 14)))} {number}\n")
    return path


def _numbers(listed: str) -> list[int]:
    return [int(each) for each in listed.split(",") if each]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1000,10000,100000,1000000", help="with the default model")
    parser.add_argument("--tiny-sizes", default="1000,10000,100000,1000000", help="with a tiny random model")
    parser.add_argument(
        "--shapes", choices=["all", ""], default="all", help="what is out of proportion; '' leaves it out"
    )
    parser.add_argument("--work", type=Path, help="where folders are made; default: the system's temporary folder")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
