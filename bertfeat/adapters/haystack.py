"""An adapter for Haystack: an Extractor as two components of a pipeline, which embed queries and documents."""

# mypy: disable-error-code="import-not-found, misc, untyped-decorator"

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

from bertfeat.adapters import check_extractor
from bertfeat.arguments import checked
from bertfeat.core import Extractor
from bertfeat.errors import UsageError, WrongTypeError, needed_library
from bertfeat.io import to_plain

with needed_library("this adapter is for haystack-ai", "haystack-ai"):
    from haystack import Document, component, default_from_dict, default_to_dict


Serialized = dict[str, Any]
"""A component in Haystack's serialized form."""


def _are_documents(documents: object) -> bool:
    return isinstance(documents, list) and all(isinstance(document, Document) for document in documents)


class _HaystackEmbedder:
    """The common base of both embedders: loads the Extractor ahead of time, and restores it from its settings."""

    extractor: Extractor

    def warm_up(self) -> None:
        """Load the tokenizer and the weights, which are otherwise loaded for the first text."""
        self.extractor.tokenizer, self.extractor.encoder  # noqa: B018

    @classmethod
    def from_dict(cls, data: Serialized) -> Self:
        """Make a component from the result of :meth:`to_dict`, with an Extractor of the same settings."""
        settings = dict(data["init_parameters"])
        settings["extractor"] = Extractor(**settings["extractor"])
        component_: Self = default_from_dict(cls, {**data, "init_parameters": settings})
        return component_


@component
class HaystackTextEmbedder(_HaystackEmbedder):
    """Embeds a query, with the model's prompt for queries.

    ::

        from bertfeat.adapters.haystack import HaystackTextEmbedder
        pipeline.add_component("embedder", HaystackTextEmbedder(Extractor()))

    A serialized pipeline can be loaded after a call of ``allow_deserialization_module("bertfeat")``, which is in
    ``haystack.core.serialization``.
    """

    @checked
    def __init__(self, extractor: Extractor, normalize_embeddings: bool = False) -> None:
        self.extractor, self.normalize_embeddings = check_extractor(extractor), normalize_embeddings

    def to_dict(self) -> Serialized:
        """Serialize the component."""
        data: Serialized = default_to_dict(
            self, extractor=to_plain(self.extractor.settings), normalize_embeddings=self.normalize_embeddings
        )
        return data

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """Embed one text."""
        if not isinstance(text, str):
            raise WrongTypeError(
                f"not a text but {type(text).__name__}", remedy="HaystackDocumentEmbedder takes documents"
            )
        vector = self.extractor.encode_query(text, normalize_embeddings=self.normalize_embeddings)
        return {"embedding": vector.tolist()}


@component
class HaystackDocumentEmbedder(_HaystackEmbedder):
    """Embeds documents, with the model's prompt for documents; the named ``meta`` fields stand before their content.

    ::

        from bertfeat.adapters.haystack import HaystackDocumentEmbedder
        documents = HaystackDocumentEmbedder(Extractor()).run(documents)["documents"]
    """

    @checked
    def __init__(
        self,
        extractor: Extractor,
        normalize_embeddings: bool = False,
        meta_fields_to_embed: Sequence[str] = (),
        embedding_separator: str = "\n",
    ) -> None:
        self.extractor, self.normalize_embeddings = check_extractor(extractor), normalize_embeddings
        self.meta_fields_to_embed, self.embedding_separator = list(meta_fields_to_embed), embedding_separator

    def to_dict(self) -> Serialized:
        """Serialize the component."""
        data: Serialized = default_to_dict(
            self,
            extractor=to_plain(self.extractor.settings),
            normalize_embeddings=self.normalize_embeddings,
            meta_fields_to_embed=self.meta_fields_to_embed,
            embedding_separator=self.embedding_separator,
        )
        return data

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Return the documents with their embeddings."""
        if not _are_documents(documents):
            raise UsageError("not a list of Haystack's Documents", remedy="HaystackTextEmbedder takes a text")
        texts = [self._text(document) for document in documents]
        vectors = self.extractor.encode_document(texts, normalize_embeddings=self.normalize_embeddings)
        embedded = zip(documents, vectors.tolist(), strict=True)
        return {"documents": [replace(document, embedding=vector) for document, vector in embedded]}

    def _text(self, document: Document) -> str:
        values = (document.meta.get(field) for field in self.meta_fields_to_embed)
        fields = [str(value) for value in values if value is not None]
        return self.embedding_separator.join([*fields, document.content or ""])
