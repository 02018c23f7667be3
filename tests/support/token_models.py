"""Tiny models that compare tokens, as sentence-transformers, PyLate and ColBERT save them, and the oracle for them."""

import json
import shutil
import string
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import nn

WIDTH, PROJECTED = 32, 8
EXPANSION: Mapping[str, Any] = {"strategy": "fixed", "attend": False, "length": 24}
PROMPTS = {"query": "[Q] ", "document": "[D] "}


def save(
    model: Path,
    folder: Path,
    *,
    expansion: Mapping[str, Any] | None = EXPANSION,
    skipped: Sequence[str] = tuple(string.punctuation),
    skipped_in: Sequence[str] = ("document",),
    prompts: Mapping[str, str] = PROMPTS,
    steps: Sequence[Any] | None = None,
) -> Path:
    """Save a model of tokens as sentence-transformers itself does; the markers become tokens of its tokenizer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import MultiVectorEncoder
        from sentence_transformers.base.modules import Dense, Normalize, Transformer
        from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

        torch.manual_seed(7)
        encoder = Transformer(str(model), query_expansion=expansion and dict(expansion), document_length=60)
        encoder.tokenizer.add_tokens([prompt for prompt in prompts.values() if prompt])
        encoder.model.resize_token_embeddings(len(encoder.tokenizer))
        tokens = "token_embeddings"
        dense = Dense(WIDTH, PROJECTED, bias=False, activation_function=nn.Identity(), module_input_name=tokens)
        modules = [dense, Normalize(module_input_name=tokens)] if steps is None else steps
        mask = MultiVectorMask(list(skipped), skiplist_tasks=list(skipped_in))
        MultiVectorEncoder(modules=[encoder, *modules, mask], prompts=dict(prompts), device="cpu").save(str(folder))
    return folder


def as_pylate(saved: Path, folder: Path, **settings: object) -> Path:
    """Turn a saved model into what PyLate writes: the encoder and a product, and all else in one file."""
    shutil.copytree(saved, folder)
    known = json.loads((folder / "modules.json").read_text("utf-8"))[:2]
    known[1]["type"] = "pylate.models.Dense.Dense"
    (folder / "modules.json").write_text(json.dumps(known), "utf-8")
    for name in ("2_Normalize", "3_MultiVectorMask"):
        shutil.rmtree(folder / name)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 59, "do_lower_case": false}', "utf-8")
    dense = json.loads((folder / "1_Dense" / "config.json").read_text("utf-8"))
    kept = {key: dense[key] for key in ("in_features", "out_features", "bias", "activation_function")}
    (folder / "1_Dense" / "config.json").write_text(json.dumps(kept), "utf-8")
    own = {
        "model_type": "ColBERT",
        "prompts": {},
        "query_prefix": "[Q] ",
        "document_prefix": "[D] ",
        "query_length": 24,
        "document_length": 60,
        "attend_to_expansion_tokens": False,
        "skiplist_words": list(string.punctuation),
    }
    (folder / "config_sentence_transformers.json").write_text(json.dumps(own | settings), "utf-8")
    return folder


def as_colbert(model: Path, folder: Path, **metadata: object) -> Path:
    """Save a model as ColBERT's own library does: the projection lies among the encoder's weights."""
    shutil.copytree(model, folder)
    torch.manual_seed(8)
    weights = {f"bert.{name}": value for name, value in load_file(folder / "model.safetensors").items()}
    weights["linear.weight"] = torch.randn(PROJECTED, WIDTH)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text("utf-8")) | {"architectures": ["HF_ColBERT"]}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    tokenizer = json.loads((folder / "tokenizer.json").read_text("utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    for name, number in (("[unused0]", 300), ("[unused1]", 301)):  # which BERT's vocabulary has
        vocabulary[name] = vocabulary.pop(next(each for each, own in vocabulary.items() if own == number))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), "utf-8")
    (folder / "artifact.metadata").write_text(json.dumps(metadata), "utf-8")
    return folder


def oracle(folder: Path) -> Any:
    """Load a folder with sentence-transformers, on the CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import MultiVectorEncoder

        return MultiVectorEncoder(str(folder), device="cpu")
