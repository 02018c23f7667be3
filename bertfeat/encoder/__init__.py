"""The frozen encoder: a packed forward pass of our own, and any other Hugging Face encoder as it is."""

from bertfeat.encoder.ceiling import block_flop, product_rate, synchronize
from bertfeat.encoder.forward import is_out_of_memory
from bertfeat.encoder.kernels import kernels_in_use
from bertfeat.encoder.load import load_encoder, planned_path
from bertfeat.encoder.precision import Precision, has_native_bf16, resolve_device, resolve_precision
from bertfeat.encoder.states import BatchForm, Encoder, EncoderPath, HiddenState, LoadedEncoder
from bertfeat.encoder.transfer import PendingCopy, to_device

__all__ = [
    "BatchForm",
    "Encoder",
    "EncoderPath",
    "HiddenState",
    "LoadedEncoder",
    "PendingCopy",
    "Precision",
    "block_flop",
    "has_native_bf16",
    "is_out_of_memory",
    "kernels_in_use",
    "load_encoder",
    "planned_path",
    "product_rate",
    "resolve_device",
    "resolve_precision",
    "synchronize",
    "to_device",
]
