"""The canary of an encoder: the vectors that it gives a few fixed strings, here and now."""

from collections.abc import Mapping

import numpy as np

from bertfeat.core.corpus import Document
from bertfeat.core.encoder import Encoder, device_name, kernels_in_use
from bertfeat.core.extraction.compute import compute_features
from bertfeat.core.features import CANARY_TEXTS, Canary
from bertfeat.core.recipe import FeatureColumn, Operation, Pooling, Recipe
from bertfeat.core.tokens import LongTextPolicy, Tokenizer, TokenSettings, tokenize
from bertfeat.errors import ModelError, parameter, shorten
from bertfeat.io import installed_versions

_MOST_TOKENS = 512  # that are read of a string


def compute_canary(encoder: Encoder, tokenizer: Tokenizer, *, max_tokens: int) -> Canary:
    """Compute the last layer's mean over the tokens of each string, of which at most ``max_tokens`` are read.

    Raises:
        ModelError: a vector is not finite.
    """
    last = Recipe(Operation.LAYER, (encoder.num_layers,), "last")
    column = FeatureColumn(last, Pooling.MEAN, encoder.hidden_size, "float32")
    documents = [Document(number, str(number), text) for number, text in enumerate(CANARY_TEXTS)]
    tokens = tokenize(documents, tokenizer, TokenSettings(min(max_tokens, _MOST_TOKENS), long=LongTextPolicy.TRUNCATE))
    computed = compute_features(encoder, tokens, [column], batch_tokens=_MOST_TOKENS * len(documents))
    vectors = computed.matrices[column.name].astype(np.float32, copy=False)
    if not np.isfinite(vectors).all():
        text = CANARY_TEXTS[int(np.argmin(np.isfinite(vectors).all(axis=1)))]
        raise ModelError(
            f"the last layer of {shorten(text)!r} is not finite in {encoder.precision.value}",
            remedy=f"use another {parameter('precision')}, and if that does not help, get the weights anew",
        )
    return Canary.of(encoder.precision.value, vectors, _computer(encoder))


def _computer(encoder: Encoder) -> Mapping[str, str]:
    """Description of what an encoder computes with, and of whether company changes a vector's bytes."""
    return installed_versions("bertfeat", "torch", "transformers", "tokenizers") | {
        "device": encoder.device.type,
        "processor": device_name(encoder.device),
        "kernels": kernels_in_use(encoder.device, encoder.precision),
        "in company": "the same bytes" if encoder.path.same_bytes else "nearly the same",
    }
