"""The checks before every route: name of the server, key, size, time, readiness; and a line in the log."""

import asyncio
import hmac
import ipaddress
import logging
import re
import secrets
import time
from collections.abc import Callable
from functools import lru_cache
from itertools import count

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bertfeat.errors import spell_parameters
from bertfeat.io import give_back_memory
from bertfeat.server.answers import json_response
from bertfeat.server.page_assets import is_page_asset
from bertfeat.server.problems import Kind, Problem, field_spelling, page_spelling
from bertfeat.server.settings import ANY_HOST, ServerSettings

PAGE_HEADER = "x-bertfeat-client"
"""The header that marks requests of the page: errors then name its fields, since its visitors know no parameters."""

MOST_HEADERS = 64 * 2**10
"""The most bytes of a request's head."""

LOG_FIELDS = "fields"
"""The attribute of a request's log record that holds the fields of its line."""

_MOST_BODIES = 16  # the bytes of all bodies in flight, as a multiple of the most that one may have
_ITEMS_A_TOKEN = 4  # items of JSON, or commas in a text, that a body may have for each token allowed
_LARGE_BODY = 4 * 2**20  # bytes of a body, above which free memory is given back after the request
_OPEN = ("/health", "/ready", "/ping")  # without a key and under any host name, for load balancers
_KNOWN_HOSTS = 256  # values of Host whose check is remembered
_BEFORE_READY = (*_OPEN, "/metrics", "/info", "/v1/models")
_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
_log = logging.getLogger("bertfeat.server")


def head_too_large() -> Problem:
    """The problem of a request whose head is too large."""
    return Problem(Kind.HEADERS_TOO_LARGE, f"the head of a request has at most {MOST_HEADERS:,} bytes")


def receive_again(message: Message, receive: Receive) -> Receive:
    """Receive a message that was received already, and then what comes after it."""
    left = [message]

    async def again() -> Message:
        return left.pop() if left else await receive()

    return again


