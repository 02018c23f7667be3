"""sentence-transformers' own files in a model's folder: pooling, prompts, and the modules after pooling."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec

from bertfeat.core.models.files import path_inside_model, read_model_json
from bertfeat.core.recipe import Pooling
from bertfeat.errors import ModelError, parameter

MODULES = "modules.json"
"""The list of a sentence-transformers model's steps."""
SETTINGS = "config_sentence_transformers.json"
"""The settings of the model as a whole."""
ENCODER = "sentence_bert_config.json"
"""The settings of its encoder, in the encoder's folder."""
_POOLING = "config.json"
_HANDLED_KEYS: Mapping[str, frozenset[str]] = {
    SETTINGS: frozenset({"__version__", "default_prompt_name", "model_type", "prompts", "similarity_fn_name"}),
    ENCODER: frozenset({"do_lower_case", "max_seq_length", "unpad_inputs"}),
    _POOLING: frozenset(
        {
            "embedding_dimension",
            "include_prompt",
            "pooling_mode",
            "pooling_mode_cls_token",
            "pooling_mode_lasttoken",
            "pooling_mode_max_tokens",
            "pooling_mode_mean_sqrt_len_tokens",
            "pooling_mode_mean_tokens",
            "pooling_mode_weightedmean_tokens",
            "word_embedding_dimension",
        }
    ),
}
"""Keys of sentence-transformers' files, by file, that are applied here or that change no vector."""
_USUAL_VALUES: Mapping[str, object] = {
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
    "transformer_task": "feature-extraction",
}
"""Values of other keys that ask for what bertfeat does anyway."""
POOLINGS = {"mean": Pooling.MEAN, "cls": Pooling.CLS, "max": Pooling.MAX, "lasttoken": Pooling.LAST}
"""bertfeat's poolings by sentence-transformers' names."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SentenceModule:
    """One step of a sentence-transformers model; the first is the encoder."""

    type: str = ""
    path: str = ""

    @property
    def kind(self) -> str:
        """The last part of the type, such as Transformer, Pooling, Dense or Normalize."""
        last = self.type.rsplit(".", 1)[-1]
        return last if last.isidentifier() else repr(last)


@dataclass(frozen=True, slots=True)
class PoolingFile:
    """``1_Pooling/config.json``: newer files name the mode, older ones have a flag for each."""

    include_prompt: bool = True
    pooling_mode: str | list[str] | None = None
    pooling_mode_mean_tokens: bool | None = None
    pooling_mode_cls_token: bool | None = None
    pooling_mode_max_tokens: bool | None = None
    pooling_mode_mean_sqrt_len_tokens: bool | None = None
    pooling_mode_weightedmean_tokens: bool | None = None
    pooling_mode_lasttoken: bool | None = None

    @property
    def modes(self) -> list[str]:
        """The poolings that the file asks for, by sentence-transformers' names, else mean; it concatenates several."""
        if self.pooling_mode is not None:
            return [self.pooling_mode] if isinstance(self.pooling_mode, str) else self.pooling_mode
        flags = {
            "cls": self.pooling_mode_cls_token,
            "max": self.pooling_mode_max_tokens,
            "mean": self.pooling_mode_mean_tokens,
            "mean_sqrt_len_tokens": self.pooling_mode_mean_sqrt_len_tokens,
            "weightedmean": self.pooling_mode_weightedmean_tokens,
            "lasttoken": self.pooling_mode_lasttoken,
        }
        return [mode for mode, flag in flags.items() if flag] or ["mean"]


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts that the model was trained with, which come before texts."""

    prompts: dict[str, str] | None = None
    default_prompt_name: str | None = None

    @property
    def named(self) -> Mapping[str, str]:
        """The prompts by their names."""
        return self.prompts or {}

    @property
    def default(self) -> str:
        """The prompt that comes before every text; usually empty."""
        return self.named.get(self.default_prompt_name, "") if self.default_prompt_name else ""


@dataclass(frozen=True, slots=True)
class _EncoderFile:
    """``sentence_bert_config.json``."""

    max_seq_length: Annotated[int, msgspec.Meta(ge=0)] | None = None
    document_length: Annotated[int, msgspec.Meta(ge=0)] | None = None  # of a model that compares tokens
    do_lower_case: bool | None = None


@dataclass(frozen=True, slots=True)
class _Truncation:
    max_length: Annotated[int, msgspec.Meta(ge=0)] | None = None
    direction: str | None = None


@dataclass(frozen=True, slots=True)
class _TokenizerLimits:
    truncation: _Truncation | None = None


def read_modules(name: str, folder: Path) -> tuple[SentenceModule, ...]:
    """Read the steps of a sentence-transformers model; none where it is no such model."""
    return tuple(read_model_json(name, folder, MODULES, list[SentenceModule]) or ())


def read_pooling_file(name: str, folder: Path, modules: tuple[SentenceModule, ...]) -> PoolingFile:
    """Read the pooling of the model's own configuration."""
    module = next((module for module in modules if module.kind == "Pooling"), None)
    return PoolingFile() if module is None else read_module_file(name, folder, module, PoolingFile)


