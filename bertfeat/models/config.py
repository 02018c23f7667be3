"""A model's ``config.json`` → its Hugging Face configuration, its numbers checked before anything is built."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import msgspec

from bertfeat.errors import ModelError
from bertfeat.models.families import adapted, decodes, refusal
from bertfeat.models.foreign import json_of, quiet, reported

_LEFT_OUT = (
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
"""Keys of a configuration that say how to run a model, which bertfeat says itself, or what a head's labels are."""
_MOST_LAYERS = 1_000

Layers = Annotated[int, msgspec.Meta(ge=1, le=_MOST_LAYERS)]
Width = Annotated[int, msgspec.Meta(ge=1, le=1 << 17)]
Rows = Annotated[int, msgspec.Meta(ge=1, le=1 << 28)]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of a configuration that bertfeat itself reckons with."""

    num_hidden_layers: Layers
    hidden_size: Width
    vocab_size: Rows
    num_attention_heads: Width | None = None
    intermediate_size: Rows | None = None
    max_position_embeddings: Annotated[int, msgspec.Meta(ge=-1, le=1 << 28)] | None = None  # -1: without a limit
    type_vocab_size: Annotated[int, msgspec.Meta(ge=0, le=127)] | None = None
    pad_token_id: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    embedding_size: Width | None = None
    layer_norm_eps: Annotated[float, msgspec.Meta(ge=0, lt=1)] | None = None


@dataclass(frozen=True, slots=True)
class Configured:
    """A configuration that has been read and checked."""

    config: Any  # transformers' own
    sizes: Sizes
    adapted: str | None  # what was changed in it, and why
    has_code: bool  # whether the repository brings code, which is never run


def read_config(name: str, folder: Path) -> Configured:
    """Read a model's configuration.

    Raises:
        ModelError: there is none; it needs code from the repository, or is no encoder's; its numbers make no sense;
            or its weights are quantized or lack an adapter.
    """
    raw = json_of(name, folder, "config.json", dict[str, Any])
    if not raw:
        raise ModelError(f"{name}: {folder} has no config.json, so it is not a Hugging Face model folder")
    has_code = bool(raw.pop("auto_map", None))
    config = _transformers_config(name, folder, raw)
    if decodes(config):
        raise ModelError(f"{name}: model_type {config.model_type!r} is no encoder; bertfeat reads encoders only")
    if reason := refusal(config):
        raise ModelError(f"{name}: model_type {config.model_type!r} cannot be read: {reason}")
    return Configured(config, _sizes(name, config), adapted(config), has_code)


def _transformers_config(name: str, folder: Path, raw: dict[str, Any]) -> Any:
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    kind = raw.get("model_type", "unknown")
    if not isinstance(kind, str) or kind not in CONFIG_MAPPING:
        raise ModelError(
            f"{name}: transformers cannot read this model (model_type {kind!r}) without running code from "
            f"its repository, which bertfeat never does"
        )
    if kind not in MODEL_MAPPING_NAMES:
        raise ModelError(f"{name}: transformers loads no model_type {kind!r} by itself; it is a part of another model")
    if raw.get("quantization_config"):
        raise ModelError(f"{name}: its weights are quantized (quantization_config); bertfeat reads whole ones only")
    if (folder / "adapter_config.json").exists():
        raise ModelError(
            f"{name}: an adapter lies beside its weights (adapter_config.json), which would be left out; "
            f"join the two with peft's merge_and_unload()"
        )
    for key, value in raw.items():  # before lists of that length are made
        if key.endswith(("layer", "layers")) and isinstance(value, int) and value > _MOST_LAYERS:
            raise ModelError(f"{name}: its config.json cannot be right: {key} is {value:,}")
    kept = {key: value for key, value in raw.items() if key not in _LEFT_OUT}
    with quiet(), reported(f"{name}: {folder / 'config.json'} does not describe a model of type {kind!r}"):
        return CONFIG_MAPPING[kind].from_dict(kept)


def _sizes(name: str, config: Any) -> Sizes:
    """Take the numbers from a configuration by transformers' own names for them."""
    found: dict[str, Any] = {}
    with reported(f"{name}: its config.json does not say what is needed"):
        found = {field.name: getattr(config, field.name, None) for field in fields(Sizes)}
    for needed in ("num_hidden_layers", "hidden_size", "vocab_size"):
        if found[needed] is None:
            raise ModelError(f"{name}: model_type {config.model_type!r} has no {needed}, so it is no encoder of texts")
    try:
        return msgspec.convert(found, Sizes)
    except msgspec.ValidationError as error:
        raise ModelError(f"{name}: its config.json cannot be right: {_plain(error)}") from error


def _plain(error: Exception) -> str:
    return str(error).replace("`", "'")
