"""Texts in the order of their scores for a query, for clients of servers of cross-encoders.

A score is what ``search --rerank maxsim`` adds up, as a mean: of the largest cosines of the query's tokens with those
of the text (MaxSim), and, with half that weight, of the cosine of both as wholes. Where the server's index keeps
tokens, those of the query that few of its documents have count for more; frequencies among the texts of a request
were tried, and gain nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import Field

from bertfeat.recipe import FeatureColumn, Pooling
from bertfeat.search import MaxSim, TokenCounts, compute_maxsim, token_vectors
from bertfeat.server.answers import (
    Documented,
    json_response,
    origin_headers,
    refuse_failed_texts,
    text_vectors,
    truncation_headers,
)
from bertfeat.server.batching import RequestFeatures
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.service import Service
from bertfeat.server.wanted import Body, CuttingBody, ModelName, Name, ServedModel, Texts, documents_of
from bertfeat.tokens import LongTextPolicy

_WEIGHT = MaxSim().weight  # of the cosine of the texts as wholes


class RerankBody(CuttingBody):
    """The body of ``/rerank``, as text-embeddings-inference has it."""

    query: str
    texts: Texts
    return_text: bool = False
    raw_scores: bool = Field(False, description="Of text-embeddings-inference; scores are means of cosines either way.")
    model: ModelName | None = None
    layers: Name | None = Field(None, description="The layers that are compared; by default those of the server.")


class V1RerankBody(Body):
    """The body of ``/v1/rerank``, as Cohere, Jina and vLLM have it."""

    query: str
    documents: Texts
    model: ModelName | None = None
    top_n: int | None = Field(None, ge=1)
    return_documents: bool = False
    layers: Name | None = Field(None, description="The layers that are compared; by default those of the server.")


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The texts of a request in the order of their scores."""

    order: Sequence[int]  # numbers of the texts, the best one first
    scores: Sequence[float]  # of the texts by their numbers
    tokens: int  # of the query and all texts
    headers: Mapping[str, str]

    def listed(self, name: str, shown: Sequence[Mapping[str, object]] | None) -> list[dict[str, object]]:
        """The texts as an answer lists them: the score under ``name``, and what is shown of each, if anything is."""
        return [{"index": at, name: self.scores[at], **(shown[at] if shown else {})} for at in self.order]


def rerank_routes(service: Service, tei: Documented, openai: Documented) -> APIRouter:
    """The router of ``/rerank`` and ``/v1/rerank``; ``tei`` and ``openai`` describe their error answers."""
    router = APIRouter()
    summary = "Texts in the order of their scores for a query"

    @router.post("/rerank", summary=summary, tags=["text-embeddings-inference"], responses=tei)
    async def rerank(body: RerankBody, request: Request) -> Response:
        with service.metrics.request("rerank"):
            served, texts = service.model(body.model), body.texts
            ranking = await _rank(
                service, served, request, body.query, texts, "texts", layers=body.layers, long=body.long
            )
            shown = [{"text": text} for text in texts] if body.return_text else None
            return json_response(ranking.listed("score", shown), ranking.headers)

    @router.post("/v1/rerank", summary=summary, tags=["OpenAI"], responses=openai)
    async def v1_rerank(body: V1RerankBody, request: Request) -> Response:
        with service.metrics.request("rerank"):
            served, texts = service.model(body.model), body.documents
            ranking = await _rank(service, served, request, body.query, texts, "documents", layers=body.layers)
            shown = [{"document": {"text": text}} for text in texts] if body.return_documents else None
            results = ranking.listed("relevance_score", shown)[: body.top_n]
            usage = {"prompt_tokens": ranking.tokens, "total_tokens": ranking.tokens}
            answer = {"object": "list", "model": served.name, "results": results, "usage": usage}
            return json_response(answer, ranking.headers)

    return router


async def _rank(
    service: Service,
    served: ServedModel,
    request: Request,
    query: str,
    texts: Sequence[str],
    param: str,
    *,
    layers: str | None,
    long: LongTextPolicy | None = None,
) -> _Ranking:
    """Embed a query and texts in one go, and score the texts."""
    if not texts:
        raise Problem(Kind.EMPTY, "there are no texts to rank", param)
    documents = [*documents_of([query], param="query"), *documents_of(texts, param=param)]
    own = served.extractor.columns[0].pooling
    poolings = [str(own if own.per_document else Pooling.MEAN), str(Pooling.TOKEN)]
    wanted = served.read(layers, poolings, long=long)
    if len(wanted.columns) != 2:
        names = ", ".join(dict.fromkeys(column.recipe.spec for column in wanted.columns))
        raise Problem(Kind.WRONG_VALUE, f"one recipe of layers is compared, and these are {names}", "layers")
    features = await service.embed(request, documents, wanted)
    refuse_failed_texts(features, param)
    counts = _counts_of_index(service, served)
    whole, tokens = wanted.columns
    scores = await service.run(lambda: _score(features, whole, tokens, counts), request=request)
    order = np.argsort(-scores, kind="stable").tolist()  # of equal scores the first text comes first
    headers = origin_headers(wanted) | truncation_headers(features)
    return _Ranking(order, [round(score, 6) for score in scores.tolist()], int(features.n_tokens.sum()), headers)


def _counts_of_index(service: Service, served: ServedModel) -> TokenCounts | None:
    """The document frequencies of the model's tokens in the server's index; None unless it keeps them, with strings."""
    index = service.index if served is service.models[0] else None  # its texts are of the first model
    kept = index.vectors.tokens if index is not None else None
    return kept.vocabulary if kept is not None and kept.ids is not None else None


def _score(
    features: RequestFeatures, whole: FeatureColumn, tokens: FeatureColumn, counts: TokenCounts | None
) -> NDArray[np.float64]:
    """The scores of all texts but the first one, which is the query, ``[n]``."""
    (asked, query), *texts = [token_vectors(each, tokens) for each in features.documents if each is not None]
    weights = np.ones(len(asked), np.float32) if counts is None else counts.idf(asked)
    maxsim = np.array([compute_maxsim(query, weights, vectors) for _, vectors in texts], np.float64)
    vectors = text_vectors(features, whole.name)
    scores: NDArray[np.float64] = (maxsim + _WEIGHT * (vectors[1:] @ vectors[0])) / (1 + _WEIGHT)
    return scores
