"""The weights of attention, which no fast attention keeps: by transformers' own module in plain products."""

from collections.abc import Sequence

import torch
from torch import Tensor

from bertfeat.core.encoder.forward import TransformersForward
from bertfeat.core.encoder.module import load_module
from bertfeat.core.encoder.precision import Precision
from bertfeat.core.models import Model
from bertfeat.core.tokens import TokenBatch


class AttentionReader:
    """A model's attention in float32."""

    def __init__(self, model: Model, device: torch.device) -> None:
        self.heads, self.num_layers = model.sizes.num_attention_heads or 1, model.num_layers
        self._forward = TransformersForward(model, load_module(model, Precision.FP32), Precision.FP32, device)

    @torch.inference_mode()
    def __call__(self, batch: TokenBatch, layers: Sequence[int]) -> dict[int, Tensor]:
        """The weights in the chosen layers, for the one sequence of a batch. Shape: ``[A, T, T]`` each."""
        return self._forward.attention(batch, layers)
