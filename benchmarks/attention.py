"""How fast is our attention kernel, next to torch's scaled_dot_product_attention as bertfeat uses it without a kernel?

    python benchmarks/attention.py

Self-attention of 8,192 packed tokens in sequences of one length, from queries, keys and values to what they mix: our
kernel and :class:`GroupedAttention`, which spreads rows into padded groups where a length is no multiple of 16, in
turn, medians of 15 runs after a warm-up. GFLOP/s count 4·T·n·H: two products of each sequence of n tokens.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from _machine import machine

from bertfeat.core.encoder import Precision
from bertfeat.core.encoder.attention import GroupedAttention, KernelAttention
from bertfeat.core.encoder.kernels import find_kernels, kernels_in_use

RESULTS = Path(__file__).parent / "results" / "attention.json"
HEADS = {"all-MiniLM-L6-v2": (12, 32), "bert-base": (12, 64)}  # number, width
LENGTHS = (8, 12, 16, 24, 32, 48, 64, 100, 128, 200, 256, 384, 512)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
TOKENS = 8192
CPU = torch.device("cpu")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    result = {
        "question": f"milliseconds for self-attention of {TOKENS} tokens",
        "machine": machine(),
        "threads": torch.get_num_threads(),
        "rows": [
            compare(model, precision, length, arguments.repeats)
            for model in HEADS
            for precision in DTYPES
            for length in LENGTHS
        ],
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


@torch.inference_mode()
def compare(model: str, precision: str, length: int, repeats: int) -> dict[str, Any]:
    kernels = find_kernels()
    if kernels is None:
        raise SystemExit("the kernels were not built here, or this CPU has no AVX-512")
    (heads, width), dtype = HEADS[model], DTYPES[precision]
    lengths = np.full(TOKENS // length, length)
    qkv = torch.randn(int(lengths.sum()), 3 * heads * width, generator=torch.Generator().manual_seed(0)).to(dtype)
    runs = {"kernel": KernelAttention(lengths, kernels), "torch": GroupedAttention(lengths, CPU)}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for repeat in range(repeats + 1):
        for name, attend in runs.items():
            begin = time.perf_counter()
            attend(qkv, heads)
            if repeat:  # the first is the warm-up
                times[name].append(1000 * (time.perf_counter() - begin))
    medians = {name: median(each) for name, each in times.items()}
    row = {
        "heads": f"{model}'s: {heads} of {width}",
        "precision": precision,
        "kernel": kernels_in_use(CPU, Precision(precision)),
        "length": length,
        "milliseconds": {name: round(each, 2) for name, each in medians.items()},
        "gflops": {name: round(4e-6 * len(qkv) * length * heads * width / each) for name, each in medians.items()},
        "ratio": round(median(b / a for a, b in zip(*times.values(), strict=True)), 2),
    }
    print(json.dumps(row), flush=True)
    return row


if __name__ == "__main__":
    main()
