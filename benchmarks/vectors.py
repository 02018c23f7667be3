"""How fast is the shuffled stream of vectors, next to pyarrow reading the same columns, and how well is it shuffled?

    python benchmarks/vectors.py [--data FEATURES] [--parts 8] [--work DIR]

Token vectors of 384 values in float16, random ones, 2 GB that the page cache holds and the stream's memory does not. An
epoch of the stream (an epoch is read before, so its row groups are counted) runs in turn with pyarrow alone: row group
by row group, with the pages' checksums, which the stream always checks, and without them; medians of 5. Processor time
is that of all threads. Then it runs in turn with a gather of the same vectors in random order, batches of as many, from
a NumPy memmap of them, from the page cache and with nothing of the files in it.

With --data, a set of token vectors of real texts, the shuffle is measured as well: the variance of the means of batches
next to that of means of as many vectors drawn at random, for several sizes of the memory.
"""

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from _machine import machine

from bertfeat.core.features import (
    FORMAT_VERSION,
    Counts,
    FeatureSet,
    FeatureSettings,
    ModelIdentity,
    PartContent,
    PartHeader,
    Pieces,
    StreamSettings,
    content_table,
    list_parts,
    write_manifest,
    write_part,
)
from bertfeat.core.grammar import feature_columns
from bertfeat.core.recipe import Pooling

RESULTS = Path(__file__).parent / "results" / "vectors.json"
WIDTH, TOKENS, DOCUMENTS = 384, 80, 4_000  # values of a vector, tokens of a document, documents of a part
ROUNDS = 5
NAME = "last_token"


def main() -> None:
    options = _options()
    results: dict[str, Any] = {"note": " ".join((__doc__ or "").split("\n\n")[2].split()), "machine": machine()}
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        folder = write_set(Path(work) / "random.features", options.parts)
        results["speed"] = speed(folder)
        results["memmap"] = beside_memmap(folder)
    if options.data:
        results["shuffle"] = shuffle(FeatureSet(options.data))
    options.out.write_text(json.dumps(results, indent=1) + "\n")


# ── speed ───────────────────────────────────────────────────────────────────────────────────────────────────


