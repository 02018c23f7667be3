"""Tiny real models of every family, built from configurations, offline; and Hugging Face's own numbers for them."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer as FastTokenizer
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModel, AutoTokenizer
from transformers.models.albert import AlbertConfig
from transformers.models.bert import BertConfig
from transformers.models.deberta_v2 import DebertaV2Config
from transformers.models.distilbert import DistilBertConfig
from transformers.models.electra import ElectraConfig
from transformers.models.longformer import LongformerConfig
from transformers.models.modernbert import ModernBertConfig
from transformers.models.mpnet import MPNetConfig
from transformers.models.roberta import RobertaConfig
from transformers.models.xlm_roberta import XLMRobertaConfig

from bertfeat.corpus import Document
from bertfeat.encoder import Encoder, Precision, load_encoder
from bertfeat.extraction.compute import Computed, compute
from bertfeat.models import Model
from bertfeat.recipe import FeatureColumn, Pooling, feature_columns
from bertfeat.tokens import Long, Tokenized, Tokenizer, TokenSettings, tokenize

VOCABULARY = 400
POSITIONS = 64  # most tokens at once, so that a few sentences make windows
CPU = torch.device("cpu")

SENTENCES = (
    "The bank of the river was steep, and the water ran fast below the old mill.",
    "He went to the bank to ask for money; they didn't lend him any.",
    "Don't stop: naïve café owners re-open at 7.30 p.m. (every day!).",
    "은행에서 돈을 찾았다. 강둑에 앉아 쉬었다.",
    "銀行でお金をおろした。川の土手に座った。",
    "Die Straße führt über den Fluß, nach Norden.",
    "Emoji 🙂🙃 and families 👩‍👩‍👧 and hearts ❤️ and flags 🇰🇷.",
    "שלום עולם، مرحبا بالعالم.",
    "unbelievable unhappiness reopening redoing walked walking walks",
)

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


# ── tokenizers ──────────────────────────────────────────────────────────────────────────────────────────────


def _word_piece(names: Sequence[str], *, lowercase: bool = True, types: bool = True) -> FastTokenizer:
    pad, unknown, cls, sep, mask = names
    tokenizer = FastTokenizer(models.WordPiece(unk_token=unknown))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(vocab_size=VOCABULARY, special_tokens=[pad, unknown, cls, sep, mask])
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = _template(tokenizer, cls, sep, between=f"{sep}", types=types)
    return tokenizer


def _byte_level(names: Sequence[str], *, double: bool) -> FastTokenizer:
    cls, pad, sep, unknown, mask = names
    tokenizer = FastTokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[cls, pad, sep, unknown, mask],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    number = tokenizer.get_vocab()
    if double:
        tokenizer.post_processor = processors.RobertaProcessing(
            (sep, number[sep]), (cls, number[cls]), trim_offsets=True, add_prefix_space=False
        )
    else:
        tokenizer.post_processor = _template(tokenizer, cls, sep, between=sep, types=False)
    return tokenizer


def _unigram(names: Sequence[str], *, unknown: str, between: str, types: bool) -> FastTokenizer:
    cls, pad, sep, mask = names
    tokenizer = FastTokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=VOCABULARY, special_tokens=[cls, pad, sep, unknown, mask], unk_token=unknown, show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = _template(tokenizer, cls, sep, between=between, types=types)
    return tokenizer


def _template(tokenizer: FastTokenizer, cls: str, sep: str, *, between: str, types: bool) -> Any:
    second = ":1" if types else ":0"
    return processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {between} $B{second} {sep}{second}",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in (cls, sep)],
    )


_BERT_NAMES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROBERTA_NAMES = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
_XLMR_NAMES = ("<s>", "<pad>", "</s>", "<mask>")


# ── families ────────────────────────────────────────────────────────────────────────────────────────────────

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": POSITIONS,
}
_OFFSET = {**SIZES, "max_position_embeddings": POSITIONS + 2, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
_DISTIL = {
    "vocab_size": VOCABULARY,
    "dim": 32,
    "n_layers": 5,
    "n_heads": 4,
    "hidden_dim": 48,
    "max_position_embeddings": POSITIONS,
}


@dataclass(frozen=True)
class Family:
    """How a family's tiny model is made."""

    config: Callable[..., Any]
    settings: dict[str, Any]
    tokenizer: Callable[[], FastTokenizer]
    names: dict[str, str] = field(default_factory=dict)
    packed: bool = False


def _named(pad: str, unknown: str, cls: str, sep: str, mask: str) -> dict[str, str]:
    return {"pad_token": pad, "unk_token": unknown, "cls_token": cls, "sep_token": sep, "mask_token": mask}


_BERT_KIND = _named(*_BERT_NAMES)
_ROBERTA_KIND = _named("<pad>", "<unk>", "<s>", "</s>", "<mask>")

