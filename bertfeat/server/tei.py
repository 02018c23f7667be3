"""The routes of Hugging Face's text-embeddings-inference: vectors, similarities, tokens and ``/info``."""

from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import Field, StrictBool, StrictInt

import bertfeat
from bertfeat.core import Pooling
from bertfeat.server.answers import (
    Documented,
    Form,
    accepted_form,
    documented_forms,
    float32_response,
    in_base64,
    json_response,
    origin_headers,
    refuse_failed_texts,
    text_vectors,
    truncation_headers,
)
from bertfeat.server.batching import RequestFeatures, Wanted
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.service import Service
from bertfeat.server.wanted import Body, CuttingBody, ModelName, Name, TextInput, Texts, TokenIds, documents_of


class TeiBody(CuttingBody):
    """The fields that the routes with vectors share."""

    inputs: TextInput
    prompt_name: Name | None = None
    model: ModelName | None = None
    layers: Name | None = None
    pooling: Name | None = None


class EmbedBody(TeiBody):
    """The body of ``/embed``."""

    normalize: StrictBool | None = Field(None, description="Whether vectors get length 1; they do by default.")
    dimensions: StrictInt | None = Field(None, ge=1)
    encoding_format: Literal["float", "base64"] | None = None
    options: dict[str, object] | None = Field(
        None, description="Of Hugging Face's hosted API (wait_for_model, use_cache); nothing depends on it."
    )


class TokenizeBody(Body):
    """The body of ``/tokenize``."""

    inputs: str | Texts
    add_special_tokens: StrictBool = True
    prompt_name: Name | None = None
    model: ModelName | None = None


class DecodeBody(Body):
    """The body of ``/decode``."""

    ids: TokenIds | Annotated[list[TokenIds], Field(fail_fast=True)]
    skip_special_tokens: StrictBool = True
    model: ModelName | None = None


class SimilarityInputs(Body):
    """A sentence and those that it is compared with."""

    source_sentence: str
    sentences: Annotated[list[str], Field(fail_fast=True)]


class SimilarityParameters(CuttingBody):
    """The settings by which sentences are read, and the vectors by which they are compared."""

    prompt_name: Name | None = None
    model: ModelName | None = None
    layers: Name | None = None
    pooling: Name | None = None


class SimilarityBody(Body):
    """The body of ``/similarity``."""

    inputs: SimilarityInputs
    parameters: SimilarityParameters = SimilarityParameters()


def tei_routes(service: Service, errors: Documented) -> APIRouter:
    """The router of text-embeddings-inference's routes; ``errors`` describes their error answers."""
    router = APIRouter(tags=["text-embeddings-inference"], responses=errors)

    async def embed(body: EmbedBody, request: Request) -> Response:
        with service.metrics.request("batch" if isinstance(body.inputs, list) else "single"):
            wanted = _wanted(service, body)
            name = _column_of_texts(wanted)
            features = await _embed(service, request, body, wanted)
            normalize = body.normalize is not False
            vectors = text_vectors(features, name, dimensions=body.dimensions, normalize=normalize)
            headers = _headers(wanted, features, truncation_headers(features.n_truncated))
            if accepted_form(request) is Form.FLOAT32:
                return float32_response(vectors, headers)
            if body.encoding_format == "base64":
                return json_response([in_base64(vector) for vector in vectors], headers)
            return json_response(vectors, headers)

    forms = documented_forms(Form.FLOAT32)
    router.post("/embed", summary="Vectors of texts", responses=forms)(embed)
    router.post("/", summary="The same, where huggingface_hub posts", responses=forms)(embed)
    router.post("/invocations", summary="The same, where SageMaker posts", responses=forms)(embed)

    @router.post("/embed_all", summary="The vectors of the tokens of texts")
    async def embed_all(body: TeiBody, request: Request) -> Response:
        with service.metrics.request("batch"):
            body.pooling = body.pooling or str(Pooling.TOKEN)
            wanted = _wanted(service, body)
            if len(wanted.columns) != 1 or not wanted.has_pieces:
                names = ", ".join(column.name for column in wanted.columns)
                raise Problem(
                    Kind.WRONG_VALUE,
                    f"/embed_all gives the vectors of tokens or words of one column, and this is {names}: choose by "
                    "layers and pooling",
                    "layers",
                )
            features = await _embed(service, request, body, wanted)
            matrices = [document.matrix(wanted.columns[0].name) for document in features.documents if document]
            headers = _headers(wanted, features, truncation_headers(features.n_truncated))
            return json_response(matrices, headers)

    @router.post("/similarity", summary="Cosines of a sentence and others")
    async def similarity(body: SimilarityBody, request: Request) -> Response:
        with service.metrics.request("similarity"):
            if not body.inputs.sentences:
                raise Problem(Kind.EMPTY, "there are no sentences to compare with", "inputs.sentences")
            texts = [body.inputs.source_sentence, *body.inputs.sentences]
            given = TeiBody(inputs=texts, **body.parameters.model_dump())
            wanted = _wanted(service, given)
            name = _column_of_texts(wanted, within="parameters.")
            features = await _embed(service, request, given, wanted)
            vectors = text_vectors(features, name)
            cosines = np.ascontiguousarray(vectors[1:] @ vectors[0])
            truncation = truncation_headers(features.n_truncated[1:], features.n_truncated[:1])
            return json_response(cosines, _headers(wanted, features, truncation))

    _add_tokenizing(router, service)
    return router


