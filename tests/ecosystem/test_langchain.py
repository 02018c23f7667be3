"""LangChain: vector stores find with an Extractor what they find with SentenceTransformer."""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

import asyncio
from typing import Any

import numpy as np
import pytest

from bertfeat import Extractor

pytest.importorskip("langchain_core", reason="make ecosystem installs it")
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStore

from bertfeat.adapters.langchain import LangchainEmbeddings

QUESTIONS = ("where does the river flow", "how do bats find their prey", "interest on a loan")


class Theirs(Embeddings):
    """The oracle behind the same interface."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        vectors: list[list[float]] = self.model.encode(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def stores(kind: type[VectorStore], ours: Extractor, theirs: Any, texts: list[str]) -> list[VectorStore]:
    metadatas = [{"row": row} for row in range(len(texts))]
    made = (LangchainEmbeddings(ours, normalize_embeddings=True), Theirs(theirs))
    return [kind.from_texts(texts, embeddings, metadatas=metadatas) for embeddings in made]


def faiss_store() -> type[VectorStore]:
    from langchain_community.vectorstores import FAISS

    return FAISS


@pytest.mark.parametrize("kind", [lambda: InMemoryVectorStore, faiss_store], ids=["in memory", "faiss"])
def test_vector_stores(kind: Any, ours: Extractor, theirs: Any, texts: list[str]) -> None:
    found, wanted = stores(kind(), ours, theirs, texts)
    for question in QUESTIONS:
        mine, others = (store.similarity_search_with_score(question, k=6) for store in (found, wanted))
        assert [document.metadata for document, _ in mine] == [document.metadata for document, _ in others]
        assert np.allclose([score for _, score in mine], [score for _, score in others], atol=1e-5)
        diverse = [store.max_marginal_relevance_search(question, k=4) for store in (found, wanted)]
        assert [one.page_content for one in diverse[0]] == [one.page_content for one in diverse[1]]
        assert found.as_retriever().invoke(question) == found.similarity_search(question)


def test_embeddings(ours: Extractor, theirs: Any, texts: list[str]) -> None:
    made = LangchainEmbeddings(ours, normalize_embeddings=True)
    found = made.embed_documents(texts[:20])
    assert type(found[0][0]) is float
    assert np.allclose(found, theirs.encode(texts[:20]), atol=1e-6)
    assert np.allclose(made.embed_query("a bank"), theirs.encode("a bank"), atol=1e-6)
    assert made.embed_documents([]) == []

    async def many() -> list[Any]:
        return await asyncio.gather(*(made.aembed_query(question) for question in QUESTIONS))

    assert np.allclose(asyncio.run(many()), theirs.encode(list(QUESTIONS)), atol=1e-6)


def test_queries_and_documents_get_the_models_prompts(prompted: tuple[Extractor, Any]) -> None:
    made = LangchainEmbeddings(prompted[0])
    assert np.allclose(made.embed_query("a bank"), prompted[1].encode_query("a bank"), atol=1e-5)
    assert np.allclose(made.embed_documents(["a bank"]), prompted[1].encode_document(["a bank"]), atol=1e-5)
    assert not np.allclose(made.embed_query("a bank"), made.embed_documents(["a bank"])[0], atol=1e-2)


def test_an_extractor_itself_says_what_to_do(ours: Extractor) -> None:
    store = InMemoryVectorStore(ours)
    with pytest.raises(AttributeError, match=r"adapters.*LangchainEmbeddings"):
        store.add_texts(["a"])
