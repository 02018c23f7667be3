"""How long does a plan of a thousand million documents take, and how much memory?

    python benchmarks/plan_size.py [--files 10000] [--documents 1000000000] [--scanned 200000] [--out FILE]

Two steps. Scanning is measured on real files of each kind, a thread each, and reported in documents and bytes a second:
it is shared out among the workers, so a plan's scanning takes documents / (rate × workers). Putting the scans together
(numbering parts and rows) is done by one process; that is run in full here, over scans as files of equal size would
give them, made up one after the other. Peak memory is that of the process.
"""

import argparse
import json
import random
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from _machine import machine

from bertfeat.core.corpus import CorpusSettings, FileCorpus, Position, open_corpus
from bertfeat.core.extraction import PartLimits, PartNumbering, Span, scan_file

RESULTS = Path(__file__).parent / "results" / "plan_size.json"
WORDS = ("river", "bank", "money", "water", "old", "mill", "stone", "north", "wind", "house", "letter", "light")
LIMITS = PartLimits(16_384, 1536.0, 0.0)  # of MiniLM's mean vectors


def main() -> None:
    options = _options()
    results: dict[str, Any] = {"machine": machine()}
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        # first, since the most memory that a process ever had hides what is less
        results["assembly"] = assemble(options.files, options.documents)
        results["scanning"] = {name: scan_rate(path) for name, path in real_files(Path(work), options.scanned)}
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))


def real_files(work: Path, count: int) -> Iterator[tuple[str, Path]]:
    """The same documents, of some 20 words each, in each format."""
    draw = random.Random(0)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(5, 35))) for _ in range(count)]
    path = work / "corpus.txt"
    path.write_text("".join(f"{text}\n" for text in texts))
    yield "text", path
    path = work / "corpus.jsonl"
    path.write_text("".join(json.dumps({"id": n, "text": text}) + "\n" for n, text in enumerate(texts)))
    yield "jsonl", path
    path = work / "corpus.parquet"
    pq.write_table(pa.table({"id": list(map(str, range(count))), "text": texts}), path)
    yield "parquet", path


def scan_rate(path: Path) -> dict[str, float]:
    corpus = open_corpus([path], CorpusSettings())
    assert isinstance(corpus, FileCorpus)
    (file,) = corpus.files
    times, rows = [], 0
    for _ in range(3):
        begin = time.perf_counter()
        rows = sum(span.rows for span in scan_file(file, 0, LIMITS))
        times.append(time.perf_counter() - begin)
    seconds = sorted(times)[1]
    size = path.stat().st_size
    return {"documents_per_second": round(rows / seconds), "mb_per_second": round(size / seconds / 1e6, 1)}


def assemble(files: int, documents: int) -> dict[str, float]:
    """Number the parts of so many documents in so many files; the spans are made up as they are needed."""
    numbering = PartNumbering(LIMITS)
    begin, parts, rows = time.perf_counter(), 0, 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(files):
        count = documents * (number + 1) // files - documents * number // files
        for span in made_up_spans(number, count):
            for part in numbering.add(span, None, 0.0):
                parts, rows = parts + 1, part.last_row
    for part in numbering.end():
        parts, rows = parts + 1, part.last_row
    assert rows == documents
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "files": files,
        "documents": documents,
        "parts": parts,
        "seconds": round(time.perf_counter() - begin, 1),
        "peak_memory_mib": round(peak / 1024),
        "grew_by_mib": round((peak - before) / 1024),
    }


def made_up_spans(file: int, count: int) -> Iterator[Span]:
    for first in range(0, count, LIMITS.part_rows):
        rows = min(LIMITS.part_rows, count - first)
        digest = f"{file:032x}{first:032x}"
        yield Span(
            file=file,
            start=Position(first * 100, first, first),
            first_row=first,
            rows=rows,
            size=rows * LIMITS.bytes_per_row,
            characters=rows * 100,
            digest=digest,
            sketch=tuple(f"{file:016x}{first + n:016x}" for n in range(16)),
            ends_file=first + rows == count,
        )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=10**9)
    parser.add_argument("--scanned", type=int, default=200_000)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
