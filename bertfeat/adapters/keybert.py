"""An adapter for KeyBERT, which finds the keywords of documents: an Extractor as its embedding backend."""

# mypy: disable-error-code="import-not-found, misc"

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bertfeat.adapters import check_extractor
from bertfeat.arguments import checked
from bertfeat.core import Extractor, StoredEncoder
from bertfeat.errors import needed_library

with needed_library("this adapter is for keybert", "keybert"):
    from keybert.backend import BaseEmbedder


class KeybertBackend(BaseEmbedder):
    """Embeds documents and candidate words for KeyBERT.

    ::

        from bertfeat.adapters.keybert import KeybertBackend
        keywords = KeyBERT(model=KeybertBackend(Extractor())).extract_keywords(text)
    """

    @checked
    def __init__(self, extractor: Extractor | StoredEncoder, *, normalize_embeddings: bool = False) -> None:
        self.extractor = check_extractor(extractor)
        super().__init__(embedding_model=self.extractor)
        self.normalize_embeddings = normalize_embeddings

    def embed(self, documents: Iterable[str], verbose: bool = False) -> NDArray[np.float32]:
        """Embed documents or words. Shape: ``[n, width]``."""
        return self.extractor.encode(
            documents, normalize_embeddings=self.normalize_embeddings, show_progress_bar=verbose
        )
