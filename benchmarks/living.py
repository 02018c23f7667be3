"""What does it cost to bring a feature set up to date, beside computing the changed texts alone, and all of it anew?

    python benchmarks/living.py --data NOVELS [--work DIR] [--rows 30000] [--rounds 5] [--sizes 100000,1000000]

NOVELS holds sentences.txt. A corpus of so many sentences has ids; then 1 % of them are edited anywhere, 0.67 % removed
and 1.33 % put in anywhere, as on an ordinary day. In turn, with the default model and one Extractor: `update` of the
set of yesterday (restored each round), `changed` (an extraction of the edited and new texts by themselves), `reading`
(the corpus read and cut into parts once), and in the first round `anew` (all of it). The bytes of the updated set are
compared with those of the new one.

With --sizes: sets of so many texts of four words, of which 1 % are edited and one is put in before all, and their
indexes, in processes of their own: seconds and most memory of `extract`, `index`, and of both with --update, with the
start of the process.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from _duel import distinct_lines
from _machine import machine

from bertfeat import Extractor
from bertfeat.core.corpus import CorpusSettings, open_corpus
from bertfeat.core.extraction import PartLimits, plan_parts
from bertfeat.core.features import list_parts

RESULT = Path(__file__).parent / "results" / "living.json"
READING = CorpusSettings(id_column="id")
WORDS = ("bank", "river", "rain", "wind", "sail", "rope", "tar", "gull", "ship", "mast", "deck", "oar", "net", "fish")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt")
    parser.add_argument("--work", type=Path, help="a folder for the sets (default: a temporary one)")
    parser.add_argument("--rows", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="", help="numbers of texts of which memory is measured too")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        result = measure(
            distinct_lines(arguments.data / "sentences.txt"),
            arguments.work or Path(folder),
            arguments.rows,
            arguments.rounds,
        )
        sizes = [int(size) for size in arguments.sizes.split(",") if size]
        result["growth"] = [grow(arguments.work or Path(folder), size) for size in sizes]
    RESULT.write_text(json.dumps({"machine": machine(), **result}, indent=1) + "\n")
    print(json.dumps(result, indent=1))


def measure(texts: list[str], work: Path, rows: int, rounds: int) -> dict[str, Any]:
    """Measure all four in turn."""
    yesterday, today, changed = a_day(texts, rows)
    corpus = write(work / "corpus.jsonl", yesterday)
    extractor = Extractor()
    extractor.extract(corpus, work / "yesterday.features", corpus_settings=READING)
    write(corpus, today)
    alone = write(work / "changed.jsonl", changed)
    seconds: dict[str, list[float]] = {"update": [], "changed": [], "reading": [], "anew": []}
    for number in range(rounds):
        for name in ("set", "alone"):
            shutil.rmtree(work / f"{name}.features", ignore_errors=True)
        shutil.copytree(work / "yesterday.features", work / "set.features")
        seconds["update"].append(
            timed(lambda: extractor.extract(corpus, work / "set.features", corpus_settings=READING, update=True))
        )
        seconds["changed"].append(
            timed(lambda: extractor.extract(alone, work / "alone.features", corpus_settings=READING))
        )
        seconds["reading"].append(timed(lambda: read(corpus)))
        if not number:
            seconds["anew"].append(
                timed(lambda: extractor.extract(corpus, work / "anew.features", corpus_settings=READING))
            )
    middle = {name: median(each) for name, each in seconds.items()}
    return {
        "rows": len(today),
        "changed_texts": len(changed),
        "tokens_of_changed": extractor.tokenize_rows(list(open_corpus([alone], READING).rows())).token_count,
        "seconds": {name: [round(each, 3) for each in all_of] for name, all_of in seconds.items()},
        "update_to_changed_and_reading": round(middle["update"] / (middle["changed"] + middle["reading"]), 2),
        "update_to_anew": round(middle["update"] / middle["anew"], 4),
        "equal_bytes": parts_of(work / "set.features") == parts_of(work / "anew.features"),
    }


def grow(work: Path, size: int) -> dict[str, Any]:
    """Seconds and most memory of an extraction of short texts, of an index, and of their updates."""
    draw = random.Random(size)
    texts = [f"{draw.choice(WORDS)} {draw.choice(WORDS)} {draw.choice(WORDS)} {number}" for number in range(size)]
    corpus, folder, index = (work / f"{size}.{ending}" for ending in ("txt", "features", "index"))
    corpus.write_text("\n".join(texts) + "\n", "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    extract, build = ("extract", str(corpus), "-o", str(folder)), ("index", str(folder), "-o", str(index))
    measured = {"extract": run_command(*extract), "index": run_command(*build)}
    for at in draw.sample(range(size), size // 100):
        texts[at] += " indeed"
    corpus.write_text("\n".join(["put in", *texts]) + "\n", "utf-8")
    measured |= {"update": run_command(*extract, "--update"), "index_update": run_command(*build, "--update")}
    return {"texts": size} | {
        f"{way}_{unit}": number
        for way, (seconds, memory) in measured.items()
        for unit, number in (("seconds", round(seconds, 1)), ("mib", round(memory)))
    }


def run_command(*arguments: str) -> tuple[float, float]:
    """Run a command of bertfeat; return its seconds and the MiB that it had at most."""
    command = [sys.executable, "-c", "import sys; from bertfeat.cli import main; main(sys.argv[1:])", *arguments]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return time.perf_counter() - began, usage.ru_maxrss / 1024


Record = dict[str, str]


def a_day(texts: list[str], rows: int) -> tuple[list[Record], list[Record], list[Record]]:
    """Records, what they are a day later, and those of these that are edited or new."""
    draw = random.Random(0)
    chosen = draw.sample(texts, rows + rows // 75)
    records = [{"id": str(at), "text": text} for at, text in enumerate(chosen[:rows])]
    later = [dict(record) for record in records]
    edited = draw.sample(range(rows), rows // 100)
    for at in edited:
        words = later[at]["text"].split(" ")
        later[at]["text"] = " ".join([*words[: len(words) // 2], "indeed", *words[len(words) // 2 :]])
    changed = [later[at] for at in edited]
    gone = set(draw.sample(sorted(set(range(rows)) - set(edited)), rows // 150))
    later = [record for at, record in enumerate(later) if at not in gone]
    for at, text in enumerate(chosen[rows:], rows):
        later.insert(draw.randrange(len(later) + 1), new := {"id": str(at), "text": text})
        changed.append(new)
    return records, later, changed


def write(path: Path, records: list[Record]) -> Path:
    """Write records as JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return path


def read(corpus: Path) -> None:
    """Read a corpus and cut it into parts, once."""
    for _ in plan_parts(open_corpus([corpus], READING), PartLimits(16_384, 1600.0, 0.0)):
        pass


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def parts_of(folder: Path) -> list[bytes]:
    """The bytes of the parts of a set."""
    return [path.read_bytes() for path in list_parts(folder)]


if __name__ == "__main__":
    main()