class Guard:
    """An ASGI application around the one with the routes."""

    def __init__(self, app: ASGIApp, settings: ServerSettings, is_ready: Callable[[], bool]) -> None:
        self.app, self.settings, self._is_ready = app, settings, is_ready
        self.body_bytes = 0  # of the requests that are in flight
        self._keys = [key.encode() for key in settings.api_keys]
        self._names = {"localhost", settings.host.lower(), *(name.lower() for name in settings.allowed_hosts)}
        self._is_own_host = lru_cache(_KNOWN_HOSTS)(self._look_at_host)
        self._name, self._numbers = secrets.token_hex(4), count()  # of this server, and of its requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1000})
            return
        await _Passage(self, scope, receive, send).go()

    def admit(self, scope: Scope) -> None:
        """Raise the problem with a request, if there is one, before its body is read."""
        path = scope["path"]
        if not self._keys and path not in _OPEN:
            self._check_host(scope)
        if is_page_asset(scope["method"], path):
            return
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS:
            raise head_too_large()
        headers = {name.lower(): value for name, value in scope["headers"]}
        if self._keys and path not in _OPEN and scope["method"] != "OPTIONS" and not self._has_key(headers):
            raise Problem(
                Kind.UNAUTHORIZED, "this server asks for a key: Authorization: Bearer KEY", code="invalid_api_key"
            )
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.settings.most_body:
            raise self.too_large()
        if not self._is_ready() and path not in _BEFORE_READY:
            raise Problem(Kind.NOT_READY, "the server is starting or ending", headers={"Retry-After": "2"})

    def _check_host(self, scope: Scope) -> None:
        """Refuse a request to a name that is not this server's, where no key guards it.

        A page of another origin cannot read what this server answers, unless its own name is made to point here (DNS
        rebinding): its browser then sends that name as Host. Browsers always send one, so a request without any is let
        in. The status is 421 (RFC 9110, section 15.5.20): the request is for somebody else; 403 would say that whoever
        sent it may not have the answer.
        """
        for name, value in scope["headers"]:
            if name == b"host" and value and not self._is_own_host(value):
                shown = value.decode("latin-1")[:100]
                raise Problem(
                    Kind.MISDIRECTED,
                    f"this server is not asked by the name {shown!r}: without a key it answers to localhost, to "
                    "addresses such as 127.0.0.1, and to the names that it was started with (--allowed-host)",
                )

    def _look_at_host(self, host: bytes) -> bool:
        """Whether a value of Host, with or without a port, is an address or a name of this server."""
        if ANY_HOST in self._names:
            return True
        whole = host.decode("latin-1").lower()
        name = whole[1:].partition("]")[0] if whole.startswith("[") else whole.partition(":")[0]
        if name.rstrip(".") in self._names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def new_id(self) -> str:
        """The id of a request that has none."""
        return f"{self._name}{next(self._numbers):08x}"

    def too_large(self) -> Problem:
        """The problem of a body that is too large."""
        return Problem(Kind.TOO_LARGE, f"a request has at most {self.settings.most_body:,} bytes")

    def checked(self, body: bytes) -> bytes:
        """Return a body, unless it has more items than a request may have; parsed, each is tens of times as large."""
        most = _ITEMS_A_TOKEN * self.settings.most_tokens + self.settings.most_texts
        if len(body) > most and body.count(b",") > most:
            raise Problem(Kind.TOO_LARGE, f"a request has at most {self.settings.most_tokens:,} tokens")
        return body

    def _has_key(self, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(b"authorization", headers.get(b"x-api-key", b"")).strip()
        scheme, _, rest = given.partition(b" ")
        token = rest.strip() if scheme.lower() == b"bearer" else given
        # every key is compared, so that the time does not show which one was close
        return sum(hmac.compare_digest(token, key) for key in self._keys) > 0


class _GoneError(Exception):
    """The client went away while it was sending."""


class _Passage:
    """One request on its way in and out."""

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self._guard, self._settings = guard, guard.settings
        self._receive, self._send = receive, send
        prefix = self._settings.prefix
        path = scope["path"]
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            scope = {**scope, "path": path.removeprefix(prefix) or "/"}
        self._scope = scope
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        self._id = given if _REQUEST_ID.fullmatch(given) else guard.new_id()
        self._began, self._status, self._bytes, self._has_body = time.monotonic(), 0, 0, False
        self._answer_bytes = 0

    async def go(self) -> None:
        """Let the request in and log it; if the server cancels it at the end of its grace period, answer it still."""
        from_page = dict(self._scope["headers"]).get(PAGE_HEADER.encode()) == b"page"
        with spell_parameters(page_spelling if from_page else field_spelling):
            try:
                await self._pass()
            except asyncio.CancelledError:  # by the server, which ends; nobody else cancels a request
                again = {"Retry-After": "5", "Connection": "close"}
                await self._refuse(Problem(Kind.NOT_READY, "the server has ended before the answer", headers=again))
            finally:
                self._write_log()
                if self._bytes > _LARGE_BODY:
                    give_back_memory()

    async def _pass(self) -> None:
        try:
            async with asyncio.timeout(self._settings.body_seconds) as limit:
                self._guard.admit(self._scope)
                body = await self._read_body()
                self._has_body = True
                limit.reschedule(asyncio.get_running_loop().time() + self._settings.request_seconds)
                try:
                    whole: Message = {"type": "http.request", "body": body, "more_body": False}
                    await self._guard.app(self._scope, receive_again(whole, self._receive), self._answer)
                finally:
                    self._guard.body_bytes -= self._bytes
                    del body
        except Problem as problem:
            await self._refuse(problem)
        except TimeoutError:
            if self._has_body:
                slow = Problem(Kind.TIMED_OUT, "the request took too long", headers={"Retry-After": "5"})
            else:
                slow = Problem(Kind.TOO_SLOW, "the request was sent too slowly", headers={"Connection": "close"})
            await self._refuse(slow)
        except _GoneError:
            self._status = 499
        except Exception as error:
            _log.exception("request %s failed", self._id)
            await self._refuse(Problem(Kind.MODEL_FAILED, f"the request failed ({type(error).__name__})"))

    async def _read_body(self) -> bytes:
        """The whole body, within its limits of size and time."""
        chunks: list[bytes] = []
        try:
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise _GoneError
                chunks.append(message.get("body", b""))
                self._bytes += len(chunks[-1])
                self._guard.body_bytes += len(chunks[-1])
                if self._bytes > self._settings.most_body:
                    raise self._guard.too_large()
                if self._guard.body_bytes > _MOST_BODIES * self._settings.most_body:
                    raise Problem(Kind.OVERLOADED, "too many large requests at once", headers={"Retry-After": "1"})
                if not message.get("more_body", False):
                    return self._guard.checked(b"".join(chunks))
        except BaseException:
            self._guard.body_bytes -= self._bytes
            raise

    async def _answer(self, message: Message) -> None:
        """Send a part of the answer; its head gets the request's id."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            message = {**message, "headers": [*message["headers"], (b"x-request-id", self._id.encode())]}
        self._answer_bytes += len(message.get("body", b""))
        await self._send(message)

    async def _refuse(self, problem: Problem) -> None:
        if self._status:  # an answer has begun
            return
        status, body = problem.answer(self._scope["path"])
        await json_response(body, problem.headers, status=status)(self._scope, self._receive, self._answer)

    def _write_log(self) -> None:
        if not _log.isEnabledFor(logging.INFO):
            return
        if self._status < 400 and is_page_asset(self._scope["method"], self._scope["path"]):
            return
        line = {
            "id": self._id,
            "method": self._scope["method"],
            "path": self._scope["path"],  # without the query, which may hold texts
            "status": self._status,
            "request_bytes": self._bytes,
            "answer_bytes": self._answer_bytes,
            "ms": round(1000 * (time.monotonic() - self._began), 1),
        }
        _log.info("%(method)s %(path)s %(status)d", line, extra={LOG_FIELDS: line})
