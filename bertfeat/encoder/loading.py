"""Model files → the encoder that computes them."""

import torch

from bertfeat.encoder.packed import PackedEncoder
from bertfeat.encoder.padded import PaddedEncoder
from bertfeat.encoder.precision import Precision
from bertfeat.encoder.states import Encoder
from bertfeat.encoder.weights import is_packable
from bertfeat.models import Model


def load_encoder(model: Model, precision: Precision, device: torch.device) -> Encoder:
    """Load a model's weights: BERT-family ones into the packed forward pass, any other through transformers.

    Raises:
        ModelError: the weights are missing, damaged or incomplete.
    """
    return (PackedEncoder if is_packable(model) else PaddedEncoder)(model, precision, device)
