"""The layer ``sentence``: a model's own sentence-transformers modules, applied to the tokens of each text.

They make one vector of all tokens (the pooling ``sentence``; Reimers and Gurevych 2019, arXiv:1908.10084, section 3),
or, in a model that compares tokens, one of each (Khattab and Zaharia 2020, arXiv:2004.12832, section 3.2). Everything
is float32, whatever the encoder's precision.

Shapes: ``T`` tokens of a batch, ``H`` hidden width, ``P`` picked tokens, ``S`` texts, ``W`` width of the vector.
"""

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name
from torch.nn.functional import embedding_bag, pad

from bertfeat.core.extraction.pooling import PoolingMethod, segment_extreme, segment_sum
from bertfeat.core.models import DenseStep, LayerMean, LayerNormStep, Model, PoolingMode, SentenceStep, open_weights
from bertfeat.errors import ModelError


class OwnModules:
    """The modules that follow a model's encoder."""

    def __init__(self, model: Model) -> None:
        """Read the modules' weights.

        Raises:
            ModelError: the model has no such modules, or their weights are not as they should be.
        """
        modules = model.sentence_modules
        if modules is None:
            raise ModelError("it has no modules of its own", where=model.name)
        self._poolings = modules.poolings
        self.layer_weights = None if modules.layers is None else _read_layer_weights(model, modules.layers)
        """The weights of the layers whose mean is pooled, ``[n]``; None: the last layer alone is."""
        groups = (lambda layout: layout.pooled) if modules.pools_prompt else (lambda layout: layout.unprompted)
        self.method = PoolingMethod(groups, self.pool)
        """The pooling ``sentence``."""
        steps = nn.Sequential(*(_make_step(model.name, step) for step in modules.steps)).eval().requires_grad_(False)
        self._steps = {torch.device("cpu"): steps}

    def pool(self, hidden: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
        """Make one vector of the picked tokens of each text. Shape: ``[T, H]``, ``[P]``, ``[S]`` → ``[S, W]``."""
        return self.project(torch.cat([_POOLED[mode](hidden, picked, offsets) for mode in self._poolings], dim=1))

    def project(self, rows: Tensor) -> Tensor:
        """Send each vector through the steps after the pooling. Shape: ``[n, H]`` → ``[n, W]``."""
        steps = self._steps.get(rows.device)
        if steps is None:
            steps = self._steps[rows.device] = deepcopy(self._steps[torch.device("cpu")]).to(rows.device)
        vectors: Tensor = steps(rows.float())
        return vectors


# ── poolings ────────────────────────────────────────────────────────────────────────────────────────────────


def _text_lengths(picked: Tensor, offsets: Tensor) -> Tensor:
    return torch.diff(pad(offsets, (0, 1), value=len(picked)))


def _mean_of_texts(hidden: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
    return segment_sum(hidden, picked, offsets) / _text_lengths(picked, offsets)[:, None]


def _mean_by_root(hidden: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
    return segment_sum(hidden, picked, offsets) / _text_lengths(picked, offsets)[:, None].float().sqrt()


def _mean_by_place(hidden: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
    """Muennighoff 2022 (arXiv:2202.08904), section 3: the n-th token of a text has the weight n."""
    lengths = _text_lengths(picked, offsets)
    numbers = torch.arange(1, len(picked) + 1, device=picked.device) - offsets.repeat_interleave(lengths)
    sums = embedding_bag(picked, hidden.float(), offsets, mode="sum", per_sample_weights=numbers.float())
    return sums / (lengths * (lengths + 1) // 2)[:, None]


def _first_of_texts(hidden: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
    return hidden[picked[offsets]].float()


def _last_of_texts(hidden: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
    return hidden[picked[offsets + _text_lengths(picked, offsets) - 1]].float()


def _max_of_texts(hidden: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
    return segment_extreme(hidden, picked, offsets, which="max")


_POOLED: Mapping[PoolingMode, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    PoolingMode.CLS: _first_of_texts,
    PoolingMode.MAX: _max_of_texts,
    PoolingMode.MEAN: _mean_of_texts,
    PoolingMode.MEAN_SQRT: _mean_by_root,
    PoolingMode.WEIGHTED_MEAN: _mean_by_place,
    PoolingMode.LAST: _last_of_texts,
}


# ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────


class _Linear(nn.Linear):
    """A product whose rows do not depend on each other.

    On a CPU each is a product of its own: a library rounds that of many rows as it divides them among its kernels.
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu":
            return super().forward(x)
        products = torch.bmm(x[:, None], self.weight.T.expand(len(x), -1, -1))[:, 0]
        bias: Tensor | None = getattr(self, "bias", None)
        return products if bias is None else products + bias


class _Dense(nn.Module):
    def __init__(self, step: DenseStep) -> None:
        super().__init__()
        self.linear = _Linear(step.in_features, step.out_features, bias=step.bias)
        self.residual: nn.Module | None = None
        if step.residual:
            same = step.in_features == step.out_features
            self.residual = nn.Identity() if same else _Linear(step.in_features, step.out_features, bias=False)
        self.activation = getattr(nn, step.activation)()

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.activation(self.linear(x))
        return made if self.residual is None else made + self.residual(x)


class _LayerNorm(nn.Module):
    def __init__(self, step: LayerNormStep) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(step.width)

    def forward(self, x: Tensor) -> Tensor:
        normed: Tensor = self.norm(x)
        return normed


class _Normalize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1)


def _make_step(name: str, step: SentenceStep) -> nn.Module:
    """The module of a step, with its weights."""
    if isinstance(step, DenseStep):
        return _with_weights(name, _Dense(step), step.weights, shared=step.shared)
    if isinstance(step, LayerNormStep):
        return _with_weights(name, _LayerNorm(step), step.weights)
    return _Normalize()


def _with_weights(name: str, module: nn.Module, file: Path, *, shared: bool = False) -> nn.Module:
    """Fill a module from a file, which holds nothing else unless it is ``shared`` with the encoder."""
    wanted = {key: tuple(value.shape) for key, value in module.state_dict().items()}
    module.load_state_dict(_read_tensors(name, file, wanted, shared=shared))
    return module


def _read_tensors(
    name: str, file: Path, wanted: Mapping[str, tuple[int, ...]], *, shared: bool = False
) -> dict[str, Tensor]:
    """Read the tensors of a file, which have to be those that are wanted."""
    with open_weights(name, file, "pt") as stored:
        keys = wanted.keys() if shared else stored.keys()
        tensors = {key: stored.get_tensor(key) for key in keys}
    found = {key: tuple(value.shape) for key, value in tensors.items()}
    if wanted != found:
        problem = f"{file} has the tensors {_list_tensors(found)}, where {_list_tensors(wanted)} are expected"
        raise ModelError(problem, where=name, remedy="get it anew from where the model came")
    return tensors


def _read_layer_weights(model: Model, mean: LayerMean) -> Sequence[float]:
    """The weights of the layers from the first one of a mean on, whose sum is 1."""
    wanted = {"layer_weights": (model.num_layers + 1 - mean.first,)}
    weights: list[float] = _read_tensors(model.name, mean.weights, wanted)["layer_weights"].double().tolist()
    return [each / sum(weights) for each in weights]


def _list_tensors(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{key} {list(shape)}" for key, shape in sorted(shapes.items())) or "none"
