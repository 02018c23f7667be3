"""The server's ASGI application: the routes, the answers to errors, and the layers around the routes.

The guard and CORS are the outer layers. Inside, routes that take JSON are called without FastAPI, which takes longer
than the encoder does for a short text. FastAPI has the same routes, describes them, and answers requests that are not
JSON, have wrong types or have a query string.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

import bertfeat
from bertfeat.arguments import checked
from bertfeat.errors import BertfeatError, shorten
from bertfeat.server.answers import Documented, json_response
from bertfeat.server.batching import ClosedError, EncoderError, QueueFullError
from bertfeat.server.guard import Guard, receive_again
from bertfeat.server.openai import openai_routes
from bertfeat.server.own import own_routes
from bertfeat.server.page_assets import is_page_asset
from bertfeat.server.page_routes import page_routes
from bertfeat.server.problems import Kind, Problem, is_openai_path, problem_of
from bertfeat.server.rerank import rerank_routes
from bertfeat.server.service import ClientGoneError, Service
from bertfeat.server.tei import tei_routes

_CLIENT_GONE = 499
_OURS = (Problem, QueueFullError, ClosedError, EncoderError, BertfeatError, UnicodeEncodeError)
_OPENAI_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "object", "required": ["message", "type"]}},
}
_TEI_ERROR = {
    "type": "object",
    "required": ["error", "error_type"],
    "properties": {"error": {"type": "string"}, "error_type": {"type": "string"}},
}


@checked
def create_app(service: Service) -> ASGIApp:
    """The ASGI application of a service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.warm_up()
        following = asyncio.create_task(service.follow_folders())
        yield
        following.cancel()
        await service.close()

    app = _Api(
        title="bertfeat",
        version=bertfeat.__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        dependencies=[Depends(_check_query)],
    )
    for kind in (*_OURS, ClientGoneError):
        app.add_exception_handler(kind, lambda request, error: _refusal(service, request, error) or Response())
    app.add_exception_handler(RequestValidationError, lambda request, error: _refuse_body(service, request, error))
    app.add_exception_handler(HTTPException, lambda request, error: _refuse_path(service, request, error))
    app.add_exception_handler(Exception, lambda request, error: _refuse(service, request, problem_of(error)))
    openai = _documented(_OPENAI_ERROR, (400, 401, 404, 408, 421, 424, 429, 431, 503, 504))
    tei = _documented(_TEI_ERROR, (400, 401, 404, 408, 413, 421, 422, 424, 429, 431, 503, 504))
    routers = [
        openai_routes(service, openai),
        openai_routes(service, openai, prefix=""),
        tei_routes(service, tei),
        rerank_routes(service, tei, openai),
        own_routes(service, tei),
        page_routes(service),
    ]
    for router in routers:
        app.include_router(router)
    _add_health(app, service, _documented(_TEI_ERROR, (401, 408, 413, 421, 422, 429, 431, 503, 504)))
    direct = _DirectRoutes(app, routers, lambda request, error: _refusal(service, request, error))
    guarded: ASGIApp = Guard(direct, service.settings, lambda: service.is_ready)
    if service.settings.cors_origins:
        guarded = CORSMiddleware(
            guarded,
            allow_origins=service.settings.cors_origins,
            allow_methods=["GET", "POST", "OPTIONS"],
            allow_headers=["Authorization", "Content-Type", "Accept", "X-API-Key", "X-Request-ID"],
            expose_headers=[
                "X-Request-ID",
                "X-Truncated-Inputs",
                "X-Truncated-Query",
                "X-Shape",
                "X-Bertfeat-Model",
                "X-Index-Version",
            ],
            max_age=3600,
        )
    return guarded


class _Api(FastAPI):
    """FastAPI with a corrected OpenAPI document: OpenAI's routes answer wrong requests with 400, and never with 422."""

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        for path, operations in document["paths"].items():
            if is_openai_path(path):
                for operation in operations.values():
                    operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own, which are in no answer
            document["components"]["schemas"].pop(name, None)
        return document


def _documented(schema: dict[str, Any], statuses: tuple[int, ...]) -> Documented:
    content = {"application/json": {"schema": schema}}
    return {status: {"description": "An error.", "content": content} for status in statuses}


def _add_health(app: FastAPI, service: Service, errors: Documented) -> None:
    @app.get("/health", tags=["operation"], summary="200 while the server runs, while it ends too", responses=errors)
    @app.get("/ping", tags=["operation"], summary="The same", responses=errors)
    async def health() -> Response:
        stale = sorted(service.problems())  # names alone: no key is needed here
        return json_response({"status": "ok", **({"stale": stale} if stale else {})})

    @app.post("/reload", tags=["operation"], summary="Look for new versions of the folders now", responses=errors)
    async def reload() -> Response:
        changed = await asyncio.to_thread(lambda: service.look(at_once=True))
        return json_response({"changed": changed, "folders": service.describe_folders()})

    @app.get("/ready", tags=["operation"], summary="200 when it takes requests, else 503", responses=errors)
    async def ready() -> Response:
        if not service.is_ready:
            raise Problem(Kind.NOT_READY, "the server is starting or ending", headers={"Retry-After": "2"})
        if service.batcher.is_full:
            raise Problem(Kind.NOT_READY, "as many tokens wait as may", headers={"Retry-After": "1"})
        return json_response({"status": "ok"})

    @app.get(
        "/metrics", tags=["operation"], summary="For Prometheus", responses=errors, response_class=PlainTextResponse
    )
    async def metrics() -> Response:
        return Response(service.metrics.text(service), media_type="text/plain; version=0.0.4")