def _add_tokenizing(router: APIRouter, service: Service) -> None:
    """Add the routes that compute no vectors: ``/tokenize``, ``/decode`` and ``/info``."""

    @router.post("/tokenize", summary="The tokens of texts")
    async def tokenize(body: TokenizeBody, request: Request) -> Response:
        texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        if not texts:
            raise Problem(Kind.EMPTY, "the input has no texts", "inputs")
        documents_of(texts, param="inputs")  # refuses what no text can be
        wanted = service.model(body.model).read(prompt_name=body.prompt_name)
        await service.check_size(texts, wanted)
        with_special = body.add_special_tokens
        return json_response(
            await service.run(lambda: [_tokens(wanted, text, with_special) for text in texts], request=request)
        )

    @router.post("/decode", summary="The texts of token ids")
    async def decode(body: DecodeBody, request: Request) -> Response:
        return json_response(await _decode(service, body, request))

    @router.get("/info", summary="The first model, and the limits")
    async def info() -> Response:
        return json_response(_info(service))


async def _decode(service: Service, body: DecodeBody, request: Request) -> list[str]:
    tokenizer = service.model(body.model).extractor.tokenizer
    if not body.ids:
        raise Problem(Kind.EMPTY, "there are no ids", "ids")
    lists = [[each] if isinstance(each, int) else each for each in body.ids]
    if any(isinstance(each, int) for each in body.ids):
        lists = [[number for (number,) in lists]]
    if sum(map(len, lists)) > service.settings.most_tokens or len(lists) > service.settings.most_texts:
        raise Problem(Kind.TOO_LARGE, "more ids than the tokens, or lists than the texts, of a request", "ids")
    skip = body.skip_special_tokens
    return await service.run(lambda: [tokenizer.decode(ids, skip_special=skip) for ids in lists], request=request)


async def _embed(service: Service, request: Request, body: TeiBody, wanted: Wanted) -> RequestFeatures:
    texts = service.model(body.model).read_texts(body.inputs, "inputs")
    features = await service.embed(request, documents_of(texts, param="inputs"), wanted)
    refuse_failed_texts(features, "inputs")
    return features


def _wanted(service: Service, body: TeiBody) -> Wanted:
    served = service.model(body.model)
    return served.read(body.layers, body.pooling, long=body.long, prompt_name=body.prompt_name)


def _column_of_texts(wanted: Wanted, *, within: str = "") -> str:
    """The name of the one wanted column, with one vector per text; ``within`` is where a request chooses another."""
    if len(wanted.columns) == 1 and not wanted.has_pieces:
        return wanted.columns[0].name
    names = ", ".join(column.name for column in wanted.columns)
    raise Problem(
        Kind.WRONG_VALUE,
        f"this route takes one vector of each text, and what is asked for, or the server's default, is {names}: choose "
        f"by {within}layers and {within}pooling ({Pooling.MEAN}, for instance); /embed_all and /features give others",
        "pooling" if wanted.has_pieces else "layers",
    )


def _headers(wanted: Wanted, features: RequestFeatures, truncation: dict[str, str]) -> dict[str, str]:
    seconds = (features.seconds_tokenizing, features.seconds_waiting, features.seconds_computing)
    names = ("x-tokenization-time", "x-queue-time", "x-inference-time", "x-total-time")
    times = {name: f"{1000 * each:.0f}" for name, each in zip(names, (*seconds, sum(seconds)), strict=True)}
    return {
        **origin_headers(wanted),
        **truncation,
        **times,
        "x-compute-type": wanted.extractor.device.type,
        "x-compute-time": times["x-total-time"],
        "x-compute-tokens": str(int(features.n_tokens.sum())),
    }


def _tokens(wanted: Wanted, text: str, with_special: bool) -> list[dict[str, Any]]:
    tokenizer = wanted.extractor.tokenizer
    (pieces,) = tokenizer.pieces([wanted.tokens.prompt + text], offsets=True)
    assert pieces.spans is not None
    starts, ends = pieces.spans.start.tolist(), pieces.spans.end.tolist()
    strings = tokenizer.strings(pieces.ids)
    inner = [
        {"id": number, "text": string, "special": False, "start": start, "stop": end}
        for number, string, start, end in zip(pieces.ids.tolist(), strings, starts, ends, strict=True)
    ]
    if not with_special:
        return inner
    around = tokenizer.single
    before, after = (
        [
            {"id": number, "text": string, "special": True, "start": None, "stop": None}
            for number, string in zip(ids, tokenizer.strings(np.array(ids, np.int32)), strict=True)
        ]
        for ids in (around.before, around.after)
    )
    return [*before, *inner, *after]


def _info(service: Service) -> dict[str, Any]:
    served, limits = service.models[0], service.settings
    extractor = served.extractor
    return {
        "model_id": extractor.model.name,
        "served_model_name": served.name,
        "model_sha": extractor.model.revision or extractor.model.fingerprint,
        "model_dtype": str(extractor.precision.dtype).removeprefix("torch."),
        "model_type": {"embedding": {"pooling": extractor.columns[0].pooling.value}},
        "max_concurrent_requests": limits.most_connections,
        "max_input_length": extractor.token_settings.max_length,
        "max_batch_tokens": extractor.batch_tokens,
        "max_batch_requests": None,
        "max_client_batch_size": limits.most_texts,
        "auto_truncate": False,
        "tokenization_workers": 1,
        "version": bertfeat.__version__,
        "layers": extractor.model.num_layers,
        "columns": [column.name for column in extractor.columns],
        "fingerprint": extractor.model.fingerprint,
        "folders": service.describe_folders(),
    }
