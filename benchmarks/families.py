"""How fast are families beside BERT, texts side by side, next to the same ones padded and to sentence-transformers?

    python benchmarks/families.py --data NOVELS [--backends .venv-peers/bin/python]

Random weights of real shapes, mean vectors, from texts to a float32 matrix in memory. Three ways run in turn in one
process: bertfeat as it runs the family (packed), bertfeat with the family's texts padded, and sentence-transformers
with its torch backend, which pads too. The texts are a few blocks of neighbors in order of length, as the batches of a
large corpus are: few texts of all lengths would be padded to 1.7 times their tokens, a large corpus to 1.07 times. The
tokenizer, of bytes, is trained on the texts. A family whose packed texts are no faster than padded ones is better left
padded (``SIDE_BY_SIDE`` in ``bertfeat/core/encoder/path.py``).
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

from _duel import Way, distinct_lines, duel, ratio
from _machine import machine

BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "MPNet-base": ("mpnet", {**BASE, "max_position_embeddings": 514}),
    "ModernBERT-base": (
        "modernbert",
        {
            "hidden_size": 768,
            "num_hidden_layers": 22,
            "num_attention_heads": 12,
            "intermediate_size": 1152,
            "max_position_embeddings": 8192,
            "local_attention": 128,
        },
    ),
    "Nomic v1.5": ("nomic_bert", {**BASE, "max_position_embeddings": 2048}),
    "EuroBERT-210m": (
        "eurobert",
        {**BASE, "num_key_value_heads": 12, "head_dim": 64, "max_position_embeddings": 8192},
    ),
    "ESM-2 35M": (
        "esm",
        {
            "hidden_size": 480,
            "num_hidden_layers": 12,
            "num_attention_heads": 20,
            "intermediate_size": 1920,
            "max_position_embeddings": 1026,
            "position_embedding_type": "rotary",
            "token_dropout": True,
            "mask_token_id": 4,
        },
    ),
    "Qwen3-0.6B, 4 layers": (
        "qwen3",
        {
            "hidden_size": 1024,
            "num_hidden_layers": 4,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "intermediate_size": 3072,
            "max_position_embeddings": 32768,
        },
    ),
}
VOCABULARY, LENGTH = 30_000, 512
BLOCKS = 4
CHARACTERS = 4.2  # a token, about
PRECISIONS = ("fp32", "bf16")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with sentences.txt and paragraphs.txt")
    parser.add_argument("--tokens", type=int, default=20_000, help="about how many tokens of each corpus")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="names of shapes")
    parser.add_argument("--backends", metavar="PYTHON", help="of the environment of the peers: compare with backends")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "families.json")
    arguments = parser.parse_args()
    texts = {
        name: blocks(distinct_lines(arguments.data / f"{name}.txt"), arguments.tokens)
        for name in ("sentences", "paragraphs")
    }
    results: dict[str, Any] = {"machine": machine("sentence-transformers"), "families": {}}
    with tempfile.TemporaryDirectory() as work:
        for name in arguments.only or SHAPES:
            folder = build(name, Path(work) / "model", [text for each in texts.values() for text in each])
            results["families"][name] = {
                f"{precision}, {corpus}": compare_backends(
                    folder, precision, given, arguments.repeats, arguments.backends
                )
                if arguments.backends
                else compare(folder, precision, given, arguments.repeats)
                for precision in PRECISIONS
                for corpus, given in texts.items()
            }
            print(name, json.dumps(results["families"][name], indent=1), flush=True)
            arguments.out.write_text(json.dumps(results, indent=1) + "\n")


def compare(folder: Path, precision: str, texts: Sequence[str], repeats: int) -> dict[str, Any]:
    """Tokens a second of each way: medians; and the medians of the ratios, run by run."""
    count = token_count(folder, texts)
    ways = {"packed": ours(folder, precision), "sentence-transformers": theirs(folder, precision, len(texts) // BLOCKS)}
    with padded():
        ways["padded"] = ours(folder, precision, batch_tokens=count // BLOCKS)
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats + 1):
        for name, way in ways.items():
            begin = time.perf_counter()
            way(texts)
            if repeat:  # the first is the warm-up
                speeds[name].append(count / (time.perf_counter() - begin))

    def ratio(name: str) -> float:
        return round(median(a / b for a, b in zip(speeds["packed"], speeds[name], strict=True)), 2)

    return {
        "texts": len(texts),
        "tokens": count,
        "tokens_per_second": {name: round(median(each)) for name, each in speeds.items()},
        "to padded": ratio("padded"),
        "to sentence-transformers": ratio("sentence-transformers"),
    }


def compare_backends(folder: Path, precision: str, texts: Sequence[str], repeats: int, python: str) -> dict[str, Any]:
    """Tokens a second of bertfeat and of each backend of sentence-transformers, and the ratios, run by run."""
    own = f"pooled_ours:{precision}"
    theirs = [Way(f"pooled_sentence_transformers:{precision}"), Way(f"pooled_openvino:{precision}", python)]
    if precision == "fp32":
        theirs.append(Way("pooled_onnx:fp32", python))
    result = duel([Way(own), *theirs], texts, folder, LENGTH, repeats)
    ratios = {f"to {way.name}": found for way in theirs if (found := ratio(result, own, way.name)) is not None}
    return {**result, **ratios}


def ours(folder: Path, precision: str, batch_tokens: int | None = None) -> Callable[[Sequence[str]], object]:
    from bertfeat import Extractor

    extractor = Extractor(
        folder,
        layers="last",
        pooling="mean",
        precision=precision,
        max_length=LENGTH,
        long="truncate",
        device="cpu",
        batch_tokens=batch_tokens,
    )
    extractor.encode(["a"])  # loads it as it is to run
    return extractor.encode


@contextmanager
def padded() -> Iterator[None]:
    """Load models so that their texts are padded."""
    with (
        mock.patch("bertfeat.core.encoder.path.SIDE_BY_SIDE", frozenset()),
        mock.patch("bertfeat.core.encoder.load.is_packable", return_value=False),
    ):
        yield


def theirs(folder: Path, precision: str, batch_size: int) -> Callable[[Sequence[str]], object]:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    dtype = {"fp32": "float32", "bf16": "bfloat16"}[precision]
    encoder = Transformer(str(folder), max_seq_length=LENGTH, model_kwargs={"dtype": dtype})
    model = SentenceTransformer(modules=[encoder, Pooling(encoder.get_embedding_dimension())], device="cpu")
    return lambda texts: model.encode(list(texts), batch_size=max(1, batch_size))


def blocks(lines: Sequence[str], tokens: int) -> list[str]:
    """Neighbors in order of length, at even distances over the whole, about so many tokens in all."""
    ordered = sorted(lines, key=len)
    chosen: dict[str, None] = {}
    for block in range(BLOCKS):
        at, characters = (2 * block + 1) * len(ordered) // (2 * BLOCKS), 0.0
        while at < len(ordered) and characters < CHARACTERS * tokens / BLOCKS:
            chosen[ordered[at]] = None
            characters, at = characters + len(ordered[at]), at + 1
    return list(chosen)


def token_count(folder: Path, texts: Sequence[str]) -> int:
    """Tokens as the model reads them, special ones included."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return sum(min(LENGTH, len(each.ids)) for each in tokenizer.encode_batch(list(texts)))


def build(name: str, folder: Path, texts: Sequence[str]) -> Path:
    """Save a random model of a shape, and a tokenizer of bytes for it."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import CONFIG_MAPPING, AutoModel

    kind, shape = SHAPES[name]
    torch.manual_seed(0)
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "vocab_size": VOCABULARY}
    AutoModel.from_config(CONFIG_MAPPING[kind](**ids, **shape)).save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - 10,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    tokenizer.save(str(folder / "tokenizer.json"))
    names = dict(zip(("cls_token", "pad_token", "sep_token", "unk_token", "mask_token"), special, strict=True))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")
    return folder


if __name__ == "__main__":
    main()
