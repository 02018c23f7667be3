"""The properties of a model that its ``config.json`` states, checked before anything is built.

Families that the packed forward pass computes are read without transformers, all others by it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated

import msgspec

from bertfeat.core.models.families import (
    DECODERS,
    PACKED_FAMILIES,
    depends_on_longest,
    family_note,
    is_causal,
    is_refused_decoder,
    make_repeatable,
    refusal_reason,
)
from bertfeat.core.models.files import read_model_json
from bertfeat.core.models.foreign import LibraryConfig, build_library_config, wrap_library_errors
from bertfeat.core.models.hook_points import BLOCK_MODULES
from bertfeat.errors import ModelError
from bertfeat.io import JsonError, from_plain

# limits far above any real model's, so that a wrong config.json is refused before memory is allocated for it
_MOST_LAYERS = 1_000
_Width = Annotated[int, msgspec.Meta(ge=1, le=1 << 17)]
_Size = Annotated[int, msgspec.Meta(ge=1, le=1 << 28)]


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """The numbers of a configuration that bertfeat itself computes with."""

    num_hidden_layers: Annotated[int, msgspec.Meta(ge=1, le=_MOST_LAYERS)]
    hidden_size: _Width
    vocab_size: _Size
    num_attention_heads: _Width | None = None
    intermediate_size: _Size | None = None
    max_position_embeddings: Annotated[int, msgspec.Meta(ge=-1, le=1 << 28)] | None = None  # -1: without a limit
    type_vocab_size: Annotated[int, msgspec.Meta(ge=0, le=127)] | None = None  # segment ids are int8
    pad_token_id: Annotated[int, msgspec.Meta(ge=-1)] | None = None
    embedding_size: _Width | None = None
    layer_norm_eps: Annotated[float, msgspec.Meta(ge=0, lt=1)] | None = None


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The properties of a model by its ``config.json``."""

    model_type: str
    sizes: ModelSizes
    activation: str  # of the feed-forward part; empty where it is not named
    inner_size: int  # width I inside a block's feed-forward part; 4H where it is not named
    heads_width: int  # of all attention heads side by side
    special_ids: frozenset[int]  # ids of the special tokens that config.json names
    notes: tuple[str, ...]  # notes for the user on how the model is read, a sentence each
    tokenizer_class: str | None  # a class of transformers; None where config.json names none
    causal: bool  # whether each token sees only those before it
    depends_on_longest: bool  # whether vectors depend on the longest text of a batch


def read_config_file(name: str, folder: Path) -> dict[str, object]:
    """Read ``config.json`` and check what all families have in common."""
    raw = read_model_json(name, folder, "config.json", dict[str, object])
    if not raw:
        raise ModelError(f"{folder} has no config.json, so it is not a Hugging Face model folder", where=name)
    if raw.get("quantization_config"):
        raise ModelError("its weights are quantized (quantization_config); bertfeat reads whole ones only", where=name)
    if (folder / "adapter_config.json").exists():
        raise ModelError(
            "an adapter lies beside its weights (adapter_config.json), which would be left out",
            where=name,
            remedy="join the two with peft's merge_and_unload()",
        )
    for key, value in raw.items():  # before anybody builds lists of so many layers
        if key.endswith(("layer", "layers")) and isinstance(value, int) and value > _MOST_LAYERS:
            raise ModelError(f"its config.json cannot be right: {key} is {value:,}", where=name)
    return raw


def read_config(name: str, raw: Mapping[str, object]) -> ModelConfig | None:
    """Read a configuration without transformers; None where its family is not one of :data:`PACKED_FAMILIES`."""
    kind = raw.get("model_type")
    family = PACKED_FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None:
        return None
    read = {key: value for key, value in raw.items() if key not in family.unread}
    named = {family.common_names.get(key, key): value for key, value in read.items()}
    config = SimpleNamespace(**{**family.defaults, **named})
    return _describe(name, config, has_code=bool(raw.get("auto_map")))


def read_library_config(name: str, folder: Path, raw: Mapping[str, object]) -> tuple[ModelConfig, LibraryConfig]:
    """Read a configuration with transformers."""
    content = {key: value for key, value in raw.items() if key != "auto_map"}
    config = build_library_config(name, folder, content)
    change = make_repeatable(config)
    return _describe(name, config, has_code=bool(raw.get("auto_map")), change=change), config


def _describe(name: str, config: LibraryConfig, *, has_code: bool, change: str | None = None) -> ModelConfig:
    kind = config.model_type
    if is_refused_decoder(config):
        raise ModelError(
            f"model_type {kind!r} is no encoder, and not one of the {len(DECODERS)} families of decoders that are read",
            where=name,
            remedy="docs/models.md lists them",
        )
    if reason := refusal_reason(config):
        raise ModelError(f"model_type {kind!r} cannot be read: {reason}", where=name)
    code = "its repository brings code of its own, which was not run; transformers' own was" if has_code else None
    with wrap_library_errors("its config.json does not say what is needed", where=name):
        sizes = _sizes(name, config)
        activation = getattr(config, "hidden_act", None) or getattr(config, "activation", None) or ""
        if not isinstance(activation, str):
            raise ModelError(f"its config.json cannot be right: the activation is {activation!r}", where=name)
        # the names that families have for the width inside the feed-forward part
        inner = ("intermediate_size", "hidden_dim", "n_inner", "d_inner", "d_ff", "ffn_dim")
        widths = (getattr(config, key, None) for key in inner)
        special = ("pad", "bos", "eos", "cls", "sep", "mask", "unk")
        ids = (getattr(config, f"{token}_token_id", None) for token in special)
        return ModelConfig(
            model_type=kind,
            sizes=sizes,
            activation=activation,
            heads_width=_heads_width(config, sizes),
            inner_size=next((w for w in widths if isinstance(w, int) and w > 0), 4 * sizes.hidden_size),
            special_ids=frozenset(number for number in ids if isinstance(number, int)),
            notes=tuple(note for note in (change, family_note(config), code) if note),
            tokenizer_class=None if (named := getattr(config, "tokenizer_class", None)) is None else str(named),
            causal=is_causal(config),
            depends_on_longest=depends_on_longest(config),
        )


def _heads_width(config: LibraryConfig, sizes: ModelSizes) -> int:
    """Width of all heads side by side: H, unless the configuration of a family that gives them has another of one."""
    if config.model_type in PACKED_FAMILIES or config.model_type not in BLOCK_MODULES:
        return sizes.hidden_size
    of_one = getattr(config, "head_dim", None) or getattr(config, "d_kv", None)
    if isinstance(of_one, int) and 0 < of_one <= sizes.hidden_size and sizes.num_attention_heads:
        return of_one * sizes.num_attention_heads
    return sizes.hidden_size


def _sizes(name: str, config: LibraryConfig) -> ModelSizes:
    """Take the numbers from a configuration by transformers' own names for them."""
    numbers = {field.name: getattr(config, field.name, None) for field in fields(ModelSizes)}
    for needed in ("num_hidden_layers", "hidden_size", "vocab_size"):
        if numbers[needed] is None:
            problem = (
                f"model_type {config.model_type!r} has no {needed} in its config.json, so it is no encoder of texts"
            )
            raise ModelError(problem, where=name)
    try:
        return from_plain(numbers, ModelSizes)
    except JsonError as error:
        raise ModelError(f"its config.json cannot be right: {error}", where=name) from error
