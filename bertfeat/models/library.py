"""Model configurations as transformers reads them, for the families that it runs."""

from pathlib import Path
from typing import Any

from bertfeat.errors import ModelError
from bertfeat.models.foreign import silence_transformers, wrap_library_errors

LibraryConfig = Any
"""A configuration of transformers; which attributes it has depends on the family."""

IGNORED_KEYS = (
    "_attn_implementation",
    "attn_implementation",
    "dtype",
    "experts_implementation",
    "fusion_config",
    "id2label",
    "label2id",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "torch_dtype",
    "transformers_weights",
)
"""Keys that say how to run a model, which bertfeat decides itself, or that describe a head's labels."""


def build_library_config(name: str, folder: Path, raw: dict[str, object]) -> LibraryConfig:
    """Build transformers' configuration from the content of ``config.json``.

    Raises:
        ModelError: transformers does not know the family, or the content does not describe a model of it.
    """
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    kind = raw.get("model_type", "unknown")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise ModelError(
            f"transformers cannot read this model (model_type {kind!r}) without running code from its repository, "
            f"which bertfeat never does",
            where=name,
        )
    if kind not in MODEL_MAPPING_NAMES:
        raise ModelError(
            f"transformers loads no model_type {kind!r} by itself; it is a part of another model", where=name
        )
    content = {key: value for key, value in raw.items() if key not in IGNORED_KEYS}
    with (
        silence_transformers(),
        wrap_library_errors(f"{folder / 'config.json'} does not describe a model of type {kind!r}", where=name),
    ):
        return CONFIG_MAPPING[kind].from_dict(content)


def predicts_next_word_only(model_type: str) -> bool:
    """Whether transformers lists a family with the causal language models and not with the masked ones."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    return model_type in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and model_type not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
