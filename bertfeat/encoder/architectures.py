"""The architectures of the packed forward pass: where each family keeps its weights.

A new family needs an entry here and one in ``PACKED_FAMILIES`` (``bertfeat/models/families.py``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from bertfeat.models import PACKED_FAMILIES, Model

ACTIVATIONS = ("gelu", "gelu_new", "gelu_pytorch_tanh", "relu")
"""The feed-forward activations that the packed forward pass knows."""


@dataclass(frozen=True, slots=True)
class WeightNames:
    """The names of an architecture's weights, below the model's own prefix."""

    prefix: str  # that transformers puts before them where a head lies beside
    block: str  # of block {}
    query: str
    key: str
    value: str
    attention_out: str
    attention_norm: str
    up: str
    down: str
    out_norm: str
    types: bool = True  # whether there are segment embeddings
    projected: bool = False  # whether embeddings may have a width of their own
    relative_bias: str | None = None  # the table of attention's bias by distance, which all blocks share


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
"""By ``model_type``."""


def is_packable(model: Model) -> bool:
    """Whether the packed encoder computes this model: a family of the table, with an activation that it knows."""
    kind = model.config.model_type
    return kind in PACKED_FAMILIES and kind in WEIGHT_NAMES and model.config.activation in ACTIVATIONS
