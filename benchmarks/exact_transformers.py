"""Are our hidden states Hugging Face's, layer by layer, at bert-base's and bert-large's shape, and in fp32?

    python benchmarks/exact_transformers.py --data PARAGRAPHS.txt

The default model, and random weights of the two shapes, over real paragraphs of ragged length in one batch; theirs one
by one. Prints the largest absolute difference over all layers; the bound is 3e-5.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from _machine import machine
from _models import BERT_BASE, BERT_LARGE, random_model

BOUND = 3e-5
SHAPES = {"bert-base": BERT_BASE, "bert-large": BERT_LARGE}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a text file, a paragraph a line")
    parser.add_argument("--paragraphs", type=int, default=200, help="for the default model; the others get 12")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "exact_transformers.json")
    options = parser.parse_args()
    from bertfeat.core.models import find_model

    lines = [line for line in options.data.read_text("utf-8").splitlines() if line.strip()][: options.paragraphs]
    found = {"all-MiniLM-L6-v2": difference(find_model().folder, lines)}
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as work:
            found[f"{name}, random weights"] = difference(random_model(Path(work), shape), lines[:12])
    results: dict[str, Any] = {"machine": machine(), "bound": BOUND, "max_absolute_difference": found}
    print(json.dumps(found, indent=1))
    options.out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(0 if max(found.values()) <= BOUND else 1)


@torch.inference_mode()
def difference(model: Path, lines: list[str]) -> float:
    from transformers import AutoModel, AutoTokenizer

    from bertfeat import Extractor

    extractor = Extractor(
        model, layers="all", pooling="token", precision="fp32", dtype="float32", long="truncate", max_length=512
    )
    ours = extractor.features(lines)
    tokenizer, theirs = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model).eval()
    largest = 0.0
    for line, document in zip(lines, ours, strict=True):
        inputs = tokenizer(line, truncation=True, max_length=512, return_tensors="pt")
        for layer, states in enumerate(theirs(**inputs, output_hidden_states=True).hidden_states):
            vectors = torch.tensor(document.matrix(f"layer{layer}_token"))
            largest = max(largest, float((vectors - states[0]).abs().max()))
    return largest


if __name__ == "__main__":
    main()
