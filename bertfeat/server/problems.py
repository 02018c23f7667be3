"""The errors that clients get, in the form that their libraries read: OpenAI's or text-embeddings-inference's."""

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from bertfeat.errors import UNSET, BertfeatError, UsageError
from bertfeat.server.batching import ClosedError, EncoderError, QueueFullError

_MOST_MESSAGE = 1000  # characters; it may quote what the client has sent
_FIELDS = {"column": "layers"}  # parameters that have another name in requests


def field_spelling(name: str, value: object = UNSET) -> str:
    """A parameter as a request has it: ``layers``, ``"k": 10``; see :func:`bertfeat.errors.parameter`."""
    field_name = _FIELDS.get(name, name)
    return field_name if value is UNSET else f'"{field_name}": {json.dumps(value, default=str)}'


_PAGE_WORDS = {
    "by": "the column",
    "column": "the column",
    "context": "the context",
    "k": "the number of lines",
    "like": "the sentence",
    "left": "the words before",
    "page": "the page",
    "right": "the words after",
    "sample": "the sample",
    "senses": "the number of senses",
    "slices": "the slices",
    "sort": "the order",
    "spans": "the span",
    "where": "the condition",
}


def page_spelling(name: str, value: object = UNSET) -> str:
    """A parameter as the page names its field: ``the condition``, ``the condition “year >”``."""
    words = _PAGE_WORDS.get(name, name.replace("_", " "))
    return words if value is UNSET else f"{words} “{value}”"


class Kind(Enum):
    """A kind of problem: its status, and its names in the two forms of errors."""

    EMPTY = 400, "Empty", "invalid_request_error"
    TOKEN_IDS = 400, "Validation", "invalid_request_error"
    MALFORMED = 400, "Validation", "invalid_request_error"
    WRONG_VALUE = 422, "Validation", "invalid_request_error"
    UNAUTHORIZED = 401, "Unauthorized", "authentication_error"
    NOT_FOUND = 404, "NotFound", "not_found_error"
    WRONG_METHOD = 405, "NotFound", "invalid_request_error"
    TOO_SLOW = 408, "Timeout", "timeout_error"
    TOO_LARGE = 413, "Validation", "invalid_request_error"
    MISDIRECTED = 421, "Validation", "invalid_request_error"
    MODEL_FAILED = 424, "Backend", "server_error"
    OVERLOADED = 429, "Overloaded", "rate_limit_error"
    HEADERS_TOO_LARGE = 431, "Validation", "invalid_request_error"
    NOT_READY = 503, "Unhealthy", "server_error"
    TIMED_OUT = 504, "Timeout", "timeout_error"

    @property
    def status(self) -> int:
        """The status of the answer."""
        return self.value[0]


def is_openai_path(path: str) -> bool:
    """Whether errors on a path have OpenAI's form."""
    return path.startswith(("/v1/", "/models/")) or path in ("/embeddings", "/models")


@dataclass
class Problem(Exception):
    """A request that cannot be answered."""

    kind: Kind
    message: str
    param: str | None = None
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.message

    def answer(self, path: str) -> tuple[int, dict[str, Any]]:
        """The status and the body of the answer to a request for a path."""
        message = self.message.encode("utf-8", "replace").decode()  # JSON cannot hold halves of surrogate pairs
        message = message if len(message) <= _MOST_MESSAGE else f"{message[: _MOST_MESSAGE - 1]}…"
        status, tei_name, openai_name = self.kind.value
        if not is_openai_path(path):  # as clients of text-embeddings-inference read it: never a list
            return status, {"error": message, "error_type": tei_name}
        content = {"message": message, "type": openai_name, "param": self.param, "code": self.code}
        # OpenAI knows wrong requests as 400 only
        return 400 if self.kind in (Kind.WRONG_VALUE, Kind.TOO_LARGE) else status, {"error": content}


def problem_of(error: Exception) -> Problem:
    """Convert an error to the problem that a client gets, without any internals of the server."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, QueueFullError):
        return Problem(Kind.OVERLOADED, str(error), headers={"Retry-After": f"{max(1, round(error.seconds))}"})
    if isinstance(error, ClosedError):
        return Problem(Kind.NOT_READY, str(error), headers={"Retry-After": "5"})
    if isinstance(error, UsageError):
        return Problem(Kind.WRONG_VALUE, str(error))
    if isinstance(error, UnicodeEncodeError):  # in any string but a text, which is checked before
        return Problem(Kind.WRONG_VALUE, "a string has half of a surrogate pair")
    if isinstance(error, BertfeatError):  # without its ``where``, which may be a folder
        is_usage = error.exit_code == UsageError.exit_code
        problem = f"{error.problem}; {error.remedy}" if is_usage and error.remedy else error.problem
        return Problem(Kind.WRONG_VALUE if is_usage else Kind.MODEL_FAILED, problem)
    if isinstance(error, EncoderError):
        return Problem(Kind.MODEL_FAILED, f"the model failed over these texts ({error})")
    return Problem(Kind.MODEL_FAILED, "the request failed; the server's log has more")
