"""The page's own routes: its files, and the data that nothing but the page asks for."""

from functools import cached_property
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import Field

from bertfeat.search import Index
from bertfeat.server.answers import Form, json_response
from bertfeat.server.highlights import Highlight, highlight_texts
from bertfeat.server.page_assets import HOME, page_assets
from bertfeat.server.page_colors import PointColors, can_color, color_points
from bertfeat.server.page_facets import Facet, read_facets
from bertfeat.server.page_map import Background, MapLayout, lay_out_index
from bertfeat.server.page_state import describe_service
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.service import Service
from bertfeat.server.wanted import Body, documents_of

MOST_DOCUMENTS = 200
"""Documents of one request."""

MOST_HIGHLIGHTED = 50
"""Hits of one request for highlights."""

_MOST_TEXT = 2000  # characters of a text that are sent
_DIGITS = 18  # of a number


class HighlightsBody(Body):
    """The numbers of hits that are on the screen, and the query that found them."""

    query: str
    numbers: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=MOST_HIGHLIGHTED)]


def page_routes(service: Service) -> APIRouter:
    """The routes. Facets and map are computed when the page is opened first: a server of an API alone has neither."""
    router = APIRouter(include_in_schema=False)
    data = _PageData(service)

    @router.get("/")
    async def home(request: Request) -> Response:
        path = request.scope.get("raw_path", b"/").partition(b"?")[0].decode("latin-1")
        if not path.endswith("/"):  # addresses in the page are relative
            return Response(status_code=307, headers={"Location": f"{path.rpartition('/')[2]}/"})
        return page_assets()[HOME].response(request)

    @router.get("/page/state")
    async def state() -> Response:
        return json_response(await service.run(data.state), {"Cache-Control": "no-store"})

    @router.get("/page/map")
    async def layout() -> Response:
        of = len(data.index)
        found = data.layout()
        if found is None:
            return _computing()
        shares = ",".join(f"{share:.6f}" for share in found.plane.shares)
        headers = {"X-Points": str(len(found.numbers)), "X-Of": str(of), "X-Shares": shares}
        return Response(found.to_bytes(), 200, headers, Form.FLOAT32.value)

    @router.get("/page/colors")
    async def colors(column: str) -> Response:
        found = await service.run(lambda: data.colors(column))
        return _computing() if found is None else json_response(found.to_json())

    @router.get("/page/documents")
    async def documents(numbers: str | None = None, rows: str | None = None) -> Response:
        if (numbers is None) == (rows is None):
            raise Problem(Kind.WRONG_VALUE, "documents are asked for by numbers or by rows")
        given = _whole_numbers(numbers if rows is None else rows)
        return json_response({"documents": await service.run(lambda: data.documents(given, by_row=rows is not None))})

    @router.post("/page/highlights")
    async def highlights(body: HighlightsBody, request: Request) -> Response:
        documents_of([body.query], param="query")
        await service.check_size([body.query])
        found = await service.run(lambda: data.highlights(body), request=request)
        return json_response({"highlights": found})

    @router.get("/page/{name}")
    async def asset(name: str, request: Request) -> Response:
        if name not in page_assets():
            raise Problem(Kind.NOT_FOUND, "the page has no such file")
        return page_assets()[name].response(request)

    return router


def _computing() -> Response:
    return json_response({"state": "computing"}, {"Retry-After": "1"}, status=202)


