"""What Hugging Face's own modules take and give within their blocks, one text at a time: the oracle for hook points.

The modules are named here once more, by hand, for the families that most tests use.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertfeat.core.recipe import BlockSite, Place
from tests.support.tiny_models import reference_module

_BERT = {
    BlockSite.HEADS: ("attention.output.dense", "in"),
    BlockSite.ATTN: ("attention.output.dense", "out"),
    BlockSite.MID: ("attention.output.LayerNorm", "in"),
    BlockSite.MLP_IN: ("intermediate.dense", "in"),
    BlockSite.MLP: ("output.dense", "out"),
    BlockSite.PRE_NORM: ("output.LayerNorm", "in"),
}
NAMED: Mapping[str, tuple[str, Mapping[BlockSite, tuple[str, str]]]] = {
    **dict.fromkeys(("bert", "roberta", "xlm-roberta", "electra", "longformer"), ("encoder.layer", _BERT)),
    "deberta-v2": ("encoder.layer", _BERT),
    "mpnet": (
        "encoder.layer",
        {
            **_BERT,
            BlockSite.HEADS: ("attention.attn.o", "in"),
            BlockSite.ATTN: ("attention.attn", "out"),
            BlockSite.MID: ("attention.LayerNorm", "in"),
        },
    ),
    "distilbert": (
        "transformer.layer",
        {
            BlockSite.HEADS: ("attention.out_lin", "in"),
            BlockSite.ATTN: ("attention", "out"),
            BlockSite.MID: ("sa_layer_norm", "in"),
            BlockSite.MLP_IN: ("ffn.lin1", "in"),
            BlockSite.MLP: ("ffn.lin2", "out"),
            BlockSite.PRE_NORM: ("output_layer_norm", "in"),
        },
    ),
    "modernbert": (
        "layers",
        {
            BlockSite.HEADS: ("attn.Wo", "in"),
            BlockSite.ATTN: ("attn", "out"),
            BlockSite.MID: ("mlp_norm", "in"),
            BlockSite.MLP_IN: ("mlp.Wi", "in"),
            BlockSite.MLP: ("mlp.Wo", "out"),
        },
    ),
}
"""By family, where its blocks are, and the module at whose input or output each site lies."""


@torch.no_grad()
def values_within(
    folder: Path, ids: Sequence[int], types: Sequence[int], *, attention: str | None = None
) -> dict[Place, Tensor]:
    """All sites that are named for the model's family, and its layers, of one text alone. Shape: ``[T, H]`` each."""
    module = reference_module(folder, attention) if attention else reference_module(folder)
    where, sites = NAMED[module.config.model_type]
    caught: dict[Place, Tensor] = {}
    hooks = []
    for number, block in enumerate(module.get_submodule(where), 1):
        for site, (name, end) in sites.items():
            hooks.append(_hooked(block.get_submodule(name), Place(number, site), end, caught))
    inputs = {"input_ids": torch.tensor([list(ids)]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
    if (getattr(module.config, "type_vocab_size", 0) or 0) > 1:
        inputs["token_type_ids"] = torch.tensor([list(types)])
    try:
        states = module(**inputs, output_hidden_states=True).hidden_states
    finally:
        for hook in hooks:
            hook.remove()
    caught |= {Place(layer): state for layer, state in enumerate(states)}
    return {place: values[0, : len(ids)].clone() for place, values in caught.items()}


def _hooked(module: Any, place: Place, end: str, caught: dict[Place, Tensor]) -> Any:
    def keep(_: Any, given: Any, made: Any) -> None:
        value = given[0] if end == "in" else made
        caught[place] = value[0] if isinstance(value, tuple) else value

    return module.register_forward_hook(keep)
