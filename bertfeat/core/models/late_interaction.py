"""Models that compare the tokens of two texts: how these read a query and a document, by what their files say.

Late interaction (Khattab and Zaharia 2020, arXiv:2004.12832): after the encoder each token's vector is projected and
divided by its length, and a query is held against a document token by token. A query and a document begin with a marker
each, a query is filled up with ``[MASK]``, and a document's punctuation gets no vector. The files are those of
sentence-transformers (``MultiVectorEncoder``), of PyLate, or of ColBERT's own library.
"""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from bertfeat.core.models.files import read_model_json
from bertfeat.core.models.sentence_files import ENCODER, SETTINGS, SentenceModule, read_module_file

_METADATA = "artifact.metadata"  # of ColBERT's own library
_ARCHITECTURE = "HF_ColBERT"
_USUAL_WIDTH = 32  # tokens of a query of ColBERT
_TYPES = ("ColBERT", "MultiVectorEncoder")  # as PyLate and sentence-transformers name their models
TOKEN_MASK = "MultiVectorMask"
"""The module that says which tokens get no vector."""
PYLATE_DENSE = "pylate.models.Dense.Dense"
"""PyLate's name of a product."""
_OF_PYLATE = (
    *("query_length", "document_length", "do_query_expansion", "attend_to_expansion_tokens", "attend_to_mask_tokens"),
    *("query_prefix", "document_prefix", "skiplist_words"),
)
TOKEN_SETTINGS = (*_OF_PYLATE, "query_expansion")
"""Settings of such models in sentence-transformers' files."""
_Count = Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]


@dataclass(frozen=True, slots=True)
class QueryExpansion:
    """The tokens that fill a query up, which get vectors as its own do."""

    length: _Count  # of the query with them; a longer one has none
    attend: bool = False  # whether other tokens see them
    token: str | None = None  # None: the tokenizer's mask
    strategy: Literal["fixed", "min"] = "fixed"  # they differ in what becomes of a longer query

    def __str__(self) -> str:
        seen = "" if self.attend else " that no token sees"
        return f"filled up to {self.length} tokens by {self.token or 'the mask'}{seen}"


@dataclass(frozen=True, slots=True)
class TokenReading:
    """The reading of queries and documents by a model that compares their tokens."""

    query: str = ""  # the prompt that makes a text a query
    document: str = ""  # the prompt that makes it a document
    named: bool = False  # whether a prompt is the token of its name, whatever the tokenizer makes of it in a text
    skipped: tuple[str, ...] = ()  # tokens that get no vector
    skipped_in: tuple[str, ...] = ("document",)
    expansion: QueryExpansion | None = None
    limits: Mapping[str, int] = field(default_factory=dict)  # tokens of a document, by the file that says so
    listed: bool = True  # whether its modules are listed whole; PyLate leaves out the last one, which normalizes
    fills_left: bool = False  # whether a query is filled up before its tokens
    of_images: bool = False  # whether tokens of images alone get vectors in a document

    @property
    def prompts(self) -> Mapping[str, str]:
        """The prompts by the roles of texts."""
        return {"query": self.query, "document": self.document}

    def __str__(self) -> str:
        marked = self.query or self.document
        told = [f"a query begins with {self.query!r}, a document with {self.document!r}"] if marked else []
        if self.expansion is not None:
            told.append(f"a query is {self.expansion}")
        if self.skipped:
            told.append(f"a {' and a '.join(self.skipped_in)} has no vectors of {' '.join(self.skipped)}")
        return "; ".join(told)


@dataclass(frozen=True, slots=True)
class _SettingsFile:
    """``config_sentence_transformers.json``, also as PyLate writes it."""

    model_type: str | None = None
    prompts: dict[str, str] | None = None
    query_prefix: str | None = None
    document_prefix: str | None = None
    query_length: _Count | None = None
    document_length: _Count | None = None
    do_query_expansion: bool | None = None
    attend_to_expansion_tokens: bool | None = None
    attend_to_mask_tokens: bool | None = None
    query_expansion: QueryExpansion | None = None
    skiplist_words: list[str] | None = None

    @property
    def usual_expansion(self) -> QueryExpansion | None:
        """The expansion of PyLate's models, which do it unless they say that they do not."""
        if self.do_query_expansion is False:
            return None
        told = self.attend_to_expansion_tokens
        attend = self.attend_to_mask_tokens if told is None else told
        return QueryExpansion(self.query_length or _USUAL_WIDTH, bool(attend))