FAMILIES: dict[str, Family] = {
    "bert": Family(BertConfig, SIZES, lambda: _word_piece(_BERT_NAMES), _BERT_KIND, packed=True),
    "roberta": Family(
        RobertaConfig,
        {**_OFFSET, "type_vocab_size": 1},
        lambda: _byte_level(_ROBERTA_NAMES, double=True),
        _ROBERTA_KIND,
        packed=True,
    ),
    "xlm-roberta": Family(
        XLMRobertaConfig,
        {**_OFFSET, "type_vocab_size": 1},
        lambda: _unigram(_XLMR_NAMES, unknown="<unk>", between="</s> </s>", types=False),
        _ROBERTA_KIND,
        packed=True,
    ),
    "distilbert": Family(
        DistilBertConfig, _DISTIL, lambda: _word_piece(_BERT_NAMES, lowercase=False, types=False), _BERT_KIND, True
    ),
    "electra": Family(
        ElectraConfig, {**SIZES, "embedding_size": 24}, lambda: _word_piece(_BERT_NAMES), _BERT_KIND, packed=True
    ),
    "modernbert": Family(
        ModernBertConfig,
        {
            **SIZES,
            "local_attention": 16,
            "pad_token_id": 1,
            "bos_token_id": 0,
            "eos_token_id": 2,
            "cls_token_id": 0,
            "sep_token_id": 2,
            "reference_compile": False,
        },
        lambda: _byte_level(("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"), double=False),
        _BERT_KIND,
    ),
    "mpnet": Family(
        MPNetConfig,
        _OFFSET,
        lambda: _word_piece(("<s>", "<pad>", "</s>", "[UNK]", "<mask>"), types=False),
        _named("<pad>", "[UNK]", "<s>", "</s>", "<mask>"),
    ),
    "longformer": Family(
        LongformerConfig,
        {**_OFFSET, "type_vocab_size": 1, "attention_window": 8},
        lambda: _byte_level(_ROBERTA_NAMES, double=True),
        _ROBERTA_KIND,
    ),
    "deberta-v2": Family(
        DebertaV2Config,
        {
            **SIZES,
            "relative_attention": True,
            "position_buckets": 16,
            "pos_att_type": ["p2c", "c2p"],
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "position_biased_input": False,
            "pad_token_id": 1,
            "conv_kernel_size": 3,
            "conv_act": "gelu",
        },
        lambda: _unigram(("[CLS]", "[PAD]", "[SEP]", "[MASK]"), unknown="[UNK]", between="[SEP]", types=True),
        _BERT_KIND,
    ),
    "albert": Family(
        AlbertConfig,
        {**SIZES, "embedding_size": 24, "pad_token_id": 1},
        lambda: _unigram(("[CLS]", "[PAD]", "[SEP]", "[MASK]"), unknown="<unk>", between="[SEP]", types=True),
        _named("[PAD]", "<unk>", "[CLS]", "[SEP]", "[MASK]"),
    ),
}
PACKED = tuple(name for name, family in FAMILIES.items() if family.packed)
ALL = tuple(FAMILIES)


def build(family: str, folder: Path, **changes: Any) -> Path:
    """Write a tiny random model of a family, its tokenizer beside it; ``changes`` go into its configuration."""
    made = FAMILIES[family]
    torch.manual_seed(7)
    module = AutoModel.from_config(made.config(**{**made.settings, **changes}))
    roughen(module)
    module.save_pretrained(folder)
    save_tokenizer(made, folder)
    return folder


def save_tokenizer(made: Family, folder: Path) -> None:
    made.tokenizer().save(str(folder / "tokenizer.json"))
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs, **made.names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), "utf-8")


@torch.no_grad()
def roughen(module: torch.nn.Module) -> None:
    """Give every weight a value of its own, norms and biases too, so that no mistake in placing them hides."""
    generator = torch.Generator().manual_seed(11)
    for name, weight in module.named_parameters():
        noise = torch.randn(weight.shape, generator=generator)
        if weight.dim() == 1:
            weight.add_(0.2 * noise)
        else:
            weight.copy_(noise * (0.5 if "embedding" in name else 0.16))


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    """Change the tensors of a model's weights file."""
    from safetensors.torch import load_file, save_file

    file = folder / "model.safetensors"
    save_file({name: t.contiguous() for name, t in change(load_file(file)).items()}, file, {"format": "pt"})


# ── Hugging Face's own numbers ──────────────────────────────────────────────────────────────────────────────


@cache
def reference_module(folder: Path) -> Any:
    return AutoModel.from_pretrained(folder, dtype=torch.float32).eval()


@cache
def reference_tokenizer(folder: Path) -> Any:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.backend_tokenizer.no_truncation()
    return tokenizer


def reference_ids(folder: Path, text: str, pair: str | None = None) -> tuple[list[int], list[int]]:
    """Token and segment ids as Hugging Face gives them."""
    encoded = reference_tokenizer(folder)([text], [pair] if pair is not None else None)
    return encoded["input_ids"][0], encoded["token_type_ids"][0]


@torch.no_grad()
def reference_states(folder: Path, ids: Sequence[int], types: Sequence[int]) -> NDArray[np.float32]:
    """Every layer of one sequence alone, without padding. Shape: ``[L+1, T, H]``."""
    module = reference_module(folder)
    inputs = {"input_ids": torch.tensor([list(ids)]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    if (getattr(module.config, "type_vocab_size", 0) or 0) > 1:
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
        return TokenSettings(**{"max_length": self.model.max_tokens, "long": Long.WINDOW, **wanted, **changes})

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
        return Features(tokenized, compute(self.encoder, tokenized, columns, batch_tokens=batch_tokens), columns)


@dataclass(frozen=True)
class Features:
    """What bertfeat computed of some documents."""

    tokenized: Tokenized
    computed: Computed
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
