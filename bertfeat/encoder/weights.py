"""BERT-family weights on disk → the tensors of the packed encoder: a table of names an architecture."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from bertfeat.encoder.products import ACTIVATIONS
from bertfeat.errors import ModelError
from bertfeat.models import Model


@dataclass(frozen=True, slots=True)
class Names:
    """Where an architecture keeps its weights, below the model's own prefix."""

    block: str  # of block {}
    query: str
    key: str
    value: str
    attention_out: str
    attention_norm: str
    up: str
    down: str
    out_norm: str


_BERT = Names(
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
_DISTILBERT = Names(
    block="transformer.layer.{}.",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    attention_out="attention.out_lin",
    attention_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    out_norm="output_layer_norm",
)
ARCHITECTURES: Mapping[str, Names] = {
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "camembert": _BERT,
    "electra": _BERT,
    "distilbert": _DISTILBERT,
}


@dataclass(frozen=True, slots=True)
class Affine:
    """Weight and bias of a linear product ``[out, in]``, ``[out]`` or of a layer norm ``[H]``, ``[H]``."""

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, slots=True)
class BlockWeights:
    """The weights of one transformer block (Vaswani et al. 2017; post-layer-norm)."""

    query: Affine
    key: Affine
    value: Affine
    attention_out: Affine
    attention_norm: Affine
    up: Affine
    down: Affine
    out_norm: Affine

    @property
    def query_key_value(self) -> Affine:
        """The three products over the same hidden states as one. Shape: ``[3H, H]``, ``[3H]``."""
        joined = (self.query, self.key, self.value)
        return Affine(torch.cat([each.weight for each in joined]), torch.cat([each.bias for each in joined]))


@dataclass(frozen=True, slots=True)
class EncoderWeights:
    """The weights of a BERT-family encoder, in float32 as stored or as they are on disk."""

    words: Tensor  # [vocabulary, E]
    positions: Tensor  # [positions, E]
    types: Tensor | None  # [types, E]
    norm: Affine
    projection: Affine | None  # ELECTRA, where E is not H
    blocks: tuple[BlockWeights, ...]


def is_packable(model: Model) -> bool:
    """Whether the packed encoder computes this model: BERT family, post-layer-norm, absolute positions."""
    config = model.config
    return (
        config.model_type in ARCHITECTURES
        and getattr(config, "position_embedding_type", "absolute") in ("absolute", None)
        and activation(model) in ACTIVATIONS
    )


def activation(model: Model) -> str:
    """Name of the feed-forward activation."""
    config = model.config
    return str(getattr(config, "hidden_act", None) or getattr(config, "activation", ""))


def read_weights(model: Model) -> EncoderWeights:
    """Read the encoder's weights from its safetensors files; heads and poolers are left on disk.

    Raises:
        ModelError: a weight is missing, or a file is damaged.
    """
    tensors = _Tensors(model)
    names = ARCHITECTURES[model.config.model_type]
    return EncoderWeights(
        words=tensors["embeddings.word_embeddings.weight"],
        positions=tensors["embeddings.position_embeddings.weight"],
        types=tensors.find("embeddings.token_type_embeddings.weight"),
        norm=tensors.affine("embeddings.LayerNorm"),
        projection=tensors.affine("embeddings_project") if "embeddings_project.weight" in tensors else None,
        blocks=tuple(_block(tensors, names, number) for number in range(model.num_layers)),
    )


def _block(tensors: "_Tensors", names: Names, number: int) -> BlockWeights:
    prefix = names.block.format(number)
    width, inner = tensors.model.hidden_size, tensors.model.inner_size
    shapes = {
        **dict.fromkeys(("query", "key", "value", "attention_out"), (width, width)),
        **dict.fromkeys(("attention_norm", "out_norm"), (width,)),
        "up": (inner, width),
        "down": (width, inner),
    }
    return BlockWeights(**{n: tensors.affine(prefix + getattr(names, n), shape) for n, shape in shapes.items()})


class _Tensors:
    """The tensors of all weight files, by their names below the model's own prefix (``bert.``)."""

    _ANCHOR = "embeddings.word_embeddings.weight"

    def __init__(self, model: Model) -> None:
        self.model = model
        self._tensors: dict[str, Tensor] = {}
        try:
            for file in model.weight_files:
                with safe_open(file, framework="pt") as stream:
                    for name in stream.keys():  # noqa: SIM118 - not a dict
                        self._tensors[_modern(name)] = stream.get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{model.name}: its weights cannot be read: {error}") from error
        anchors = sorted((name for name in self._tensors if name.endswith(self._ANCHOR)), key=len)
        if not anchors:
            raise ModelError(f"{model.name}: its weights hold no word embeddings, so they are no encoder's")
        self._prefix = anchors[0].removesuffix(self._ANCHOR)

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._tensors

    def __getitem__(self, name: str) -> Tensor:
        try:
            tensor = self._tensors[self._prefix + name]
        except KeyError:
            raise ModelError(f"{self.model.name}: its weights lack {self._prefix}{name}") from None
        return tensor.to(torch.float32)

    def find(self, name: str) -> Tensor | None:
        return self[name] if name in self else None  # noqa: SIM401 - it has no get

    def affine(self, name: str, shape: tuple[int, ...] | None = None) -> Affine:
        weight, bias = self[f"{name}.weight"], self[f"{name}.bias"]
        if shape is not None and (tuple(weight.shape) != shape or tuple(bias.shape) != shape[:1]):
            raise ModelError(
                f"{self.model.name}: its weight {name} has shape {list(weight.shape)}, and its config.json asks for "
                f"{list(shape)}"
            )
        return Affine(weight, bias)


def _modern(name: str) -> str:
    """BERT's first checkpoints call a layer norm's weight gamma and its bias beta."""
    head, _, last = name.rpartition(".")
    return f"{head}.{ {'gamma': 'weight', 'beta': 'bias'}.get(last, last) }" if head else name
