"""What does a row of text cost around the encoder, by step, in microseconds?

    python benchmarks/rows.py --data NOVELS [--before COMMIT] [--rows 16384] [--repeats 7]

NOVELS holds sentences.txt, whose first rows are one part, on one thread, once for each unit of features: one vector a
text (document), of every token, of every word. The steps are those of `extract` without the encoder: rows are read and
digested (plan), tokenized and laid out (tokenize), packed into batches (batches), assembled with made-up features of 8
numbers (assemble), and turned into a table of Arrow (table). run: `extract` itself, one vector a text of four times as
many rows, with an encoder that does next to nothing (the embeddings of a model of width 16). With --before, the same of
another commit, each in processes of its own, in turn.
"""

import argparse
import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

os.environ["RAYON_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before they are read

import numpy as np
from _machine import machine
from guard import ROOT, checkout

RESULT = Path(__file__).parent / "results" / "rows.json"
UNITS = ("document", "token", "word")
WIDTH = 8  # numbers of a made-up vector
RUN = 4  # times as many rows has a whole run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--before", help="a commit")
    parser.add_argument("--rows", type=int, default=16_384)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--step", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(measure(given.data / "sentences.txt", given.rows)))
        return
    sides = {"today": ROOT, **({"before": checkout(given.before)} if given.before else {})}
    seconds: dict[str, list[dict[str, Any]]] = {side: [] for side in sides}
    for _ in range(given.repeats):
        for side, folder in sides.items():
            command = [sys.executable, __file__, "--step", "--data", given.data, "--rows", str(given.rows)]
            made = subprocess.run(
                command, env=os.environ | {"PYTHONPATH": str(folder)}, check=True, stdout=subprocess.PIPE, text=True
            )
            seconds[side].append(json.loads(made.stdout))
    found = {
        side: {
            unit: {step: round(1e6 * median(run[unit][step] for run in runs) / given.rows, 2) for step in runs[0][unit]}
            for unit in (*UNITS, "run")
        }
        for side, runs in seconds.items()
    }
    RESULT.write_text(
        json.dumps({"machine": machine(), "rows": given.rows, "before": given.before, "microseconds": found}, indent=1)
        + "\n"
    )
    print(json.dumps(found, indent=1))


def measure(corpus: Path, count: int) -> dict[str, dict[str, float]]:
    """Seconds of each step for so many rows, by unit; the second of two runs, since the first loads libraries."""
    with tempfile.TemporaryDirectory() as folder:
        whole = run(corpus, count, Path(folder))
    gc.disable()  # a collection goes through all objects of torch, in whichever step it comes
    with tempfile.TemporaryDirectory() as folder:
        lines = corpus.read_text("utf-8").splitlines()[:count]
        path = Path(folder) / "corpus.txt"
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        for _ in range(2):
            found = {unit: _steps(path, unit) for unit in UNITS}
    return found | {"run": whole}


def run(corpus: Path, count: int, folder: Path) -> dict[str, float]:
    """Seconds of a whole run for each ``count`` of its rows: by the clock, and of the processor."""
    from transformers import BertConfig, BertModel

    from bertfeat import Extractor

    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(**shape)).save_pretrained(folder / "model")
    for file in Extractor().model.tokenizer_files:
        shutil.copy(file, folder / "model")
    path = folder / "corpus.txt"
    lines = corpus.read_text("utf-8").splitlines()[: RUN * count]
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    extractor = Extractor(str(folder / "model"), layers="embeddings", pooling="mean", device="cpu")
    extractor.extract(path, folder / "warm")  # loads libraries
    wall, processor = time.perf_counter(), time.process_time()
    extractor.extract(path, folder / "features")
    return {"wall": (time.perf_counter() - wall) / RUN, "processor": (time.process_time() - processor) / RUN}


def _steps(path: Path, unit: str) -> dict[str, float]:
    import bertfeat.core.extraction.pooling as poolings
    from bertfeat import Extractor, open_corpus
    from bertfeat.core.extraction.compute import FeatureMatrices
    from bertfeat.core.extraction.part_content import assemble_part, with_digests
    from bertfeat.core.extraction.plan import PartLimits, plan_parts
    from bertfeat.core.features.schema import content_table
    from bertfeat.core.tokens import cut_batches, groups_in_batch

    seconds: dict[str, float] = {}

    @contextmanager
    def timed(step: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds[step] = time.perf_counter() - began

    extractor = Extractor(pooling="mean" if unit == "document" else unit)
    _ = extractor.tokenizer, extractor.encoder  # which also sets how memory is kept
    columns = tuple(replace(column, width=WIDTH) for column in extractor.columns)
    (column,) = columns
    groups_of = poolings.POOLING_METHODS[column.pooling].groups_of
    with timed("plan"):
        (part,) = plan_parts(open_corpus(path), PartLimits(1 << 20, 8.0, 0.0))
    assert part.rows is not None
    with timed("tokenize"):
        tokenized = extractor.tokenize_rows(part.rows)
    with timed("batches"):
        layout = tokenized.tokens.layout
        groups = groups_of(layout)
        for batch in cut_batches(layout, 8192, padded=False):
            groups_in_batch(groups, layout, batch)
    vectors = np.zeros((groups.size, column.width), np.float32)
    with timed("assemble"):
        content = assemble_part(
            tokenized,
            FeatureMatrices({column.name: vectors}, 0),
            columns,
            kept=(),
            keep_text=True,
            tags=False,
            pairs=False,
        )
        content = with_digests(content, tokenized.documents)
    with timed("table"):
        content_table(content, columns)
    return seconds


if __name__ == "__main__":
    main()
