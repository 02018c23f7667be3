"""Facts about the model families, by ``model_type``.

They say which families bertfeat reads without transformers, where their positions begin, which cannot be read, and why.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from bertfeat.core.models.foreign import LibraryConfig, predicts_next_word_only

# ── families of the packed forward pass ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PackedFamily:
    """The facts needed to read the files of a model family without transformers.

    Its weights are named in ``bertfeat/core/encoder/path.py``.
    """

    tokenizer_class: str  # transformers' class, used where tokenizer_config.json names none
    defaults: Mapping[str, object]  # the values that transformers takes where config.json has none
    common_names: Mapping[str, str] = field(default_factory=dict)  # key of config.json → BERT's name for it
    unread: frozenset[str] = frozenset()  # keys that its module does not read, but takes their defaults for


_BERT_DEFAULTS: Mapping[str, object] = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "pad_token_id": 0,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
}

PACKED_FAMILIES: Mapping[str, PackedFamily] = {
    "bert": PackedFamily("BertTokenizer", _BERT_DEFAULTS),
    "roberta": PackedFamily("RobertaTokenizer", {**_BERT_DEFAULTS, "vocab_size": 50265, "pad_token_id": 1}),
    "xlm-roberta": PackedFamily("XLMRobertaTokenizer", {**_BERT_DEFAULTS, "pad_token_id": 1}),
    "camembert": PackedFamily("CamembertTokenizer", {**_BERT_DEFAULTS, "pad_token_id": 1}),
    "mpnet": PackedFamily(
        "MPNetTokenizer",
        {**_BERT_DEFAULTS, "vocab_size": 30527, "type_vocab_size": None, "pad_token_id": 1},
        unread=frozenset({"pad_token_id"}),
    ),
    "electra": PackedFamily(
        "BertTokenizer",
        {
            **_BERT_DEFAULTS,
            "hidden_size": 256,
            "num_attention_heads": 4,
            "intermediate_size": 1024,
            "embedding_size": 128,
        },
    ),
    "distilbert": PackedFamily(
        "BertTokenizer",
        {**_BERT_DEFAULTS, "num_hidden_layers": 6, "type_vocab_size": None},
        {
            "dim": "hidden_size",
            "n_heads": "num_attention_heads",
            "n_layers": "num_hidden_layers",
            "hidden_dim": "intermediate_size",
            "activation": "hidden_act",
        },
        unread=frozenset({"hidden_act", "intermediate_size", "layer_norm_eps"}),
    ),
}
"""The families that the packed forward pass computes."""

# ── all families ────────────────────────────────────────────────────────────────────────────────────────────

POSITIONS_AFTER_PADDING = frozenset(
    {
        "camembert",
        "data2vec-text",
        "esm",
        "ibert",
        "layoutlmv3",
        "lilt",
        "longformer",
        "luke",
        "markuplm",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)
"""RoBERTa and related families, which count positions from ``padding_idx + 1``."""

_REFUSED: Mapping[str, str] = {
    "bros": "it reads where each token lies on a page, which a text does not say",
    "canine": "its tokens are characters, and its layers differ in length",
    "funnel": "its blocks shorten the text, so that a layer has no vector for each token",
    "layoutlmv2": "it reads pictures of pages beside the text",
    "mra": "its attention needs a CUDA program that is fetched while it runs; without it no token sees another",
    "perceiver": "its layers hold latent vectors, not tokens",
    "reformer": "its attention hashes at random and in chunks, so that equal texts have different vectors",
    "roc_bert": "beside the text it reads how characters look and sound, which bertfeat does not tell it",
    "vilt": "it reads pictures beside the text",
}
_ENCODERS_DESPITE_THE_LISTS = frozenset({"bert-generation", "xlnet"})
"""Families that attend in both directions by default, although transformers lists them with the decoders only."""

_NO_PAGE = "it was made to read where each token lies on a page; here all are taken to lie in its first corner"
_NOTES: Mapping[str, str] = {
    "clip_text_model": "its last layer is taken before the final norm, as transformers lists it in hidden_states",
    "layoutlm": _NO_PAGE,
    "layoutlmv3": _NO_PAGE,
    "lilt": _NO_PAGE,
    "markuplm": "it was made to read where each token lies in a page's markup; here no token has such a place",
    "tapas": "it was made to read tables; here a text is read as a question without a table",
}

ENCODER_HALVES = frozenset({"mt5", "t5", "umt5"})
"""Encoder-decoder families whose encoder is a model by itself; only the encoder is read."""

DECODERS = frozenset(
    {
        "cohere",
        "cohere2",
        "exaone4",
        "gemma",
        "gemma2",
        "gemma3_text",
        "glm",
        "gpt2",
        "gpt_neox",
        "gpt_oss",
        "granite",
        "helium",
        "llama",
        "mistral",
        "mixtral",
        "modernbert-decoder",
        "olmo",
        "olmo2",
        "olmo3",
        "opt",
        "phi",
        "phi3",
        "qwen2",
        "qwen3",
        "qwen3_moe",
        "smollm3",
        "stablelm",
        "starcoder2",
    }
)
"""Decoders that are read, as encoders whose tokens see only those before them; see benchmarks/architectures.py."""

_CAUSAL_NOTE = (
    "each token sees only those before it, so that the first one's vector is the same for all texts: for vectors of "
    "texts choose pooling last-token or mean, and not cls; a long text's windows know nothing of those before them"
)


def refusal_reason(config: LibraryConfig) -> str | None:
    """Why a family, or this configuration of it, cannot be read; None where nothing is known against it."""
    kind = config.model_type
    if kind in _REFUSED:
        return _REFUSED[kind]
    positions = getattr(config, "position_embedding_type", None)
    if positions not in (None, "absolute") and (kind in PACKED_FAMILIES or positions not in ("rope", "rotary")):
        # transformers 5 no longer knows these, and would silently take them for absolute ones
        return f"its positions are {positions!r}; only absolute ones can be computed"
    if kind == "nystromformer" and config.num_landmarks != config.segment_means_seq_len:
        return (
            f"its attention takes texts of exactly {config.segment_means_seq_len} tokens (segment_means_seq_len), and "
            f"mixes texts of others"
        )
    if kind == "yoso" and not config.use_expectation:
        return "its attention hashes at random, so that equal texts have different vectors"
    if kind == "xmod" and not config.default_language:
        return f"it has an adapter for each language; name one of {config.languages} as default_language in config.json"
    if kind == "flaubert" and config.pre_norm:
        return "transformers cannot run it with pre_norm"
    return None


def is_causal(config: LibraryConfig) -> bool:
    """Whether a model is a decoder that is read, whose tokens see only those before them."""
    bidirectional = getattr(config, "use_bidirectional_attention", None) or getattr(config, "is_causal", True) is False
    return config.model_type in DECODERS and not bidirectional


def is_refused_decoder(config: LibraryConfig) -> bool:
    """Whether a model is a decoder that is not read.

    Its configuration says that it is one, or transformers lists its family only with those that predict the next word.
    """
    kind = config.model_type
    if kind in DECODERS or kind in ENCODER_HALVES:
        return False
    if any(getattr(config, name, False) for name in ("is_encoder_decoder", "is_decoder", "causal")):
        return True
    if kind in PACKED_FAMILIES or kind in _ENCODERS_DESPITE_THE_LISTS:
        return False
    return getattr(config, "use_bidirectional_attention", None) is not True and predicts_next_word_only(kind)


def family_note(config: LibraryConfig) -> str | None:
    """The note for the user on how a family is read; None where there is none."""
    return _CAUSAL_NOTE if is_causal(config) else _NOTES.get(config.model_type)


def depends_on_longest(config: LibraryConfig) -> bool:
    """Whether the longest text of a batch scales the rotary positions of all, and so changes their vectors."""
    return any(kind in ("dynamic", "longrope") for kind in _rope_types(getattr(config, "rope_parameters", None)))


def _rope_types(parameters: object) -> Iterator[object]:
    """The kinds of rotary positions, which a configuration names once or for each kind of layer."""
    if isinstance(parameters, Mapping):
        yield parameters.get("rope_type")
        for nested in parameters.values():
            yield from _rope_types(nested)


def make_repeatable(config: LibraryConfig) -> str | None:
    """Change a configuration under which the same text would not always have the same vectors.

    Returns a note for the user on the change; None where nothing was changed.
    """
    if config.model_type != "big_bird" or config.attention_type != "block_sparse":
        return None
    config.attention_type = "original_full"
    full = (5 + 2 * config.num_random_blocks) * config.block_size  # up to here transformers uses full attention too
    return (
        f"BigBird's sparse attention depends on what was computed before, so full attention is used instead, which "
        f"differs from it for more than {full:,} tokens at once"
    )
