"""What is known of model families by name: where their positions begin, and which of them cannot be read, and why."""

from collections.abc import Mapping
from typing import Any

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
"""RoBERTa and its kin, which count positions from ``padding_idx + 1``."""

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
_ENCODERS_ALL_THE_SAME = frozenset({"bert-generation", "xlnet"})
"""Read in both directions unless they are told otherwise, although transformers lists them with the decoders only."""

_ABSOLUTE = frozenset({"bert", "camembert", "distilbert", "electra", "roberta", "xlm-roberta"})
_ROTARY = ("rope", "rotary")

_NO_PAGE = "it was made to read where each token lies on a page; here all are taken to lie in its first corner"
_NOTES: Mapping[str, str] = {
    "clip_text_model": "its last layer is taken before the final norm, as transformers lists it in hidden_states",
    "layoutlm": _NO_PAGE,
    "layoutlmv3": _NO_PAGE,
    "lilt": _NO_PAGE,
    "markuplm": "it was made to read where each token lies in a page's markup; here no token has such a place",
    "tapas": "it was made to read tables; here a text is read as a question without a table",
}


def refusal(config: Any) -> str | None:
    """Why a family, or this configuration of it, cannot be read; None where nothing is known against it."""
    kind = config.model_type
    if kind in _REFUSED:
        return _REFUSED[kind]
    positions = getattr(config, "position_embedding_type", None)
    if positions not in (None, "absolute") and (kind in _ABSOLUTE or positions not in _ROTARY):
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


def decodes(config: Any) -> bool:
    """Whether a configuration is a decoder's: one that only ever predicts the next word is not named as such."""
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    kind = config.model_type
    if any(getattr(config, name, False) for name in ("is_encoder_decoder", "is_decoder", "causal")):
        return True
    if kind in _ENCODERS_ALL_THE_SAME or getattr(config, "use_bidirectional_attention", None) is True:
        return False
    return kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES


def note(config: Any) -> str | None:
    """What a user should know of the way in which a family is read."""
    return _NOTES.get(config.model_type)


def adapted(config: Any) -> str | None:
    """Change a configuration under which the same text would not always have the same vectors; say how."""
    if config.model_type != "big_bird" or config.attention_type != "block_sparse":
        return None
    config.attention_type = "original_full"
    full = (5 + 2 * config.num_random_blocks) * config.block_size
    return (
        f"BigBird's sparse attention depends on what was computed before, so full attention is used instead, which "
        f"differs from it for more than {full:,} tokens at once"
    )