def speed(folder: Path) -> dict[str, Any]:
    stream = FeatureSet(folder).vectors(NAME)
    ways: dict[str, Callable[[int], int]] = {
        "stream": lambda epoch: sum(len(batch) for batch in stream.at_epoch(epoch)),
        "stream, stored order": lambda _: sum(len(batch) for batch in FeatureSet(folder).vectors(NAME, shuffle=False)),
        "pyarrow, with checksums": lambda _: read_by_pyarrow(folder, page_checksum_verification=True),
        "pyarrow": lambda _: read_by_pyarrow(folder),
    }
    size = stream.vectors * stream.width * stream.dtype.itemsize
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    processor: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name, way in ways.items():
            began, used = time.perf_counter(), _processor_seconds()
            if way(number) not in (stream.vectors, stream.vectors // TOKENS):
                raise SystemExit(f"{name} did not read everything")
            if number:  # the first round fills the page cache
                seconds[name].append(time.perf_counter() - began)
                processor[name].append(_processor_seconds() - used)
    found: dict[str, Any] = {"vectors": stream.vectors, "bytes": size, "memory": stream.settings.memory}
    for name in ways:
        median = statistics.median(seconds[name])
        found[name] = {
            "gb_per_second": round(size / median / 1e9, 2),
            "vectors_per_second": round(stream.vectors / median),
            "processor_seconds_per_gb": round(statistics.median(processor[name]) / size * 1e9, 3),
            "seconds": [round(each, 2) for each in seconds[name]],
        }
        print(name, found[name], flush=True)
    for name in ("pyarrow, with checksums", "pyarrow"):
        ratios = [theirs / ours for ours, theirs in zip(seconds["stream"], seconds[name], strict=True)]
        found[f"stream to {name}"] = round(statistics.median(ratios), 2)
        print(f"stream to {name}: {found[f'stream to {name}']}", flush=True)
    return found


def write_memmap(folder: Path) -> Path:
    """Write the vectors as one file, as people keep them beside their training."""
    path = folder.parent / "vectors.f16"
    with path.open("wb") as file:
        for batch in FeatureSet(folder).vectors(NAME, shuffle=False):
            file.write(batch.matrix.tobytes())
    return path


def gather(path: Path, epoch: int, batch: int) -> int:
    """Take all vectors in random order, a batch at a time."""
    vectors = np.memmap(path, np.float16, "r").reshape(-1, WIDTH)  # anew: pages that are mapped cannot be evicted
    order = np.random.default_rng(epoch).permutation(len(vectors))
    return sum(len(vectors[order[first : first + batch]]) for first in range(0, len(order), batch))


def beside_memmap(folder: Path) -> dict[str, Any]:
    """Vectors a second of an epoch, and of a gather from a memmap: from the page cache, and with nothing in it."""
    stream, path, batch = FeatureSet(folder).vectors(NAME), write_memmap(folder), StreamSettings().batch
    files = [path, *list_parts(folder)]
    ways: dict[str, Callable[[int], int]] = {
        "stream": lambda epoch: sum(len(batch) for batch in stream.at_epoch(epoch)),
        "memmap": lambda epoch: gather(path, epoch, batch),
    }
    found: dict[str, Any] = {name: {"warm": [], "cold": []} for name in ways}
    for number in range(ROUNDS + 4):
        state = "warm" if number <= ROUNDS else "cold"
        for name, way in ways.items():
            if state == "cold":
                for file in files:
                    evict(file)
            began = time.perf_counter()
            vectors = way(number)
            if number:  # the first round fills the page cache
                found[name][state].append(round(vectors / (time.perf_counter() - began)))
    for state in ("warm", "cold"):
        pairs = zip(found["memmap"][state], found["stream"][state], strict=True)
        found[f"seconds of the stream for one of the memmap, {state}"] = round(
            statistics.median(m / s for m, s in pairs), 2
        )
    print("beside a memmap:", found, flush=True)
    return found


def evict(file: Path) -> None:
    """Drop a file from the page cache."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_by_pyarrow(folder: Path, **options: bool) -> int:
    rows = 0
    for path in list_parts(folder):
        with pq.ParquetFile(path, **options) as file:
            rows += sum(len(file.read_row_group(group, [NAME])) for group in range(file.num_row_groups))
    return rows


def write_set(folder: Path, parts: int) -> Path:
    folder.mkdir()
    columns = feature_columns("last", [Pooling.TOKEN], num_layers=6, hidden_size=WIDTH, dtype="float16")
    settings = FeatureSettings(model="random", layers=("last",), text=False)
    zeros = np.zeros(DOCUMENTS, np.int32)
    ends = np.arange(DOCUMENTS * TOKENS, dtype=np.int32) % TOKENS
    for number in range(parts):
        matrix = np.random.default_rng(number).standard_normal((DOCUMENTS * TOKENS, WIDTH), np.float32)
        rows = np.arange(number * DOCUMENTS, (number + 1) * DOCUMENTS, dtype=np.int64)
        offsets = np.arange(DOCUMENTS + 1, dtype=np.int64) * TOKENS
        header = PartHeader(
            format_version=FORMAT_VERSION,
            settings=settings,
            fingerprint=settings.fingerprint,
            number=number,
            first_row=int(rows[0]),
            last_row=int(rows[-1]) + 1,
            digest=f"{number}",
            sketch=(),
            blank=0,
            failures=(),
            model=ModelIdentity("random", "f" * 64, "0" * 7, 6, WIDTH),
            columns=columns,
            sources=("random",),
            counts=Counts(documents=DOCUMENTS, tokens=DOCUMENTS * TOKENS),
            split_batches=0,
        )
        pieces = Pieces(
            offsets=offsets,
            strings=None,
            start=ends,
            end=ends + 1,
            segment=None,
            aligned=None,
            matrices={NAME: matrix.astype(np.float16)},
        )
        content = PartContent(
            rows=rows,
            ids=[str(row) for row in rows],
            texts=None,
            pairs=None,
            kept={},
            n_tokens=zeros + TOKENS,
            n_unk=zeros,
            n_truncated=zeros,
            vectors={},
            tokens=pieces,
            words=None,
            tags=None,
        )
        write_part(folder, header, content_table(content, header.columns))
    write_manifest(folder, times={"seconds": 1.0}, versions={})
    return folder


# ── shuffle ─────────────────────────────────────────────────────────────────────────────────────────────────


def shuffle(features: FeatureSet) -> dict[str, Any]:
    """How much the means of batches vary, in units of what they do under a perfect shuffle: 1 is perfect."""
    batch = 2048
    whole = features.vectors(NAME, shuffle=False, dtype="float32")
    matrix = np.concatenate([each.matrix for each in whole])
    perfect = float(matrix.var(0).sum()) / batch * (1 - batch / len(matrix))
    total = matrix.mean(0, dtype=np.float64)
    found: dict[str, Any] = {"vectors": len(matrix), "batch": batch, "bytes": matrix.nbytes // 2}
    streams = {f"{memory >> 20} MiB": {"memory": memory} for memory in (1 << 24, 1 << 25, 1 << 26, 1 << 27, 1 << 30)}
    for name, settings in {"stored order": {"shuffle": False}, **streams}.items():
        spread, documents = [], []
        for epoch in range(1 if name == "stored order" else 5):
            stream = features.vectors(NAME, batch=batch, epoch=epoch, drop_last=True, origins=True, **settings)
            for each in stream:
                spread.append(float(((each.matrix.mean(0, dtype=np.float64) - total) ** 2).sum()))
                documents.append(len(np.unique(each.rows)))
        found[name] = {
            "variance_of_batch_means": round(float(np.mean(spread)) / perfect, 2),
            "documents_in_a_batch": round(float(np.mean(documents))),
        }
        print(name, found[name], flush=True)
    return found


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a feature set with last_token, to measure the shuffle on")
    parser.add_argument("--parts", type=int, default=8, help="of about 250 MB")
    parser.add_argument("--work", type=Path, help="where folders are made; default: the system's temporary folder")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
