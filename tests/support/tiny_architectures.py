"""Every encoder of texts that transformers has, as a tiny random model, and what bertfeat should make of it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModel

from bertfeat.core.encoder import BatchForm
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


_66: dict[str, Any] = {"max_position_embeddings": 66}  # of which RoBERTa and its kin read 64
_XLM = {"n_layers": 5, "emb_dim": 32, "n_heads": 4, "max_position_embeddings": 64, "pad_index": 0}
_PAGE = {"max_2d_position_embeddings": 64}
_TEXT_TO_TEXT = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 5, "num_heads": 4}
_BART = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}
_PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
_DECODER: dict[str, Any] = {"num_key_value_heads": 4, "head_dim": 8}
_CHUNKED = {
    "axial_pos_embds_dim": [16, 16],
    "axial_pos_shape": [8, 8],
    "attention_head_size": 8,
    "feed_forward_size": 48,
    "num_buckets": 2,
}


def _packed(kind: str, tokenizer: str = "bytes", /, **settings: Any) -> Architecture:
    return Architecture(kind, PACKED, settings, tokenizer)


_WIDE: dict[str, Any] = {"num_attention_heads": 2}  # heads of 16 values, as the kernels take them
_VARIANTS: dict[str, Architecture] = {
    "albert, three groups, wide heads": _packed(
        "albert", "unigram", embedding_size=24, num_hidden_groups=3, num_hidden_layers=6, **_WIDE
    ),
    "bert, silu, wide heads": _packed("bert", "pieces", hidden_act="silu", **_WIDE),
    "bert, one head": _packed("bert", "pieces", hidden_act="silu", num_attention_heads=1),
    "electra, silu": _packed("electra", "pieces", hidden_act="silu", embedding_size=24),
    "roberta, silu": _packed("roberta", hidden_act="silu", type_vocab_size=1, **_66),
    "esm, wide heads": _packed(
        "esm", position_embedding_type="rotary", token_dropout=True, mask_token_id=4, **_66, **_WIDE
    ),
    "esm, norm before": _packed(
        "esm", position_embedding_type="rotary", emb_layer_norm_before=True, token_dropout=False, mask_token_id=4, **_66
    ),
    "eurobert, one key head": _packed("eurobert", num_key_value_heads=1, **_WIDE),
    "eurobert, relu, no grouped heads": _packed("eurobert", num_key_value_heads=4, hidden_act="relu"),
    "gemma3_text, bidirectional, wide heads": _packed(
        "gemma3_text", head_dim=16, num_key_value_heads=1, use_bidirectional_attention=True, sliding_window=6
    ),
    "gemma3_text, bidirectional, long window": _packed(
        "gemma3_text", head_dim=16, num_key_value_heads=2, use_bidirectional_attention=True, sliding_window=100
    ),
    "gte, wide heads": _packed("gte", "pieces", **_WIDE),
    "jina_embeddings_v3, wide heads": _packed("jina_embeddings_v3", "unigram", **_WIDE),
    "modernbert, window of 4, wide heads": _packed("modernbert", local_attention=4, **_WIDE),
    "modernbert, window longer than texts": _packed("modernbert", local_attention=200, **_WIDE),
    "modernbert, biases everywhere": _packed(
        "modernbert", local_attention=16, attention_bias=True, mlp_bias=True, norm_bias=True
    ),
    "modernbert, all layers global": _packed("modernbert", global_attn_every_n_layers=1),
    "modernbert, gelu_new": _packed("modernbert", local_attention=8, hidden_activation="gelu_new"),
    "nomic_bert, wide heads": _packed("nomic_bert", "pieces", **_WIDE),
    "openai_privacy_filter, wide heads": _packed(
        "openai_privacy_filter",
        num_key_value_heads=1, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=6,
    ),
    "roberta-prelayernorm, wide heads": _packed("roberta-prelayernorm", **_66, **_WIDE),
    "ultrabert, wide heads": _packed("ultrabert", **_WIDE),
    "xlm-roberta-xl, wide heads": _packed("xlm-roberta-xl", "unigram", type_vocab_size=1, **_66, **_WIDE),
}  # fmt: skip
_WIDE_GROUPED: dict[str, Any] = {"num_key_value_heads": 2, "head_dim": 16}
_DECODERS: dict[str, Architecture] = {
    "cohere": _packed("cohere", num_key_value_heads=2),
    "cohere, norms of heads": _packed("cohere", num_key_value_heads=2, use_qk_norm=True),
    "cohere2": _packed("cohere2", num_key_value_heads=2, sliding_window=8),
    "exaone4": _packed("exaone4", num_key_value_heads=2, sliding_window=8),
    "gemma": _packed("gemma", **_WIDE_GROUPED),
    "gemma2": _packed("gemma2", **_WIDE_GROUPED, sliding_window=8),
    "gemma2, no caps": _packed("gemma2", **_WIDE_GROUPED, sliding_window=8, attn_logit_softcapping=None),
    "gemma2, low caps": _packed("gemma2", num_key_value_heads=1, head_dim=8, attn_logit_softcapping=1.0),
    "gemma3_text": _packed("gemma3_text", **_DECODER),
    "gemma3_text, window of 6": _packed("gemma3_text", **_WIDE_GROUPED, sliding_window=6),
    "glm": _packed("glm", num_key_value_heads=2, head_dim=8, partial_rotary_factor=0.5),
    "gpt2": _packed("gpt2", n_embd=32, n_layer=5, n_head=2),
    "gpt2, scaled by layer": _packed(
        "gpt2", n_embd=32, n_layer=5, n_head=4, scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True
    ),
    "gpt2, unscaled, relu": _packed(
        "gpt2", n_embd=32, n_layer=5, n_head=2, scale_attn_weights=False, activation_function="relu", n_inner=48
    ),
    "gpt_neox": _packed("gpt_neox", rotary_pct=0.5),
    "gpt_neox, one after the other": _packed("gpt_neox", use_parallel_residual=False, attention_bias=False, **_WIDE),
    "gpt_oss": _packed(
        "gpt_oss", **_WIDE_GROUPED, sliding_window=8, num_local_experts=4, num_experts_per_tok=2, rope_parameters=_PLAIN
    ),
    "granite": _packed("granite", num_key_value_heads=2, attention_multiplier=0.3, residual_multiplier=0.5),
    "helium": _packed("helium", num_key_value_heads=2, head_dim=8),
    "llama": _packed("llama", **_DECODER),
    "llama, one key head": _packed("llama", num_key_value_heads=1, head_dim=16),
    "llama, biases": _packed("llama", **_WIDE_GROUPED, attention_bias=True, mlp_bias=True, hidden_act="gelu"),
    "llama, scaled positions": _packed(
        "llama", **_WIDE_GROUPED, rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    ),
    "mistral": _packed("mistral", **_WIDE_GROUPED, sliding_window=8),
    "mistral, no window": _packed("mistral", **_WIDE_GROUPED, sliding_window=None),
    "mistral, window longer than texts": _packed("mistral", **_WIDE_GROUPED, sliding_window=500),
    "mistral, window of 2": _packed("mistral", num_key_value_heads=1, head_dim=16, sliding_window=2),
    "mixtral": _packed("mixtral", **_WIDE_GROUPED, num_local_experts=4, sliding_window=8),
    "modernbert-decoder": _packed("modernbert-decoder", local_attention=16, **_WIDE),
    "olmo": _packed("olmo", num_key_value_heads=2, clip_qkv=1.0),
    "olmo2": _packed("olmo2", num_key_value_heads=2),
    "olmo3": _packed("olmo3", num_key_value_heads=2, sliding_window=8),
    "opt": _packed("opt", ffn_dim=48, word_embed_proj_dim=32),
    "opt, norm after": _packed("opt", ffn_dim=48, word_embed_proj_dim=32, do_layer_norm_before=False),
    "phi": _packed("phi", partial_rotary_factor=0.5, **_WIDE),
    "phi, norms of heads": _packed("phi", qk_layernorm=True, num_key_value_heads=2),
    "phi3": _packed("phi3", num_key_value_heads=2, sliding_window=8, pad_token_id=1),
    "qwen2": _packed("qwen2", num_key_value_heads=1, vocab_size=410, **_WIDE),
    "qwen2, windows above": _packed(
        "qwen2", num_key_value_heads=2, vocab_size=410, use_sliding_window=True, sliding_window=8, max_window_layers=2
    ),
    "qwen3": _packed("qwen3", **_WIDE_GROUPED),
    "qwen3, one key head, tied": _packed("qwen3", num_key_value_heads=1, head_dim=32, tie_word_embeddings=True),
    "qwen3, bidirectional": _packed("qwen3", **_WIDE_GROUPED, is_causal=False),
    "qwen3_moe": _packed("qwen3_moe", **_WIDE_GROUPED, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24),
    "smollm3": _packed("smollm3", num_key_value_heads=2),
    "stablelm": _packed("stablelm", num_key_value_heads=2, partial_rotary_factor=0.5),
    "starcoder2": _packed("starcoder2", num_key_value_heads=2, sliding_window=8),
    "llama, positions by the longest text": Architecture(
        "llama",
        EQUAL,
        {**_DECODER, "rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}},
        "bytes",
    ),
}
_ENCODER_HALVES: dict[str, Architecture] = {
    "t5": Architecture("t5", PACKED, _TEXT_TO_TEXT, "unigram"),
    "t5, gated, wide heads": Architecture(
        "t5", PACKED, {**_TEXT_TO_TEXT, "feed_forward_proj": "gated-gelu", "num_heads": 2, "d_kv": 16}, "unigram"
    ),
    "t5, few distances": Architecture(
        "t5",
        PACKED,
        {**_TEXT_TO_TEXT, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "d_kv": 32},
        "unigram",
    ),
    "mt5": Architecture("mt5", PACKED, _TEXT_TO_TEXT, "unigram"),
    "umt5": Architecture("umt5", PACKED, _TEXT_TO_TEXT, "unigram"),
    "umt5, wide heads": Architecture("umt5", PACKED, {**_TEXT_TO_TEXT, "num_heads": 2, "d_kv": 16}, "unigram"),
}

ARCHITECTURES: dict[str, Architecture] = {
    # bertfeat's own forward pass
    "bert": Architecture("bert", PACKED),
    "camembert": Architecture("camembert", PACKED, _66, "unigram"),
    "distilbert": Architecture("distilbert", PACKED, {"dim": 32, "n_layers": 5, "n_heads": 4, "hidden_dim": 48}),
    "electra": Architecture("electra", PACKED, {"embedding_size": 24}),
    "mpnet": Architecture("mpnet", PACKED, _66, "bytes"),
    "mpnet, wide heads": Architecture("mpnet", PACKED, {**_66, **_WIDE, "hidden_act": "relu"}, "bytes"),
    "mpnet, long": Architecture(
        "mpnet", PACKED, {**_WIDE, "intermediate_size": 64, "max_position_embeddings": 400}, "bytes"
    ),
    "roberta": Architecture("roberta", PACKED, {**_66, "type_vocab_size": 1}, "bytes"),
    "xlm-roberta": Architecture("xlm-roberta", PACKED, {**_66, "type_vocab_size": 1}, "unigram"),
    # transformers' modules over texts side by side
    "albert": Architecture("albert", PACKED, {"embedding_size": 24}, "unigram"),
    "bert, silu": Architecture("bert", PACKED, {"hidden_act": "silu"}),
    "bert-generation": Architecture("bert-generation", PACKED, {}, "unigram"),
    "data2vec-text": Architecture("data2vec-text", PACKED, _66, "bytes"),
    "ernie": Architecture("ernie", PACKED, {"use_task_id": True, "task_type_vocab_size": 3}),
    "esm, absolute": Architecture("esm", PACKED, {**_66, "position_embedding_type": "absolute"}, "bytes"),
    "esm, rotary": Architecture(
        "esm", PACKED, {**_66, "position_embedding_type": "rotary", "token_dropout": True, "mask_token_id": 4}, "bytes"
    ),
    "esmc": Architecture("esmc", PACKED, {}, "bytes"),
    "eurobert": Architecture("eurobert", PACKED, {"num_key_value_heads": 2}, "bytes"),
    "gemma3_text, bidirectional": Architecture(
        "gemma3_text", PACKED, {**_DECODER, "use_bidirectional_attention": True, "sliding_window": 16}, "bytes"
    ),
    "gte": Architecture("gte", PACKED),
    "jina_embeddings_v3": Architecture("jina_embeddings_v3", PACKED, {}, "unigram"),
    "modernbert": Architecture("modernbert", PACKED, {"local_attention": 16}, "bytes"),
    "neomme": Architecture("neomme", PACKED, {"head_dim": 16}, "bytes"),
    "nomic_bert": Architecture("nomic_bert", PACKED),
    "openai_privacy_filter": Architecture(
        "openai_privacy_filter", PACKED, {**_DECODER, "num_local_experts": 4, "num_experts_per_tok": 2}, "bytes"
    ),
    "roberta-prelayernorm": Architecture("roberta-prelayernorm", PACKED, _66, "bytes"),
    "ultrabert": Architecture("ultrabert", PACKED, {}, "bytes"),
    "xlm-roberta-xl": Architecture("xlm-roberta-xl", PACKED, {**_66, "type_vocab_size": 1}, "unigram"),
    "xmod": Architecture(
        "xmod", PACKED, {**_66, "languages": ["en_XX", "ko_KR"], "default_language": "ko_KR"}, "unigram"
    ),
    **_VARIANTS,
    # decoders, whose tokens see only those before them
    **_DECODERS,
    # the encoders of encoders with a decoder
    **_ENCODER_HALVES,
    # by transformers, padded
    "visual_bert": Architecture("visual_bert", PADDED, {"visual_embedding_dim": 16}),
    "splinter": Architecture("splinter", PADDED),
    "markuplm": Architecture("markuplm", PADDED, {**_66, "max_depth": 4, "xpath_unit_hidden_size": 8}, "bytes"),
    "lilt": Architecture("lilt", PADDED, {**_66, **_PAGE, "hidden_size": 48, "channel_shrink_ratio": 4}, "bytes"),
    "layoutlm": Architecture("layoutlm", PADDED, _PAGE),
    "tipsv2_text_model": Architecture("tipsv2_text_model", PADDED, {}, "bytes"),
    "clip_text_model": Architecture("clip_text_model", PADDED, {}, "bytes"),
    "big_bird": Architecture("big_bird", PADDED, {}, "unigram"),
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
    "flaubert": Architecture("flaubert", PADDED, _XLM),
    "ibert": Architecture("ibert", PADDED, _66, "bytes"),
    "layoutlmv3": Architecture(
        "layoutlmv3", PADDED, {**_66, **_PAGE, "coordinate_size": 5, "shape_size": 6, "visual_embed": False}, "bytes"
    ),
    "longformer": Architecture("longformer", PADDED, {**_66, "type_vocab_size": 1, "attention_window": 8}, "bytes"),
    "luke": Architecture("luke", PADDED, {**_66, "entity_vocab_size": 20, "entity_emb_size": 16}, "bytes"),
    "megatron-bert": Architecture("megatron-bert", PADDED),
    "rembert": Architecture("rembert", PADDED, {"input_embedding_size": 24, "output_embedding_size": 24}, "unigram"),
    "roformer": Architecture("roformer", PADDED, {"embedding_size": 24}),
    "squeezebert": Architecture("squeezebert", PADDED, {"embedding_size": 32}),
    "tapas": Architecture("tapas", PADDED),
    "xlm": Architecture("xlm", PADDED, _XLM),
    "xlnet": Architecture("xlnet", PADDED, {"d_model": 32, "n_layer": 5, "n_head": 4, "d_inner": 48}, "unigram"),
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
    "layoutlmv2": Architecture("layoutlmv2", REFUSED, weights=False),
    "led": Architecture("led", REFUSED, {**_BART, "attention_window": 8}, "bytes"),
    "lxmert": Architecture("lxmert", REFUSED, {"l_layers": 2, "x_layers": 1, "r_layers": 1}),
    "longt5": Architecture("longt5", REFUSED, _TEXT_TO_TEXT, "unigram"),
    "mbart": Architecture("mbart", REFUSED, _BART, "unigram"),
    "modernvbert": Architecture("modernvbert", REFUSED, {}, "bytes", weights=False),
    "mra": Architecture("mra", REFUSED),
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
    "vit": Architecture("vit", REFUSED, weights=False),
    "vilt": Architecture("vilt", REFUSED),
    "udop": Architecture("udop", REFUSED, _TEXT_TO_TEXT, "unigram"),
    "xlm, causal": Architecture("xlm", REFUSED, {**_XLM, "causal": True}),
    "xmod, no language": Architecture("xmod", REFUSED, {**_66, "languages": ["en_XX"]}, "unigram"),
    "yoso, hashing": Architecture("yoso", REFUSED, {"use_expectation": False}),
}