class _PageData:
    """The data that the page shows of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    @property
    def index(self) -> Index:
        if self._service.index is None:
            raise Problem(Kind.NOT_FOUND, "this server was started without an index")
        return self._service.index

    @cached_property
    def _facets(self) -> Background[tuple[Facet, ...]]:
        return Background(lambda: read_facets(self.index), "bertfeat-facets")

    @cached_property
    def _layout(self) -> Background[MapLayout]:
        return Background(lambda: lay_out_index(self.index), "bertfeat-map")

    @cached_property
    def _rows(self) -> NDArray[np.int64]:
        """The row of each document in its corpus."""
        return self.index.vectors.documents.numbers("row")

    def layout(self) -> MapLayout | None:
        """The map, or None while it is computed."""
        return self._layout.value()

    def state(self) -> dict[str, object]:
        """Return the state that the page starts with."""
        facets = None
        if self._service.index is not None:
            facets = self._facets.value()
            if facets is not None:
                self._layout.start()
        return describe_service(self._service, facets)

    def colors(self, column: str) -> PointColors | None:
        """The colors of the map by a kept column, or None while map or facets are computed."""
        index = self.index
        facets, layout = self._facets.value(), self._layout.value()
        if facets is None or layout is None:
            return None
        found = next((facet for facet in facets if facet.name == column), None)
        if found is None:
            kept = ", ".join(facet.name for facet in facets) or "none"
            raise Problem(Kind.WRONG_VALUE, f"the index keeps no column {column!r}; its kept columns: {kept}", "column")
        if not can_color(found):
            raise Problem(Kind.WRONG_VALUE, f"{column!r} has too many different values, or none", "column")
        return color_points(index, layout, found)

    def documents(self, given: list[int], *, by_row: bool) -> list[dict[str, object]]:
        """Documents by the numbers of their vectors, or by their rows, with their place on the map once it is there."""
        index = self.index
        numbers = self._of_rows(given) if by_row else np.array(given, np.int64)
        self._check_numbers(numbers)
        if not len(numbers):
            return []
        layout = self._layout.value()
        places = None if layout is None else layout.plane.place(index.reconstruct(numbers)).tolist()
        table = index.vectors.documents.take(index.vectors.document_numbers(numbers))
        found = []
        for at, (number, document) in enumerate(zip(numbers.tolist(), table.to_pylist(), strict=True)):
            shown = {key: _cut(document[key]) for key in ("id", "row", "text", "pair") if document.get(key) is not None}
            place = {} if places is None else {"x": places[at][0], "y": places[at][1]}
            found.append({"number": number, **shown, "values": {key: document[key] for key in index.kept}, **place})
        if index.vectors.pieces is not None:  # the word or token of each vector
            for each, piece in zip(found, index.vectors.pieces.take(numbers).to_pylist(), strict=True):
                each |= {"start": piece["start"], "end": piece["end"], "in_pair": piece["segment"] == 1}
        return found

    def highlights(self, asked: HighlightsBody) -> list[list[Highlight]]:
        """For each hit the words of its text that match the query best; none without a set that has them."""
        index, numbers = self.index, np.array(asked.numbers, np.int64)
        self._check_numbers(numbers)
        stored = index.vectors.documents.take(index.vectors.document_numbers(numbers)).to_pylist()
        rows, texts = [each["row"] for each in stored], [each.get("text") for each in stored]
        return highlight_texts(self._service, asked.query, rows, texts)

    def _check_numbers(self, numbers: NDArray[np.int64]) -> None:
        wrong = numbers[(numbers < 0) | (numbers >= self.index.settings.count)]
        if len(wrong):
            raise Problem(Kind.WRONG_VALUE, f"there is no vector {wrong[0]}", "numbers")

    def _of_rows(self, rows: list[int]) -> NDArray[np.int64]:
        """The numbers of the documents of rows; in an index of several sets, a row may have several."""
        if not self.index.settings.per_document:
            raise Problem(Kind.WRONG_VALUE, "this index has words, which have no rows of their own", "rows")
        return np.flatnonzero(np.isin(self._rows, rows))[:MOST_DOCUMENTS]


def _whole_numbers(text: str | None) -> list[int]:
    parts = (text or "").split(",") if text else []
    if len(parts) > MOST_DOCUMENTS:
        raise Problem(Kind.WRONG_VALUE, f"at most {MOST_DOCUMENTS} documents can be asked for at once")
    if not all(part.isascii() and part.isdigit() and len(part) <= _DIGITS for part in parts):
        raise Problem(Kind.WRONG_VALUE, "numbers of documents are whole, with commas between them")
    return [int(part) for part in parts]


def _cut(value: object) -> object:
    return f"{value[: _MOST_TEXT - 1]}…" if isinstance(value, str) and len(value) > _MOST_TEXT else value
