"""The networks of heads, which turn batches of features into scores.

Shapes: B examples of a batch; N vectors of all; W width of a stored vector; L layers in it, each of width H; V inputs
of the first layer of weights; K outputs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from math import sqrt

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import normalize

from bertfeat.display import format_size
from bertfeat.errors import UsageError, parameter
from bertfeat.io import physical_memory
from bertfeat.learning.crf import Crf
from bertfeat.learning.example_store import ExampleBatch
from bertfeat.learning.lstm import BiLstm

# ── mean and spread of features ───────────────────────────────────────────────────────────────────────────


_BLOCK = 512  # rows that are summed at a time in float64


def feature_scale(
    features: NDArray[np.floating], combine: Callable[[NDArray[np.floating]], NDArray[np.floating]] | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and standard deviation of each value over all vectors, block by block: ``[N, W]`` → two of ``[W]``.

    With ``combine`` they are those of the V values that it computes from features: ``[n, W]`` → ``[n, V]``.
    """

    def blocks() -> Iterator[NDArray[np.floating]]:
        for at in range(0, len(features), _BLOCK):
            block = features[at : at + _BLOCK]
            yield block if combine is None else combine(block)

    mean = reduce(np.add, (block.sum(0, dtype=np.float64) for block in blocks())) / len(features)
    squares = reduce(np.add, (np.square(block - mean).sum(0) for block in blocks()))
    return mean.astype(np.float32), np.sqrt(squares / len(features)).astype(np.float32)


# ── networks ──────────────────────────────────────────────────────────────────────────────────────────────


class ScalarMix(nn.Module):
    """A weighted sum of layers with learned weights and scale (Peters et al. 2018, equation 1): γ Σ softmax(w)ₖ hₖ."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, stacked: Tensor) -> Tensor:
        """Shape: ``[N, L, H]`` → ``[N, H]``."""
        return self.gamma * torch.einsum("nkh,k->nh", stacked, torch.softmax(self.weights, 0))


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The shape of a head's network."""

    width: int  # W: all values of a stored vector
    texts: int  # texts whose vectors are side by side: 1, or 2 for a pair that is embedded apart
    layers: int  # L: layers side by side in the vector of a text; 1 for a sum
    mixed: bool  # whether a weighted sum of the layers is learned
    hidden: int  # width of the hidden layer, for a BiLSTM in each direction; 0: none
    recurrent: int  # number of BiLSTM layers, over the vectors of an example; 0: a plain layer on each vector
    outputs: int  # K: scores for each vector
    dropout: float
    averaged: bool = False  # there also is a linear head, and the scores are the mean of both
    crf: bool = False  # whole sequences of outputs are scored

    @property
    def input_groups(self) -> dict[str, int]:
        """The inputs by name, each group with those before it: ``inputs[:, :number]``.

        For a pair: the cosines alone, then all symmetric inputs (with |u-v| and u·v), then both texts, too. For a text
        there is one group.
        """
        layers = 1 if self.mixed else self.layers
        width = self.width // self.texts // (self.layers if self.mixed else 1)
        if self.texts == 1:
            return {"text": width}
        return {"cosines": layers, "differences": layers + 2 * width, "texts": layers + 4 * width}

    @property
    def inputs(self) -> int:
        """Number V of inputs."""
        return max(self.input_groups.values())


