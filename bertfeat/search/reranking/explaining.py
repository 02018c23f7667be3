"""Why maxsim is what it is: the pairs of words whose tokens it takes.

Each token of a query meets the one of the text that is nearest to it. Their cosine, by the weight of the query's token
among all of its tokens, is the share of their two words, and all shares add up to maxsim. Both texts are encoded again.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import DocumentFeatures, FeatureColumn, WordRule, unit_vectors
from bertfeat.search.queries import compared_pieces, token_vectors
from bertfeat.search.why import (
    ExplainedText,
    PlacedTokens,
    PromptedText,
    TokenEncoder,
    TokensByWord,
    Why,
    unexplained,
)


class MaxSimExplainer:
    """Explains maxsim of a query and texts, by the tokens or words of a column."""

    def __init__(
        self, column: FeatureColumn, rule: WordRule, weigh: Callable[[Sequence[str]], NDArray[np.float32]]
    ) -> None:
        """Explain it for tokens of a query that have the weights that ``weigh`` gives their strings."""
        self._column, self._rule, self._weigh = column, rule, weigh

    def explain(self, encoder: object, query: str, prompt: str, texts: Sequence[ExplainedText]) -> list[Why]:
        """Explain why each text is near a query; ``prompt`` stood before the texts when they were embedded.

        Raises:
            UsageError: the encoder gives no tokens, or a text cannot be embedded.
        """
        if not isinstance(encoder, TokenEncoder):
            raise unexplained("the encoder at hand gives no tokens of a text")
        (asked,) = encoder.token_features([query], self._column, encoder.prompt)
        sides = [PromptedText("", each.text, each.pair, each.span) for each in texts]
        read = encoder.token_features([each.item for each in sides], self._column, prompt) if texts else []
        own = self._read(PromptedText("", query), asked)
        weights = self._weigh(token_vectors(asked, self._column)[0]).astype(np.float64)
        weights /= weights.sum() or 1.0
        found = (self._read(text, features) for text, features in zip(sides, read, strict=True))
        return [_take_nearest(own, weights, text) for text in found]

    def _read(self, text: PromptedText, features: DocumentFeatures) -> TokensByWord:
        placed, counted = PlacedTokens.of(features, self._column), compared_pieces(features, self._column)
        if text.span is not None:
            counted = counted & placed.in_span(*text.span)
        vectors = unit_vectors(features.matrix(self._column.name))
        return TokensByWord.of(text, placed, self._rule, vectors, counted)


def _take_nearest(query: TokensByWord, weights: NDArray[np.float64], text: TokensByWord) -> Why:
    shares = np.zeros((len(query.words), len(text.words)))
    if len(text.parts):
        cosines = query.parts @ text.parts.T
        nearest = cosines.argmax(axis=1)
        np.add.at(shares, (query.owners, text.owners[nearest]), weights * cosines.max(axis=1))
    return Why(query.words, text.words, shares)