async def _check_query(request: Request) -> None:
    """Refuse a query parameter that the route does not have, or that is given twice.

    To ignore it would answer another question. The page's files take any parameter, since links to a page and caches
    add some of their own.
    """
    if not request.scope["query_string"] or is_page_asset(request.method, request.scope["path"]):
        return
    known = [each.alias for each in request.scope["route"].dependant.query_params]
    names = [name for name, _ in request.query_params.multi_items()]
    for at, name in enumerate(names):
        if name not in known:
            takes = f"the parameters are {', '.join(known)}" if known else "the route has none"
            if request.method == "POST":
                takes = f"the body takes {', '.join(_known_fields(request, ()))}"
            problem = f"there is no such query parameter; {takes}"
        elif name in names[:at]:
            problem = "it is given twice"
        else:
            continue
        raise Problem(Kind.WRONG_VALUE, f"{shorten(name)}: {problem}", shorten(name))


def _known_fields(request: Request, place: Sequence[str | int]) -> list[str]:
    """The fields of a route's body, or of the object at ``place`` within it."""
    model = request.scope["route"].endpoint.__annotations__["body"]
    for name in place:
        model = model.model_fields[name].annotation
    return list(model.model_fields)


def _refusal(service: Service, request: Request, error: Exception) -> Response | None:
    """The answer to an error that the server expects; None for any other error."""
    if isinstance(error, ClientGoneError):
        return Response(status_code=_CLIENT_GONE)
    return _refuse(service, request, problem_of(error)) if isinstance(error, _OURS) else None


def _refuse(service: Service, request: Request, problem: Problem) -> Response:
    service.metrics.failed(problem.kind.value[1].lower())
    status, body = problem.answer(request.scope["path"])
    return json_response(body, problem.headers, status=status)


def _refuse_body(service: Service, request: Request, error: Exception) -> Response:
    """Answer a body that is no JSON or has wrong types: where, and what was expected; never what was given."""
    assert isinstance(error, RequestValidationError)
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method == "POST" and not given.endswith("json"):  # curl -d says that it sends a form
        message = "the body was not read as JSON; send it with Content-Type: application/json"
        return _refuse(service, request, Problem(Kind.WRONG_VALUE, message))
    errors = [(each["type"], each["loc"][1:], each["msg"]) for each in error.errors()[:3]]
    message = "; ".join(_describe_error(request, *each) for each in errors)
    return _refuse(service, request, Problem(Kind.WRONG_VALUE, message, next(map(str, errors[0][1]), None)))


def _describe_error(request: Request, kind: str, place: Sequence[str | int], what: str) -> str:
    """Describe an error of pydantic's in words; for an unknown field, name the fields that there are."""
    if kind == "extra_forbidden":
        what = f"there is no such field; the fields are {', '.join(_known_fields(request, place[:-1]))}"
    where = ".".join(shorten(str(part)) for part in place)
    return f"{where}: {what}" if where else what


def _refuse_path(service: Service, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == Kind.NOT_FOUND.status:
        return _refuse(service, request, Problem(Kind.NOT_FOUND, "there is no such route; /openapi.json has them"))
    if error.status_code == Kind.WRONG_METHOD.status:
        headers = dict(error.headers or {})
        return _refuse(service, request, Problem(Kind.WRONG_METHOD, "the route has another method", headers=headers))
    return _refuse(service, request, Problem(Kind.WRONG_VALUE, "the request cannot be read"))


_Endpoint = Callable[..., Awaitable[Response]]


class _DirectRoutes:
    """An ASGI application around FastAPI's: it calls the routes that take JSON directly."""

    def __init__(
        self, app: ASGIApp, routers: Iterable[APIRouter], refuse: Callable[[Request, Exception], Response | None]
    ) -> None:
        """Take the routes; ``refuse`` gives the answer to an error, or None for one that the server does not expect."""
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


def _json_routes(routers: Iterable[APIRouter]) -> Iterable[tuple[str, tuple[TypeAdapter[Any], _Endpoint]]]:
    """The routes whose endpoints take a body and the request, and no parameter from the path."""
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.methods == {"POST"}:
                taken = inspect.signature(route.endpoint, eval_str=True).parameters
                if set(taken) == {"body", "request"}:
                    body: Any = taken["body"].annotation
                    yield route.path, (TypeAdapter(body), route.endpoint)


def _says_json(scope: Scope) -> bool:
    given = next((value for name, value in scope["headers"] if name == b"content-type"), b"")
    return given.partition(b";")[0].strip().lower() == b"application/json"
