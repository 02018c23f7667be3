"""``tokenizer.json`` read without transformers, where that gives the tokenizer that transformers would build.

For most of its tokenizer classes transformers takes only the vocabulary from ``tokenizer.json``. It builds the other
parts from the class and from ``tokenizer_config.json``. Here the file is taken as it is, but only where its parts are
those that transformers would build. All other cases are left to transformers: :func:`read_tokenizer_file` gives None.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
from tokenizers import AddedToken, Tokenizer as FastTokenizer

from bertfeat.errors import ModelError
from bertfeat.io import decode_json, read_regular
from bertfeat.models import PACKED_FAMILIES, TOKENIZER_KEYS_WITHOUT_EFFECT, Model, wrap_library_errors
from bertfeat.tokens.tokenizer_classes import TOKENIZER_CLASSES, Json, ModelPart, TokenizerCandidate

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_MORE_SPECIAL = ("extra_special_tokens", "additional_special_tokens")
_OPTIONS = ("do_lower_case", "tokenize_chinese_chars", "strip_accents", "add_prefix_space", "trim_offsets")
_UNDERSTOOD = {
    "tokenizer_class",
    "added_tokens_decoder",
    *_SPECIAL,
    *_MORE_SPECIAL,
    *_OPTIONS,
    *TOKENIZER_KEYS_WITHOUT_EFFECT,
}


@dataclass(frozen=True, slots=True)
class LoadedTokenizer:
    """A fast tokenizer, and the id of its token for unknown pieces."""

    tokenizer: FastTokenizer
    unknown_id: int | None  # of the token for unknown pieces


class _AddedPart(msgspec.Struct, frozen=True):
    id: int
    content: str


class _Parts(msgspec.Struct, frozen=True):
    model: ModelPart
    added_tokens: list[_AddedPart] = []


def read_tokenizer_file(model: Model) -> LoadedTokenizer | None:
    """Read a model's ``tokenizer.json``; None where transformers might build another tokenizer, or fail."""
    try:
        with wrap_library_errors("the tokenizer cannot be read"):
            return _read_supported(model)
    except ModelError:
        return None


def _read_supported(model: Model) -> LoadedTokenizer | None:
    path = model.folder / "tokenizer.json"
    settings, names = (
        _read_settings_file(model, "tokenizer_config.json"),
        _read_settings_file(model, "special_tokens_map.json"),
    )
    if not path.is_file() or not settings.keys() <= _UNDERSTOOD or (model.folder / "added_tokens.json").exists():
        return None
    if "added_tokens_decoder" not in settings:
        settings = {**settings, **{key: _without_flags(token) for key, token in names.items()}}
    family = PACKED_FAMILIES.get(model.config.model_type)
    chosen = settings.get("tokenizer_class") or model.config.tokenizer_class or (family and family.tokenizer_class)
    tokenizer_class = TOKENIZER_CLASSES.get(str(chosen)) if family else None
    if tokenizer_class is None:
        return None
    special = {**tokenizer_class.special_tokens, **{key: settings[key] for key in _SPECIAL if key in settings}}
    contents = {key: _content(token) for key, token in special.items() if token is not None}
    text = read_regular(path)
    parts = msgspec.json.decode(text, type=_Parts)
    tokenizer = FastTokenizer.from_buffer(text)
    if not _has_added_tokens(tokenizer, parts, settings, [*contents.values(), *_more_special(settings)]):
        return None
    if not tokenizer_class.would_build(TokenizerCandidate(tokenizer, parts.model, contents, settings)):
        return None
    unknown = contents.get("unk_token")
    return LoadedTokenizer(tokenizer, None if unknown is None else tokenizer.token_to_id(unknown))


def _read_settings_file(model: Model, name: str) -> Json:
    path = model.folder / name
    return decode_json(read_regular(path), dict[str, object]) if path.exists() else {}


def _content(token: object) -> str:
    """The string of a special token, which may be written with its flags."""
    content = token.get("content") if isinstance(token, Mapping) and token.get("__type") == "AddedToken" else token
    if not isinstance(content, str):
        raise TypeError(f"{token!r} is no special token")
    return content


def _without_flags(token: object) -> object:
    """A token of ``special_tokens_map.json``; its flags are those that ``tokenizer.json`` gives it."""
    return token["content"] if isinstance(token, Mapping) else token


def _more_special(settings: Json) -> Iterator[str]:
    for key in _MORE_SPECIAL:
        tokens = settings.get(key) or []
        if not isinstance(tokens, list):
            raise TypeError(f"{key} is no list")
        yield from map(_content, tokens)


def _has_added_tokens(tokenizer: FastTokenizer, parts: _Parts, settings: Json, special: list[str]) -> bool:
    """Whether the file has all special tokens among its added tokens, which are those of the configuration."""
    added = tokenizer.get_added_tokens_decoder()
    if {number: token.content for number, token in added.items()} != {at.id: at.content for at in parts.added_tokens}:
        return False
    if (configured := settings.get("added_tokens_decoder")) is not None:
        if not isinstance(configured, Mapping):
            return False
        tokens = {int(number): repr(AddedToken(**token)) for number, token in configured.items()}
        if tokens != {number: repr(token) for number, token in added.items()}:
            return False
    return set(special) <= {token.content for token in added.values() if token.special}
