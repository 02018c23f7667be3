"""Tiny real models of every family, built from configurations, offline; and Hugging Face's own numbers for them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModel, AutoModelForTextEncoding, AutoTokenizer

from bertfeat.core.corpus import Document
from bertfeat.core.encoder import Encoder, Precision, load_encoder
from bertfeat.core.extraction.compute import FeatureMatrices, compute_features
from bertfeat.core.grammar import feature_columns
from bertfeat.core.models import ENCODER_HALVES, Model
from bertfeat.core.recipe import FeatureColumn, Pooling
from bertfeat.core.tokens import LongTextPolicy, TokenizedDocuments, Tokenizer, TokenSettings, tokenize
from tests.support.tiny_families import (
    ALL as ALL,
    FAMILIES as FAMILIES,
    PACKED as PACKED,
    POSITIONS as POSITIONS,
    SIZES as SIZES,
    build as build,
    rewrite as rewrite,
    roughen as roughen,
    save_tokenizer as save_tokenizer,
)
from tests.support.tiny_tokenizers import SENTENCES as SENTENCES, VOCABULARY as VOCABULARY

CPU = torch.device("cpu")

TEXTS = (
    "The bank.",
    "",
    "Don't stop: naïve café owners re-open at 7.30 p.m.",
    "은행에서 돈을 찾았다, 🙂 and the river.",
    "a",
    "He went to the bank to ask for money; they didn't lend him any, and the water ran fast.",
    "Die Straße führt über den Fluß.",
)

PAIRS = (
    ("The bank.", "A river."),
    ("은행에서 돈을 찾았다", "He went to the bank; they didn't lend him any."),
    ("Don't stop", ""),
)

LONG_TEXT = " ".join(SENTENCES) + " " + "x" * 90 + " " + " ".join(reversed(SENTENCES))


# ── Hugging Face's own numbers ──────────────────────────────────────────────────────────────────────────────


@cache
def reference_module(folder: Path, attention: str | None = None) -> Any:
    """Hugging Face's own module; with ``attention="eager"`` the family's own attention, in plain products."""
    kind = AutoModelForTextEncoding if AutoConfig.from_pretrained(folder).model_type in ENCODER_HALVES else AutoModel
    return kind.from_pretrained(folder, dtype=torch.float32, attn_implementation=attention).eval()


@cache
def reference_tokenizer(folder: Path) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.no_truncation()
    return tokenizer


def reference_ids(folder: Path, text: str, pair: str | None = None) -> tuple[list[int], list[int]]:
    """Token and segment ids as Hugging Face gives them."""
    encoded = reference_tokenizer(folder)([text], [pair] if pair is not None else None, return_token_type_ids=True)
    return encoded["input_ids"][0], encoded["token_type_ids"][0]


@torch.no_grad()
def reference_states(
    folder: Path, ids: Sequence[int], types: Sequence[int], attention: str | None = None
) -> NDArray[np.float32]:
    """Every layer of one sequence alone, without padding. Shape: ``[L+1, T, H]``."""
    module = reference_module(folder, attention) if attention else reference_module(folder)
    inputs = {"input_ids": torch.tensor([list(ids)]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    config = module.config
    if (getattr(config, "type_vocab_size", 0) or 0) > 1 or config.model_type == "xlnet":
        inputs["token_type_ids"] = torch.tensor([list(types)])
    states = module(**inputs, output_hidden_states=True).hidden_states
    return np.stack([state[0].numpy() for state in states])


def text_states(folder: Path, text: str, pair: str | None = None) -> NDArray[np.float32]:
    """Every layer of one text alone. Shape: ``[L+1, T, H]``."""
    return reference_states(folder, *reference_ids(folder, text, pair))


# ── bertfeat's numbers ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Tiny:
    """A tiny model, loaded as bertfeat loads it."""

    folder: Path
    model: Model
    tokenizer: Tokenizer
    encoder: Encoder

    @classmethod
    def load(cls, folder: Path, precision: Precision = Precision.FP32) -> "Tiny":
        model = Model(folder.name, folder)
        return cls(folder, model, Tokenizer(model), load_encoder(model, precision, CPU))

    def settings(self, columns: Sequence[FeatureColumn] = (), **changes: Any) -> TokenSettings:
        poolings = {column.pooling for column in columns}
        wanted = {"with_tokens": Pooling.TOKEN in poolings, "with_words": Pooling.WORD in poolings}
        return TokenSettings(
            **{"max_length": self.model.max_tokens, "long": LongTextPolicy.WINDOW, **wanted, **changes}
        )

    def columns(self, layers: str, *poolings: Pooling, dtype: str = "float32") -> tuple[FeatureColumn, ...]:
        return feature_columns(
            layers, poolings, num_layers=self.model.num_layers, hidden_size=self.model.hidden_size, dtype=dtype
        )

    def features(
        self,
        documents_: Sequence[Document],
        layers: str,
        *poolings: Pooling,
        batch_tokens: int = 8192,
        dtype: str = "float32",
        **settings: Any,
    ) -> "Features":
        columns = self.columns(layers, *poolings, dtype=dtype)
        tokenized = tokenize(documents_, self.tokenizer, self.settings(columns, **settings))
        return Features(
            tokenized, compute_features(self.encoder, tokenized, columns, batch_tokens=batch_tokens), columns
        )


@dataclass(frozen=True)
class Features:
    """What bertfeat computed of some documents."""

    tokenized: TokenizedDocuments
    computed: FeatureMatrices
    columns: tuple[FeatureColumn, ...]

    def __getitem__(self, column: str) -> NDArray[np.floating]:
        return self.computed.matrices[column]

    def of(self, column: FeatureColumn, document: int) -> NDArray[np.floating]:
        """One document's vector or matrix."""
        if column.pooling is Pooling.TOKEN:
            return self.tokens(column.name, document)
        return self.words(column.name, document) if column.pooling is Pooling.WORD else self[column.name][document]

    def tokens(self, column: str, document: int) -> NDArray[np.floating]:
        listing = self.tokenized.tokens
        assert listing is not None
        return self[column][listing.offsets[document] : listing.offsets[document + 1]]

    def words(self, column: str, document: int) -> NDArray[np.floating]:
        listing = self.tokenized.words
        assert listing is not None
        return self[column][listing.offsets[document] : listing.offsets[document + 1]]


def documents(texts: Sequence[str | tuple[str, str]]) -> list[Document]:
    """Texts or pairs as the documents of a corpus."""
    return [
        Document(row, str(row), text) if isinstance(text, str) else Document(row, str(row), text[0], pair=text[1])
        for row, text in enumerate(texts)
    ]


def given(*words: str) -> Document:
    """Give a document of given words."""
    return Document(0, "0", " ".join(words), words=words)
