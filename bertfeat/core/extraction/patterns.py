"""Attention patterns of a few texts: how much each token attends to each other one, head by head."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.corpus import Document
from bertfeat.core.encoder import AttentionReader
from bertfeat.core.grammar import parse_recipes, split_specs
from bertfeat.core.recipe import LayerSpec
from bertfeat.core.tokens import Tokenizer, TokenSettings, cut_batches, tokenize
from bertfeat.display import displayed, format_size
from bertfeat.errors import RecipeError, UsageError, parameter, pluralize

MOST_BYTES = 1 << 30
"""The bytes that the patterns of one call may take."""


@displayed
@dataclass(frozen=True, slots=True, eq=False)
class AttentionPatterns:
    """The attention patterns of one text."""

    tokens: tuple[str, ...]  # [T] its tokens, special ones too
    layers: Mapping[int, NDArray[np.float32]] = field(repr=False)
    """By layer the weights ``[A, T, T]`` of its heads: how much the token of a row attends to that of a column.

    A row adds up to 1; of a head with an attention sink to less. (Vaswani et al. 2017, equation 1, before the values.)
    """


def bytes_of_patterns(heads: int, lengths: Sequence[int]) -> int:
    """The bytes that the patterns of one layer take, of texts of so many tokens."""
    return sum(4 * heads * length**2 for length in lengths)


def pattern_layers(specs: LayerSpec | Sequence[LayerSpec], num_layers: int) -> tuple[int, ...]:
    """The layers whose patterns are asked for, ascending.

    Raises:
        RecipeError: one that is no layer, or made of several.
    """
    listed = [f"1..{num_layers}" if spec == "all" else spec for spec in split_specs(specs)]
    recipes = parse_recipes(listed, num_layers)
    layers = [recipe.single_layer for recipe in recipes]
    if wrong := [recipe for recipe, layer in zip(recipes, layers, strict=True) if not layer]:
        raise RecipeError(
            f"there are attention patterns of layers 1 to {num_layers}, and none of {wrong[0]}",
            remedy=f"write 1..{num_layers}, or one of these layers",
        )
    return tuple(sorted(layer for layer in layers if layer is not None))


def attention_patterns(
    texts: Sequence[Document],
    layers: Sequence[int],
    tokenizer: Tokenizer,
    settings: TokenSettings,
    reader: AttentionReader,
) -> list[AttentionPatterns]:
    """Compute the attention patterns of some layers for each text by itself.

    Raises:
        UsageError: a text that cannot be embedded or has several windows, or too many texts.
    """
    if settings.context is not None:
        raise UsageError("each word is read by itself, so that no text has a pattern", where=parameter("context"))
    tokenized = tokenize(texts, tokenizer, settings)
    for number, reason in tokenized.rejected.items():
        raise UsageError(f"text {number} cannot be embedded: {reason}")
    if len(tokenized.layout.window_offsets) - 1 > len(texts):
        long = int((tokenized.n_tokens > settings.max_length).sum())
        raise UsageError(
            f"{long} of {len(texts)} texts are longer than the {settings.max_length} tokens that the model reads at "
            f"once, and no token attends beyond those",
            remedy=f"cut them, or give {parameter('long', 'truncate')}",
        )
    lengths = np.diff(tokenized.layout.window_offsets).tolist()
    kept = len(layers) * bytes_of_patterns(reader.heads, lengths)
    computed = reader.num_layers * bytes_of_patterns(reader.heads, [max(lengths, default=0)])
    if (size := max(kept, computed)) > MOST_BYTES:
        raise UsageError(
            f"the attention patterns of {pluralize(len(texts), 'text')} in {pluralize(len(layers), 'layer')} would "
            f"take {format_size(size)}",
            remedy=f"give fewer or shorter texts: up to {format_size(MOST_BYTES)}, of a single text in all layers",
        )
    found: dict[int, AttentionPatterns] = {}
    for batch in cut_batches(tokenized.layout, 1, padded=False):
        weights = reader(batch, layers)
        found[int(batch.windows[0])] = AttentionPatterns(
            tuple(tokenizer.strings(batch.ids)), {layer: each.cpu().numpy() for layer, each in weights.items()}
        )
    return [found[window] for window in range(len(texts))]
