"""The path on which a model of each family is computed: by bertfeat's packed forward pass, or by transformers.

Transformers runs it on batches of one of four forms (:class:`BatchForm`).

A new packed family needs an entry in :data:`WEIGHT_NAMES`, which says where it keeps its weights, and one in
``PACKED_FAMILIES`` (``bertfeat/core/models/families.py``). Nothing here needs torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from bertfeat.core.models import DECODERS, ENCODER_HALVES, PACKED_FAMILIES, Model

PACKED_SENTENCE = "packed: bertfeat's own forward pass, without padding"
SIDE_BY_SIDE = (
    DECODERS
    | ENCODER_HALVES
    | frozenset(
        {
            "albert",
            "bert",
            "bert-generation",
            "camembert",
            "data2vec-text",
            "distilbert",
            "electra",
            "ernie",
            "esm",
            "esmc",
            "eurobert",
            "gte",
            "jina_embeddings_v3",
            "modernbert",
            "neomme",
            "nomic_bert",
            "openai_privacy_filter",
            "roberta",
            "roberta-prelayernorm",
            "ultrabert",
            "xlm-roberta",
            "xlm-roberta-xl",
            "xmod",
        }
    )
)
"""Families whose modules take texts side by side, by benchmarks/architectures.py; each model is checked at load."""
PADDING_HOLDS = frozenset(
    {
        "albert",
        "bert",
        "bert-generation",
        "big_bird",
        "camembert",
        "clip_text_model",
        "data2vec-text",
        "deberta",
        "deberta-v2",
        "distilbert",
        "dpr",
        "electra",
        "ernie",
        "esm",
        "esmc",
        "eurobert",
        "flaubert",
        "gemma3_text",
        "gte",
        "ibert",
        "jina_embeddings_v3",
        "layoutlm",
        "layoutlmv3",
        "lilt",
        "longformer",
        "luke",
        "markuplm",
        "megatron-bert",
        "modernbert",
        "mpnet",
        "neomme",
        "nomic_bert",
        "openai_privacy_filter",
        "rembert",
        "roberta",
        "roberta-prelayernorm",
        "roformer",
        "splinter",
        "squeezebert",
        "tapas",
        "tipsv2_text_model",
        "ultrabert",
        "visual_bert",
        "xlm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xlnet",
        "xmod",
    }
)
"""Families whose vectors padding does not change, by benchmarks/architectures.py; all others are never padded."""


class BatchForm(StrEnum):
    """The form in which the sequences of a batch go through a model."""

    PACKED = "packed"
    """Side by side without padding, by bertfeat's own forward pass or by transformers."""
    PADDED = "padded"
    """Padded to the longest one, by transformers."""
    EQUAL = "equal lengths"
    """Grouped by equal length, by transformers: padding would change their vectors, or is not known to keep them."""
    SINGLE = "one at a time"
    """Each by itself, by transformers: its company would change its vectors."""


@dataclass(frozen=True, slots=True)
class EncoderPath:
    """The path on which a model is computed, and the results of the check at load."""

    form: BatchForm
    sentence: str
    notes: tuple[str, ...] = ()  # for the user, on this model
    difference: float | None = None  # largest relative difference of a text alone and in a batch; None: not measured
    same_bytes: bool = False  # whether a text has the same bytes alone and in any batch; else nearly (docs/numerics.md)


_PLANNED = {
    BatchForm.PACKED: (
        "packed: transformers' own module over texts side by side, without padding; attention text by text"
    ),
    BatchForm.PADDED: "padded: run by transformers, texts of like length padded to the longest of a batch",
    BatchForm.EQUAL: "equal lengths: run by transformers, texts of one length at a time, without padding",
}


def planned_form(model: Model) -> BatchForm:
    """The form of batches that is planned for a model that transformers runs, from its configuration alone."""
    if model.config.depends_on_longest:
        return BatchForm.EQUAL
    return BatchForm.PACKED if model.config.model_type in SIDE_BY_SIDE else form_without_packing(model)


def form_without_packing(model: Model) -> BatchForm:
    """The form of batches of a model that does not take texts side by side."""
    kind = model.config.model_type
    return BatchForm.PADDED if kind in PADDING_HOLDS or model.causal else BatchForm.EQUAL


def planned_path(model: Model) -> EncoderPath:
    """Determine the path of a model from its configuration alone; loading the model checks it.

    Raises:
        ModelError: it cannot be computed at all.
    """
    if is_packable(model):
        return EncoderPath(BatchForm.PACKED, PACKED_SENTENCE, model.notes)
    form = planned_form(model)
    return EncoderPath(form, _PLANNED[form], model.notes)


# ── families of the packed forward pass ─────────────────────────────────────────────────────────────────────

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu")
"""The feed-forward activations that the packed forward pass knows."""


@dataclass(frozen=True, slots=True)
class WeightNames:
    """The names of an architecture's weights, below the model's own prefix."""

    prefix: str  # that transformers puts before the names in a model with a head
    block: str  # prefix of the weights of block {}
    query: str
    key: str
    value: str
    attention_out: str
    attention_norm: str
    up: str
    down: str
    out_norm: str
    types: bool = True  # whether there are segment embeddings
    projected: bool = False  # whether embeddings may have another width than hidden states
    relative_bias: str | None = None  # table of attention's bias by distance, which all blocks share


_BERT = WeightNames(
    prefix="bert.",
    block="encoder.layer.{}.",
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    attention_out="attention.output.dense",
    attention_norm="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    out_norm="output.LayerNorm",
)
_DISTILBERT = WeightNames(
    prefix="distilbert.",
    block="transformer.layer.{}.",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    attention_out="attention.out_lin",
    attention_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    out_norm="output_layer_norm",
    types=False,
)
_MPNET = replace(
    _BERT,
    prefix="mpnet.",
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    attention_out="attention.attn.o",
    attention_norm="attention.LayerNorm",
    types=False,
    relative_bias="encoder.relative_attention_bias.weight",
)
_ROBERTA = replace(_BERT, prefix="roberta.")
WEIGHT_NAMES: Mapping[str, WeightNames] = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "electra": replace(_BERT, prefix="electra.", projected=True),
    "distilbert": _DISTILBERT,
    "mpnet": _MPNET,
}
"""The names of weights, by ``model_type``."""


def is_packable(model: Model) -> bool:
    """Whether the packed encoder computes this model: its family is in the tables, and its activation is known."""
    kind = model.config.model_type
    return kind in PACKED_FAMILIES and kind in WEIGHT_NAMES and model.config.activation in ACTIVATIONS
