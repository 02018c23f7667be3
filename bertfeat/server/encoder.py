"""The server's encoder, as indexes, feature sets and taggers ask theirs: their texts join the rounds of all."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Document
from bertfeat.errors import UsageError
from bertfeat.extraction import Embedder
from bertfeat.features import DocumentFeatures, ModelIdentity
from bertfeat.recipe import FeatureColumn
from bertfeat.server.batching import Batcher
from bertfeat.server.text_request import RequestFeatures, Wanted


class SharedEncoder:
    """Embeds texts as a record says, by the one encoder of the server. To be called on threads that may wait."""

    def __init__(self, recorded: Embedder, batcher: Batcher, seconds: float) -> None:
        """``recorded``: of which only the settings are used; its model is the server's.

        ``seconds``: that texts may take.
        """
        self.identity: ModelIdentity = recorded.identity
        self.wanted = Wanted(recorded.columns, recorded.token_settings).without_units()
        self._recorded, self._batcher, self._seconds = recorded, batcher, seconds

    def of_columns(self, columns: Sequence[FeatureColumn]) -> "SharedEncoder":
        """The same encoder for other columns."""
        other = SharedEncoder(self._recorded, self._batcher, self._seconds)
        other.wanted = replace(self.wanted, columns=tuple(columns))
        return other

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """One vector a text, ``[n, width]``."""
        (column,) = self.wanted.columns
        return self._compute(texts).vectors[column.name]

    def features(self, texts: Sequence[str], /) -> list[DocumentFeatures]:
        """Tokens or words with their vectors."""
        return [document for document in self._compute(texts).documents if document is not None]

    def _compute(self, texts: Sequence[str]) -> RequestFeatures:
        documents = [Document(number, str(number), text) for number, text in enumerate(texts)]
        waiting = self._batcher.submit(documents, self.wanted)
        try:
            features = waiting.future.result(self._seconds)
        except BaseException:
            self._batcher.drop(waiting)  # whoever asked was told that it took too long
            raise
        for number, reason in features.failures.items():
            problem, _, _ = reason.partition("; ")  # the remedies are options of the command
            raise UsageError(f"text {number} cannot be embedded: {problem}")
        return features
