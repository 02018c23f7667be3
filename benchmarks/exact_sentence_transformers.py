"""Are our mean vectors sentence-transformers'? Largest difference after L2 normalization over 1,000 paragraphs.

    python benchmarks/exact_sentence_transformers.py --data PARAGRAPHS.txt

Both run the default model in fp32 and cut texts at 256 tokens, which is that model's limit there; the bound is 1e-5.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from _machine import machine


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a text file, a paragraph a line")
    parser.add_argument("--paragraphs", type=int, default=1000)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "exact_sentence_transformers.json"
    )
    arguments = parser.parse_args()
    result = compare(arguments.data, arguments.paragraphs)
    print(json.dumps(result, indent=1))
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    sys.exit(0 if result["max_absolute_difference"] <= result["bound"] else 1)


def compare(data: Path, number: int) -> dict[str, object]:
    from sentence_transformers import SentenceTransformer

    from bertfeat import Extractor
    from bertfeat.core.models import find_model

    texts = [line for line in data.read_text("utf-8").split("\n") if line.strip()][:number]
    extractor = Extractor(precision="fp32", long="truncate", max_length=256)
    ours = extractor.encode(texts, normalize_embeddings=True)
    theirs = SentenceTransformer(str(find_model().folder), device="cpu").encode(texts, normalize_embeddings=True)
    return {
        "question": "the largest difference between our mean vectors and sentence-transformers', L2-normalized, fp32",
        "paragraphs": len(texts),
        "max_absolute_difference": float(np.abs(ours - theirs).max()),
        "min_cosine": float((ours * theirs).sum(axis=1).min()),
        "bound": 1e-5,
        "machine": machine("sentence-transformers"),
    }


if __name__ == "__main__":
    main()
