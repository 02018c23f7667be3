"""What every network on frozen features begins with: features brought to one scale, and perhaps a mix of layers.

Shapes: N vectors (of words, tokens or texts); W width of a stored vector; K mixed layers; H width of one layer.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertfeat.training.batches import ExampleBatch

_LEAST_SPREAD = 1e-3


class ScalarMix(nn.Module):
    """A weighted sum of layers with learned weights and scale (Peters et al. 2018, equation 1): γ Σ softmax(w)ₖ hₖ."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, stacked: Tensor) -> Tensor:
        """Shape: ``[N, K, H]`` → ``[N, H]``."""
        return self.gamma * torch.einsum("nkh,k->nh", stacked, torch.softmax(self.weights, 0))


class FeatureNetwork(nn.Module):
    """A network on features of width W, K layers side by side of which it learns a weighted sum (0: one recipe)."""

    mean: Tensor
    scale: Tensor

    def __init__(self, width: int, mixed_layers: int, dropout: float) -> None:
        super().__init__()
        self.mixed_layers = mixed_layers
        self.input_width = width // max(1, mixed_layers)
        self.dropout = dropout
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))
        self.mix = ScalarMix(mixed_layers) if mixed_layers else None

    def standardise(self, mean: NDArray[np.float32], spread: NDArray[np.float32]) -> None:
        """Bring features to mean 0 and spread 1 (``[W]``), so that one learning rate suits all models."""
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(1.0 / np.maximum(spread, _LEAST_SPREAD)))

    def combine(self, features: NDArray[np.floating]) -> NDArray[np.floating]:
        """The values whose mean and spread count, of stored features: these themselves."""
        return features

    @property
    def mix_shares(self) -> list[float] | None:
        """The share of each layer in the learned weighted sum, ``[K]``; None where none is learnt."""
        return None if self.mix is None else torch.softmax(self.mix.weights.detach(), 0).tolist()

    def inputs(self, features: Tensor) -> Tensor:
        """Features at one scale, of mixed layers their sum: ``[N, W]`` → ``[N, W or H]`` float32."""
        features = features.float().sub_(self.mean).mul_(self.scale)
        if self.mix is None:
            return features
        mixed: Tensor = self.mix(features.view(len(features), self.mixed_layers, -1))
        return mixed

    def mask(self, batch: ExampleBatch, width: int) -> Tensor:
        """Dropout, the same in all vectors of an example (Gal and Ghahramani 2016): ``[N, width]``, or 1."""
        keep = 1.0 - self.dropout
        if not self.training or keep == 1.0:
            return self.mean.new_ones(1)
        return self.mean.new_empty(batch.count, width).bernoulli_(keep).div_(keep)[batch.example]
