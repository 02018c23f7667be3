"""OpenAI's routes, ``/v1/embeddings`` and ``/v1/models``, with additional fields such as layers and pooling.

They are there without ``/v1``, too, as infinity has them.
"""

from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field, StrictBool, StrictInt

from bertfeat.server.answers import (
    Documented,
    in_base64,
    json_response,
    origin_headers,
    refuse_failed_texts,
    text_vectors,
    truncated_inputs,
    truncation_headers,
)
from bertfeat.server.batching import RequestFeatures, Wanted
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.service import Service
from bertfeat.server.wanted import ServedModel, TextInput, WantedBody, documents_of


class EmbeddingsBody(WantedBody):
    """The body of ``/v1/embeddings``: OpenAI's five fields, and ours for layers, long texts and normalization."""

    input: TextInput
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: StrictInt | None = Field(None, ge=1)
    user: str | None = Field(None, description="Of OpenAI's API; nothing depends on it.")
    normalize: StrictBool | None = Field(
        None, description="By default vectors of texts are, those of tokens and words not."
    )


def openai_routes(service: Service, errors: Documented, *, prefix: str = "/v1") -> APIRouter:
    """The router of OpenAI's routes; ``errors`` describes their error answers."""
    router = APIRouter(prefix=prefix, tags=["OpenAI"], responses=errors)

    @router.get("/models", summary="The models")
    async def models() -> Response:
        data = [_model_object(served, name) for served in service.models for name in served.names]
        return json_response({"object": "list", "data": data})

    @router.get("/models/{name:path}", summary="One of the models")
    async def model(name: str) -> Response:
        served = service.model(name)
        return json_response(_model_object(served, name if name in served.names else served.name))

    @router.post("/embeddings", summary="Vectors of texts, or of their tokens or words")
    async def embeddings(body: EmbeddingsBody, request: Request) -> Response:
        with service.metrics.request("openai"):
            served = service.model(body.model)
            texts = served.read_texts(body.input, "input")
            wanted = served.read_body(body)
            if len(wanted.columns) != 1:
                names = ", ".join(column.name for column in wanted.columns)
                raise Problem(Kind.WRONG_VALUE, f"an embedding is one of {names}; /features gives several", "layers")
            features = await service.embed(request, documents_of(texts, param="input"), wanted)
            refuse_failed_texts(features, "input")
            headers = origin_headers(wanted) | truncation_headers(features.n_truncated)
            return json_response(_embeddings_object(served.name, body, wanted, features), headers)

    return router


def _embeddings_object(model: str, body: EmbeddingsBody, wanted: Wanted, features: RequestFeatures) -> dict[str, Any]:
    tokens = int(features.n_tokens.sum())
    usage: dict[str, Any] = {"prompt_tokens": tokens, "total_tokens": tokens}
    if cut := truncated_inputs(features.n_truncated):
        usage["truncated"] = cut
    as_base64 = body.encoding_format == "base64"
    data: list[dict[str, Any]]
    if wanted.has_pieces:
        data = [_pieces_embedding(body, wanted, features, number) for number in range(len(features.documents))]
    else:
        name, normalize = wanted.columns[0].name, body.normalize is not False
        vectors = text_vectors(features, name, dimensions=body.dimensions, normalize=normalize)
        data = [
            {"object": "embedding", "index": number, "embedding": in_base64(vector) if as_base64 else vector}
            for number, vector in enumerate(vectors)
        ]
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _pieces_embedding(body: EmbeddingsBody, wanted: Wanted, features: RequestFeatures, number: int) -> dict[str, Any]:
    """The vectors of a text's tokens or words, with the strings and character offsets of these."""
    if body.dimensions is not None or body.normalize:
        raise Problem(Kind.WRONG_VALUE, "dimensions and normalize are for vectors of texts", "dimensions")
    (column,) = wanted.columns
    document = features.documents[number]
    assert document is not None
    matrix = document.matrix(column.name)
    pieces = document.pieces_of(column)
    assert pieces is not None
    return {
        "object": "embedding",
        "index": number,
        "embedding": in_base64(matrix) if body.encoding_format == "base64" else matrix,
        "shape": matrix.shape,
        f"{column.pooling}s": list(pieces.strings or ()),
        "offsets": list(zip(pieces.start, pieces.end, strict=True)),
    }


def _model_object(served: ServedModel, name: str) -> dict[str, Any]:
    extractor = served.extractor
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "bertfeat",
        "fingerprint": extractor.model.fingerprint,
        "layers": extractor.model.num_layers,
        "max_model_len": extractor.token_settings.max_length,
    }
