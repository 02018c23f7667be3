"""Reading of ``tokenizer.json`` without transformers, where that gives the tokenizer that transformers would build.

For most of its tokenizer classes transformers takes only the vocabulary from ``tokenizer.json``. It builds the other
parts from the class and from ``tokenizer_config.json``. Here the file is taken as it is, but only where its parts are
those that transformers would build. All other cases are left to transformers: :func:`read_tokenizer_file` gives None.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
from tokenizers import AddedToken, Tokenizer as FastTokenizer, normalizers, pre_tokenizers, processors

from bertfeat.core.models import PACKED_FAMILIES, TOKENIZER_KEYS_WITHOUT_EFFECT, Model, wrap_library_errors
from bertfeat.errors import ModelError
from bertfeat.io import decode_json, read_regular

_Json = Mapping[str, object]

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_MORE_SPECIAL = ("extra_special_tokens", "additional_special_tokens")
_UNDERSTOOD = {
    "tokenizer_class",
    "added_tokens_decoder",
    *_SPECIAL,
    *_MORE_SPECIAL,
    *("do_lower_case", "tokenize_chinese_chars", "strip_accents", "add_prefix_space", "trim_offsets"),
    *TOKENIZER_KEYS_WITHOUT_EFFECT,
}


@dataclass(frozen=True, slots=True)
class LoadedTokenizer:
    """A fast tokenizer, and the ids of its tokens for unknown pieces and for masked ones."""

    tokenizer: FastTokenizer
    unknown_id: int | None
    mask_id: int | None  # where there is none, that of the end of a text


class _ModelPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """The settings of ``tokenizer.json``'s model, without its vocabulary."""

    type: str
    unk_token: str | None = None
    continuing_subword_prefix: str | None = None
    max_input_chars_per_word: int | None = None
    dropout: float | None = None
    end_of_word_suffix: str | None = None
    fuse_unk: bool = False
    byte_fallback: bool = False
    ignore_merges: bool = False
    unk_id: int | None = None


class _AddedPart(msgspec.Struct, frozen=True):
    id: int
    content: str


class _Parts(msgspec.Struct, frozen=True):
    model: _ModelPart
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
        # the tokens without their flags, which tokenizer.json then decides
        plain = {key: token["content"] if isinstance(token, Mapping) else token for key, token in names.items()}
        settings = {**settings, **plain}
    family = PACKED_FAMILIES.get(model.config.model_type)
    chosen = settings.get("tokenizer_class") or model.config.tokenizer_class or (family and family.tokenizer_class)
    tokenizer_class = _TOKENIZER_CLASSES.get(str(chosen)) if family else None
    if tokenizer_class is None:
        return None
    special = {**tokenizer_class.special_tokens, **{key: settings[key] for key in _SPECIAL if key in settings}}
    contents = {key: _content(token) for key, token in special.items() if token is not None}
    text = read_regular(path)
    parts = msgspec.json.decode(text, type=_Parts)
    tokenizer = FastTokenizer.from_buffer(text)
    if not _has_added_tokens(tokenizer, parts, settings, [*contents.values(), *_more_special(settings)]):
        return None
    if not tokenizer_class.would_build(_TokenizerCandidate(tokenizer, parts.model, contents, settings)):
        return None
    unknown, mask = contents.get("unk_token"), contents.get("mask_token", contents.get("eos_token"))
    ids = (None if token is None else tokenizer.token_to_id(token) for token in (unknown, mask))
    return LoadedTokenizer(tokenizer, *ids)


def _read_settings_file(model: Model, name: str) -> _Json:
    path = model.folder / name
    return decode_json(read_regular(path), dict[str, object]) if path.exists() else {}


def _content(token: object) -> str:
    """The string of a special token, which may be written with its flags."""
    content = token.get("content") if isinstance(token, Mapping) and token.get("__type") == "AddedToken" else token
    if not isinstance(content, str):
        raise TypeError(f"{token!r} is no special token")
    return content


def _more_special(settings: _Json) -> Iterator[str]:
    for key in _MORE_SPECIAL:
        tokens = settings.get(key) or []
        if not isinstance(tokens, list):
            raise TypeError(f"{key} is no list")
        yield from map(_content, tokens)


def _has_added_tokens(tokenizer: FastTokenizer, parts: _Parts, settings: _Json, special: list[str]) -> bool:
    """Whether the file's added tokens are those of the configuration, and all special tokens are among them."""
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


# ── what the classes of transformers would build ────────────────────────────────────────────────────────────


