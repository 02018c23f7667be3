"""The weights in a model's safetensors files: a BERT family's as the packed encoder takes them, or any model's by name.

Headers are checked at once, values are read on request. Shapes: ``H`` hidden width, ``E`` width of the embeddings,
``A`` heads.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from bertfeat.core.encoder.path import WEIGHT_NAMES, WeightNames
from bertfeat.core.models import Model, open_weights, wrap_library_errors
from bertfeat.errors import ModelError

_BUCKETS = 32  # MPNet: groups of distances, each with one bias
_FARTHEST = 128  # tokens; from this distance on, all are in one bucket per direction
_FLOATS = frozenset({"F64", "F32", "F16", "BF16"})
_COUNTERS = ("_ids", "_index", "_mask", "num_batches_tracked")  # endings of the names of buffers, which are no weights


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
    """The weights of a BERT-family encoder, in float32, whichever format the files have."""

    words: Tensor  # [vocabulary, E]
    positions: Tensor  # [positions, E]
    types: Tensor | None  # [types, E]
    norm: Affine
    projection: Affine | None  # ELECTRA, from E to H where they differ
    blocks: tuple[BlockWeights, ...]
    relative_bias: Tensor | None = None  # [A, 2F + 1] MPNet: what attention adds to scores, by distance up to F


def attention_heads(model: Model) -> int:
    """Number of attention heads."""
    number, width = model.sizes.num_attention_heads, model.hidden_size
    if not number or width % number:
        raise ModelError(f"{number or 0} attention heads do not divide its width of {width}", where=model.name)
    return number


def read_weights(model: Model) -> EncoderWeights:
    """Read the encoder's weights from its safetensors files; heads and poolers are left on disk."""
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
        relative_bias=_bias_by_distance(
            weights.tensor(names.relative_bias, _BUCKETS, attention_heads(model)), model.max_tokens - 1
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


def _bias_by_distance(table: Tensor, farthest: int) -> Tensor:
    """Look up the bias of each distance from ``-farthest`` (the key stands before the query) to ``farthest``.

    Shape: ``table [32, A]`` → ``[A, 2·farthest + 1]``, in float32.
    """
    distances = torch.arange(-farthest, farthest + 1)
    half, near = _BUCKETS // 2, _BUCKETS // 4
    apart = distances.abs()
    # in float32, as transformers computes it, so that a distance at the edge of a bucket gets the same bucket
    logarithm = torch.log(apart.clamp_min(1).float() / near) / math.log(_FARTHEST / near) * (half - near)
    far = (near + logarithm.to(torch.long)).clamp_max(half - 1)
    buckets = torch.where(apart < near, apart, far) + half * (distances > 0)
    return table.float()[buckets].T.contiguous()


class _NamedTensors:
    """The weights of all files as float32, by their names below the model's own prefix (``bert.``)."""

    _ANCHOR = "embeddings.word_embeddings.weight"

    def __init__(self, model: Model, own_prefix: str) -> None:
        self.model, self._stored = model, StoredTensors(model)
        self._names: dict[str, str] = {}  # present name → stored name
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
    """The present name of a weight: BERT's first checkpoints call a layer norm's weight gamma and its bias beta."""
    head, _, last = name.rpartition(".")
    return f"{head}.{ {'gamma': 'weight', 'beta': 'bias'}.get(last, last) }" if head else name


# ── any model's tensors ─────────────────────────────────────────────────────────────────────────────────────


class _StoredTensor(Protocol):
    """A tensor of an open file, not read yet."""

    def get_dtype(self) -> str: ...

    def get_shape(self) -> list[int]: ...


class _WeightFile(Protocol):
    """An open safetensors file."""

    def keys(self) -> list[str]: ...

    def get_slice(self, name: str) -> _StoredTensor: ...

    def get_tensor(self, name: str) -> Tensor: ...


class StoredTensors:
    """All tensors that a model's files hold."""

    def __init__(self, model: Model) -> None:
        self._name = model.name
        self._files: dict[str, _WeightFile] = {}  # name of a tensor → the open file that holds it
        self._shapes: dict[str, tuple[int, ...]] = {}
        with wrap_library_errors("its weights cannot be read", where=model.name):
            for path in model.weight_files:
                file: _WeightFile = open_weights(model.name, path, "pt")
                for name in file.keys():  # noqa: SIM118 - not a dict
                    self._add(name, file)

    def _add(self, name: str, file: _WeightFile) -> None:
        if not name.isprintable():
            raise ModelError(f"its weight files hold a tensor of the name {name!r}, which none has", where=self._name)
        if name in self._files:
            raise ModelError(f"two of its weight files hold {name}", where=self._name)
        stored = file.get_slice(name)
        if stored.get_dtype() not in _FLOATS and not name.endswith(_COUNTERS):
            raise ModelError(
                f"its weight {name} is stored as {stored.get_dtype()}, not as floating-point numbers; quantized models "
                f"cannot be read",
                where=self._name,
            )
        self._files[name], self._shapes[name] = file, tuple(stored.get_shape())

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of every tensor, by its name."""
        return self._shapes

    def read(self, name: str) -> Tensor:
        """Read a tensor, as it is stored."""
        with wrap_library_errors(f"its weight {name} cannot be read", where=self._name):
            return self._files[name].get_tensor(name)
