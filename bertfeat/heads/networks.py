"""The network of a head: features of texts or tokens in, scores out.

Shapes: B examples of a batch; N vectors of all; W width of a stored vector; K outputs.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bertfeat.training import BiLstm, ExampleBatch, FeatureNetwork


@dataclass(frozen=True, slots=True)
class HeadShape:
    """The shape of a head's network."""

    width: int  # W of all that is read of one text or token
    texts: int  # whose vectors stand side by side: 1, or 2 of a pair that is embedded apart
    mixed_layers: int  # 0: the features are one recipe
    hidden: int  # width of the hidden layer, of an LSTM in each direction; 0: none
    recurrent: bool  # the hidden layer is a BiLSTM over the vectors of an example
    outputs: int  # scores of each vector: K
    dropout: float


class HeadNetwork(FeatureNetwork):
    """Standardised features (of pairs u and v: u, v, |u-v|, u·v), perhaps a hidden layer, and a linear layer."""

    def __init__(self, shape: HeadShape) -> None:
        super().__init__(shape.width // shape.texts, shape.mixed_layers, shape.dropout)
        self.shape = shape
        width = self.input_width * (4 if shape.texts == 2 else 1)
        self.lstm = BiLstm(width, shape.hidden, 1) if shape.recurrent and shape.hidden else None
        self.hidden = nn.Linear(width, shape.hidden) if shape.hidden and not shape.recurrent else None
        last = width if not shape.hidden else shape.hidden * (2 if shape.recurrent else 1)
        self.out = nn.Linear(last, shape.outputs)

    def standardise(self, mean: NDArray[np.float32], spread: NDArray[np.float32]) -> None:
        """Bring features to mean 0 and spread 1; both texts of a pair by the same numbers."""
        means, spreads = mean.reshape(self.shape.texts, -1), spread.reshape(self.shape.texts, -1)
        super().standardise(means.mean(0), np.sqrt(np.square(spreads).mean(0)))

    def forward(self, batch: ExampleBatch) -> Tensor:
        """Scores of each vector of a packed batch: ``[N, K]`` float32."""
        features = self._combined(batch.features)
        features = features * self.mask(batch, features.shape[1])
        if self.lstm is not None:
            features = self.lstm(features, batch.sizes, [])
        elif self.hidden is not None:
            features = torch.relu(self.hidden(features))
        if self.shape.hidden:
            features = features * self.mask(batch, features.shape[1])
        scores: Tensor = self.out(features)
        return scores

    def _combined(self, features: Tensor) -> Tensor:
        """What is known of each example: of two texts the vectors, their distance and their product."""
        if self.shape.texts == 1:
            return self.inputs(features)
        count = len(features)
        first, second = self.inputs(features.reshape(2 * count, -1)).view(count, 2, -1).unbind(1)
        return torch.cat([first, second, (first - second).abs(), first * second], 1)
