"""Model files → the encoder that computes them."""

import logging
from functools import cache

import torch

from bertfeat.encoder.forks import watch_forks
from bertfeat.encoder.packed import PACKED_SENTENCE, PackedEncoder
from bertfeat.encoder.padded import LibraryEncoder, planned_form
from bertfeat.encoder.precision import Precision
from bertfeat.encoder.states import BatchForm, EncoderPath, LoadedEncoder
from bertfeat.encoder.weights import is_packable
from bertfeat.models import Model

_log = logging.getLogger(__name__)
_PLANNED = {
    BatchForm.PADDED: "padded: run by transformers, texts of like length padded to the longest of a batch",
    BatchForm.EQUAL: "equal lengths: run by transformers, texts of one length at a time, without padding",
}


def load_encoder(model: Model, precision: Precision, device: torch.device) -> LoadedEncoder:
    """Load a model's weights: BERT-family ones into the packed forward pass, any other through transformers.

    What a user should know of the model is logged as warnings, once a process.

    Raises:
        ModelError: the weights are missing, damaged or incomplete, or what the model computes cannot be trusted.
    """
    watch_forks()
    packed = is_packable(model)
    encoder: LoadedEncoder = (PackedEncoder if packed else LibraryEncoder)(model, precision, device)
    for note in encoder.path.notes:
        _warn(model.name, note)
    return encoder


def planned_path(model: Model) -> EncoderPath:
    """Tell on which path a model will be computed, from its configuration alone; loading it checks that.

    Raises:
        ModelError: it cannot be computed at all.
    """
    if is_packable(model):
        return EncoderPath(BatchForm.PACKED, PACKED_SENTENCE, model.notes)
    form = planned_form(model)
    return EncoderPath(form, _PLANNED[form], model.notes)


@cache
def _warn(name: str, note: str) -> None:
    _log.warning("%s: %s", name, note)
