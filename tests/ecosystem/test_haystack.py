"""Haystack: a pipeline finds with an Extractor what it finds with SentenceTransformer, and can be written down."""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

from typing import Any

import numpy as np
import pytest

from bertfeat import Extractor
from bertfeat.errors import UsageError

pytest.importorskip("haystack", reason="make ecosystem installs it")
from haystack import Document, Pipeline
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.core.serialization import allow_deserialization_module
from haystack.document_stores.in_memory import InMemoryDocumentStore

from bertfeat.adapters.haystack import HaystackDocumentEmbedder, HaystackTextEmbedder


def searched(pipeline: Pipeline, question: str) -> list[Document]:
    found: list[Document] = pipeline.run({"embedder": {"text": question}})["retriever"]["documents"]
    return found


@pytest.fixture(scope="module")
def pipeline(ours: Extractor, texts: list[str]) -> Pipeline:
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    filling = Pipeline()
    filling.add_component("embedder", HaystackDocumentEmbedder(ours, normalize_embeddings=True))
    filling.add_component("writer", DocumentWriter(store))
    filling.connect("embedder.documents", "writer.documents")
    filling.run({"embedder": {"documents": [Document(id=str(row), content=text) for row, text in enumerate(texts)]}})
    asking = Pipeline()
    asking.add_component("embedder", HaystackTextEmbedder(ours, normalize_embeddings=True))
    asking.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=6, return_embedding=True))
    asking.connect("embedder.embedding", "retriever.query_embedding")
    return asking


def test_a_pipeline(pipeline: Pipeline, theirs: Any, texts: list[str]) -> None:
    vectors = theirs.encode(texts)
    for question in ("where does the river flow", "how do bats find their prey"):
        found = searched(pipeline, question)
        scores = vectors @ theirs.encode(question)
        best = np.argsort(-scores)[:6]
        assert [int(document.id) for document in found] == best.tolist()
        assert np.allclose([document.score for document in found], scores[best], atol=1e-5)
        assert np.allclose(found[0].embedding, vectors[best[0]], atol=1e-6)


def test_a_pipeline_that_was_written_down(pipeline: Pipeline, theirs: Any) -> None:
    allow_deserialization_module("bertfeat")
    again = Pipeline.loads(pipeline.dumps())
    embedder = again.get_component("embedder")
    assert embedder.extractor.settings == pipeline.get_component("embedder").extractor.settings
    assert embedder.normalize_embeddings is True
    embedder.warm_up()
    assert np.allclose(embedder.run("a bank")["embedding"], theirs.encode("a bank"), atol=1e-6)


def test_meta_fields_are_embedded_where_they_are_named(ours: Extractor, theirs: Any) -> None:
    made = HaystackDocumentEmbedder(ours, True, ["title", "year", "none"], " | ")
    documents = [Document(content="A bank.", meta={"title": "Rivers", "year": 1900}), Document(content=None)]
    found = made.run(documents)["documents"]
    wanted = theirs.encode(["Rivers | 1900 | A bank.", ""])
    assert np.allclose([document.embedding for document in found], wanted, atol=1e-6)
    assert documents[0].embedding is None  # those that were given are left as they were
    again = HaystackDocumentEmbedder.from_dict(made.to_dict())
    assert (again.meta_fields_to_embed, again.embedding_separator) == (["title", "year", "none"], " | ")
    assert made.run([])["documents"] == []


def test_queries_and_documents_get_the_models_prompts(prompted: tuple[Extractor, Any]) -> None:
    query = HaystackTextEmbedder(prompted[0]).run("a bank")["embedding"]
    (document,) = HaystackDocumentEmbedder(prompted[0]).run([Document(content="a bank")])["documents"]
    assert np.allclose(query, prompted[1].encode_query("a bank"), atol=1e-5)
    assert np.allclose(document.embedding, prompted[1].encode_document("a bank"), atol=1e-5)
    assert not np.allclose(query, document.embedding, atol=1e-2)


def test_one_embedder_in_the_others_place(ours: Extractor) -> None:
    with pytest.raises(UsageError, match="HaystackDocumentEmbedder"):
        HaystackTextEmbedder(ours).run([Document(content="a")])
    with pytest.raises(UsageError, match="HaystackTextEmbedder"):
        HaystackDocumentEmbedder(ours).run("a")