def read_module_file(name: str, folder: Path, module: SentenceModule, kind: type[T]) -> T:
    """Read the configuration of a module, which must be there."""
    path = path_inside_model(name, folder, f"{module.path or '.'}/config.json", MODULES)
    settings = read_model_json(name, path.parent, path.name, kind)
    if settings is None:
        raise ModelError(
            f"{MODULES} names {path}, which is missing", where=name, remedy="get it from where the model came"
        )
    return settings


def pooling_of_modes(name: str, modes: list[str]) -> Pooling:
    """The pooling of bertfeat's that does what sentence-transformers does.

    Raises:
        ModelError: there is none.
    """
    if len(modes) == 1 and modes[0] in POOLINGS:
        return POOLINGS[modes[0]]
    raise ModelError(
        f"its own pooling is {' and '.join(modes)!r}, which goes with {parameter('layers', 'sentence')} only",
        where=name,
        remedy=f"take that, or choose one: {parameter('pooling')} {', '.join(POOLINGS.values())}",
    )


def read_lower_case(name: str, folder: Path, modules: tuple[SentenceModule, ...]) -> bool:
    """Read whether texts are lowercased before the tokenizer sees them, which may lowercase them itself."""
    settings = read_model_json(name, folder, ENCODER, _EncoderFile) if modules else None
    return bool(settings and settings.do_lower_case)


def read_not_applied(
    name: str, folder: Path, encoder: Path, modules: tuple[SentenceModule, ...], also_applied: Collection[str]
) -> tuple[str, ...]:
    """Read the settings of sentence-transformers' files that are not applied here, each as ``key: JSON value``."""
    pooling = [f"{module.path}/{_POOLING}" for module in modules if module.kind == "Pooling" and module.path]
    files = [folder / SETTINGS, encoder / ENCODER, *(path_inside_model(name, folder, p, MODULES) for p in pooling)]
    found = []
    for path in files if modules else ():
        said = read_model_json(name, path.parent, path.name, dict[str, object]) or {}
        found += [
            f"{key}: {json.dumps(value)}"
            for key, value in said.items()
            if key not in {*_HANDLED_KEYS[path.name], *also_applied}
            and value not in (None, {}, [])
            and value != _USUAL_VALUES.get(key)
        ]
    return tuple(found)


def read_prompts(name: str, folder: Path) -> Prompts:
    """Read the model's prompts; their names and texts must be encodable in UTF-8."""
    prompts = read_model_json(name, folder, SETTINGS, Prompts) or Prompts()
    for key, prompt in prompts.named.items():
        if not _is_utf8_text(key + prompt):
            raise ModelError(f"{folder / SETTINGS} has a prompt that is no text: {prompt!r}", where=name)
    return prompts


def read_limits(name: str, folder: Path) -> Mapping[str, int]:
    """Read the length limits that the files carry and bertfeat switches off, by the file that carries them."""
    tokenizer = read_model_json(name, folder, "tokenizer.json", _TokenizerLimits)
    own = read_model_json(name, folder, ENCODER, _EncoderFile)
    limits = {
        "tokenizer.json": tokenizer.truncation.max_length if tokenizer and tokenizer.truncation else None,
        ENCODER: own.max_seq_length or own.document_length if own else None,
    }
    return {file: limit for file, limit in limits.items() if limit}


def read_truncation_side(name: str, folder: Path) -> str | None:
    """Read the side on which the tokenizer itself would cut a text that is too long; None where it does not say."""
    tokenizer = read_model_json(name, folder, "tokenizer.json", _TokenizerLimits)
    side = tokenizer.truncation.direction if tokenizer and tokenizer.truncation else None
    return side and side.lower()


def _is_utf8_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
