"""Routes that take JSON, called without FastAPI between, which takes longer than the encoder does for a short text.

FastAPI has the same routes, describes them, and answers what is no JSON, has other types or a query string.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from bertfeat.server.guard import receive_again

Endpoint = Callable[..., Awaitable[Response]]
_JSON = b"application/json"


class DirectRoutes:
    """An ASGI application around FastAPI's."""

    def __init__(
        self, app: ASGIApp, routers: Iterable[APIRouter], refuse: Callable[[Request, Exception], Response | None]
    ) -> None:
        """``refuse`` makes an answer of an error, or nothing of one that nobody expects."""
        self._app, self._refuse = app, refuse
        self._routes = dict(_json_routes(routers))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have FastAPI answer it."""
        route = self._routes.get(scope["path"]) if scope["type"] == "http" and scope["method"] == "POST" else None
        if route is None or scope["query_string"] or not _says_json(scope):
            await self._app(scope, receive, send)
            return
        message = await receive()  # the guard has read the whole body
        body, endpoint = route
        try:
            parsed = body.validate_json(message["body"])
        except ValidationError:
            await self._app(scope, receive_again(message, receive), send)
            return
        request = Request(scope, receive)
        try:
            response = await endpoint(body=parsed, request=request)
        except Exception as error:
            refusal = self._refuse(request, error)
            if refusal is None:
                raise
            response = refusal
        await response(scope, receive, send)


def _json_routes(routers: Iterable[APIRouter]) -> Iterable[tuple[str, tuple[TypeAdapter[Any], Endpoint]]]:
    """The routes whose endpoints take a body and the request, and nothing of the path."""
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.methods == {"POST"}:
                taken = inspect.signature(route.endpoint, eval_str=True).parameters
                if set(taken) == {"body", "request"}:
                    body: Any = taken["body"].annotation
                    yield route.path, (TypeAdapter(body), route.endpoint)


def _says_json(scope: Scope) -> bool:
    given = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    return given.partition(b";")[0].strip().lower() == _JSON
