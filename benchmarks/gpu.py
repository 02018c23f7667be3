"""From texts to mean vectors in Parquet on a GPU: how fast, next to sentence-transformers and to plain transformers?

    make gpu NOVELS=NOVELS

Random weights of a known shape, bf16, over paragraphs of novels, each used once or, where they do not suffice, again
with a number before it; the peers, which are slower, get every eighth, and ours that stores concat4 of every token,
8·H bytes each, every sixteenth. sentence-transformers has batches of 512 texts, with torch's attention and with
FlashAttention-2, for which it leaves padding out. Every way has a process of its own and a warm-up; they run in turn.
Then ours is taken apart: the texts are tokenized, and computed, each by itself, of which the slower is the most that
the whole can reach. The ceiling is the FLOP-weighted rate of the model's own four products at 65,536 rows, measured in
the same run; the share counts 24·H²·L a token. --device cpu tries the script where there is no GPU.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from _duel import Way, distinct_lines, duel, ratio
from _machine import machine
from _models import BERT_BASE, BERT_LARGE, MINILM, TINY, random_model

SHAPES = {"bert-base": BERT_BASE, "bert-large": BERT_LARGE, "minilm": MINILM, "tiny": TINY | {"num_hidden_layers": 4}}
ROWS = 65_536
LENGTH = 512
OURS = "ours"
SHARES = {  # of the texts
    OURS: 1.0,
    "ours_concat4_tokens": 1 / 16,
    "sentence_transformers": 1 / 8,
    "sentence_transformers_flash": 1 / 8,
    "transformers": 1 / 8,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with paragraphs.txt")
    parser.add_argument("--shape", choices=list(SHAPES), default="bert-base")
    parser.add_argument("--texts", type=int, default=144_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, help="by default results/gpu-SHAPE.json")
    arguments = parser.parse_args()
    from bertfeat.core.encoder import Precision, block_flop, product_rate

    device, shape = torch.device(arguments.device), SHAPES[arguments.shape]
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    rate = product_rate(hidden, inner, Precision("bf16"), device, rows=ROWS if device.type == "cuda" else 8192)
    ours, *others = (Way(f"parquet_{kind}:bf16:{arguments.device}", share=share) for kind, share in SHARES.items())
    wanted = texts(arguments.data, arguments.texts)
    with tempfile.TemporaryDirectory() as folder:
        model = random_model(Path(folder), shape)
        found = duel([ours, *others], wanted, model, LENGTH, arguments.repeats)
        if ours.name in found["failed"]:
            raise SystemExit(f"our own way failed: {found['failed'][ours.name]}")
        steps = steps_alone(model, wanted, arguments.device, arguments.repeats)
    ceiling = rate / (shape["num_hidden_layers"] * block_flop(hidden, inner))
    results: dict[str, Any] = {
        "machine": machine("sentence-transformers"),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "shape": arguments.shape,
        **found,
        "steps_alone_tokens_per_second": steps,
        "ceiling_tokens_per_second": round(ceiling),
        "share_of_ceiling": {
            "from text to Parquet": round(found["tokens_per_second"][ours.name] / ceiling, 3),
            "the encoder": round(steps["compute"] / ceiling, 3),
        },
        "ratios": {f"{ours.name} to {other.name}": ratio(found, ours.name, other.name) for other in others},
    }
    print(json.dumps(results, indent=1))
    out = arguments.out or Path(__file__).parent / "results" / f"gpu-{arguments.shape}.json"
    out.write_text(json.dumps(results, indent=1) + "\n")


def steps_alone(model: Path, wanted: list[str], device: str, repeats: int) -> dict[str, int]:
    """Tokens a second of the two steps that a run overlaps: from texts to token ids, and from those to vectors."""
    from bertfeat import Extractor, memory_corpus

    ours = Extractor(str(model), precision="bf16", long="truncate", max_length=LENGTH, pooling="mean", device=device)
    rows = list(memory_corpus(wanted).rows())
    tokenized = ours.tokenize_rows(rows)
    ours.compute_rows(tokenized)  # warms up
    return {
        name: round(tokenized.token_count / median(_seconds(step) for _ in range(repeats)))
        for name, step in (
            ("tokenize", lambda: ours.tokenize_rows(rows)),
            ("compute", lambda: ours.compute_rows(tokenized)),
        )
    }


def _seconds(step: Callable[[], object]) -> float:
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def texts(novels: Path, wanted: int) -> list[str]:
    """So many distinct paragraphs."""
    lines = distinct_lines(novels / "paragraphs.txt")
    return [lines[at] if at < len(lines) else f"{at} {lines[at % len(lines)]}" for at in range(wanted)]


if __name__ == "__main__":
    main()