class _TokenizerPart(Protocol):
    """A part of a tokenizer: its state is JSON."""

    def __getstate__(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class _TokenizerCandidate:
    """A tokenizer as the file has it, and what a class would build it from."""

    tokenizer: FastTokenizer
    model: _ModelPart
    special: Mapping[str, str]  # attribute → token
    settings: _Json

    def option(self, name: str, default: bool | None) -> bool | None:
        """An option of ``tokenizer_config.json``."""
        value = self.settings.get(name, default)
        if not (value is None or isinstance(value, bool)):
            raise TypeError(f"{name} is {value!r}")
        return value

    def token(self, name: str) -> tuple[str, int]:
        """A special token and its id."""
        content = self.special[name]
        number = self.tokenizer.token_to_id(content)
        if number is None:
            raise KeyError(content)
        return content, number

    def has_parts(
        self, normalizer: _TokenizerPart | None, pre_tokenizer: _TokenizerPart, post_processor: _TokenizerPart
    ) -> bool:
        """Whether the file's parts are equal to these, which a tokenizer's class would build; None: no normalizer."""
        pairs = (
            (self.tokenizer.normalizer, normalizer),
            (self.tokenizer.pre_tokenizer, pre_tokenizer),
            (self.tokenizer.post_processor, post_processor),
        )
        return all(_state(own) == _state(built) for own, built in pairs)


def _state(part: _TokenizerPart | None) -> object:
    return None if part is None else json.loads(part.__getstate__())


@dataclass(frozen=True, slots=True)
class _TokenizerClass:
    """A tokenizer class of transformers: its special tokens, and whether it would build what the file holds."""

    special_tokens: _Json
    would_build: Callable[[_TokenizerCandidate], bool]


def _is_bert(candidate: _TokenizerCandidate) -> bool:
    (cls, cls_id), (sep, sep_id) = candidate.token("cls_token"), candidate.token("sep_token")
    expected = _ModelPart(
        "WordPiece",
        unk_token=candidate.special["unk_token"],
        continuing_subword_prefix="##",
        max_input_chars_per_word=100,
    )
    return candidate.model == expected and candidate.has_parts(
        normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=bool(candidate.option("tokenize_chinese_chars", True)),
            strip_accents=candidate.option("strip_accents", None),
            lowercase=bool(candidate.option("do_lower_case", True)),
        ),
        pre_tokenizers.BertPreTokenizer(),
        processors.TemplateProcessing(
            single=f"{cls}:0 $A:0 {sep}:0",
            pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
            special_tokens=[(cls, cls_id), (sep, sep_id)],
        ),
    )


def _is_roberta(candidate: _TokenizerCandidate) -> bool:
    settings = candidate.model
    affixes = (settings.continuing_subword_prefix or "", settings.end_of_word_suffix or "")
    plain = _ModelPart(
        "BPE",
        continuing_subword_prefix=settings.continuing_subword_prefix,
        end_of_word_suffix=settings.end_of_word_suffix,
    )
    add_prefix_space = bool(candidate.option("add_prefix_space", False))
    return (
        settings == plain
        and affixes == ("", "")
        and candidate.has_parts(
            None,
            pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space),
            processors.RobertaProcessing(
                candidate.token("sep_token"),
                candidate.token("cls_token"),
                bool(candidate.option("trim_offsets", True)),
                add_prefix_space,
            ),
        )
    )


def _is_xlm_roberta(candidate: _TokenizerCandidate) -> bool:
    (bos, bos_id), (eos, eos_id) = candidate.token("bos_token"), candidate.token("eos_token")
    normalizer = candidate.tokenizer.normalizer
    prepend_scheme = "always" if candidate.option("add_prefix_space", True) else "never"
    return (
        candidate.model == _ModelPart("Unigram", unk_id=3)
        and (normalizer is None or isinstance(normalizer, normalizers.Precompiled))
        and candidate.has_parts(
            normalizer,
            pre_tokenizers.Sequence(
                [
                    pre_tokenizers.WhitespaceSplit(),
                    pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=prepend_scheme),
                ]
            ),
            processors.TemplateProcessing(
                single=[bos, "$A", eos],
                pair=[bos, "$A", eos, eos, "$B", eos],
                special_tokens=[(bos, bos_id), (eos, eos_id)],
            ),
        )
    )


def _takes_the_file(candidate: _TokenizerCandidate) -> bool:
    """Whether a class without an architecture of its own, which reads the whole file, finds a post-processor there."""
    return candidate.tokenizer.post_processor is not None


_BERT = _TokenizerClass(
    {
        "unk_token": "[UNK]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "cls_token": "[CLS]",
        "mask_token": "[MASK]",
    },
    _is_bert,
)
_ROBERTA_TOKENS = {
    "bos_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "cls_token": "<s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
_TOKENIZER_CLASSES: Mapping[str, _TokenizerClass] = {
    **{
        name + fast: tokenizer_class
        for fast in ("", "Fast")
        for name, tokenizer_class in {
            "BertTokenizer": _BERT,
            "DistilBertTokenizer": _BERT,
            "ElectraTokenizer": _BERT,
            "RobertaTokenizer": _TokenizerClass(_ROBERTA_TOKENS, _is_roberta),
            "XLMRobertaTokenizer": _TokenizerClass(_ROBERTA_TOKENS, _is_xlm_roberta),
        }.items()
    },
    "PreTrainedTokenizerFast": _TokenizerClass({}, _takes_the_file),
    "TokenizersBackend": _TokenizerClass({}, _takes_the_file),
}
