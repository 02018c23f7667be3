"""Every encoder of texts that transformers has, as a tiny random model, and what bertfeat should make of it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModel

from bertfeat.encoder import BatchForm
from tests.support.tiny_families import SIZES, Family, roughen, save_tokenizer
from tests.support.tiny_tokenizers import BERT_NAMES, ROBERTA_NAMES, XLMR_NAMES, byte_level, unigram, word_piece

PACKED, PADDED, EQUAL = BatchForm.PACKED, BatchForm.PADDED, BatchForm.EQUAL
REFUSED = None

_BERT_KIND = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), BERT_NAMES, strict=True))
_ROBERTA_KIND = {
    "pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"
}  # fmt: skip
_TOKENIZERS = {
    "pieces": (lambda: word_piece(BERT_NAMES), _BERT_KIND),
    "bytes": (lambda: byte_level(ROBERTA_NAMES, double=True), _ROBERTA_KIND),
    "unigram": (lambda: unigram(XLMR_NAMES, unknown="<unk>", between="</s> </s>", types=False), _ROBERTA_KIND),
}
_PADDING = {"pieces": {"pad_token_id": 0}, "bytes": {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}}


@dataclass(frozen=True)
class Architecture:
    """One architecture: its configuration, and the form in which its batches run; None where it is refused."""

    kind: str  # model_type
    form: BatchForm | None
    settings: dict[str, Any] = field(default_factory=dict)
    tokenizer: str = "pieces"
    weights: bool = True  # whether transformers can build it here without other libraries

    def config(self) -> Any:
        """Its tiny configuration: what the family does not know of the common sizes is left out."""
        known = set(CONFIG_MAPPING[self.kind]().to_dict()) | set(CONFIG_MAPPING[self.kind].attribute_map)
        common = {**SIZES, **_PADDING.get(self.tokenizer, _PADDING["bytes"])}
        kept = {key: value for key, value in common.items() if key in known}
        return CONFIG_MAPPING[self.kind](**{**kept, **self.settings})

    def build(self, folder: Path) -> Path:
        """Write it with its tokenizer."""
        torch.manual_seed(7)
        config = self.config()
        if self.weights:
            module = AutoModel.from_config(config)
            roughen(module)
            module.save_pretrained(folder)
        else:
            config.save_pretrained(folder)
        made, names = _TOKENIZERS[self.tokenizer]
        save_tokenizer(Family(CONFIG_MAPPING[self.kind], {}, made, names), folder, model_max_length=64)
        return folder


_66 = {"max_position_embeddings": 66}  # of which RoBERTa and its kin read 64
_XLM = {"n_layers": 5, "emb_dim": 32, "n_heads": 4, "max_position_embeddings": 64, "pad_index": 0}
_PAGE = {"max_2d_position_embeddings": 64}
_TEXT_TO_TEXT = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
_DECODER = {"num_key_value_heads": 4, "head_dim": 8}
_CHUNKED = {
    "axial_pos_embds_dim": [16, 16],
    "axial_pos_shape": [8, 8],
    "attention_head_size": 8,
    "feed_forward_size": 48,
    "num_buckets": 2,
}

ARCHITECTURES: dict[str, Architecture] = {
    # bertfeat's own forward pass
    "bert": Architecture("bert", PACKED),
    "camembert": Architecture("camembert", PACKED, _66, "unigram"),
    "distilbert": Architecture("distilbert", PACKED, {"dim": 32, "n_layers": 5, "n_heads": 4, "hidden_dim": 48}),
    "electra": Architecture("electra", PACKED, {"embedding_size": 24}),
    "roberta": Architecture("roberta", PACKED, {**_66, "type_vocab_size": 1}, "bytes"),
    "xlm-roberta": Architecture("xlm-roberta", PACKED, {**_66, "type_vocab_size": 1}, "unigram"),
    # by transformers, padded
    "albert": Architecture("albert", PADDED, {"embedding_size": 24}, "unigram"),
    "bert, silu": Architecture("bert", PADDED, {"hidden_act": "silu"}),
    "bert-generation": Architecture("bert-generation", PADDED, {}, "unigram"),
    "big_bird": Architecture("big_bird", PADDED, {}, "unigram"),
    "clip_text_model": Architecture("clip_text_model", PADDED, {}, "bytes"),
    "data2vec-text": Architecture("data2vec-text", PADDED, _66, "bytes"),
    "deberta": Architecture(
        "deberta",
        PADDED,
        {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": 16},
        "bytes",
    ),
    "deberta-v2": Architecture(
        "deberta-v2",
        PADDED,
        {
            "relative_attention": True,
            "position_buckets": 16,
            "pos_att_type": ["p2c", "c2p"],
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "position_biased_input": False,
        },
        "unigram",
    ),
    "deberta-v2, convolution": Architecture(
        "deberta-v2", PADDED, {"relative_attention": True, "conv_kernel_size": 3, "conv_act": "gelu"}, "unigram"
    ),
    "dpr": Architecture("dpr", PADDED),
    "ernie": Architecture("ernie", PADDED, {"use_task_id": True, "task_type_vocab_size": 3}),
    "esm, absolute": Architecture("esm", PADDED, {**_66, "position_embedding_type": "absolute"}, "bytes"),
    "esm, rotary": Architecture(
        "esm", PADDED, {**_66, "position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 4}, "bytes"
    ),
    "esmc": Architecture("esmc", PADDED, {}, "bytes"),
    "eurobert": Architecture("eurobert", PADDED, {"num_key_value_heads": 2}, "bytes"),
    "flaubert": Architecture("flaubert", PADDED, _XLM),
    "gemma3_text, bidirectional": Architecture(
        "gemma3_text", PADDED, {**_DECODER, "use_bidirectional_attention": True, "sliding_window": 16}, "bytes"
    ),
    "gte": Architecture("gte", PADDED),
    "ibert": Architecture("ibert", PADDED, _66, "bytes"),
    "jina_embeddings_v3": Architecture("jina_embeddings_v3", PADDED, {}, "unigram"),
    "layoutlm": Architecture("layoutlm", PADDED, _PAGE),
    "layoutlmv3": Architecture(
        "layoutlmv3", PADDED, {**_66, **_PAGE, "coordinate_size": 5, "shape_size": 6, "visual_embed": False}, "bytes"
    ),
    "lilt": Architecture("lilt", PADDED, {**_66, **_PAGE, "hidden_size": 48, "channel_shrink_ratio": 4}, "bytes"),
    "longformer": Architecture("longformer", PADDED, {**_66, "type_vocab_size": 1, "attention_window": 8}, "bytes"),
    "luke": Architecture("luke", PADDED, {**_66, "entity_vocab_size": 20, "entity_emb_size": 16}, "bytes"),
    "markuplm": Architecture("markuplm", PADDED, {**_66, "max_depth": 4, "xpath_unit_hidden_size": 8}, "bytes"),
    "megatron-bert": Architecture("megatron-bert", PADDED),
    "modernbert": Architecture("modernbert", PADDED, {"local_attention": 16}, "bytes"),
    "mpnet": Architecture("mpnet", PADDED, _66, "bytes"),
    "neomme": Architecture("neomme", PADDED, {"head_dim": 16}, "bytes"),
    "nomic_bert": Architecture("nomic_bert", PADDED),
    "openai_privacy_filter": Architecture(
        "openai_privacy_filter", PADDED, {**_DECODER, "num_local_experts": 4, "num_experts_per_tok": 2}, "bytes"
    ),
    "rembert": Architecture("rembert", PADDED, {"input_embedding_size": 24, "output_embedding_size": 24}, "unigram"),
    "roberta-prelayernorm": Architecture("roberta-prelayernorm", PADDED, _66, "bytes"),
    "roformer": Architecture("roformer", PADDED, {"embedding_size": 24}),
    "splinter": Architecture("splinter", PADDED),
    "squeezebert": Architecture("squeezebert", PADDED, {"embedding_size": 32}),
    "tapas": Architecture("tapas", PADDED),
    "tipsv2_text_model": Architecture("tipsv2_text_model", PADDED, {}, "bytes"),
    "ultrabert": Architecture("ultrabert", PADDED, {}, "bytes"),
    "visual_bert": Architecture("visual_bert", PADDED, {"visual_embedding_dim": 16}),
    "xlm": Architecture("xlm", PADDED, _XLM),
    "xlm-roberta-xl": Architecture("xlm-roberta-xl", PADDED, {**_66, "type_vocab_size": 1}, "unigram"),
    "xlnet": Architecture("xlnet", PADDED, {"d_model": 32, "n_layer": 5, "n_head": 4, "d_inner": 48}, "unigram"),
    "xmod": Architecture(
        "xmod", PADDED, {**_66, "languages": ["en_XX", "ko_KR"], "default_language": "ko_KR"}, "unigram"
    ),
    # by transformers, texts of one length at a time
    "convbert": Architecture("convbert", EQUAL, {"embedding_size": 24, "conv_kernel_size": 3}),
    "fnet": Architecture("fnet", EQUAL, {}, "unigram"),
    "mobilebert": Architecture(
        "mobilebert", EQUAL, {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16}
    ),
    "nystromformer": Architecture("nystromformer", EQUAL, {"num_landmarks": 64, "segment_means_seq_len": 64}),
    "yoso": Architecture("yoso", EQUAL),
    # refused
    "bart": Architecture("bart", REFUSED, _BART, "bytes"),
    "bert, decoder": Architecture("bert", REFUSED, {"is_decoder": True}),
    "bert, relative positions": Architecture("bert", REFUSED, {"position_embedding_type": "relative_key"}),
    "bros": Architecture("bros", REFUSED),
    "canine": Architecture("canine", REFUSED),
    "clip": Architecture("clip", REFUSED, {}, "bytes", weights=False),
    "blip_2_qformer": Architecture("blip_2_qformer", REFUSED, {"encoder_hidden_size": 32}),
    "embedding_gemma2_text": Architecture("embedding_gemma2_text", REFUSED, _DECODER, "bytes"),
    "flaubert, pre_norm": Architecture("flaubert", REFUSED, {**_XLM, "pre_norm": True}),
    "flava": Architecture("flava", REFUSED, weights=False),
    "funnel": Architecture("funnel", REFUSED, {}, weights=False),
    "gemma3_text": Architecture("gemma3_text", REFUSED, _DECODER, "bytes"),
    "gpt2": Architecture("gpt2", REFUSED, {"n_embd": 32, "n_layer": 2, "n_head": 4}, "bytes"),
    "layoutlmv2": Architecture("layoutlmv2", REFUSED, weights=False),
    "led": Architecture("led", REFUSED, {**_BART, "attention_window": 8}, "bytes"),
    "lxmert": Architecture("lxmert", REFUSED, {"l_layers": 2, "x_layers": 1, "r_layers": 1}),
    "llama": Architecture("llama", REFUSED, _DECODER, "bytes"),
    "longt5": Architecture("longt5", REFUSED, _TEXT_TO_TEXT, "unigram"),
    "mbart": Architecture("mbart", REFUSED, _BART, "unigram"),
    "modernbert-decoder": Architecture("modernbert-decoder", REFUSED, {}, "bytes"),
    "modernvbert": Architecture("modernvbert", REFUSED, {}, "bytes", weights=False),
    "mra": Architecture("mra", REFUSED),
    "mt5": Architecture("mt5", REFUSED, _TEXT_TO_TEXT, "unigram"),
    "nystromformer, landmarks": Architecture(
        "nystromformer", REFUSED, {"num_landmarks": 8, "segment_means_seq_len": 64}
    ),
    "perceiver": Architecture("perceiver", REFUSED, weights=False),
    "prophetnet": Architecture(
        "prophetnet", REFUSED, {"num_encoder_layers": 2, "num_decoder_layers": 2}, weights=False
    ),
    "reformer": Architecture("reformer", REFUSED, {**_CHUNKED, "attn_layers": ["local"] * 4}, "unigram"),
    "reformer, hashing": Architecture("reformer", REFUSED, {**_CHUNKED, "attn_layers": ["lsh"] * 4}, "unigram"),
    "roc_bert": Architecture(
        "roc_bert", REFUSED, {"pronunciation_vocab_size": 9, "shape_vocab_size": 9}, weights=False
    ),
    "siglip_text_model": Architecture("siglip_text_model", REFUSED, {}, "unigram", weights=False),
    "t5": Architecture("t5", REFUSED, _TEXT_TO_TEXT, "unigram"),
    "umt5": Architecture("umt5", REFUSED, _TEXT_TO_TEXT, "unigram"),
    "vit": Architecture("vit", REFUSED, weights=False),
    "vilt": Architecture("vilt", REFUSED),
    "udop": Architecture("udop", REFUSED, _TEXT_TO_TEXT, "unigram"),
    "xlm, causal": Architecture("xlm", REFUSED, {**_XLM, "causal": True}),
    "xmod, no language": Architecture("xmod", REFUSED, {**_66, "languages": ["en_XX"]}, "unigram"),
    "yoso, hashing": Architecture("yoso", REFUSED, {"use_expectation": False}),
}
