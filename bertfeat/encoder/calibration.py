"""The largest inputs of the products of a model's blocks, over a text that ships with bertfeat.

The scales of int8 go by them. The text is the same everywhere, the computation is in float64, and the factors that
follow are rounded to quarters of an octave (:mod:`bertfeat.encoder.int8`): so they are the same on every processor.
"""

from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import layer_norm, linear

from bertfeat.corpus import Document
from bertfeat.encoder.attention import GroupedAttention
from bertfeat.encoder.linear import ACTIVATION_FUNCTIONS
from bertfeat.encoder.weights import Affine, BlockWeights
from bertfeat.models import Model
from bertfeat.tokens import LongTextPolicy, TokenBatch, Tokenizer, TokenSettings, cut_batches, tokenize

_TEXT = "calibration.txt"


class BlockInputs(NamedTuple):
    """The largest absolute value of each input of a block's products."""

    query_key_value: Tensor  # [H]
    attention_out: Tensor  # [H]
    up: Tensor  # [H]
    down: Tensor  # [I]


def calibration_batch(model: Model) -> TokenBatch:
    """The text that ships with bertfeat, a sequence a line, as one batch of a model's tokens."""
    lines = files(__package__).joinpath(_TEXT).read_text("utf-8").splitlines()
    documents = [Document(row, str(row), line) for row, line in enumerate(lines)]
    settings = TokenSettings(model.max_tokens, LongTextPolicy.TRUNCATE)
    layout = tokenize(documents, Tokenizer(model), settings).layout
    return next(cut_batches(layout, len(layout.ids), padded=False))


@torch.inference_mode()
def largest_inputs(
    blocks: Sequence[BlockWeights],
    embedded: Tensor,
    lengths: NDArray[np.int64],
    heads: int,
    eps: float,
    activation: str,
    bias: Tensor | None = None,
) -> Iterator[BlockInputs]:
    """Compute a batch in float64 and yield what the products of each block met. Shape: ``embedded [T, H]``."""
    hidden = embedded.double()
    attention = GroupedAttention(lengths, embedded.device, bias)
    for block in blocks:
        context = attention(_product(hidden, block.query_key_value), heads)
        attended = _norm(_product(context, block.attention_out) + hidden, block.attention_norm, eps)
        raised = ACTIVATION_FUNCTIONS[activation](_product(attended, block.up))
        yield BlockInputs(*(values.abs().amax(0) for values in (hidden, context, attended, raised)))
        hidden = _norm(_product(raised, block.down) + attended, block.out_norm, eps)


def _product(x: Tensor, affine: Affine) -> Tensor:
    return linear(x, affine.weight.double(), affine.bias.double())


def _norm(x: Tensor, affine: Affine, eps: float) -> Tensor:
    return layer_norm(x, x.shape[-1:], affine.weight.double(), affine.bias.double(), eps)
