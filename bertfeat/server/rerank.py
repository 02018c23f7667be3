"""Texts in the order of their scores for a query, for clients of servers of cross-encoders.

A score is what ``search --rerank maxsim`` adds up, as a mean: of the largest cosines of the query's tokens with those
of the text (MaxSim), and, with half that weight, of the cosine of both as wholes. Where the server's index keeps
tokens, those of the query that few of its documents have count for more; frequencies among the texts of a request
were tried, and gain nothing.
"""

from asyncio import create_task, gather
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import Field, StrictBool, StrictInt

from bertfeat.core import FeatureColumn, Pooling
from bertfeat.search import Index, MaxSim, TokenCounts, compute_maxsim, query_prompt, token_vectors
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
from bertfeat.server.wanted import CuttingBody, ModelName, Name, ServedModel, Texts, documents_of


class _RankingBody(CuttingBody):
    """The fields that a request for an order has on both routes."""

    query: str
    model: ModelName | None = None
    layers: Name | None = Field(None, description="The layers that are compared; by default those of the server.")
    prompt_name: Name | None = Field(None, description="The query's prompt; by default that of a search.")


class RerankBody(_RankingBody):
    """The body of ``/rerank``, as text-embeddings-inference has it."""

    texts: Texts
    return_text: StrictBool = False
    raw_scores: StrictBool = Field(
        False, description="Of text-embeddings-inference; scores are means of cosines either way."
    )


class V1RerankBody(_RankingBody):
    """The body of ``/v1/rerank``, as Cohere, Jina and vLLM have it."""

    documents: Texts
    top_n: StrictInt | None = Field(None, ge=1)
    return_documents: StrictBool = False
    user: str | None = Field(None, description="Of these services; nothing depends on it.")


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
            ranking = await _rank(service, served, request, body, texts, "texts")
            shown = [{"text": text} for text in texts] if body.return_text else None
            return json_response(ranking.listed("score", shown), ranking.headers)

    @router.post("/v1/rerank", summary=summary, tags=["OpenAI"], responses=openai)
    async def v1_rerank(body: V1RerankBody, request: Request) -> Response:
        with service.metrics.request("rerank"):
            served, texts = service.model(body.model), body.documents
            ranking = await _rank(service, served, request, body, texts, "documents")
            shown = [{"document": {"text": text}} for text in texts] if body.return_documents else None
            results = ranking.listed("relevance_score", shown)[: body.top_n]
            usage = {"prompt_tokens": ranking.tokens, "total_tokens": ranking.tokens}
            answer = {"object": "list", "model": served.name, "results": results, "usage": usage}
            return json_response(answer, ranking.headers)

    return router


async def _rank(
    service: Service, served: ServedModel, request: Request, body: _RankingBody, texts: Sequence[str], param: str
) -> _Ranking:
    """Embed a query and texts, each with its own prompt, and score the texts."""
    if not texts:
        raise Problem(Kind.EMPTY, "there are no texts to rank", param)
    asked, read = documents_of([body.query], param="query"), documents_of(texts, param=param)
    layers, poolings = _compared(served, body.layers)
    index = _index_of(service, served)
    of_query, of_texts = (
        served.read(layers, poolings, long=body.long, prompt=prompt, prompt_name=body.prompt_name)
        for prompt in _prompts(served, index, body.prompt_name)
    )
    if len(of_query.columns) != len(poolings):
        names = ", ".join(dict.fromkeys(column.recipe.spec for column in of_query.columns))
        raise Problem(Kind.WRONG_VALUE, f"one recipe of layers is compared, and these are {names}", "layers")
    query, features = await _both(service.embed(request, asked, of_query), service.embed(request, read, of_texts))
    refuse_failed_texts(query, "query")
    refuse_failed_texts(features, param)
    kept = None if index is None else index.vectors.tokens
    counts = None if kept is None or kept.ids is None else kept.vocabulary
    columns = of_query.columns
    scores = await service.run(lambda: _score(query, features, columns, counts), request=request)
    order = np.argsort(-scores, kind="stable").tolist()  # of equal scores the first text comes first
    headers = origin_headers(of_texts) | truncation_headers(features.n_truncated, query.n_truncated)
    count = int(query.n_tokens.sum() + features.n_tokens.sum())
    return _Ranking(order, [round(score, 6) for score in scores.tolist()], count, headers)


async def _both(*works: Coroutine[None, None, RequestFeatures]) -> list[RequestFeatures]:
    """The results of works that go on at the same time; where one fails, the other ends."""
    tasks = [create_task(work) for work in works]
    try:
        return await gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        raise


def _index_of(service: Service, served: ServedModel) -> Index | None:
    """The first index of the server that is of that model."""
    own = served.extractor.model.fingerprint
    return next((each for each in service.indexes if each.settings.model.fingerprint == own), None)


def _prompts(served: ServedModel, index: Index | None, name: str | None) -> tuple[str | None, str]:
    """The prompts of a query and of texts, as a search of such texts has them; None for the one that is named."""
    named, plain = served.extractor.model.prompts, served.extractor.prompt
    if index is None:
        query, texts = named.get("query", plain), named.get("document", plain)
    else:
        texts = index.settings.extraction.prompt or ""
        own = query_prompt(index.settings.query_prompt, lambda: served.extractor.model)
        query = texts if own is None else own
    return (None if name else query), texts


def _compared(served: ServedModel, layers: str | None) -> tuple[str | None, Sequence[str]]:
    """The layers and poolings that are compared: of texts and of tokens; of tokens alone, if these are projected."""
    own = served.extractor.columns[0]
    if own.recipe.projected and layers in (None, own.recipe.name):
        return own.recipe.name, [str(Pooling.TOKEN)]
    pooling = own.pooling if layers is None else served.pooling
    whole = pooling if pooling is not None and pooling.per_document else Pooling.MEAN
    return layers, [str(whole), str(Pooling.TOKEN)]


def _score(
    query: RequestFeatures, features: RequestFeatures, columns: Sequence[FeatureColumn], counts: TokenCounts | None
) -> NDArray[np.float64]:
    """The scores of texts for a query by ``columns`` of whole texts, if there is one, and of tokens, ``[n]``."""
    *wholes, tokens = columns
    how = MaxSim().of_tokens(trained=tokens.recipe.projected)
    (asked, matrix), *texts = [
        token_vectors(each, tokens) for each in (*query.documents, *features.documents) if each is not None
    ]
    weights = counts.idf(asked) if how.idf and counts is not None else np.ones(len(asked), np.float32)
    maxsim = np.array([compute_maxsim(matrix, weights, vectors) for _, vectors in texts], np.float64)
    scores: NDArray[np.float64] = maxsim
    for whole in wholes:
        (vector,), vectors = (text_vectors(each, whole.name) for each in (query, features))
        weight = how.weight or 0.0
        scores = (maxsim + weight * (vectors @ vector)) / (1 + weight)
    return scores
