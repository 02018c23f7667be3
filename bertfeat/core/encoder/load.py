"""The function that loads a model's files into the encoder that computes its hidden states."""

import logging
from functools import cache

import torch

from bertfeat.core.encoder.forks import watch_forks
from bertfeat.core.encoder.path import is_packable
from bertfeat.core.encoder.precision import Precision
from bertfeat.core.encoder.states import Encoder
from bertfeat.core.models import Model
from bertfeat.errors import ModelError, parameter

_log = logging.getLogger(__name__)


def load_encoder(model: Model, precision: Precision, device: torch.device) -> Encoder:
    """Load a model's weights: BERT-family ones into the packed forward pass, any other through transformers.

    Notes on the model are logged as warnings, each once per process. From the first call on, processes that are forked
    from this one compute on one thread (:mod:`bertfeat.core.encoder.forks`).

    Raises:
        ModelError: the weights are missing, damaged or incomplete, or what the model computes cannot be trusted.
    """
    watch_forks()
    encoder: Encoder
    if is_packable(model):
        from bertfeat.core.encoder.packed import PackedEncoder  # here, because the other path does not need it

        encoder = PackedEncoder(model, precision, device)
    elif precision is Precision.INT8:
        raise ModelError(
            f"int8 is for BERT, RoBERTa, XLM-R, DistilBERT, ELECTRA and MPNet, and model_type "
            f"{model.config.model_type!r} is run by transformers",
            where=model.name,
            remedy=f"use another {parameter('precision')}",
        )
    else:
        from bertfeat.core.encoder.padded import TransformersEncoder

        encoder = TransformersEncoder(model, precision, device)
    for note in encoder.path.notes:
        _warn(model.name, note)
    return encoder


@cache
def _warn(name: str, note: str) -> None:
    _log.warning("%s: %s", name, note)
