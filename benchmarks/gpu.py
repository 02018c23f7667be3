"""From texts to mean vectors in Parquet on a GPU: how fast, next to sentence-transformers and to plain transformers?

    make gpu NOVELS=NOVELS

Random weights of a known shape, bf16, over paragraphs of novels, each used once or, where they do not suffice, again
with a number before it. Ours runs eagerly, with blocks compiled, and with batches recorded as graphs besides
(BERTFEAT_CUDA). sentence-transformers has batches of 512 texts, with torch's attention and, where the package
flash-attn is installed, with that, for which it leaves padding out. Every way has a process of its own and a warm-up;
they run in turn. The ceiling is the FLOP-weighted rate of the model's own four products at 65,536 rows, measured in the
same run; the share counts 24·H²·L a token. --device cpu tries the script where there is no GPU.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import torch
from _duel import Way, distinct_lines, duel, ratio
from _machine import machine
from _models import BERT_BASE, BERT_LARGE, MINILM, TINY, random_model

SHAPES = {"bert-base": BERT_BASE, "bert-large": BERT_LARGE, "minilm": MINILM, "tiny": TINY}
ROWS = 65_536
LENGTH = 512
OURS = ("ours", "ours_compiled", "ours_graphs")
PEERS = ("sentence_transformers", "sentence_transformers_flash", "transformers")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with paragraphs.txt")
    parser.add_argument("--shape", choices=list(SHAPES), default="bert-base")
    parser.add_argument("--texts", type=int, default=40_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, help="by default results/gpu-SHAPE.json")
    arguments = parser.parse_args()
    from bertfeat.encoder import Precision, block_flop, product_rate

    device, shape = torch.device(arguments.device), SHAPES[arguments.shape]
    hidden, inner = shape["hidden_size"], shape["intermediate_size"]
    rate = product_rate(hidden, inner, Precision("bf16"), device, rows=ROWS if device.type == "cuda" else 8192)
    ways = [Way(f"parquet_{kind}:bf16:{arguments.device}") for kind in (*OURS, *PEERS)]
    with tempfile.TemporaryDirectory() as folder:
        model = random_model(Path(folder), shape)
        found = duel(ways, texts(arguments.data, arguments.texts), model, LENGTH, arguments.repeats)
    ours = ways[0].name
    if ours in found["failed"]:
        raise SystemExit(f"our own way failed: {found['failed'][ours]}")
    ceiling = rate / (shape["num_hidden_layers"] * block_flop(hidden, inner))
    results: dict[str, Any] = {
        "machine": machine("sentence-transformers"),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "shape": arguments.shape,
        **found,
        "ceiling_tokens_per_second": round(ceiling),
        "share_of_ceiling": {
            way.name: round(found["tokens_per_second"][way.name] / ceiling, 3)
            for way in ways[: len(OURS)]
            if way.name in found["tokens_per_second"]
        },
        "ratios": {
            f"{way.name} to {peer.name}": ratio(found, way.name, peer.name)
            for at, way in enumerate(ways[: len(OURS)])
            for peer in ways[at + 1 :]
        },
    }
    print(json.dumps(results, indent=1))
    out = arguments.out or Path(__file__).parent / "results" / f"gpu-{arguments.shape}.json"
    out.write_text(json.dumps(results, indent=1) + "\n")


def texts(novels: Path, wanted: int) -> list[str]:
    """So many distinct paragraphs."""
    lines = distinct_lines(novels / "paragraphs.txt")
    return [lines[at] if at < len(lines) else f"{at} {lines[at % len(lines)]}" for at in range(wanted)]


if __name__ == "__main__":
    main()
