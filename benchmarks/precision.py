"""How near are fp32, bf16 and int8, token by token and layer by layer, on two real models?

    python benchmarks/precision.py --data DATA [--cpu avx2]

The default model and, where ``make mpnet`` has fetched it, all-mpnet-base-v2, on paragraphs of novels, abstracts of
Cranfield and sentences of Wikigold. DATA holds novels/, cranfield/ in BEIR's layout and wikigold/.

- fp32 against Hugging Face in float64, beside the distance of Hugging Face's own fp32; and the two fp32 against each
  other. Per layer: the root mean square and the largest difference of a value.
- bf16 and int8 against fp32. Per layer: cosines of token vectors (mean, first percentile, least, how many are below
  0.99 and 0.98); of the last layer also cosines of mean vectors.

With ``--cpu avx2`` our kernels are held to AVX2, and int8 alone is compared.
"""

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mpnet
import numpy as np
import torch
from _duel import distinct_lines
from _machine import machine
from numpy.typing import NDArray

from bertfeat import Extractor
from bertfeat.core.models import find_model

RESULT = Path(__file__).parent / "results" / "precision.json"
MODELS = {"all-MiniLM-L6-v2": None, mpnet.NAME: mpnet.FOLDER}
LENGTH = 384  # tokens; as many as all-mpnet-base-v2 was trained with
AT_ONCE = 50  # texts; float32 tokens of every layer of a base-size model take 40 kB a token
BOUND = 3e-5  # of fp32 against Hugging Face's fp32 (docs/numerics.md)
Floats = NDArray[np.float64]
Layers = list[Floats]  # [T, H] each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument(
        "--paragraphs", type=int, default=300, help="of novels; a third as many texts of each other set"
    )
    parser.add_argument("--cpu", choices=("avx2",), help="instructions that our kernels are held to")
    options = parser.parse_args()
    if options.cpu:
        os.environ["BERTFEAT_CPU"] = options.cpu
    texts = mixed_texts(options.data, options.paragraphs)
    told: dict[str, object] = {"machine": machine(), "texts": len(texts), "max_length": LENGTH}
    told["models"] = {
        name: compare(find_model(folder).folder, texts, options.cpu)
        for name, folder in MODELS.items()
        if folder is None or folder.exists()
    }
    print(json.dumps(told["models"], indent=1))
    out = RESULT.with_name(f"precision-{options.cpu}.json") if options.cpu else RESULT
    out.write_text(json.dumps(told, indent=1) + "\n")


