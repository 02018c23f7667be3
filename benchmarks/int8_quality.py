"""What does int8 change? Vectors against fp32, layer by layer, search, and taggers that learn from its features.

    python benchmarks/int8_quality.py --data DATA [--seeds N]

DATA holds novels/, cranfield/ in BEIR's layout and wikigold/. The default model. Mean vectors and token vectors of
1,000 paragraphs of novels; nDCG@10 on Cranfield, corpus and queries in one precision; span F1 on Wikigold (split by
documents as in table7.py) of taggers on concat4 with default settings. With ``--cpu avx2`` the kernels are held to
AVX2, and vectors alone are compared.
"""

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from _commands import search_score, tagger_score
from _duel import distinct_lines
from _machine import machine
from numpy.typing import NDArray
from table7 import split_by_documents

from bertfeat import Extractor

RESULT = Path(__file__).parent / "results" / "int8_quality.json"
PRECISIONS = ("fp32", "bf16", "int8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--paragraphs", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cpu", choices=("avx2",), help="instructions that our kernels are held to")
    options = parser.parse_args()
    if options.cpu:
        os.environ["BERTFEAT_CPU"] = options.cpu
    told: dict[str, object] = {"machine": machine(), "paragraphs": options.paragraphs}
    lines = distinct_lines(options.data / "novels" / "paragraphs.txt")
    texts = [lines[at * len(lines) // options.paragraphs] for at in range(options.paragraphs)]
    told["vectors"] = vectors(texts)
    print(json.dumps(told["vectors"], indent=1), flush=True)
    if options.cpu:
        RESULT.with_name(f"int8_quality-{options.cpu}.json").write_text(json.dumps(told, indent=1) + "\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        told["ndcg_at_10"] = {
            each: search_score(work / each, ("--precision", each), options.data / "cranfield") for each in PRECISIONS
        }
        print(json.dumps(told["ndcg_at_10"]), flush=True)
        corpus = split_by_documents(options.data / "wikigold" / "wikigold.conll", work / "split")
        scores = {
            each: [
                tagger_score(
                    work / f"{each}-{seed}",
                    ("--precision", each, "--layers", "concat4", "--seed", str(seed)),
                    corpus,
                )
                for seed in range(1, options.seeds + 1)
            ]
            for each in ("fp32", "int8")
        }
    told["wikigold_f1"] = {
        each: {
            "mean": statistics.mean(values),
            "spread": statistics.stdev(values) if len(values) > 1 else 0.0,
            "runs": values,
        }
        for each, values in scores.items()
    }
    print(json.dumps(told["wikigold_f1"]), flush=True)
    RESULT.write_text(json.dumps(told, indent=1) + "\n")


def vectors(texts: Sequence[str]) -> dict[str, dict[str, object]]:
    """Of bf16 and int8: cosines with fp32, of mean vectors (mean, least) and of tokens (first percentile) by layer."""
    sums: dict[str, list[list[NDArray[np.float64]]]] = {"bf16": [], "int8": []}
    means: dict[str, list[float]] = {"bf16": [], "int8": []}
    exact, *others = (
        Extractor(layers="all", pooling=["token", "mean"], precision=each, dtype="float32") for each in PRECISIONS
    )
    for begin in range(0, len(texts), 50):
        part = texts[begin : begin + 50]
        wanted = features(exact, part)
        for name, extractor in zip(sums, others, strict=True):
            found = features(extractor, part)
            layers = [column for column in wanted if column.endswith("token")]
            sums[name].append([cosines(found[column], wanted[column]) for column in layers])
            last = [column for column in wanted if column.endswith("mean")][-1]
            means[name] += cosines(found[last], wanted[last]).tolist()
    return {
        name: {
            "mean_vectors": {"mean": statistics.mean(means[name]), "least": min(means[name])},
            "tokens_first_percentile": [
                float(np.quantile(np.concatenate(layer), 0.01)) for layer in zip(*parts, strict=True)
            ],
            "tokens_mean": [float(np.concatenate(layer).mean()) for layer in zip(*parts, strict=True)],
        }
        for name, parts in sums.items()
    }


def features(extractor: Extractor, texts: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    documents = list(extractor.features(texts))
    return {
        column.name: np.concatenate([np.atleast_2d(each.stored[column.name]).astype(np.float64) for each in documents])
        for column in extractor.columns
    }


def cosines(found: NDArray[np.float64], wanted: NDArray[np.float64]) -> NDArray[np.float64]:
    products: NDArray[np.float64] = np.einsum("ij,ij->i", found, wanted)
    return products / np.linalg.norm(found, axis=1) / np.linalg.norm(wanted, axis=1)


if __name__ == "__main__":
    main()
