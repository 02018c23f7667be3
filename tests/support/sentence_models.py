"""Tiny models as sentence-transformers saves them, and sentence-transformers itself as the oracle."""

import json
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bertfeat.core.extraction import Extractor

MAX_TOKENS = 40
_MODULES = "sentence_transformers.models"


def sentence_folder(
    model: Path,
    folder: Path,
    *,
    pooling: str = "mean",
    width: int = 32,
    heads: Sequence[str] = (),
    prompts: Mapping[str, str] | None = None,
    default_prompt: str | None = None,
    similarity: str | None = None,
) -> Path:
    """Copy a model's folder and add what makes it a sentence-transformers model."""
    shutil.copytree(model, folder)
    names = ["Transformer", "Pooling", *heads]
    modules = [
        {"idx": at, "name": str(at), "path": f"{at}_{name}" if at else "", "type": f"{_MODULES}.{name}"}
        for at, name in enumerate(names)
    ]
    _write(folder / "modules.json", modules)
    modes = {f"pooling_mode_{kind}": kind.startswith(pooling) for kind in ("cls_token", "mean_tokens", "max_tokens")}
    (folder / "1_Pooling").mkdir()
    _write(folder / "1_Pooling" / "config.json", {"word_embedding_dimension": width, **modes})
    for at, name in enumerate(names[2:], 2):
        (folder / f"{at}_{name}").mkdir()
    _write(folder / "sentence_bert_config.json", {"max_seq_length": MAX_TOKENS, "do_lower_case": False})
    named = {"prompts": dict(prompts or {}), "default_prompt_name": default_prompt, "similarity_fn_name": similarity}
    _write(folder / "config_sentence_transformers.json", named)
    return folder


def with_encoder_apart(folder: Path) -> Path:
    """Move the encoder of a sentence-transformers model into a folder of its own."""
    (folder / "0_Transformer").mkdir()
    for path in list(folder.iterdir()):
        if path.is_file() and path.name not in ("modules.json", "config_sentence_transformers.json"):
            shutil.move(path, folder / "0_Transformer")
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    modules[0]["path"] = "0_Transformer"
    _write(folder / "modules.json", modules)
    return folder


def _write(file: Path, content: object) -> None:
    file.write_text(json.dumps(content), "utf-8")


def oracle(folder: Path) -> Any:
    """Load a folder with sentence-transformers, on the CPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(folder), device="cpu")


def peer(folder: Path, **settings: Any) -> Extractor:
    """Give an Extractor that does what sentence-transformers does with a folder: fp32, cut off at its length."""
    alike: dict[str, Any] = {"precision": "fp32", "device": "cpu", "max_length": MAX_TOKENS, "long": "truncate"}
    return Extractor(folder, **alike | settings)
