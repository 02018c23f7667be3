"""The server's own routes, of no other API: features of any columns, search, usages and tags."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import Field, StrictBool, StrictFloat, StrictInt

from bertfeat.core import Document
from bertfeat.errors import parameter
from bertfeat.search import Hit, MaxSim
from bertfeat.server.answers import (
    Documented,
    Form,
    accepted_form,
    arrow_response,
    documented_forms,
    features_table,
    float32_response,
    index_headers,
    json_response,
    origin_headers,
    pieces_object,
    refuse_failed_texts,
    truncated_inputs,
    truncation_headers,
)
from bertfeat.server.batching import RequestFeatures, Wanted
from bertfeat.server.following import Followed
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.service import Service
from bertfeat.server.wanted import Body, Name, Texts, WantedBody, documents_of
from bertfeat.usages import (
    Association,
    ListSettings,
    Senses,
    SlicedUsages,
    Usages,
    find_collocates,
    find_senses,
    find_usages,
    find_usages_by,
)

_ONE_OF_KIND = {"index": "an index", "features": "a feature set of words"}
_LONGEST_CONTEXT = 5000  # characters on one side of a usage

T = TypeVar("T")


class FeaturesBody(WantedBody):
    """The body of ``/features``."""

    texts: str | Texts


class SearchBody(Body):
    """The body of ``/search``: a text or a vector, and the conditions of the command of that name."""

    query: str | None = Field(None, examples=["how do bats find their prey"])
    vector: Annotated[list[StrictFloat], Field(fail_fast=True)] | None = None
    k: Annotated[StrictInt, Field(ge=1, le=1000)] = 10
    where: str | None = Field(None, examples=["year > 1900"])
    exact: StrictBool = False
    score_threshold: StrictFloat | None = Field(
        None, description="Hits of lower scores, or of larger distances, are left out."
    )
    one_per_document: StrictBool = Field(
        False, description="Only the best token, word or span of each document; of what was split, of each text."
    )
    rerank: Literal["maxsim"] | None = Field(
        None, description="Score the best hits again, by the vectors of their tokens."
    )
    rerank_column: Name | None = Field(None, description="Which tokens or words are compared: layer5_token.")
    rerank_depth: Annotated[StrictInt, Field(ge=1, le=1000)] | None = Field(
        None, description="How many hits are scored again; by default 50, or as many as are asked for."
    )
    rerank_weight: StrictFloat | None = Field(
        None, description="Weight of the score by vector, which is added: 0.5; of a model that compares tokens 0."
    )
    rerank_idf: StrictBool | None = Field(
        None,
        description="Whether rare tokens of the query count for more; they do; not where the model compares tokens.",
    )
    why: StrictBool = Field(
        False, description="Which words of each hit meet which of the query, by their shares of the score."
    )
    index: Name | None = Field(None, description="Which index, where the server has several: its name.")

    def maxsim(self) -> MaxSim | None:
        """The options for scoring hits again; None without ``rerank``, and the options are then refused."""
        given = {name: getattr(self, f"rerank_{name}") for name in ("column", "depth", "weight", "idf")}
        given = {name: value for name, value in given.items() if value is not None}
        if self.rerank is None:
            if given:
                name = f"rerank_{next(iter(given))}"
                raise Problem(Kind.WRONG_VALUE, f"{name} is for {parameter('rerank', 'maxsim')}", name)
            return None
        if self.vector is not None:
            problem = "rerank compares the tokens of a text, and vector has none; leave one out"
            raise Problem(Kind.WRONG_VALUE, problem, "rerank")
        return MaxSim(**given)


_WORD = 'A word, or a pattern of words: *ing, good|bad, spirit of the *, go []{1,3} river, "s.*t", [tag="V.*"].'


class UsagesBody(Body):
    """The body of ``/usages``."""

    word: Name = Field(description=_WORD, examples=["bank", "go []{1,3} river"])
    like: str | None = Field(None, examples=["He sat on the *bank* of the river."])
    senses: Annotated[StrictInt, Field(ge=2, le=50)] | None = None
    near: Name | None = Field(
        None, description="Only usages that have this word or pattern near them.", examples=["river"]
    )
    left: Annotated[StrictInt, Field(ge=0, le=100)] | None = Field(
        None, description="Words before a usage that are near: 5, or all of its span."
    )
    right: Annotated[StrictInt, Field(ge=0, le=100)] | None = Field(
        None, description="Words after a usage that are near: 5, or all of its span."
    )
    k: Annotated[StrictInt, Field(ge=0, le=1000)] | None = Field(
        None, description="The number of usages, of each slice or sense; 0: only count."
    )
    page: Annotated[StrictInt, Field(ge=1, le=100_000)] | None = Field(
        None, description="2: the k that follow the first k."
    )
    sort: Name | None = Field(None, description="By the words on the left or right, or by a kept column.")
    sample: Annotated[StrictInt, Field(ge=1)] | None = Field(
        None, description="So many at random, always the same ones."
    )
    by: Name | None = Field(None, description="Slice by slice of this kept column, with the frequency in each.")
    slices: Annotated[str, Field(max_length=10_000)] | None = Field(
        None, description="Ranges or values, a number of slices, or steps.", examples=["every:10"]
    )
    layers: Name | None = Field(None, description="A stored column, or a recipe that can be derived from it.")
    where: str | None = None
    one_per_document: StrictBool = False
    spans: Name | None = Field(
        None, description="What the usages are shown in, with the word near them.", examples=["sentences"]
    )
    context: Annotated[StrictInt, Field(ge=0, le=_LONGEST_CONTEXT)] | None = Field(
        None, description=f"Characters on each side: 300, or all of the span up to {_LONGEST_CONTEXT:,}."
    )
    features: Name | None = Field(None, description="Which set, where the server has several: its name.")


class CollocatesBody(Body):
    """The body of ``/collocates``."""

    word: Name = Field(description=_WORD, examples=["bank", "good|bad"])
    left: Annotated[StrictInt, Field(ge=0, le=100)] = Field(5, description="Words before the word that are near.")
    right: Annotated[StrictInt, Field(ge=0, le=100)] = Field(5, description="Words after the word that are near.")
    least: Annotated[StrictInt, Field(ge=1)] = Field(3, description="Words that stand near less often are left out.")
    measure: Association = Association.LOG_LIKELIHOOD
    k: Annotated[StrictInt, Field(ge=1, le=1000)] = 20
    where: str | None = None
    spans: Name | None = Field(None, description="Near is in one span.", examples=["sentences"])
    features: Name | None = Field(None, description="Which set, where the server has several: its name.")


class TagBody(Body):
    """The body of ``/tag``."""

    texts: str | Texts


def own_routes(service: Service, errors: Documented) -> APIRouter:
    """The router of our own routes; ``errors`` describes their error answers."""
    router = APIRouter(tags=["bertfeat"], responses=errors)

    forms = documented_forms(Form.FLOAT32, Form.ARROW)

    @router.post("/features", summary="Features of texts, of any layers and poolings", responses=forms)
    async def features(body: FeaturesBody, request: Request) -> Response:
        with service.metrics.request("features"):
            texts = [body.texts] if isinstance(body.texts, str) else body.texts
            wanted = service.model(body.model).read_body(body)
            computed = await service.embed(request, _texts_as_documents(texts), wanted)
            refuse_failed_texts(computed, "texts")
            headers = origin_headers(wanted) | truncation_headers(computed.n_truncated)
            return _features_response(accepted_form(request), texts, computed, wanted, headers)

    @router.post("/search", summary="The nearest documents, tokens, words or spans of the index")
    async def search(body: SearchBody, request: Request) -> Response:
        with service.metrics.request("search"):
            find_folder(service.followed_indexes, body.index, "index")
            if (body.query is None) == (body.vector is None):
                raise Problem(Kind.WRONG_VALUE, "a search has a query or a vector", "query")
            rerank = body.maxsim()
            await _check_text(service, body.query, "query")
            found, headers = await service.run(lambda: _search(service, body, rerank), request=request)
            return json_response(found, headers)

    @router.post("/usages", summary="A word in its contexts, or grouped by sense")
    async def usages(body: UsagesBody, request: Request) -> Response:
        with service.metrics.request("usages"):
            find_folder(service.followed_features, body.features, "features")
            await _check_text(service, body.like, "like")
            return json_response(await service.run(lambda: _usages(service, body), request=request))

    @router.post("/collocates", summary="The words that stand near a word more often than by chance")
    async def collocates(body: CollocatesBody, request: Request) -> Response:
        with service.metrics.request("collocates"):
            return json_response(await service.run(lambda: _collocates(service, body), request=request))

    @router.post("/tag", summary="The tags of the words of texts")
    async def tag(body: TagBody, request: Request) -> Response:
        with service.metrics.request("tag"):
            tagger = service.tagger
            if tagger is None:
                raise Problem(Kind.NOT_FOUND, "this server was started without a tagger (--tagger)")
            texts = [body.texts] if isinstance(body.texts, str) else body.texts
            _texts_as_documents(texts)
            await service.check_size(texts)
            return json_response({"texts": await service.run(lambda: service.tag(tagger, texts), request=request)})

    return router


async def _check_text(service: Service, text: str | None, param: str) -> None:
    """Refuse a text that is empty or too long, where there is one."""
    if text is not None:
        documents_of([text], param=param)
        await service.check_size([text])


def _texts_as_documents(texts: list[str]) -> list[Document]:
    if not texts:
        raise Problem(Kind.EMPTY, "there are no texts", "texts")
    return documents_of(texts, param="texts")


def _features_response(
    form: Form, texts: list[str], features: RequestFeatures, wanted: Wanted, headers: dict[str, str]
) -> Response:
    if form is Form.ARROW:
        return arrow_response(features_table(texts, features, wanted), headers)
    if form is Form.FLOAT32:
        if len(wanted.columns) != 1 or wanted.has_pieces:
            raise Problem(
                Kind.WRONG_VALUE, "raw float32 is for one column of a vector a text; Arrow holds all", "layers"
            )
        return float32_response(features.vectors[wanted.columns[0].name], headers)
    data = []
    for number, text in enumerate(texts):
        item: dict[str, Any] = {"text": text, "n_tokens": int(features.n_tokens[number])}
        for column in wanted.columns:
            if column.pooling.per_document:
                item[column.name] = features.vectors[column.name][number]
                continue
            document = features.documents[number]
            assert document is not None
            item[column.name] = np.ascontiguousarray(document.matrix(column.name), np.float32)
            for kind, pieces in (("tokens", document.tokens), ("words", document.words)):
                if pieces is not None:
                    item[kind] = pieces_object(pieces)
        data.append(item)
    body: dict[str, Any] = {"data": data, "columns": [column.name for column in wanted.columns]}
    if cut := truncated_inputs(features.n_truncated):
        body["truncated"] = cut
    return json_response(body, headers)


def _search(service: Service, body: SearchBody, rerank: MaxSim | None) -> tuple[dict[str, Any], dict[str, str]]:
    index = find_folder(service.followed_indexes, body.index, "index")
    more: dict[str, Any] = {
        name: getattr(body, name) for name in ("where", "exact", "score_threshold", "one_per_document")
    }
    if body.why and body.query is None:
        problem = "why tells which words of a query meet which of a text, and vector has none; leave one out"
        raise Problem(Kind.WRONG_VALUE, problem, "why")
    if body.query is not None:
        answer = index.search(body.query, body.k, rerank=rerank, **more)
    else:
        (answer,) = index.search_vectors([body.vector or []], body.k, **more)
    hits = [hit.to_json() | {"number": hit.number} for hit in answer.hits]
    if body.why and body.query is not None:
        _check_length(answer.hits, service.settings.most_tokens)
        whys = index.explain(body.query, [hit.number for hit in answer.hits], rerank)
        hits = [hit | {"why": why.to_json()} for hit, why in zip(hits, whys, strict=True)]
    found: dict[str, Any] = answer.to_json() | {"hits": hits}
    return found, index_headers(index.settings)


def _check_length(hits: Sequence[Hit], most_tokens: int) -> None:
    """Refuse to embed again what would be too much for a request."""
    size = sum(len(each.encode()) for hit in hits for each in (hit.text, hit.pair) if each)
    if size > most_tokens:  # a token has a byte at least
        problem = f"the texts of these hits have {size:,} bytes, and why reads at most {most_tokens:,}"
        raise Problem(Kind.TOO_LARGE, f"{problem}; ask for fewer hits", "k")


def find_folder(followed: Sequence[Followed[T]], name: str | None, kind: Literal["index", "features"]) -> T:
    """The index or feature set of that name, by default the first one, as it is now."""
    if not followed:
        raise Problem(Kind.NOT_FOUND, f"this server was started without {_ONE_OF_KIND[kind]}")
    for each in followed:
        if name in (None, each.name):
            return each.value
    names = ", ".join(each.name for each in followed)
    raise Problem(Kind.NOT_FOUND, f"{name!r} is none of {names}", kind)


def _usages(service: Service, body: UsagesBody) -> dict[str, Any]:
    features = find_folder(service.followed_features, body.features, "features")
    named = {field.name for field in fields(ListSettings)}
    asked = {name: value for name, value in body if name in named and value is not None} | {"column": body.layers}
    if body.context is None and body.spans is not None:
        asked["context"] = _LONGEST_CONTEXT
    if body.senses is not None:
        if body.like is not None:
            raise Problem(Kind.WRONG_VALUE, "like orders usages and senses groups them; give one of the two", "senses")
        for name in ("page", "sort", "sample"):
            if getattr(body, name) is not None:
                raise Problem(Kind.WRONG_VALUE, "senses shows the most central usages of each group", name)
        senses: Senses = find_senses(features, body.word, body.senses, by=body.by, slices=body.slices, **asked)
        return _plain_fields(senses)
    asked["encoder"] = service.encoder_of(features) if body.like is not None else None
    if body.by is not None:
        sliced: SlicedUsages = find_usages_by(features, body.word, body.by, body.slices, **asked)
        return _plain_fields(sliced)
    if body.slices is not None:
        raise Problem(Kind.WRONG_VALUE, "slices are slices of a kept column; name it with by", "slices")
    usages: Usages = find_usages(features, body.word, **asked)
    return _plain_fields(usages)


def _collocates(service: Service, body: CollocatesBody) -> dict[str, Any]:
    features = find_folder(service.followed_features, body.features, "features")
    asked = {name: value for name, value in body if name not in ("word", "features")}
    return _plain_fields(find_collocates(features, body.word, **asked))


def _plain_fields(result: Any) -> dict[str, Any]:
    """The fields of a result as JSON values."""
    return {field.name: _plain(getattr(result, field.name)) for field in fields(result)}


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return _plain_fields(value)
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return dict(value) if isinstance(value, Mapping) else value
