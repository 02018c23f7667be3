"""Which subword's vector should a word have: the first or the last one's, their mean, or first and last side by side?

    python benchmarks/subword.py --data DATA [--work DIR] [--seeds 3] [--epochs 20]

DATA holds wikigold/ and wnut17/. A linear layer learns tags from standardized vectors of words (AdamW); the epoch that
is best on the development part counts. Span F1 on the test part by seqeval, mean and standard deviation over the seeds.
First and last side by side is Flair's ``first_last``: twice as wide, and twice the bytes.
"""

import argparse
import json
from pathlib import Path
from statistics import fmean, pstdev

import numpy as np
import torch
from _machine import machine
from numpy.typing import NDArray
from seqeval.metrics import f1_score
from table7 import split_by_documents

from bertfeat import Extractor, FeatureSet

RESULT = Path(__file__).parent / "results" / "subword.json"
PARTS = ("train", "dev", "test")
LAYERS = ("last", "concat4")
WAYS = {"first": ("first",), "last": ("last",), "mean": ("mean",), "first and last": ("first", "last")}

Part = tuple[list[NDArray[np.float32]], list[list[str]]]  # of each sentence the vectors of its words, and their tags


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--work", type=Path, default=Path("build/subword"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    folders = {
        "wikigold": split_by_documents(options.data / "wikigold" / "wikigold.conll", options.work / "parts"),
        "wnut17": options.data / "wnut17",
    }
    before, found = machine("seqeval"), dict[str, dict[str, dict[str, list[float]]]]()
    for corpus, folder in folders.items():
        sets = {
            (way, part): extract(folder / f"{part}.conll", options.work / f"{corpus}-{part}-{way}.features", way)
            for way in ("first", "last", "mean")
            for part in PARTS
        }
        for layers in LAYERS:
            for name, ways in WAYS.items():
                parts = [side_by_side([sets[way, part] for way in ways], layers) for part in PARTS]
                scores = [span_f1(*parts, seed=seed, epochs=options.epochs) for seed in range(1, options.seeds + 1)]
                print(corpus, layers, name, scores, flush=True)
                found.setdefault(corpus, {}).setdefault(layers, {})[name] = [
                    round(100 * fmean(scores), 2),
                    round(100 * pstdev(scores), 2),
                ]
    RESULT.write_text(json.dumps({"machine": before, "f1": found}, indent=1) + "\n")


def extract(corpus: Path, folder: Path, way: str) -> FeatureSet:
    Extractor(layers=",".join(LAYERS), pooling="word", subword=way).extract(corpus, folder, overwrite=True)
    return FeatureSet(folder)


def side_by_side(sets: list[FeatureSet], layers: str) -> Part:
    """The vectors of the words of each sentence in all of the sets, and the tags."""
    documents = [list(features) for features in sets]
    vectors = [
        np.concatenate([document.matrix(f"{layers}_word").astype(np.float32) for document in same], axis=1)
        for same in zip(*documents, strict=True)
    ]
    return vectors, [list(document.tags) for document in documents[0]]


def span_f1(train: Part, dev: Part, test: Part, *, seed: int, epochs: int) -> float:
    """Span F1 of a linear layer on the test part, after the epoch that is best on the development part."""
    labels = sorted({tag for tags in train[1] for tag in tags})
    inputs = torch.from_numpy(np.concatenate(train[0]))
    mean, spread = inputs.mean(0), inputs.std(0) + 1e-6
    inputs, targets = (inputs - mean) / spread, torch.tensor([labels.index(tag) for tags in train[1] for tag in tags])
    torch.manual_seed(seed)
    layer = torch.nn.Linear(inputs.shape[1], len(labels))
    optimizer = torch.optim.AdamW(layer.parameters(), lr=5e-4, weight_decay=0.1)

    @torch.inference_mode()
    def score(part: Part) -> float:
        best = [layer((torch.from_numpy(words) - mean) / spread).argmax(1).tolist() for words in part[0]]
        return float(f1_score(part[1], [[labels[at] for at in sentence] for sentence in best]))

    reached = list[tuple[float, float]]()
    for _ in range(epochs):
        for rows in torch.randperm(len(inputs)).split(256):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layer(inputs[rows]), targets[rows]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        reached.append((score(dev), score(test)))
    return max(reached, key=lambda scores: scores[0])[1]


if __name__ == "__main__":
    main()