def mixed_texts(data: Path, paragraphs: int) -> list[str]:
    """Texts of three kinds, evenly from all of each set."""
    with (data / "cranfield" / "corpus.jsonl").open(encoding="utf-8") as lines:
        abstracts = [json.loads(line)["text"] for line in lines]
    tagged = (data / "wikigold" / "wikigold.conll").read_text("utf-8").split("\n\n")
    sentences = [" ".join(line.split()[0] for line in each.splitlines() if line.strip()) for each in tagged]
    texts = spread(distinct_lines(data / "novels" / "paragraphs.txt"), paragraphs)
    return [*texts, *spread(abstracts, paragraphs // 3), *spread(sentences, paragraphs // 3)]


def spread(texts: Sequence[str], count: int) -> list[str]:
    kept = [text for text in texts if text.strip()]
    return [kept[at * len(kept) // count] for at in range(count)]


def compare(folder: Path, texts: Sequence[str], cpu: str | None) -> dict[str, Any]:
    """All comparisons on one model."""
    exact = extractor(folder, "fp32")
    others = {name: extractor(folder, name) for name in (("int8",) if cpu else ("bf16", "int8"))}
    library = None if cpu else HuggingFace(folder)
    errors, cosines = FloatErrors(), {name: Cosines() for name in others}
    for begin in range(0, len(texts), AT_ONCE):
        part = texts[begin : begin + AT_ONCE]
        wanted = [token_layers(document) for document in exact.features(part)]
        for name, other in others.items():
            for found, each in zip(other.features(part), wanted, strict=True):
                cosines[name].add(token_layers(found), each)
        if library:
            for text, found in zip(part, wanted, strict=True):
                errors.add(found, *library.layers(text))
    told: dict[str, Any] = {name: each.told() for name, each in cosines.items()}
    return {"fp32": errors.told(), **told} if library else told


def extractor(folder: Path, precision: str) -> Extractor:
    return Extractor(
        folder, layers="all", pooling="token", precision=precision, dtype="float32", long="truncate", max_length=LENGTH
    )


def token_layers(document: Any) -> Layers:
    return [document.stored[name].astype(np.float64) for name in document.stored]


class HuggingFace:
    """Hugging Face's own module in float32 and in float64, a text at a time."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModel, AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._modules = [
            AutoModel.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
            for dtype in (torch.float32, torch.float64)
        ]

    @torch.inference_mode()
    def layers(self, text: str) -> tuple[Layers, Layers]:
        """Every layer in float32 and in float64."""
        inputs = self._tokenizer(text, truncation=True, max_length=LENGTH, return_tensors="pt")
        single, double = (module(**inputs, output_hidden_states=True).hidden_states for module in self._modules)
        return [state[0].double().numpy() for state in single], [state[0].numpy() for state in double]


class FloatErrors:
    """Differences of our fp32 and of Hugging Face's from float64, and from each other, by layer."""

    def __init__(self) -> None:
        self._tokens = 0
        self._parts: list[list[tuple[float, ...]]] = []  # by text and layer

    def add(self, ours: Layers, theirs: Layers, exact: Layers) -> None:
        """Take in a text."""
        self._tokens += len(exact[0])
        self._parts.append([self._of_layer(*each) for each in zip(ours, theirs, exact, strict=True)])

    @staticmethod
    def _of_layer(ours: Floats, theirs: Floats, exact: Floats) -> tuple[float, ...]:
        mine, their, apart = (np.abs(difference) for difference in (ours - exact, theirs - exact, ours - theirs))
        beyond = (apart.max(1) > BOUND).sum()
        squares = (np.square(mine).sum(), np.square(their).sum())
        return tuple(map(float, (*squares, exact.size, beyond, mine.max(), their.max(), apart.max())))

    def told(self) -> dict[str, Any]:
        values = np.array(self._parts)
        ours, theirs, count, beyond = values[..., :4].sum(0).T
        mine, their, apart = values[..., 4:].max(0).T
        return {
            "tokens": self._tokens,
            "rms_to_float64": {"ours": roots(ours / count), "hugging_face": roots(theirs / count)},
            "largest_to_float64": {"ours": mine.tolist(), "hugging_face": their.tolist()},
            "largest_to_each_other": apart.tolist(),
            "tokens_beyond_3e-5": beyond.astype(int).tolist(),
        }


def roots(values: Floats) -> list[float]:
    return [float(value) for value in np.sqrt(values)]


class Cosines:
    """Cosines of token vectors with those of fp32 by layer, and of the last layer's mean vectors."""

    def __init__(self) -> None:
        self._tokens: list[list[Floats]] = []  # by text and layer
        self._means: list[float] = []

    def add(self, found: Layers, wanted: Layers) -> None:
        """Take in a text."""
        self._tokens.append([cosine(*each) for each in zip(found, wanted, strict=True)])
        self._means.append(float(cosine(*(layers[-1].mean(0, keepdims=True) for layers in (found, wanted)))[0]))

    def told(self) -> dict[str, Any]:
        layers = [np.concatenate(each) for each in zip(*self._tokens, strict=True)]
        return {
            "mean_vectors": {"mean": float(np.mean(self._means)), "least": min(self._means)},
            "tokens": len(layers[0]),
            "tokens_mean": [float(each.mean()) for each in layers],
            "tokens_first_percentile": [float(np.quantile(each, 0.01)) for each in layers],
            "tokens_least": [float(each.min()) for each in layers],
            "tokens_below_0.99": [int((each < 0.99).sum()) for each in layers],
            "tokens_below_0.98": [int((each < 0.98).sum()) for each in layers],
        }


def cosine(found: Floats, wanted: Floats) -> Floats:
    products: Floats = np.einsum("ij,ij->i", found, wanted)
    return products / np.linalg.norm(found, axis=1) / np.linalg.norm(wanted, axis=1)


if __name__ == "__main__":
    main()
