"""The tagger of the BERT paper (section 5.3): a two-layer BiLSTM over frozen features, and a classifier on top.

Shapes: B sentences of a batch; N words of all; W width of a word's features; L labels.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from bertfeat.tagging.crf import Crf, allowed_transitions
from bertfeat.training import BiLstm, ExampleBatch, FeatureNetwork

LSTM_LAYERS = 2


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """The shape of a network."""

    width: int  # W
    mixed_layers: int  # K; 0: the features are one recipe
    hidden: int  # of each direction of the LSTM
    crf: bool
    dropout: float


class TaggerNetwork(FeatureNetwork):
    """Features of words in, scores of labels out."""

    def __init__(self, settings: NetworkSettings, labels: tuple[str, ...], *, spans: bool) -> None:
        super().__init__(settings.width, settings.mixed_layers, settings.dropout)
        self.lstm = BiLstm(self.input_width, settings.hidden, LSTM_LAYERS)
        self.out = nn.Linear(2 * settings.hidden, len(labels))
        self.crf = Crf(len(labels), allowed_transitions(labels) if spans else None) if settings.crf else None

    def loss(self, batch: ExampleBatch, tags: Tensor) -> Tensor:
        """Mean over words of the negative log probability of their tags ``[N]``; that of whole sentences by CRF."""
        emissions = self.emissions(batch)
        if self.crf is None:
            return cross_entropy(emissions, tags)
        return -self.crf.log_likelihood(emissions, tags, batch.sizes).sum() / len(tags)

    @torch.no_grad()
    def decode(self, batch: ExampleBatch) -> Tensor:
        """The best label of each word, or of each sentence the best path of labels by CRF: ``[N]``."""
        emissions = self.emissions(batch)
        return emissions.argmax(1) if self.crf is None else self.crf.decode(emissions, batch.sizes)

    def emissions(self, batch: ExampleBatch) -> Tensor:
        """Scores of each label for each word, packed: ``[N, L]`` float32."""
        features = self.inputs(batch.features)
        features = features * self.mask(batch, features.shape[1])
        hidden = self.lstm(features, batch.sizes, [self.mask(batch, self.out.in_features)])
        scores: Tensor = self.out(hidden * self.mask(batch, hidden.shape[1]))
        return scores