class HeadNetwork(nn.Module):
    """A network of standardized inputs, perhaps a hidden layer, and a linear layer; perhaps a linear head beside them.

    The input for a text is its vector. The inputs for a pair are computed from the layers u and v of its texts, each
    scaled to length √H, so that no layer outweighs the others: the cosine of each layer, |u-v|, u·v (elementwise), u
    and v.
    ``allowed [K+2, K+2]`` says which output may follow which, see :class:`Crf`.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, shape: HeadShape, allowed: Tensor | None = None) -> None:
        super().__init__()
        self.shape = shape
        width = shape.inputs if shape.texts == 2 else shape.width
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.mix = ScalarMix(shape.layers) if shape.mixed else None
        recurrent = shape.recurrent if shape.hidden else 0
        self.lstm = BiLstm(shape.inputs, shape.hidden, recurrent) if recurrent else None
        self.hidden = nn.Linear(shape.inputs, shape.hidden) if shape.hidden and not shape.recurrent else None
        last = shape.inputs if not shape.hidden else shape.hidden * (2 if shape.recurrent else 1)
        self.out = nn.Linear(last, shape.outputs)
        self.linear = nn.Linear(shape.inputs, shape.outputs) if shape.averaged else None
        self.crf = Crf(shape.outputs, allowed) if shape.crf else None

    def standardise(self, mean: NDArray[np.float32], spread: NDArray[np.float32]) -> None:
        """Bring features to mean 0 and spread 1 (``[W]``), so that one learning rate suits all models."""
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(1.0 / np.maximum(spread, 1e-3)))

    @property
    def mix_shares(self) -> list[float] | None:
        """The share of each layer in the learned weighted sum, ``[L]``; None where none is learned."""
        return None if self.mix is None else torch.softmax(self.mix.weights.detach(), 0).tolist()

    def combine(self, features: NDArray[np.floating]) -> NDArray[np.floating]:
        """The values that are standardized: the features themselves ``[N, W]``; for pairs the inputs ``[N, V]``."""
        if self.shape.texts == 1:
            return features
        with torch.no_grad():
            inputs: NDArray[np.float32] = self._compared(torch.from_numpy(features).to(self.mean.device)).cpu().numpy()
        return inputs

    def inputs(self, features: Tensor) -> Tensor:
        """The standardized inputs of stored features: ``[N, W]`` → ``[N, V]`` float32."""
        if self.shape.texts == 2:
            return (self._compared(features) - self.mean) * self.scale
        features = features.float().sub_(self.mean).mul_(self.scale)
        if self.mix is None:
            return features
        mixed: Tensor = self.mix(features.view(len(features), self.shape.layers, -1))
        return mixed

    def forward(self, batch: ExampleBatch) -> Tensor:
        """Scores of each vector of a packed batch: ``[N, K]`` float32."""
        inputs = self.inputs(batch.features)
        features = inputs * self.mask(batch, inputs.shape[1])
        if self.lstm is not None:
            between = [self.mask(batch, 2 * self.shape.hidden) for _ in range(1, self.shape.recurrent)]
            features = self.lstm(features, batch.sizes, between)
        elif self.hidden is not None:
            features = torch.relu(self.hidden(features))
        if self.shape.hidden:
            features = features * self.mask(batch, features.shape[1])
        scores: Tensor = self.out(features)
        return scores if self.linear is None else (scores + self.linear(inputs)) / 2

    @torch.no_grad()
    def decide(self, batch: ExampleBatch) -> Tensor:
        """The scores of each vector; with a CRF 1 for the outputs on the best path and 0 for others: ``[N, K]``."""
        scores: Tensor = self(batch)
        if self.crf is None:
            return scores
        return nn.functional.one_hot(self.crf.decode(scores, batch.sizes), self.shape.outputs).float()

    def mask(self, batch: ExampleBatch, width: int) -> Tensor:
        """A dropout mask, the same for all vectors of an example (Gal and Ghahramani 2016): ``[N, width]``; or ``[1]``
        with the value 1 where nothing is dropped.
        """
        keep = 1.0 - self.shape.dropout
        if not self.training or keep == 1.0:
            return self.mean.new_ones(1)
        return self.mean.new_empty(batch.count, width).bernoulli_(keep).div_(keep)[batch.example]

    def _compared(self, features: Tensor) -> Tensor:
        """The inputs for pairs, which compare both texts, not yet standardized: ``[N, W]`` → ``[N, V]`` float32."""
        texts = self._of_equal_length(features.float().view(len(features), 2, self.shape.layers, -1))
        if self.mix is not None:
            texts = self._of_equal_length(self.mix(texts.flatten(0, 1)).view(len(features), 2, 1, -1))
        first, second = texts[:, 0], texts[:, 1]
        product = first * second
        parts = [product.mean(-1), (first - second).abs(), product, first, second]
        return torch.cat([part.flatten(1) for part in parts], 1)

    @staticmethod
    def _of_equal_length(layers: Tensor) -> Tensor:
        """Scale layers to length √H, so that their values are near 1 and the mean of a product is a cosine."""
        unit: Tensor = normalize(layers, dim=-1)
        return unit * sqrt(layers.shape[-1])


# ── memory ────────────────────────────────────────────────────────────────────────────────────────────────


COPIES = 8  # of the weights: themselves, gradient, two moments, the best weights, and the data of a checkpoint
_STEP_COPIES = 2  # label-by-label matrices that the gradient of a CRF keeps for each word


def refuse_large_network(make_network: Callable[[], nn.Module], device: torch.device, copies: int = COPIES) -> None:
    """Refuse a network whose training cannot fit; it is made without memory to count its weights."""
    with torch.device("meta"):
        size = copies * sum(tensor.nbytes for tensor in make_network().state_dict().values())
    available = _available_memory(device)
    if size > available:
        problem = f"to learn this network takes {format_size(size)}, and there are {format_size(available)}"
        raise UsageError(problem, remedy=f"give a smaller {parameter('hidden')}, or fewer labels or layers")


def refuse_large_crf(labels: int, words: int, device: torch.device) -> None:
    """Refuse a CRF whose steps over the words of a batch cannot fit the memory."""
    steps, available = _STEP_COPIES * words * labels**2 * 4, _available_memory(device)
    if steps > available:
        raise UsageError(
            f"a CRF over {labels:,} labels and {words:,} words in a batch takes {format_size(steps)}, and there are "
            f"{format_size(available)}",
            remedy=f"give {parameter('crf', False)}, or a smaller {parameter('batch_size')}",
        )


def _available_memory(device: torch.device) -> int:
    """Bytes of memory of the machine, or of the GPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return physical_memory()
