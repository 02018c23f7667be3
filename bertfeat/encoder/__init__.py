"""The frozen encoder: a packed forward pass of our own, and any other Hugging Face encoder as it is."""

from bertfeat.encoder.loading import load_encoder
from bertfeat.encoder.precision import Precision, has_native_bf16, resolve_device, resolve_precision
from bertfeat.encoder.states import Encoder, HiddenState

__all__ = [
    "Encoder",
    "HiddenState",
    "Precision",
    "has_native_bf16",
    "load_encoder",
    "resolve_device",
    "resolve_precision",
]
