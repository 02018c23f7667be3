"""Model files → the encoder that computes them."""

import logging
from functools import cache

import torch

from bertfeat.encoder.architectures import is_packable
from bertfeat.encoder.forks import watch_forks
from bertfeat.encoder.packed import PackedEncoder
from bertfeat.encoder.padded import TransformersEncoder
from bertfeat.encoder.precision import Precision
from bertfeat.encoder.states import LoadedEncoder
from bertfeat.models import Model

_log = logging.getLogger(__name__)


def load_encoder(model: Model, precision: Precision, device: torch.device) -> LoadedEncoder:
    """Load a model's weights: BERT-family ones into the packed forward pass, any other through transformers.

    What a user should know of the model is logged as warnings, once a process.

    Raises:
        ModelError: the weights are missing, damaged or incomplete, or what the model computes cannot be trusted.
    """
    watch_forks()
    packed = is_packable(model)
    encoder: LoadedEncoder = (PackedEncoder if packed else TransformersEncoder)(model, precision, device)
    for note in encoder.path.notes:
        _warn(model.name, note)
    return encoder


@cache
def _warn(name: str, note: str) -> None:
    _log.warning("%s: %s", name, note)
