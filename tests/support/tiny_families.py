"""Tiny random models of the families that most tests use, written from configurations; they keep every layer busy."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer as FastTokenizer
from transformers import AutoModel
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

from tests.support.tiny_tokenizers import (
    BERT_NAMES,
    ROBERTA_NAMES,
    VOCABULARY,
    XLMR_NAMES,
    byte_level,
    unigram,
    word_piece,
)

POSITIONS = 64  # most tokens at once, so that a few sentences make windows

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


_BERT_KIND = _named(*BERT_NAMES)
_ROBERTA_KIND = _named("<pad>", "<unk>", "<s>", "</s>", "<mask>")

FAMILIES: dict[str, Family] = {
    "bert": Family(BertConfig, SIZES, lambda: word_piece(BERT_NAMES), _BERT_KIND, packed=True),
    "roberta": Family(
        RobertaConfig,
        {**_OFFSET, "type_vocab_size": 1},
        lambda: byte_level(ROBERTA_NAMES, double=True),
        _ROBERTA_KIND,
        packed=True,
    ),
    "xlm-roberta": Family(
        XLMRobertaConfig,
        {**_OFFSET, "type_vocab_size": 1},
        lambda: unigram(XLMR_NAMES, unknown="<unk>", between="</s> </s>", types=False),
        _ROBERTA_KIND,
        packed=True,
    ),
    "distilbert": Family(
        DistilBertConfig, _DISTIL, lambda: word_piece(BERT_NAMES, lowercase=False, types=False), _BERT_KIND, True
    ),
    "electra": Family(
        ElectraConfig, {**SIZES, "embedding_size": 24}, lambda: word_piece(BERT_NAMES), _BERT_KIND, packed=True
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
        lambda: byte_level(("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"), double=False),
        _BERT_KIND,
    ),
    "mpnet": Family(
        MPNetConfig,
        _OFFSET,
        lambda: word_piece(("<s>", "<pad>", "</s>", "[UNK]", "<mask>"), types=False),
        _named("<pad>", "[UNK]", "<s>", "</s>", "<mask>"),
        packed=True,
    ),
    "longformer": Family(
        LongformerConfig,
        {**_OFFSET, "type_vocab_size": 1, "attention_window": 8},
        lambda: byte_level(ROBERTA_NAMES, double=True),
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
        lambda: unigram(("[CLS]", "[PAD]", "[SEP]", "[MASK]"), unknown="[UNK]", between="[SEP]", types=True),
        _BERT_KIND,
    ),
    "albert": Family(
        AlbertConfig,
        {**SIZES, "embedding_size": 24, "pad_token_id": 1},
        lambda: unigram(("[CLS]", "[PAD]", "[SEP]", "[MASK]"), unknown="<unk>", between="[SEP]", types=True),
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


def save_tokenizer(made: Family, folder: Path, **more: Any) -> None:
    made.tokenizer().save(str(folder / "tokenizer.json"))
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": inputs, **made.names, **more}
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
