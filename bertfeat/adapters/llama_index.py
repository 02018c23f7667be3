"""An adapter for LlamaIndex: an Extractor as an embedding model."""

# mypy: disable-error-code="import-not-found, misc"

import asyncio

from bertfeat.adapters import check_extractor
from bertfeat.arguments import checked
from bertfeat.core import Extractor, StoredEncoder
from bertfeat.errors import needed_library

with needed_library("this adapter is for llama-index-core", "llama-index-core"):
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import PrivateAttr

_BATCH = 512  # texts that LlamaIndex hands over at a time


class LlamaIndexEmbedding(BaseEmbedding):
    """Embeds nodes and queries, with the model's prompts for each; further settings are those of LlamaIndex.

    ::

        from bertfeat.adapters.llama_index import LlamaIndexEmbedding
        index = VectorStoreIndex.from_documents(documents, embed_model=LlamaIndexEmbedding(Extractor()))
    """

    _extractor: Extractor | StoredEncoder = PrivateAttr()
    _normalize: bool = PrivateAttr()

    @checked
    def __init__(
        self, extractor: Extractor | StoredEncoder, *, normalize_embeddings: bool = False, **settings: object
    ) -> None:
        extractor = check_extractor(extractor)
        super().__init__(**{"model_name": extractor.model_name, "embed_batch_size": _BATCH} | settings)
        self._extractor, self._normalize = extractor, normalize_embeddings

    @classmethod
    def class_name(cls) -> str:
        """The name of the class in LlamaIndex's serialized form."""
        return "LlamaIndexEmbedding"

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self._extractor.encode_document(
            texts, normalize_embeddings=self._normalize
        ).tolist()
        return vectors

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        vector: list[float] = self._extractor.encode_query(query, normalize_embeddings=self._normalize).tolist()
        return vector

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)
