"""Holding a model to the vectors that it gave before it went on.

The loss gets ``W · mean(1 - cos(new, old))``: ``old`` is the pooled last layer of the model as it was, of the sequence
without masks and without dropout; ``new`` that of the model that learns, of the sequence as it sees it, masks included.
The cosine, because searches compare vectors by it; the masked sequence, because its hidden states are there already.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from bertfeat.models import Model
from bertfeat.pretraining.examples import Batch
from bertfeat.recipe import Pooling

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Anchor:
    """The model as it was, and the weight of the distance from it."""

    def __init__(self, encoder: "PreTrainedModel", pooling: Pooling, weight: float) -> None:
        self._encoder, self._pooling = encoder.eval().requires_grad_(False), pooling
        self.weight = weight

    @classmethod
    def of(cls, model: Model, weight: float, device: torch.device) -> "Anchor":
        """Load a model once more, to stay as it is."""
        from transformers import AutoModel

        encoder = AutoModel.from_pretrained(
            model.folder, dtype=torch.float32, trust_remote_code=False, use_safetensors=True, local_files_only=True
        )
        return cls(encoder.to(device), model.pooling, weight)

    def distance(self, states: Tensor, batch: Batch) -> Tensor:
        """Mean distance of the sequences' vectors from the old ones, 0 to 2; ``states`` are ``[S, T, H]``."""
        mask = batch["attention_mask"]
        inputs = {name: batch[name] for name in ("attention_mask", "token_type_ids") if name in batch}
        with torch.no_grad():
            old = self._encoder(input_ids=batch["unmasked_ids"], **inputs).last_hidden_state
        cosine = nn.functional.cosine_similarity(pool(states, mask, self._pooling), pool(old, mask, self._pooling))
        return (1 - cosine).mean()


def pool(states: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """One vector a sequence: ``[S, T, H]`` and ``[S, T]`` → ``[S, H]``."""
    if pooling is Pooling.CLS:
        return states[:, 0]
    within = mask[..., None].bool()
    if pooling is Pooling.MAX:
        return states.masked_fill(~within, float("-inf")).amax(1)
    return states.masked_fill(~within, 0).sum(1) / within.sum(1)
