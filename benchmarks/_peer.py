"""One way to compute features, in a process of its own: told over stdin to run, it answers with the seconds it took.

    python benchmarks/_peer.py WAY CORPUS.json MODEL MAX_LENGTH

The model is loaded and warmed up on an eighth of the corpus before the first answer. The clock is inside: neither
starting nor loading counts. A way is the name of a function below, and may end in a precision: pooled_ours:bf16.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Run = Callable[[list[str]], Any]


def pooled_ours(model: str, length: int, precision: str) -> Run:
    from bertfeat import Extractor

    return Extractor(model, precision=precision, long="truncate", max_length=length, pooling="mean").encode


def pooled_sentence_transformers(model: str, length: int, precision: str) -> Run:
    import torch
    from sentence_transformers import SentenceTransformer

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    return _encode(SentenceTransformer(model, device="cpu", model_kwargs={"dtype": dtype}), length)


def pooled_onnx(model: str, length: int, precision: str) -> Run:
    from sentence_transformers import SentenceTransformer

    assert precision == "fp32"
    return _encode(SentenceTransformer(model, device="cpu", backend="onnx", model_kwargs={"export": True}), length)


def pooled_openvino(model: str, length: int, precision: str) -> Run:
    from sentence_transformers import SentenceTransformer

    hint = {"fp32": "f32", "bf16": "bf16"}[precision]
    settings = {"export": True, "ov_config": {"INFERENCE_PRECISION_HINT": hint}}
    return _encode(SentenceTransformer(model, device="cpu", backend="openvino", model_kwargs=settings), length)


def _encode(model: Any, length: int) -> Run:
    model.max_seq_length = length
    return lambda texts: model.encode(texts, batch_size=32, show_progress_bar=False)


def pooled_pipeline(model: str, length: int, precision: str) -> Run:
    import numpy as np
    from transformers import pipeline

    assert precision == "fp32"
    extract = pipeline("feature-extraction", model=model, device="cpu")
    settings = {"truncation": True, "max_length": length}
    return lambda texts: [np.array(each[0]).mean(0) for each in extract(texts, tokenize_kwargs=settings)]


def words_ours(model: str, length: int, precision: str) -> Run:
    return _stored(model, length, precision, "word")


def tokens_ours(model: str, length: int, precision: str) -> Run:
    return _stored(model, length, precision, "token")


def tokens_ours_not_stored(model: str, length: int, precision: str) -> Run:
    """The same without Parquet: what storing costs."""
    from bertfeat import Extractor, memory_corpus

    ours = Extractor(model, layers="concat4", pooling="token", precision=precision, long="truncate", max_length=length)

    def run(texts: list[str]) -> None:
        corpus = memory_corpus(texts)
        ours.extracted(ours.prepared(list(corpus.rows())), corpus)

    return run


def _stored(model: str, length: int, precision: str, pooling: str) -> Run:
    from bertfeat import Extractor, memory_corpus

    ours = Extractor(model, layers="concat4", pooling=pooling, precision=precision, long="truncate", max_length=length)

    def run(texts: list[str]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ours.extract(memory_corpus(texts), Path(folder) / "features")

    return run


def words_flair(model: str, length: int, precision: str) -> Run:
    """Flair's frozen word embeddings, in batches of 32, kept in memory only."""
    import flair
    import torch
    from flair.data import Sentence
    from flair.embeddings import TransformerWordEmbeddings

    assert precision == "fp32"
    flair.device = torch.device("cpu")
    embeddings = TransformerWordEmbeddings(
        model, layers="-1,-2,-3,-4", layer_mean=False, subtoken_pooling="first", fine_tune=False
    )

    def run(texts: list[str]) -> None:
        for at in range(0, len(texts), 32):
            sentences = [Sentence(text) for text in texts[at : at + 32]]
            embeddings.embed(sentences)
            for sentence in sentences:
                torch.stack([token.embedding for token in sentence]).numpy()

    return run


def tokens_loop(model: str, length: int, precision: str) -> Run:
    """The loop that people write: batches of 32 as they come, padded, all hidden states, nothing stored."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    tokenizer, encoder = AutoTokenizer.from_pretrained(model), AutoModel.from_pretrained(model, dtype=dtype).eval()

    @torch.inference_mode()
    def run(texts: list[str]) -> None:
        for at in range(0, len(texts), 32):
            batch = tokenizer(
                texts[at : at + 32], padding=True, truncation=True, max_length=length, return_tensors="pt"
            )
            states = encoder(**batch, output_hidden_states=True).hidden_states
            joined = torch.cat(states[-4:], dim=-1)
            for row, mask in zip(joined, batch["attention_mask"].bool(), strict=True):
                row[mask].float().numpy()

    return run


def main() -> None:
    way, corpus, model, length = sys.argv[1:]
    name, _, precision = way.partition(":")
    texts = json.loads(Path(corpus).read_text("utf-8"))
    run = globals()[name](model, int(length), precision or "fp32")
    run(texts[::8])
    for _ in _asked():
        begin = time.perf_counter()
        run(texts)
        print(json.dumps(time.perf_counter() - begin), file=_ANSWERS, flush=True)


def _asked() -> Iterator[str]:
    print(json.dumps("ready"), file=_ANSWERS, flush=True)
    yield from sys.stdin


if __name__ == "__main__":
    _ANSWERS, sys.stdout = sys.stdout, sys.stderr  # libraries may print what they like
    main()
