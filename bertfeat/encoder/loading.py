"""Model files → the encoder that computes them."""

import torch

from bertfeat.encoder.packed import PackedEncoder
from bertfeat.encoder.padded import PaddedEncoder
from bertfeat.encoder.precision import Precision
from bertfeat.encoder.states import Encoder
from bertfeat.encoder.weights import ARCHITECTURES, is_packable
from bertfeat.errors import ModelError
from bertfeat.models import Model


def load_encoder(model: Model, precision: Precision, device: torch.device) -> Encoder:
    """Load a model's weights: BERT-family ones into the packed forward pass, any other through transformers.

    Raises:
        ModelError: the weights are missing, damaged or incomplete.
    """
    positions = getattr(model.config, "position_embedding_type", None) or "absolute"
    if model.config.model_type in ARCHITECTURES and positions != "absolute":
        # transformers 5 no longer knows these, and would silently take them for absolute ones
        raise ModelError(f"{model.name}: its positions are {positions!r}; only absolute ones can be computed")
    return (PackedEncoder if is_packable(model) else PaddedEncoder)(model, precision, device)
