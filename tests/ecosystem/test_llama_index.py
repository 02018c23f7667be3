"""LlamaIndex: an index finds with an Extractor what it finds with SentenceTransformer."""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

import asyncio
from typing import Any

import numpy as np
import pytest

from bertfeat import Extractor

pytest.importorskip("llama_index", reason="make ecosystem installs it")
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import TextNode

from bertfeat.adapters.llama_index import LlamaIndexEmbedding


class Theirs(BaseEmbedding):
    """The oracle behind the same interface."""

    _model: Any = PrivateAttr()

    def __init__(self, model: Any) -> None:
        super().__init__()
        self._model = model

    def _get_text_embedding(self, text: str) -> list[float]:
        vector: list[float] = self._model.encode(text).tolist()
        return vector

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_text_embedding(query)


def test_an_index(ours: Extractor, theirs: Any, texts: list[str]) -> None:
    models = (LlamaIndexEmbedding(ours, normalize_embeddings=True), Theirs(theirs))
    nodes = [[TextNode(text=text, id_=str(row)) for row, text in enumerate(texts)] for _ in models]
    indexes = [VectorStoreIndex(mine, embed_model=model) for mine, model in zip(nodes, models, strict=True)]
    for question in ("where does the river flow", "how do bats find their prey"):
        found, wanted = (index.as_retriever(similarity_top_k=6).retrieve(question) for index in indexes)
        assert [hit.node.node_id for hit in found] == [hit.node.node_id for hit in wanted]
        assert np.allclose([hit.score for hit in found], [hit.score for hit in wanted], atol=1e-5)
        again = asyncio.run(indexes[0].as_retriever(similarity_top_k=6).aretrieve(question))
        assert [hit.node.node_id for hit in again] == [hit.node.node_id for hit in wanted]


def test_embeddings(ours: Extractor, theirs: Any, texts: list[str]) -> None:
    made = LlamaIndexEmbedding(ours, normalize_embeddings=True, embed_batch_size=7)
    assert made.model_name == ours.model.name
    assert np.allclose(made.get_text_embedding_batch(texts[:20]), theirs.encode(texts[:20]), atol=1e-6)
    assert np.allclose(asyncio.run(made.aget_text_embedding_batch(texts[:9])), theirs.encode(texts[:9]), atol=1e-6)
    assert np.allclose(made.get_text_embedding("a bank"), theirs.encode("a bank"), atol=1e-6)
    assert np.allclose(made.get_query_embedding("a bank"), theirs.encode("a bank"), atol=1e-6)


def test_queries_and_documents_get_the_models_prompts(prompted: tuple[Extractor, Any]) -> None:
    made = LlamaIndexEmbedding(prompted[0])
    assert np.allclose(made.get_query_embedding("a bank"), prompted[1].encode_query("a bank"), atol=1e-5)
    assert np.allclose(made.get_text_embedding("a bank"), prompted[1].encode_document("a bank"), atol=1e-5)
    assert not np.allclose(made.get_query_embedding("a bank"), made.get_text_embedding("a bank"), atol=1e-2)


def test_an_extractor_itself_is_refused(ours: Extractor) -> None:
    with pytest.raises(AssertionError):
        VectorStoreIndex([TextNode(text="a")], embed_model=ours)
