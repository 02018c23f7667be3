"""How fast are activations at fixed contexts stored, next to the loop over transformers that people write?

    python benchmarks/contexts.py --data NOVELS [--model DIR]

Paragraphs are joined into contexts of 128 and of as many tokens as the model reads. Both ways read the same rows of
token ids from Parquet and store the outputs of a feed-forward part as float16: bertfeat with digests, ids and places,
the loop (batches of 8,192 tokens, a hook, the blocks after it taken off) into one memmap. Every run is a process of its
own, in turn; without start-up is the time of a run less that of a run over one row. Both compute in --precision.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from _commands import BERTFEAT, bertfeat
from _machine import machine, microarchitecture

RESULTS = Path(__file__).parent / "results"
TOKENS = 60_000  # of a run, about
REPEATS = 3
BATCH_TOKENS = 8192


def main() -> None:
    options = _options()
    if options.loop:
        return loop(options.loop, options.work, options.model, options.layer, options.precision)
    from bertfeat.core.models import find_model

    found: dict[str, Any] = {
        "machine": machine(),
        "model": find_model(options.model).name,
        "precision": options.precision,
    }
    layers = find_model(options.model).num_layers
    for size in (128, find_model(options.model).max_tokens):
        for layer in (layers // 2, layers):
            with tempfile.TemporaryDirectory(dir=options.work) as work:
                result = duel(options, size, layer, Path(work))
            found[f"contexts of {size}, mlp:{layer} of {layers}"] = result
            print(size, layer, result, flush=True)
            options.out.write_text(json.dumps(found, indent=1) + "\n")
    return None


def duel(options: argparse.Namespace, size: int, layer: int, work: Path) -> dict[str, Any]:
    """Seconds of both ways in turn, and their ratio."""
    from bertfeat.core.models import find_model

    corpus, rows, row = work / "corpus.txt", work / "rows.parquet", work / "row.parquet"
    write_corpus(options.data, corpus)
    model = str(find_model(options.model).folder)
    bertfeat("contexts", str(corpus), "--model", model, "--size", str(size), "-o", str(rows), "--quiet")
    tokens = size * keep_first_row(rows, row)
    seconds: dict[str, list[float]] = {name: [] for name in ("ours", "loop", "ours, one row", "loop, one row")}
    for number in range(REPEATS):
        for name in seconds:
            file, out = (
                row if name.endswith("row") else rows,
                work / f"{name.split(',')[0]} {number} {name.endswith('row')}",
            )
            settings = ["--model", model, "--precision", options.precision]
            if name.startswith("ours"):
                reading = [
                    "--pretokenized",
                    "--text-column",
                    "token_ids",
                    "--pooling",
                    "token",
                    "--layers",
                    f"mlp:{layer}",
                ]
                command = [BERTFEAT, "extract", str(file), *reading, *settings, "-o", str(out), "--quiet"]
            else:
                command = [
                    sys.executable,
                    __file__,
                    "--loop",
                    str(file),
                    "--layer",
                    str(layer),
                    *settings,
                    "--work",
                    str(out),
                ]
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - began)
    begun = {way: median(seconds[f"{way}, one row"]) for way in ("ours", "loop")}
    whole = [theirs / ours for ours, theirs in zip(seconds["ours"], seconds["loop"], strict=True)]
    pairs = zip(seconds["ours"], seconds["loop"], strict=True)
    without = [(theirs - begun["loop"]) / (ours - begun["ours"]) for ours, theirs in pairs]
    return {
        "tokens": tokens,
        "ratio": round(median(whole), 2),
        "ratio without start-up": round(median(without), 2),
        "tokens_per_second": {way: round(tokens / (median(seconds[way]) - begun[way])) for way in begun},
        "seconds": {name: [round(each, 2) for each in runs] for name, runs in seconds.items()},
    }


def write_corpus(data: Path, corpus: Path) -> None:
    """Write paragraphs at even distances."""
    lines = [line for line in (data / "paragraphs.txt").read_text("utf-8").split("\n") if line.strip()]
    step = max(1, round(sum(map(len, lines)) / (4.2 * TOKENS)))
    corpus.write_text("\n".join(lines[::step]) + "\n", "utf-8")


def keep_first_row(rows: Path, row: Path) -> int:
    """Write a file of the first row alone; returns how many there are."""
    import pyarrow.parquet as pq

    table = pq.read_table(rows)
    pq.write_table(table.slice(0, 1), row)
    return len(table)


def loop(rows: Path, out: Path, model: str, layer: int, precision: str) -> None:
    """The loop that people write."""
    import numpy as np
    import pyarrow.parquet as pq
    import torch
    from transformers import AutoModel

    dtype = torch.float32 if precision == "fp32" else torch.bfloat16
    encoder = AutoModel.from_pretrained(model, dtype=dtype).eval()
    blocks = encoder.encoder.layer
    del blocks[layer:]
    kept: list[torch.Tensor] = []
    blocks[layer - 1].output.dense.register_forward_hook(lambda module, inputs, output: kept.append(output))
    ids = torch.from_numpy(np.stack(pq.read_table(rows)["token_ids"].to_numpy())).long()
    stored = np.memmap(out, np.float16, "w+", shape=(*ids.shape, encoder.config.hidden_size))
    step = max(1, BATCH_TOKENS // ids.shape[1])
    with torch.inference_mode():
        for start in range(0, len(ids), step):
            some = ids[start : start + step]
            encoder(input_ids=some, attention_mask=torch.ones_like(some))
            stored[start : start + step] = kept.pop().to(torch.float16).numpy()
    stored.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with paragraphs.txt")
    parser.add_argument("--model", help="a BERT or MPNet; by default MiniLM")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--work", type=Path)
    parser.add_argument("--loop", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--layer", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=RESULTS / f"contexts-{microarchitecture()}.json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
