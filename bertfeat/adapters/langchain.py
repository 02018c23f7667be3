"""An adapter for LangChain: an Extractor as ``Embeddings``, the interface that every vector store takes."""

# mypy: disable-error-code="import-not-found, misc"

from bertfeat.adapters import check_extractor
from bertfeat.arguments import checked
from bertfeat.core import Extractor, StoredEncoder
from bertfeat.errors import needed_library

with needed_library("this adapter is for langchain-core", "langchain-core"):
    from langchain_core.embeddings import Embeddings


class LangchainEmbeddings(Embeddings):
    """Embeds documents and queries, with the model's prompts for each.

    ::

        from bertfeat.adapters.langchain import LangchainEmbeddings
        store = InMemoryVectorStore.from_texts(texts, LangchainEmbeddings(Extractor()))
    """

    @checked
    def __init__(self, extractor: Extractor | StoredEncoder, *, normalize_embeddings: bool = False) -> None:
        self.extractor = check_extractor(extractor)
        self.normalize_embeddings = normalize_embeddings

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed documents, in their order."""
        vectors = self.extractor.encode_document(texts, normalize_embeddings=self.normalize_embeddings)
        embedded: list[list[float]] = vectors.tolist()
        return embedded

    def embed_query(self, text: str) -> list[float]:
        """Embed a query."""
        vector = self.extractor.encode_query(text, normalize_embeddings=self.normalize_embeddings)
        embedded: list[float] = vector.tolist()
        return embedded
