"""How many vectors a second does a training loop in torch get: a DataLoader's batches, or examples of datasets?

    python benchmarks/vectors_in_torch.py [--parts 1] [--work DIR]

Token vectors of 384 values in float16, random ones (vectors.py), in batches of 256; each way reads for SECONDS, in turn
with the others; medians of 5 rounds. "datasets" is ``stream_dataset(…).with_format("torch")``, an example a vector, by
itself and with its own ``batch(256)``.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from _machine import machine
from torch.utils.data import DataLoader
from vectors import NAME, write_set

from bertfeat import FeatureSet, VectorDataset
from bertfeat.adapters.hugging_face import stream_dataset

RESULT = Path(__file__).parent / "results" / "vectors_in_torch.json"
BATCH = 256
SECONDS, ROUNDS = 2.0, 5
Ways = dict[str, tuple[Callable[[], Iterable[Any]], Callable[[Any], int]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", type=int, default=1, help="of about 250 MB")
    parser.add_argument("--work", type=Path, help="where folders are made; default: the system's temporary folder")
    options = parser.parse_args()
    measured_on = machine("datasets")
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        stream = FeatureSet(write_set(Path(work) / "random.features", options.parts)).vectors(NAME, batch=BATCH)
        ways: Ways = {
            "DataLoader": (lambda: DataLoader(VectorDataset(stream), batch_size=None), lambda batch: len(batch.matrix)),
            "datasets": (lambda: stream_dataset(stream).with_format("torch"), lambda _: 1),
            "datasets, batched": (
                lambda: stream_dataset(stream).with_format("torch").batch(BATCH),
                lambda batch: len(batch["vector"]),
            ),
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, (open_way, count) in ways.items():
                found[name].append(vectors_a_second(open_way(), count))
    medians = {name: round(statistics.median(each)) for name, each in found.items()}
    print(medians)
    told = {"machine": measured_on, "vectors_per_second": medians, "rounds": found}
    RESULT.write_text(json.dumps(told, indent=1) + "\n")


def vectors_a_second(items: Iterable[Any], count: Callable[[Any], int]) -> float:
    """Read for some seconds, from the first item on."""
    number, began = 0, 0.0
    for item in items:
        if not began:
            began = time.perf_counter()
            continue
        number += count(item)
        if time.perf_counter() - began > SECONDS:
            break
    return round(number / (time.perf_counter() - began))


if __name__ == "__main__":
    main()
