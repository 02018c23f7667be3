"""The modules of transformers at whose inputs and outputs the sites within a block lie, by family.

bertfeat's own forward pass computes these sites by itself; for all other families the modules are watched while they
run. A family that is not listed here gives whole layers only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bertfeat.core.recipe import BlockSite

if TYPE_CHECKING:
    from bertfeat.core.models.model import Model


@dataclass(frozen=True, slots=True)
class BlockModules:
    """The names of a family's modules, below the block, or, of the final norm, below the model."""

    heads: str  # the projection that takes the heads' outputs
    mlp_in: str  # the first module of the feed-forward part
    mlp: str  # the module whose output the feed-forward part adds
    mid: str | None  # the module that takes the residual stream after attention was added; None: there is none
    attn: str = ""  # the module whose output attention adds; empty: the projection
    out_norm: str = ""  # in post-norm blocks the norm of the block's output
    final_norm: str = ""  # in models of pre-norm blocks the norm of the last block's output

    @property
    def sites(self) -> frozenset[BlockSite]:
        """The sites that the family has."""
        missing = {BlockSite.MID} if self.mid is None else set()
        missing |= set() if self.out_norm or self.final_norm else {BlockSite.PRE_NORM}
        return frozenset(set(BlockSite) - missing)

    def watched(self, site: BlockSite) -> tuple[str, bool]:
        """The module of a site within a block, and whether its output is meant; else its input."""
        return {
            BlockSite.HEADS: (self.heads, False),
            BlockSite.ATTN: (self.attn or self.heads, True),
            BlockSite.MID: (self.mid or "", False),
            BlockSite.MLP_IN: (self.mlp_in, False),
            BlockSite.MLP: (self.mlp, True),
            BlockSite.PRE_NORM: (self.out_norm or self.final_norm, False),
        }[site]


_BERT = BlockModules(
    heads="attention.output.dense",
    mid="attention.output.LayerNorm",
    mlp_in="intermediate",
    mlp="output.dense",
    out_norm="output.LayerNorm",
)
_LLAMA = BlockModules(
    heads="self_attn.o_proj", mid="post_attention_layernorm", mlp_in="mlp", mlp="mlp", final_norm="norm"
)
_GEMMA = replace(
    _LLAMA, attn="post_attention_layernorm", mid="pre_feedforward_layernorm", mlp="post_feedforward_layernorm"
)
_OLMO = replace(_GEMMA, mid="mlp")  # norms stand after attention and the feed-forward part, and not before them
_NOMIC = BlockModules(
    heads="self_attn.o_proj", mid="post_attention_layernorm", mlp_in="mlp", mlp="mlp", out_norm="post_mlp_layernorm"
)
_MODERNBERT = BlockModules(heads="attn.Wo", mid="mlp_norm", mlp_in="mlp", mlp="mlp", final_norm="final_norm")
_T5 = BlockModules(
    heads="layer.0.SelfAttention.o",
    mid="layer.1.layer_norm",
    mlp_in="layer.1.DenseReluDense",
    mlp="layer.1.DenseReluDense",
    final_norm="encoder.final_layer_norm",
)


def _alike(modules: BlockModules, families: Iterable[str]) -> dict[str, BlockModules]:
    return dict.fromkeys(families, modules)


BLOCK_MODULES: Mapping[str, BlockModules] = {
    **_alike(
        _BERT,
        (
            *("bert", "bert-generation", "camembert", "data2vec-text", "deberta", "deberta-v2", "electra", "ernie"),
            *("longformer", "rembert", "roberta", "roformer", "splinter", "xlm-roberta"),
        ),
    ),
    "mpnet": replace(_BERT, heads="attention.attn.o", mid="attention.LayerNorm"),
    "distilbert": BlockModules(
        heads="attention.out_lin", mid="sa_layer_norm", mlp_in="ffn", mlp="ffn", out_norm="output_layer_norm"
    ),
    "esm": replace(_BERT, mid="LayerNorm", out_norm="", final_norm="encoder.emb_layer_norm_after"),
    "roberta-prelayernorm": replace(
        _BERT, mid="intermediate", mlp_in="intermediate.dense", out_norm="", final_norm="LayerNorm"
    ),
    "xlm-roberta-xl": replace(_BERT, mid="LayerNorm", out_norm="", final_norm="encoder.LayerNorm"),
    **_alike(_NOMIC, ("gte", "jina_embeddings_v3", "nomic_bert")),
    **_alike(_MODERNBERT, ("modernbert", "modernbert-decoder")),
    **_alike(_T5, ("mt5", "t5", "umt5")),
    **_alike(
        _LLAMA,
        (
            *("esmc", "eurobert", "gemma", "glm", "gpt_oss", "granite", "helium", "llama", "mistral", "mixtral"),
            *("olmo", "openai_privacy_filter", "phi3", "qwen2", "qwen3", "qwen3_moe", "smollm3", "stablelm"),
            *("starcoder2", "ultrabert"),
        ),
    ),
    **_alike(_GEMMA, ("gemma2", "gemma3_text")),
    **_alike(_OLMO, ("exaone4", "olmo2", "olmo3")),
    **_alike(replace(_LLAMA, mid=None), ("cohere", "cohere2")),  # attention and feed-forward part side by side
    "gpt2": BlockModules(heads="attn.c_proj", mid="ln_2", mlp_in="mlp", mlp="mlp", final_norm="ln_f"),
    "gpt_neox": BlockModules(
        heads="attention.dense",
        mid="post_attention_layernorm",
        mlp_in="mlp",
        mlp="mlp",
        final_norm="final_layer_norm",
    ),
    "opt": BlockModules(heads="self_attn.out_proj", mid=None, mlp_in="fc1", mlp="fc2"),
    "phi": BlockModules(heads="self_attn.dense", mid=None, mlp_in="mlp", mlp="mlp", final_norm="final_layernorm"),
}
"""The modules of the families that have sites within blocks, by ``model_type``."""


def find_block_modules(model: "Model") -> BlockModules | None:
    """The modules of a model's blocks; None where its family is not listed."""
    kind = model.config.model_type
    modules = BLOCK_MODULES.get(kind)
    if kind in ("gpt_neox", "stablelm") and modules is not None and model.library_config.use_parallel_residual:
        return replace(modules, mid=None)
    return modules
