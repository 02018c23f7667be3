"""Which FAISS factory strings end the process, never end, or give wrong answers?

    python benchmarks/factory_strings.py [--count 300] [--seed 0] [--raw] [--out FILE]

Strings are put together from FAISS's own words. Each is built over 700 vectors of 16 values in a process of its own,
then searched in every way, removed from, appended to, emptied and appended to again; after each step the hits must be
exactly the documents that are there. ``--raw`` tries those too that bertfeat refuses. Exit code 1 if one that is not
refused died or was wrong.
"""

import argparse
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _machine import machine

os.environ["OMP_NUM_THREADS"] = "1"  # before FAISS is imported: its threads do not survive a fork
sys.path.insert(0, str(Path(__file__).parent.parent))  # tests are no package that is installed

import numpy as np

from bertfeat.errors import BertfeatError
from bertfeat.search import (
    BuildOptions,
    Metric,
    VectorIndex,
    build_index,
    remove_documents,
    update_index,
    verify_index,
)
from bertfeat.search.vectors import faiss_index
from tests.support.index_toy import clustered, vector_set

SECONDS = 30.0
MEMORY = 8 << 30
OLD, NEW, REMOVED = 700, 60, 200
BEFORE = ("", "", "", "", "PCA%", "PCAR%", "PCAW%", "OPQ4", "OPQ2_8", "RR8", "L2norm", "Pad20", "ITQ8", "PCA8,L2norm")
LISTS = ("", "", "", "IVF%", "IVF%", "IVF%", "IVF16_HNSW4", "IVF16(PQ2x4)", "IMI2x3", "IVF120_NSG8")
CODES = (
    *(
        "Flat",
        "PQ4np",
        "PQ2x4",
        "PQ8x6np",
        "PQ4x4fs",
        "PQ8x4fs_64",
        "PQ4x4fsr",
        "SQ8",
        "SQ4",
        "SQ6",
        "SQfp16",
        "SQbf16",
    ),
    *("SQ8_direct", "SQ8_direct_signed", "RQ2x4", "RQ2x4_Nfloat", "RQ3x5_Nqint8", "RQ2x4_Ncqint8", "RQ2x4_Nrq2x4"),
    *("LSQ2x4", "PRQ2x2x4", "PLSQ2x2x4", "RQ4x4fs", "LSQ4x4fs", "PRQ2x2x4fs_Nrq2x4", "RaBitQ", "RaBitQ2", "RaBitQfs"),
    *("SQtqmse4", "ZnLattice2x8_4", "LSH", "LSHrt", "HNSW%", "HNSW4_SQ4", "HNSW8_PQ4", "HNSW16_FlatPanorama", "NSG8"),
    *("FlatDedup", "FlatPanorama", "FlatL2Panorama4", "PQ4x0", "HNSW0", "HNSW1", "IDMap", "Flat,IDMap2"),
)
AFTER = (
    *("", "", "", "", "RFlat", "Refine(Flat)", "Refine(SQ8)", "Refine(PQ4np)", "Refine(PQ4x4fs)", "Refine(RQ2x4)"),
    *("Refine(RaBitQfs)", "Refine(HNSW8)", "Refine(IVF4,Flat)", "Refine(LSH)"),
)


def main() -> None:
    options = _options()
    if options.raw:
        faiss_index.refusal_of_factory = lambda _text: None
    account, died = Counter[str](), []
    with tempfile.TemporaryDirectory() as work:
        vector_set(Path(work) / "old", clustered(OLD))
        ids = [str(row + 1) for row in range(OLD - 30, OLD - 30 + NEW)]
        vector_set(Path(work) / "new", clustered(NEW, seed=3), ids=ids)
        for text, metric in strings(options.count, options.seed):
            outcome = tried(Path(work), text, metric)
            account[outcome.split(":")[0]] += 1
            if not outcome.startswith(("all", "refused")):
                died.append(f"{text} under {metric}: {outcome}")
                print(died[-1], file=sys.stderr, flush=True)
    result = {"strings": options.count, **account, "wrong": died, "machine": machine("faiss-cpu")}
    print(json.dumps(result, indent=1))
    target = "factory_strings_raw" if options.raw else "factory_strings"
    out = options.out or Path(__file__).parent / "results" / f"{target}.json"
    out.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(1 if died and not options.raw else 0)


