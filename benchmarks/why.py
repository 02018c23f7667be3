"""Do the shares of pairs of words add up to the cosines of texts, and what does it cost to know them?

    python benchmarks/why.py --data DATA

The default model and, where ``make mpnet`` has fetched it, all-mpnet-base-v2, in each precision: 1,000 random pairs of
short texts of novels, Cranfield and Wikigold, of ``explain``, against the cosine of the vectors that ``encode`` gives.
And the seconds of a search for ten hits among 3,000 paragraphs with and without ``why``, in turn, medians of 15.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import mpnet
import numpy as np
from _machine import machine
from precision import mixed_texts

from bertfeat import Extractor, Index, build_index, explain, memory_corpus
from bertfeat.core.models import find_model
from bertfeat.search import BuildOptions

RESULT = Path(__file__).parent / "results" / "why.json"
PRECISIONS = ("fp32", "bf16", "int8")
LONGEST = 300  # characters of a text in a pair
MODELS = {"all-MiniLM-L6-v2": None, mpnet.NAME: mpnet.FOLDER}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--paragraphs", type=int, default=3000, help="of the index")
    options = parser.parse_args()
    told: dict[str, Any] = {"machine": machine(), "pairs": options.pairs, "paragraphs": options.paragraphs}
    texts = [text for text in mixed_texts(options.data, 900) if len(text) <= LONGEST]
    told["models"] = {
        name: {
            precision: largest_difference(find_model(folder).folder, precision, texts, options.pairs)
            for precision in PRECISIONS
        }
        for name, folder in MODELS.items()
        if folder is None or folder.exists()
    }
    told["seconds"] = seconds_of_searches(mixed_texts(options.data, options.paragraphs))
    print(json.dumps({"models": told["models"], "seconds": told["seconds"]}, indent=1))
    RESULT.write_text(json.dumps(told, indent=1) + "\n")


def largest_difference(folder: Path, precision: str, texts: list[str], pairs: int) -> float:
    """Of the sum of the shares and the cosine."""
    random = np.random.default_rng(1)
    extractor = Extractor(folder, layers="last", pooling="mean", precision=precision)
    vectors = extractor.encode(texts, normalize_embeddings=True)
    largest = 0.0
    for one, other in random.integers(len(texts), size=(pairs, 2)).tolist():
        why = explain(extractor, texts[one], texts[other])
        largest = max(largest, abs(why.score - float(vectors[one] @ vectors[other])))
    print(folder.name, precision, largest, flush=True)
    return largest


def seconds_of_searches(texts: list[str]) -> dict[str, float]:
    """Medians of a search for ten hits, with and without what is explained."""
    with tempfile.TemporaryDirectory() as folder:
        features, place = Path(folder, "f"), Path(folder, "i")
        Extractor(layers="last").extract(memory_corpus(texts), features)
        build_index(features, place, options=BuildOptions(type="flat"))
        index = Index(place)
        found: dict[bool, list[float]] = {False: [], True: []}
        for query in [texts[0], *texts[1:16]]:
            for why, seconds in found.items():
                began = time.perf_counter()
                index.search(query[:200], why=why)
                seconds.append(time.perf_counter() - began)
    return {"plain": statistics.median(found[False][1:]), "why": statistics.median(found[True][1:])}


if __name__ == "__main__":
    main()
