"""The bodies of answers that hold features: JSON, raw float32 or Arrow, whichever the client accepts."""

import base64
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from fastapi import Request, Response
from numpy.typing import NDArray

from bertfeat.core import DocumentPieces
from bertfeat.ragged import lengths_of, offsets_of
from bertfeat.search import IndexSettings
from bertfeat.server.batching import RequestFeatures, Wanted
from bertfeat.server.problems import Kind, Problem

Documented = dict[int | str, dict[str, Any]]
"""Descriptions of answers for the OpenAPI document, by status."""


class Form(StrEnum):
    """A form of an answer with vectors."""

    JSON = "application/json"
    FLOAT32 = "application/octet-stream"
    ARROW = "application/vnd.apache.arrow.stream"


def documented_forms(*forms: Form) -> Documented:
    """Return the description, for the OpenAPI document, of answers in forms other than JSON."""
    return {200: {"content": {form.value: {"schema": {"type": "string", "format": "binary"}} for form in forms}}}


def accepted_form(request: Request) -> Form:
    """The first form that the client accepts and the server has; JSON if the client takes anything, or none of them."""
    for given in request.headers.get("accept", "*/*").split(","):
        name = given.partition(";")[0].strip().lower()
        if name in list(Form):
            return Form(name)
        if name in ("*/*", "application/*", ""):
            return Form.JSON
    return Form.JSON


def json_response(content: Any, headers: Mapping[str, str] | None = None, *, status: int = 200) -> Response:
    """An answer of JSON; NumPy arrays need no conversion."""
    body = orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return Response(body, status, dict(headers or {}), Form.JSON.value)


def float32_response(vectors: NDArray[np.float32], headers: Mapping[str, str]) -> Response:
    """An answer of little-endian float32, row by row; ``x-shape`` says how many rows and columns."""
    shape = ",".join(map(str, vectors.shape))
    body = np.ascontiguousarray(vectors, "<f4").tobytes()
    return Response(body, 200, {**headers, "x-shape": shape, "x-dtype": "float32"}, Form.FLOAT32.value)


def arrow_response(table: pa.Table, headers: Mapping[str, str]) -> Response:
    """An answer of one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Response(sink.getvalue().to_pybytes(), 200, dict(headers), Form.ARROW.value)


def index_headers(settings: IndexSettings) -> dict[str, str]:
    """The header that says which version of the index an answer is from."""
    return {"X-Index-Version": f"{settings.version}.{settings.made}"}


def origin_headers(wanted: Wanted) -> dict[str, str]:
    """Return the headers by which a stored vector can be traced: the model, the columns, the precision."""
    return {
        "x-bertfeat-model": wanted.extractor.model.fingerprint,
        "x-bertfeat-columns": ",".join(column.name for column in wanted.columns),
        "x-bertfeat-precision": wanted.extractor.precision.value,
    }


def truncation_headers(n_truncated: NDArray[np.int64], of_query: NDArray[np.int64] | None = None) -> dict[str, str]:
    """The headers that say which inputs were cut, by their numbers from 0, and that the query was; none if none was."""
    cut = truncated_inputs(n_truncated)
    headers = {"x-truncated-inputs": ",".join(map(str, cut))} if cut else {}
    return headers | ({"x-truncated-query": "true"} if of_query is not None and of_query.any() else {})


def truncated_inputs(n_truncated: NDArray[np.int64]) -> list[int]:
    """The numbers of the inputs that were cut, from the numbers of tokens that each lost."""
    found: list[int] = np.flatnonzero(n_truncated).tolist()
    return found


def refuse_failed_texts(features: RequestFeatures, param: str) -> None:
    """Refuse a request if any of its texts could not be embedded, naming the first such text."""
    for number, reason in sorted(features.failures.items())[:1]:
        more = f" ({len(features.failures)} texts in all)" if len(features.failures) > 1 else ""
        raise Problem(Kind.MODEL_FAILED, f"text {number}: {reason}{more}", param)


def text_vectors(
    features: RequestFeatures, name: str, *, dimensions: int | None = None, normalize: bool = True
) -> NDArray[np.float32]:
    """The vectors of a document column, cut to their first ``dimensions``, and scaled to length 1 if ``normalize``."""
    vectors = features.vectors[name]
    if dimensions is not None:
        if not 1 <= dimensions <= vectors.shape[1]:
            raise Problem(Kind.WRONG_VALUE, f"vectors have 1 to {vectors.shape[1]} dimensions", "dimensions")
        vectors = vectors[:, :dimensions]
    if normalize:
        vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return np.ascontiguousarray(vectors, np.float32)


def in_base64(vectors: NDArray[np.float32]) -> str:
    """Vectors as base64 of little-endian float32."""
    return base64.b64encode(np.ascontiguousarray(vectors, "<f4").tobytes()).decode("ascii")


def pieces_object(pieces: DocumentPieces) -> dict[str, Any]:
    """Tokens or words as JSON values: their strings, and their character offsets in the text."""
    return {"strings": list(pieces.strings or ()), "start": pieces.start, "end": pieces.end}


def features_table(texts: Sequence[str], features: RequestFeatures, wanted: Wanted) -> pa.Table:
    """All columns of a request, one row per text; matrices of tokens and words are lists of vectors."""
    columns: dict[str, pa.Array] = {"text": pa.array(texts, pa.string()), "n_tokens": pa.array(features.n_tokens)}
    for kind in ("tokens", "words"):
        pieces = [getattr(document, kind) for document in features.documents if document is not None]
        if pieces and pieces[0] is not None:
            columns[kind] = pa.array([list(each.strings) for each in pieces], pa.list_(pa.string()))
            for side in ("start", "end"):
                offsets = [np.asarray(getattr(each, side)).tolist() for each in pieces]
                columns[f"{kind[:-1]}_{side}"] = pa.array(offsets, pa.list_(pa.int32()))
    for column in wanted.columns:
        vector = pa.list_(pa.float32(), column.width)
        if column.pooling.per_document:
            flat = np.ascontiguousarray(features.vectors[column.name], np.float32).ravel()
            columns[column.name] = pa.FixedSizeListArray.from_arrays(pa.array(flat), type=vector)
        else:
            matrices = [document.matrix(column.name) for document in features.documents if document is not None]
            bounds = offsets_of(lengths_of(matrices)).astype(np.int32)
            flat = np.concatenate(matrices).astype(np.float32).ravel()
            values = pa.FixedSizeListArray.from_arrays(pa.array(flat), type=vector)
            columns[column.name] = pa.ListArray.from_arrays(pa.array(bounds), values)
    return pa.table(columns)
