"""How fast are the tokens of texts projected, as ColBERT compares them, next to sentence-transformers, and how near?

    python benchmarks/late_interaction.py --data NOVELS [--tokens 60000] [--repeats 5]

No model that was trained so was at hand. The default model gets a projection of 384 to 128 values that was drawn at
random, markers, and queries that are filled up to 32 tokens, and is saved by sentence-transformers' MultiVectorEncoder:
speed and nearness do not depend on what the numbers are. NOVELS holds sentences.txt and paragraphs.txt, whose texts are
the documents; the queries are sentences of at most 15 words, one at a time. In turn, in one process: ours and the
library, each in fp32 and bf16, from texts to the vectors of all tokens in memory. Medians of tokens and of queries a
second, and the largest difference of a number between ours and the library's in fp32.
"""

import argparse
import json
import shutil
import string
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from _duel import corpora
from _machine import machine
from torch import nn

from bertfeat import Extractor
from bertfeat.core.models import find_model

RESULT = Path(__file__).parent / "results" / "late_interaction.json"
MARKERS = {"query": "[Q] ", "document": "[D] "}
WIDTH, FILLED = 128, 32
QUERIES = 100
LONGEST = 1500  # characters of a document, which the library then reads whole
Ways = dict[str, Callable[[Sequence[str]], Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--tokens", type=int, default=60_000, help="of each kind of documents")
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        model = save_model(Path(folder))
        documents, queries = ways(model, "document"), ways(model, "query")
        found: dict[str, Any] = {"machine": machine()}
        texts_of = corpora(given.data, given.tokens)
        for name in ("sentences", "paragraphs"):
            texts = [text for text in texts_of[name] if len(text) <= LONGEST]
            tokens = sum(len(each) for each in documents["bertfeat, fp32"](texts))
            seconds = in_turn(documents, texts, given.repeats)
            found[name] = {
                "texts": len(texts),
                "vectors": tokens,
                "vectors_per_second": {way: round(tokens / each) for way, each in seconds.items()},
                "largest_difference": difference(documents, texts[:200]),
            }
        asked = [text for text in texts_of["sentences"] if len(text.split()) <= 15][:QUERIES]
        one_by_one = {name: _one_by_one(encode) for name, encode in queries.items()}
        seconds = in_turn(one_by_one, asked, given.repeats)
        found["queries"] = {
            "texts": len(asked),
            "milliseconds": {way: round(1000 * each / len(asked), 2) for way, each in seconds.items()},
            "largest_difference": difference(queries, asked),
        }
    print(json.dumps(found, indent=1))
    RESULT.write_text(json.dumps(found, indent=1) + "\n")


def save_model(folder: Path) -> Path:
    """Save the default model with a projection, by the library."""
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    plain = folder / "plain"
    plain.mkdir()
    own = find_model()
    for file in (*own.weight_files, *own.tokenizer_files, own.folder / "config.json"):
        shutil.copy(file, plain)
    torch.manual_seed(1)
    expansion = {"strategy": "fixed", "attend": False, "length": FILLED}
    encoder = Transformer(str(plain), query_expansion=expansion, document_length=510)
    encoder.tokenizer.add_tokens([*MARKERS.values()])
    encoder.model.resize_token_embeddings(len(encoder.tokenizer))
    tokens = "token_embeddings"
    dense = Dense(own.hidden_size, WIDTH, bias=False, activation_function=nn.Identity(), module_input_name=tokens)
    modules = [encoder, dense, Normalize(module_input_name=tokens), MultiVectorMask([*string.punctuation])]
    MultiVectorEncoder(modules=modules, prompts=MARKERS, device="cpu").save(str(folder / "model"))
    return folder / "model"


def ways(model: Path, role: str) -> Ways:
    """What gives the vectors of the tokens of texts in a role, by the names of the ways."""
    from sentence_transformers import MultiVectorEncoder

    made: Ways = {}
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        ours = Extractor(model, layers="sentence", precision=precision, dtype="float32", prompt=MARKERS[role])
        theirs = MultiVectorEncoder(str(model), device="cpu", model_kwargs={"torch_dtype": dtype})
        encode = theirs.encode_query if role == "query" else theirs.encode_document
        made[f"bertfeat, {precision}"] = _ours(ours)
        made[f"sentence-transformers, {precision}"] = _theirs(encode)
    return made


def _ours(extractor: Extractor) -> Callable[[Sequence[str]], Any]:
    return lambda texts: [each.matrix("sentence_token") for each in extractor.features(texts)]


def _theirs(encode: Callable[..., Any]) -> Callable[[Sequence[str]], Any]:
    return lambda texts: [each.float().numpy() for each in encode([*texts], show_progress_bar=False)]


def _one_by_one(encode: Callable[[Sequence[str]], Any]) -> Callable[[Sequence[str]], Any]:
    return lambda texts: [encode([text]) for text in texts]


def in_turn(ways: Ways, texts: Sequence[str], repeats: int) -> dict[str, float]:
    """The median of the seconds of each way, which are run one after the other, the first time unmeasured."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(repeats + 1):
        for name, encode in ways.items():
            began = time.perf_counter()
            encode(texts)
            if turn:
                taken[name].append(time.perf_counter() - began)
    return {name: median(seconds) for name, seconds in taken.items()}


def difference(ways: Ways, texts: Sequence[str]) -> float:
    """The largest difference of a number between ours and the library's, in fp32."""
    pairs = zip(ways["bertfeat, fp32"](texts), ways["sentence-transformers, fp32"](texts), strict=True)
    return max(float(np.abs(one - other).max()) for one, other in pairs)


if __name__ == "__main__":
    main()