@dataclass(frozen=True, slots=True)
class _ExpansionFile:
    """``sentence_bert_config.json``."""

    query_expansion: QueryExpansion | None = None


@dataclass(frozen=True, slots=True)
class _PaddingFile:
    """``tokenizer_config.json``."""

    padding_side: str | None = None


@dataclass(frozen=True, slots=True)
class _MaskFile:
    """The ``config.json`` of a ``MultiVectorMask``."""

    skiplist_words: list[str] | None = None
    skiplist_tasks: list[str] | str | None = None
    keep_only_token_ids: list[int] | None = None

    @property
    def tasks(self) -> tuple[str, ...]:
        given = self.skiplist_tasks
        return ("document",) if given is None else (given,) if isinstance(given, str) else tuple(given)


@dataclass(frozen=True, slots=True)
class _ColbertFile:
    """``artifact.metadata``."""

    query_token_id: str | None = None
    doc_token_id: str | None = None
    query_maxlen: _Count | None = None
    doc_maxlen: _Count | None = None
    mask_punctuation: bool = True
    attend_to_mask_tokens: bool | None = None


def is_colbert(config: Mapping[str, object]) -> bool:
    """Whether a ``config.json`` is of a model that ColBERT's own library saved, with the projection in its weights."""
    architectures = config.get("architectures")
    return isinstance(architectures, list) and _ARCHITECTURE in architectures


def compares_tokens(name: str, folder: Path, modules: Sequence[SentenceModule]) -> bool:
    """Whether a list of modules is that of a model that compares tokens."""
    kinds = [module.kind for module in modules]
    if not modules or "Pooling" in kinds:
        return False
    named = (read_model_json(name, folder, SETTINGS, _SettingsFile) or _SettingsFile()).model_type in _TYPES
    return named or TOKEN_MASK in kinds or any(module.type == PYLATE_DENSE for module in modules)


def read_listed_reading(name: str, folder: Path, encoder: Path, modules: Sequence[SentenceModule]) -> TokenReading:
    """Read how a model that lists its modules reads texts; ``encoder`` is the folder of its encoder.

    Raises:
        ModelError: a file is damaged.
    """
    said = read_model_json(name, folder, SETTINGS, _SettingsFile) or _SettingsFile()
    keys = (read_model_json(name, folder, SETTINGS, dict[str, object]) or {}).keys()
    own = read_model_json(name, encoder, ENCODER, _ExpansionFile) or _ExpansionFile()
    by_pylate = said.model_type == "ColBERT" or any(module.type == PYLATE_DENSE for module in modules)
    expansion = own.query_expansion or said.query_expansion
    if expansion is None and keys & set(_OF_PYLATE) and "query_expansion" not in keys:
        expansion = said.usual_expansion
    mask = next((module for module in modules if module.kind == TOKEN_MASK), None)
    masked = _MaskFile() if mask is None else read_module_file(name, folder, mask, _MaskFile)
    skipped = masked.skiplist_words or []
    if by_pylate and mask is None:
        skipped = list(string.punctuation) if said.skiplist_words is None else said.skiplist_words
    prompts = said.prompts or {}
    query, document = (
        (prefix or "") + (prompts.get(role) or "").removeprefix(prefix or "")
        for role, prefix in (("query", said.query_prefix), ("document", said.document_prefix))
    )
    named = bool(keys & {"query_prefix", "document_prefix"})
    padding = read_model_json(name, encoder, "tokenizer_config.json", _PaddingFile) or _PaddingFile()
    scored = mask is not None or by_pylate  # else what fills a query up has no vector, unless it is seen
    return TokenReading(
        query,
        document,
        named,
        tuple(skipped),
        masked.tasks,
        expansion if scored or (expansion and expansion.attend) else None,
        limits={} if said.document_length is None else {SETTINGS: said.document_length},
        listed=not by_pylate,
        fills_left=padding.padding_side == "left",
        of_images=bool(masked.keep_only_token_ids),
    )


def read_colbert_reading(name: str, folder: Path) -> TokenReading:
    """Read how a model of ColBERT's own library reads its texts."""
    said = read_model_json(name, folder, _METADATA, _ColbertFile) or _ColbertFile()
    return TokenReading(
        query=said.query_token_id or "[unused0]",
        document=said.doc_token_id or "[unused1]",
        named=True,
        skipped=tuple(string.punctuation) if said.mask_punctuation else (),
        limits={} if said.doc_maxlen is None else {_METADATA: said.doc_maxlen},
        expansion=QueryExpansion(said.query_maxlen or _USUAL_WIDTH, bool(said.attend_to_mask_tokens)),
    )
