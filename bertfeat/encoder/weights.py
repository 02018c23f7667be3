"""BERT-family weights on disk → the tensors of the packed encoder."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from bertfeat.encoder.architectures import WEIGHT_NAMES, WeightNames
from bertfeat.encoder.tensors import StoredTensors
from bertfeat.errors import ModelError
from bertfeat.models import Model

BUCKETS = 32
_FARTHEST = 128  # distance, from which on all are one bucket


def bias_by_distance(table: Tensor, farthest: int) -> Tensor:
    """Look up the bias of each distance, from the key that stands ``farthest`` before the query on.

    Shape: ``table [32, A]`` → ``[A, 2·farthest + 1]``, in float32.
    """
    distances = torch.arange(-farthest, farthest + 1)
    half, near = BUCKETS // 2, BUCKETS // 4
    apart = distances.abs()
    # in float32, as the library computes it: a distance at the edge of a bucket falls where it does there
    logarithm = torch.log(apart.clamp_min(1).float() / near) / math.log(_FARTHEST / near) * (half - near)
    far = (near + logarithm.to(torch.long)).clamp_max(half - 1)
    buckets = torch.where(apart < near, apart, far) + half * (distances > 0)
    return table.float()[buckets].T.contiguous()


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
        return Affine(torch.cat([part.weight for part in joined]), torch.cat([part.bias for part in joined]))

    @property
    def products(self) -> tuple[Affine, Affine, Affine, Affine]:
        """The block's four products: queries, keys and values; output; up; down."""
        return self.query_key_value, self.attention_out, self.up, self.down


@dataclass(frozen=True, slots=True)
class EncoderWeights:
    """The weights of a BERT-family encoder, in float32 as stored or as they are on disk."""

    words: Tensor  # [vocabulary, E]
    positions: Tensor  # [positions, E]
    types: Tensor | None  # [types, E]
    norm: Affine
    projection: Affine | None  # ELECTRA, where E is not H
    blocks: tuple[BlockWeights, ...]
    relative_bias: Tensor | None = None  # [A, 2F + 1] MPNet: what attention adds to scores, by distance up to F


def attention_heads(model: Model) -> int:
    """Number of attention heads.

    Raises:
        ModelError: there are none, or they do not divide the hidden width.
    """
    number, width = model.sizes.num_attention_heads, model.hidden_size
    if not number or width % number:
        raise ModelError(f"{number or 0} attention heads do not divide its width of {width}", where=model.name)
    return number


def read_weights(model: Model) -> EncoderWeights:
    """Read the encoder's weights from its safetensors files; heads and poolers are left on disk.

    Raises:
        ModelError: a weight is missing, of another shape than the configuration asks for, or no floating-point
            numbers; or a file is damaged.
    """
    sizes, names = model.sizes, WEIGHT_NAMES[model.config.model_type]
    weights = _NamedTensors(model, names.prefix)
    hidden = sizes.hidden_size
    embedded = (sizes.embedding_size or hidden) if names.projected else hidden
    return EncoderWeights(
        words=weights.tensor("embeddings.word_embeddings.weight", sizes.vocab_size, embedded),
        positions=weights.tensor("embeddings.position_embeddings.weight", sizes.max_position_embeddings or 0, embedded),
        types=weights.tensor("embeddings.token_type_embeddings.weight", sizes.type_vocab_size or 0, embedded)
        if names.types
        else None,
        norm=weights.affine("embeddings.LayerNorm", embedded),
        projection=weights.affine("embeddings_project", hidden, embedded) if embedded != hidden else None,
        blocks=tuple(_block(weights, names, number) for number in range(model.num_layers)),
        relative_bias=bias_by_distance(
            weights.tensor(names.relative_bias, BUCKETS, attention_heads(model)), model.max_tokens - 1
        )
        if names.relative_bias
        else None,
    )


def _block(weights: "_NamedTensors", names: WeightNames, number: int) -> BlockWeights:
    prefix = names.block.format(number)
    width, inner = weights.model.hidden_size, weights.model.inner_size
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(("query", "key", "value", "attention_out"), (width, width)),
        **dict.fromkeys(("attention_norm", "out_norm"), (width,)),
        "up": (inner, width),
        "down": (width, inner),
    }
    return BlockWeights(**{n: weights.affine(prefix + getattr(names, n), *shape) for n, shape in shapes.items()})


class _NamedTensors:
    """The weights of all files as float32, by their names below the model's own prefix (``bert.``)."""

    _ANCHOR = "embeddings.word_embeddings.weight"

    def __init__(self, model: Model, own_prefix: str) -> None:
        self.model, self._stored = model, StoredTensors(model)
        self._names: dict[str, str] = {}  # as they are called today → as they are stored
        for name in self._stored.shapes:
            if self._names.setdefault(_modern(name), name) != name:
                raise ModelError(f"its weights hold {_modern(name)} twice, once as {name}", where=model.name)
        self._prefix = self._find_prefix(own_prefix)

    def _find_prefix(self, own: str) -> str:
        """The family's own prefix, or none, as transformers finds it; or the only other one."""
        found = [name.removesuffix(self._ANCHOR) for name in self._names if name.endswith(self._ANCHOR)]
        if not found:
            raise ModelError("its weights hold no word embeddings, so they are no encoder's", where=self.model.name)
        usual = [prefix for prefix in ("", own) if prefix in found]
        chosen = usual or found
        if len(chosen) > 1:
            raise ModelError(
                "its weights hold several encoders: " + " and ".join(f"{p}{self._ANCHOR}" for p in sorted(chosen)),
                where=self.model.name,
                remedy="save the one that is wanted with save_pretrained() into a folder of its own",
            )
        return chosen[0]

    def affine(self, name: str, *shape: int) -> Affine:
        """A weight of this shape and its bias."""
        return Affine(self.tensor(f"{name}.weight", *shape), self.tensor(f"{name}.bias", shape[0]))

    def tensor(self, name: str, *shape: int) -> Tensor:
        """The tensor of that name, which must have this shape."""
        stored = self._names.get(self._prefix + name)
        if stored is None:
            raise ModelError(f"its weights lack {self._prefix}{name}", where=self.model.name)
        if self._stored.shapes[stored] != shape:
            raise ModelError(
                f"its weight {stored} has shape {list(self._stored.shapes[stored])}, and its config.json asks for "
                f"{list(shape)}",
                where=self.model.name,
            )
        tensor = self._stored.read(stored).to(torch.float32)
        if not math.isfinite(tensor.sum()):  # a value that is not finite makes the sum so, too
            raise ModelError(f"its weight {stored} holds values that are not finite", where=self.model.name)
        return tensor


def _modern(name: str) -> str:
    """BERT's first checkpoints call a layer norm's weight gamma and its bias beta."""
    head, _, last = name.rpartition(".")
    return f"{head}.{ {'gamma': 'weight', 'beta': 'bias'}.get(last, last) }" if head else name
