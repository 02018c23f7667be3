"""Batches whose windows end in tokens that none of their tokens sees: queries that are filled up, as ColBERT does.

Such a token sees the others, so it has a hidden state, but is no key of attention. No packed attention knows this; the
library's own does, by its mask. The module is loaded beside the encoder when the first such batch comes. Each window
runs by itself: there are few, and no company can change it.
"""

from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from bertfeat.core.encoder.forward import TransformersForward
from bertfeat.core.encoder.linear import PrepackedLinears
from bertfeat.core.encoder.module import load_module
from bertfeat.core.encoder.precision import Precision
from bertfeat.core.encoder.states import HiddenState
from bertfeat.core.models import Model
from bertfeat.core.recipe import Place
from bertfeat.core.tokens import TokenBatch


class UnseenTokens:
    """The forward pass of such batches."""

    def __init__(self, model: Model, precision: Precision, device: torch.device) -> None:
        self._model, self._precision, self._device = model, precision, device
        self._forward: TransformersForward | None = None

    def __call__(self, batch: TokenBatch, places: Collection[Place]) -> Iterator[HiddenState]:
        """Yield the chosen places, layer by layer. Shape: ``[T, H]`` each."""
        if self._forward is None:
            module = load_module(self._model, self._precision)
            self._forward = TransformersForward(self._model, module, self._precision, self._device)
            PrepackedLinears(module)
        runs = [self._forward(part, places) for part in batch.cut(range(1, len(batch.lengths)))]
        for place in sorted(places):
            rows: list[Tensor] = [run.pop(place) for run in runs]
            yield HiddenState(place, torch.cat(rows), first_token_only=False)
