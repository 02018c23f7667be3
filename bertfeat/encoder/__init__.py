"""The frozen encoder: a packed forward pass of our own, and any other Hugging Face encoder as it is."""

from bertfeat.encoder.ceiling import block_flop, product_rate, settle
from bertfeat.encoder.kernels import kernels_in_use
from bertfeat.encoder.loading import load_encoder
from bertfeat.encoder.precision import Precision, has_native_bf16, resolve_device, resolve_precision
from bertfeat.encoder.states import Encoder, HiddenState
from bertfeat.encoder.transfer import Landing, to_device

__all__ = [
    "Encoder",
    "HiddenState",
    "Landing",
    "Precision",
    "block_flop",
    "has_native_bf16",
    "kernels_in_use",
    "load_encoder",
    "product_rate",
    "resolve_device",
    "resolve_precision",
    "settle",
    "to_device",
]
