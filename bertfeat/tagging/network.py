"""The tagger of the BERT paper (section 5.3): a two-layer BiLSTM over frozen features, and a classifier on top.

Shapes: B sentences of a batch; N words of all; W width of a word's features; K mixed layers; H width of one layer;
L labels.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bertfeat.tagging.batches import SentenceBatch
from bertfeat.tagging.crf import Crf, allowed_transitions
from bertfeat.tagging.lstm import BiLstm

LSTM_LAYERS = 2
_LEAST_SPREAD = 1e-3


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """The shape of a network."""

    width: int  # W
    mixed_layers: int  # K; 0: the features are one recipe
    hidden: int  # of each direction of the LSTM
    crf: bool
    dropout: float


class ScalarMix(nn.Module):
    """A weighted sum of layers with learned weights and scale (Peters et al. 2018, equation 1): γ Σ softmax(w)ₖ hₖ."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, stacked: Tensor) -> Tensor:
        """Shape: ``[N, K, H]`` → ``[N, H]``."""
        return self.gamma * torch.einsum("nkh,k->nh", stacked, torch.softmax(self.weights, 0))


class TaggerNetwork(nn.Module):
    """Features of words in, scores of labels out."""

    mean: Tensor
    scale: Tensor

    def __init__(self, settings: NetworkSettings, labels: tuple[str, ...], *, spans: bool) -> None:
        super().__init__()
        width = settings.width // max(1, settings.mixed_layers)
        self.settings = settings
        self.register_buffer("mean", torch.zeros(settings.width))
        self.register_buffer("scale", torch.ones(settings.width))
        self.mix = ScalarMix(settings.mixed_layers) if settings.mixed_layers else None
        self.lstm = BiLstm(width, settings.hidden, LSTM_LAYERS)
        self.out = nn.Linear(2 * settings.hidden, len(labels))
        self.crf = Crf(len(labels), allowed_transitions(labels) if spans else None) if settings.crf else None

    def standardise(self, mean: NDArray[np.float32], spread: NDArray[np.float32]) -> None:
        """Bring features to mean 0 and spread 1 (``[W]``), so that one learning rate suits all models."""
        self.mean.copy_(torch.from_numpy(mean))
        self.scale.copy_(torch.from_numpy(1.0 / np.maximum(spread, _LEAST_SPREAD)))

    def loss(self, batch: SentenceBatch, tags: Tensor) -> Tensor:
        """Mean over words of the negative log probability of their tags ``[N]``; that of whole sentences by CRF."""
        emissions = self.emissions(batch)
        if self.crf is None:
            return cross_entropy(emissions, tags)
        return -self.crf.log_likelihood(emissions, tags, batch.sizes).sum() / len(tags)

    @torch.no_grad()
    def decode(self, batch: SentenceBatch) -> Tensor:
        """The best label of each word, or of each sentence the best path of labels by CRF: ``[N]``."""
        emissions = self.emissions(batch)
        return emissions.argmax(1) if self.crf is None else self.crf.decode(emissions, batch.sizes)

    def emissions(self, batch: SentenceBatch) -> Tensor:
        """Scores of each label for each word, packed: ``[N, L]`` float32."""
        features = batch.features.float().sub_(self.mean).mul_(self.scale)
        if self.mix is not None:
            features = self.mix(features.view(len(features), self.settings.mixed_layers, -1))
        features = features * self._mask(batch, features.shape[1])
        hidden = self.lstm(features, batch.sizes, [self._mask(batch, 2 * self.settings.hidden)])
        scores: Tensor = self.out(hidden * self._mask(batch, hidden.shape[1]))
        return scores

    def _mask(self, batch: SentenceBatch, width: int) -> Tensor:
        """Dropout of the same dimensions in all words of a sentence (Gal and Ghahramani 2016): ``[N, width]``, or 1."""
        keep = 1.0 - self.settings.dropout
        if not self.training or keep == 1.0:
            return self.mean.new_ones(1)
        return self.mean.new_empty(batch.count, width).bernoulli_(keep).div_(keep)[batch.sentence]
