"""The tokenizers that transformers' classes build from a ``tokenizer.json``, for the packed families.

A class takes the vocabulary from the file and builds the other parts itself. :data:`TOKENIZER_CLASSES` says of each
class whether these parts would be those that the file holds.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec
from tokenizers import Tokenizer as FastTokenizer, normalizers, pre_tokenizers, processors

Json = Mapping[str, object]


class ModelPart(msgspec.Struct, frozen=True, omit_defaults=True):
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


class _TokenizerPart(Protocol):
    """A part of a tokenizer: its state is JSON."""

    def __getstate__(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class TokenizerCandidate:
    """A tokenizer as the file has it, and what a class would build it from."""

    tokenizer: FastTokenizer
    model: ModelPart
    special: Mapping[str, str]  # attribute → token
    settings: Json

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
        """Whether the file's parts are these."""
        pairs = (
            (self.tokenizer.normalizer, normalizer),
            (self.tokenizer.pre_tokenizer, pre_tokenizer),
            (self.tokenizer.post_processor, post_processor),
        )
        return all(_state(own) == _state(built) for own, built in pairs)


def _state(part: _TokenizerPart | None) -> object:
    return None if part is None else json.loads(part.__getstate__())


@dataclass(frozen=True, slots=True)
class TokenizerClass:
    """A tokenizer class of transformers: its special tokens, and whether it would build what the file holds."""

    special_tokens: Json
    would_build: Callable[[TokenizerCandidate], bool]


def _is_bert(candidate: TokenizerCandidate) -> bool:
    (cls, cls_id), (sep, sep_id) = candidate.token("cls_token"), candidate.token("sep_token")
    expected = ModelPart(
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


def _is_roberta(candidate: TokenizerCandidate) -> bool:
    settings = candidate.model
    affixes = (settings.continuing_subword_prefix or "", settings.end_of_word_suffix or "")
    plain = ModelPart(
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


def _is_xlm_roberta(candidate: TokenizerCandidate) -> bool:
    (bos, bos_id), (eos, eos_id) = candidate.token("bos_token"), candidate.token("eos_token")
    normalizer = candidate.tokenizer.normalizer
    prepend_scheme = "always" if candidate.option("add_prefix_space", True) else "never"
    return (
        candidate.model == ModelPart("Unigram", unk_id=3)
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


def _takes_the_file(candidate: TokenizerCandidate) -> bool:
    """Of the class without an architecture of its own, which reads the whole file."""
    return candidate.tokenizer.post_processor is not None


_BERT = TokenizerClass(
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
TOKENIZER_CLASSES: Mapping[str, TokenizerClass] = {
    **{
        name + fast: tokenizer_class
        for fast in ("", "Fast")
        for name, tokenizer_class in {
            "BertTokenizer": _BERT,
            "DistilBertTokenizer": _BERT,
            "ElectraTokenizer": _BERT,
            "RobertaTokenizer": TokenizerClass(_ROBERTA_TOKENS, _is_roberta),
            "XLMRobertaTokenizer": TokenizerClass(_ROBERTA_TOKENS, _is_xlm_roberta),
        }.items()
    },
    "PreTrainedTokenizerFast": TokenizerClass({}, _takes_the_file),
    "TokenizersBackend": TokenizerClass({}, _takes_the_file),
}