def strings(count: int, seed: int) -> list[tuple[str, Metric]]:
    draw = random.Random(seed)
    found: dict[tuple[str, Metric], None] = {}
    while len(found) < count:
        parts = [draw.choice(words) for words in (BEFORE, LISTS, CODES, AFTER)]
        text = ",".join(part for part in parts if part)
        while "%" in text:
            text = text.replace("%", str(draw.choice((2, 4, 8, 12))), 1)
        found[text, draw.choice(list(Metric))] = None
    return list(found)


def tried(work: Path, text: str, metric: Metric) -> str:
    """What became of a process that tried a string."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        _in_child(work, text, metric, lambda line: os.write(write, f"{line}\n".encode()))
    os.close(write)
    end, status = time.monotonic() + SECONDS, None
    while status is None:
        done, found = os.waitpid(pid, os.WNOHANG)
        if done:
            status = found
        elif time.monotonic() > end:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            break
        time.sleep(0.005)
    with os.fdopen(read, "rb") as file:
        last = (file.read().decode(errors="replace").splitlines() or ["start"])[-1]
    shutil.rmtree(work / f"{pid}.index", ignore_errors=True)
    if status is None:
        return f"no end: at {last}"
    return f"died of signal {os.WTERMSIG(status)}: at {last}" if os.WIFSIGNALED(status) else last


def _in_child(work: Path, text: str, metric: Metric, say: Callable[[str], Any]) -> None:
    for number in (1, 2):  # FAISS talks
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        _use(work, work / f"{os.getpid()}.index", text, metric, say)
        say("all done")
    except BertfeatError as error:
        say(f"refused: {error}".replace("\n", " "))
    except BaseException as error:
        say(f"{type(error).__name__}: {error}".replace("\n", " "))
    os._exit(0)


def _use(work: Path, folder: Path, text: str, metric: Metric, say: Callable[[str], Any]) -> None:
    living = {str(row + 1) for row in range(OLD)}
    gone = {str(row + 1) for row in range(REMOVED)}
    new = {str(row + 1) for row in range(OLD - 30, OLD - 30 + NEW)}
    say("build")
    build_index(work / "old", folder, options=BuildOptions(type=text, metric=metric, evaluate=False))
    _look(folder, living, say)
    say("remove")
    remove_documents(folder, gone)
    _look(folder, living - gone, say)
    say("append")
    update_index(folder, [work / "new"])
    _look(folder, living - gone | new, say)
    say("empty")
    remove_documents(folder, living | new)
    update_index(folder, [work / "new"])
    _look(folder, new, say)


def _look(folder: Path, living: set[str], say: Callable[[str], Any]) -> None:
    say("check")
    verify_index(folder)
    index, queries = VectorIndex(folder), clustered(10, seed=9)
    options: dict[str, Any]
    for options in (
        {},
        {"exact": True},
        {"search_parameter": 1},
        {"where": "row < 690"},
        {"where": "row < 690", "exact": True},
    ):
        for k in (1, 10, len(living) + 5):
            say(f"search {options} {k}")
            found = index.search(queries, k, **options)
            names = index.documents.take(found.numbers.ravel())["id"].to_pylist()
            rows = [set(row) for row in np.array(names).reshape(found.numbers.shape).tolist()]
            if not all(len(row) == found.numbers.shape[1] and row <= living for row in rows):
                raise ValueError(f"wrong hits of {options}, {k}")
            if k > len(living) and "where" not in options and rows[0] != living:
                raise ValueError(f"not all hits of {options}, {k}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--raw", action="store_true", help="try what bertfeat refuses, too")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
