"""The web page's own routes: its files, the state that it starts with, and the data that only the page asks for."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import Field, StrictInt

import bertfeat
from bertfeat.core import FeatureSet, Pooling
from bertfeat.errors import NotDerivableError, UsageError
from bertfeat.plots import METHOD_NAMES
from bertfeat.search import Index, IndexSettings, Origin
from bertfeat.server.answers import Form, index_headers, json_response
from bertfeat.server.background import Background
from bertfeat.server.own import find_folder
from bertfeat.server.page_assets import HOME, page_assets
from bertfeat.server.page_facets import Facet, PointColors, can_color, color_points, read_facets
from bertfeat.server.page_map import IndexMap, map_methods
from bertfeat.server.problems import Kind, Problem
from bertfeat.server.service import Service
from bertfeat.server.wanted import Body, documents_of

_MOST_DOCUMENTS = 200  # of one request
_MOST_EXPLAINED = 50  # hits of one request
_LONGEST_EXPLAINED = 20_000  # characters of a text whose words are shaded
_MOST_TEXT = 2000  # characters of a text that are sent
_AROUND = 300  # characters of it before a token, word or span that is far from its beginning
_MOST_READ = 20  # documents that are read at once
_LONGEST_READ = 20_000  # characters of a text that is read
_DIGITS = 18  # of a number at most, so that it fits into an int64


class WhyBody(Body):
    """The numbers of hits that are on the screen, and the query that found them."""

    query: str
    numbers: Annotated[list[Annotated[StrictInt, Field(ge=0)]], Field(max_length=_MOST_EXPLAINED)]


def page_routes(service: Service) -> APIRouter:
    """The router of the page. Facets and map are computed only once the page is opened, not for the API alone."""
    router = APIRouter(include_in_schema=False)
    data = _PageData(service)
    service.on_change.append(data.forget)

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
    async def places(layout: str = "pca") -> Response:
        of_index = data.of_index()
        found = of_index.map.layout(layout).value()
        if found is None:
            return _computing()
        shares = ",".join(f"{share:.6f}" for share in found.shares or ())
        headers = {"X-Points": str(len(found.flat)), "X-Of": str(len(of_index.index)), "X-Shares": shares}
        headers |= index_headers(of_index.index.settings)
        return Response(found.to_bytes(), 200, headers, Form.FLOAT32.value)

    @router.get("/page/clusters")
    async def clusters(layout: str = "pca") -> Response:
        of_index = data.of_index()
        found = of_index.map.clusters(layout).value()
        return _computing() if found is None else _of_index(of_index, found.to_json())

    @router.get("/page/colors")
    async def colors(column: str) -> Response:
        of_index = data.of_index()
        found = await service.run(lambda: _colors(of_index, column))
        return _computing() if found is None else _of_index(of_index, found.to_json())

    @router.get("/page/documents")
    async def documents(numbers: str | None = None, rows: str | None = None, layout: str = "pca") -> Response:
        if (numbers is None) == (rows is None):
            raise Problem(Kind.WRONG_VALUE, "documents are asked for by numbers or by rows")
        given = _whole_numbers(numbers if rows is None else rows)
        of_index = data.of_index()
        found = await service.run(lambda: _documents(of_index, given, layout, by_row=rows is not None))
        return _of_index(of_index, {"documents": found})

    @router.get("/page/reading")
    async def reading(features: str, start: int, stop: int) -> Response:
        if not 0 <= start < stop <= start + _MOST_READ:
            raise Problem(Kind.WRONG_VALUE, f"texts are read from a start to a stop, at most {_MOST_READ} of them")
        return json_response(
            {
                "documents": await service.run(
                    lambda: _read_texts(find_folder(service.followed_features, features, "features"), start, stop)
                )
            }
        )

    @router.post("/page/why")
    async def why(body: WhyBody, request: Request) -> Response:
        documents_of([body.query], param="query")
        await service.check_size([body.query])
        of_index = data.of_index()
        found = await service.run(lambda: _explain_on_screen(of_index.index, body), request=request)
        return _of_index(of_index, found)

    @router.get("/page/{name}")
    async def asset(name: str, request: Request) -> Response:
        if name not in page_assets():
            raise Problem(Kind.NOT_FOUND, "the page has no such file")
        return page_assets()[name].response(request)

    return router


def _of_index(data: "_IndexData", found: object) -> Response:
    """An answer about an index, with its version: numbers of vectors are of that one."""
    return json_response(found, index_headers(data.index.settings))


def _computing() -> Response:
    return json_response({"state": "computing"}, {"Retry-After": "1"}, status=202)


class _IndexData:
    """The data that the page shows of one version of an index."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.facets = Background(lambda: read_facets(index), "bertfeat-facets")
        self.map = IndexMap(index)

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The row of each document in its corpus."""
        return self.index.vectors.documents.numbers("row")


class _PageData:
    """The data that the page shows of a service."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._of_index: _IndexData | None = None

    def of_index(self) -> _IndexData:
        """The data of the index that is open now."""
        index, data = self._service.index, self._of_index
        if index is None:
            raise Problem(Kind.NOT_FOUND, "this server was started without an index")
        if data is None or data.index is not index:
            self._of_index = data = _IndexData(index)
        return data

    def state(self) -> dict[str, object]:
        """Return the state that the page starts with."""
        data = None if self._service.index is None else self.of_index()
        if data is not None and data.facets.value() is not None:
            data.map.points.start()
        return _describe_service(self._service, data)

    def forget(self) -> None:
        """Let go of what was computed of an index that is not open any more."""
        self._of_index = None


def _colors(data: _IndexData, column: str) -> PointColors | None:
    """The colors of the map by a kept column, or None while map or facets are computed."""
    facets, points = data.facets.value(), data.map.points.value()
    if facets is None or points is None:
        return None
    found = next((facet for facet in facets if facet.name == column), None)
    if found is None:
        kept = ", ".join(facet.name for facet in facets) or "none"
        raise Problem(Kind.WRONG_VALUE, f"the index keeps no column {column!r}; its kept columns: {kept}", "column")
    if not can_color(found):
        raise Problem(Kind.WRONG_VALUE, f"{column!r} has too many different values, or none", "column")
    return color_points(data.index, points.numbers, found)


def _documents(data: _IndexData, given: list[int], method: str, *, by_row: bool) -> list[dict[str, object]]:
    """Documents by the numbers of their vectors, or by their rows, with their place on the map once it is there."""
    index = data.index
    numbers = _numbers_of_rows(data, given) if by_row else np.array(given, np.int64)
    _check_numbers(index, numbers)
    if not len(numbers):
        return []
    layout = data.map.layout(method).value()
    places = () if layout is None else [*map(layout.place, numbers.tolist(), index.reconstruct(numbers))]
    table = index.vectors.documents.take(index.vectors.document_numbers(numbers))
    store = index.vectors.pieces
    pieces = None if store is None else store.take(numbers).to_pylist()
    found = []
    for at, (number, document) in enumerate(zip(numbers.tolist(), table.to_pylist(), strict=True)):
        texts = {name: document[name] for name in ("text", "pair") if document.get(name) is not None}
        shown = {"id": document["id"], "row": document["row"]}
        shown |= _shown_texts(texts, None if pieces is None else pieces[at])
        place = dict(zip("xy", places[at], strict=True)) if places else {}
        found.append({"number": number, **shown, "values": {key: document[key] for key in index.kept}, **place})
    return found


def _explain_on_screen(index: Index, asked: WhyBody) -> dict[str, object]:
    """The words of the query, and for each hit those of its text and the shares of all pairs; or why there are none.

    A long text has none here: to embed it again takes seconds.
    """
    numbers = np.array(asked.numbers, np.int64)
    _check_numbers(index, numbers)
    stored = index.vectors.documents.take(index.vectors.document_numbers(numbers)).to_pylist()
    short = [at for at, each in enumerate(stored) if len(each.get("text") or "") <= _LONGEST_EXPLAINED]
    try:
        whys = index.explain(asked.query, numbers[short].tolist())
    except UsageError as error:
        return {"query": [], "hits": [], "problem": error.problem}
    hits: list[dict[str, object]] = [{"words": [], "shares": []} for _ in stored]
    query: list[tuple[int, int]] = []
    for place, why in zip(short, whys, strict=True):
        rows, columns = (
            [
                at
                for at, word in enumerate(side)
                if word.origin is Origin.TEXT and word.start < _MOST_TEXT and any(map(str.isalnum, word.string))
            ]
            for side in (why.query, why.words)
        )
        query = [(why.query[at].start, why.query[at].end) for at in rows]
        words = [(why.words[at].start, why.words[at].end) for at in columns]
        hits[place] = {"words": words, "shares": np.round(why.shares[np.ix_(rows, columns)], 6).tolist()}
    return {"query": query, "hits": hits}


def _check_numbers(index: Index, numbers: NDArray[np.int64]) -> None:
    wrong = numbers[(numbers < 0) | (numbers >= index.settings.count)]
    if len(wrong):
        raise Problem(Kind.WRONG_VALUE, f"there is no vector {wrong[0]}", "numbers")


def _numbers_of_rows(data: _IndexData, rows: list[int]) -> NDArray[np.int64]:
    """The numbers of the documents of corpus rows, at most 200; with several sets, a row may have several."""
    settings = data.index.settings
    if not settings.per_document:
        raise Problem(Kind.WRONG_VALUE, f"this index has {settings.unit}s, which have no rows of their own", "rows")
    return np.flatnonzero(np.isin(data.rows, rows))[:_MOST_DOCUMENTS]


def _read_texts(features: FeatureSet, start: int, stop: int) -> list[dict[str, object]]:
    """The documents of some rows of a feature set, whole unless they are very long."""
    kept = [column.name for column in features.kept]
    own = [name for name in ("row", "id", "text", "pair") if name in features.names]
    return [
        {name: _cut(document[name], _LONGEST_READ) for name in own}
        | {"values": {name: document[name] for name in kept}}
        for batch in features.stream([*own, *kept], start=start, stop=stop)
        for document in batch.to_pylist()
    ]


def _whole_numbers(text: str | None) -> list[int]:
    parts = (text or "").split(",") if text else []
    if len(parts) > _MOST_DOCUMENTS:
        raise Problem(Kind.WRONG_VALUE, f"at most {_MOST_DOCUMENTS} documents can be asked for at once")
    if not all(part.isascii() and part.isdigit() and len(part) <= _DIGITS for part in parts):
        raise Problem(Kind.WRONG_VALUE, "numbers of documents are whole, with commas between them")
    return [int(part) for part in parts]


def _shown_texts(texts: Mapping[str, str], place: Mapping[str, int] | None) -> dict[str, object]:
    """The texts of a document, cut; or, of a token, word or span, what is around it, from character ``from`` on."""
    shown: dict[str, object] = {name: _cut(text) for name, text in texts.items()}
    if place is None:
        return shown
    start, end, name = place["start"], place["end"], "pair" if place["segment"] == 1 else "text"
    shown |= {"start": start, "end": end, "in_pair": name == "pair"}
    first = start - _AROUND
    if name in texts and first > 0 and end >= _MOST_TEXT:
        shown |= {name: _cut(f"…{texts[name][first:]}"), "from": first - 1}
    return shown


def _cut(value: object, most: int = _MOST_TEXT) -> object:
    return f"{value[: most - 1]}…" if isinstance(value, str) and len(value) > most else value


def _describe_service(service: Service, data: _IndexData | None) -> dict[str, object]:
    """Describe a service as JSON values; ``data`` are those of its index, if it has one."""
    extractor = service.models[0].extractor
    sets = (_describe_words(features) for features in service.features)
    return {
        "version": bertfeat.__version__,
        "model": {
            "name": extractor.model.name,
            "fingerprint": extractor.model.fingerprint,
            "layers": extractor.model.num_layers,
            "hidden_size": extractor.model.hidden_size,
        },
        "precision": extractor.precision.value,
        "index": None if data is None else _index_state(data.index, data.facets.value()),
        "features": [each for each in sets if each is not None],
        "tagger": service.tagger is not None,
    }


def _index_state(index: Index, facets: Sequence[Facet] | None) -> dict[str, object]:
    """An index: its size and kind, the recall that was measured, and its kept columns."""
    settings = index.settings
    return {
        "name": index.vectors.folder.name,
        "version": settings.version,
        "made": settings.made,
        "documents": settings.documents,
        "vectors": len(index),
        "unit": settings.unit,
        "per_text": settings.per_text,
        "marks_words": settings.marks_words,
        "column": settings.contents,
        "metric": settings.metric.value,
        "type": settings.type,
        "factory": settings.factory,
        "has_text": settings.has_text,
        "recall": _describe_recall(settings),
        "facets": None if facets is None else [facet.to_json() for facet in facets],
        "layouts": [{"name": name, "title": METHOD_NAMES[name]} for name in map_methods(index)],
    }


def _describe_recall(settings: IndexSettings) -> dict[str, object] | None:
    measured = settings.evaluation
    if measured is None:
        return None
    return {
        "at": dict(measured.recall),
        "of": measured.of,
        "own": measured.own,
        "queries": measured.queries,
        "queries_per_second": measured.queries_per_second,
        "exact_queries_per_second": measured.exact_queries_per_second,
        "threads": measured.threads,
        "changed_since": settings.changed_since_evaluation,
    }


def _describe_words(features: FeatureSet) -> dict[str, object] | None:
    """Describe a feature set: its columns, and the single layers in them; None if no words can be looked up in it."""
    stored = [column for column in features.columns if not column.pooling.per_document]
    if not stored or "text" not in features.names:
        return None
    pooling = Pooling.WORD if any(column.pooling is Pooling.WORD for column in stored) else Pooling.TOKEN
    return {
        "name": features.folder.name,
        "documents": len(features),
        "rows": features.entries[-1].last_row,
        "unit": pooling.unit.value,
        "columns": [column.name for column in stored if column.pooling is pooling],
        "layers": _single_layers(features, pooling),
        "kept": [{"name": column.name, "kind": column.type} for column in features.kept],
    }


def _single_layers(features: FeatureSet, pooling: Pooling) -> list[dict[str, object]]:
    stored = {column.recipe: column.name for column in features.columns if column.pooling is pooling}
    layers: list[dict[str, object]] = []
    for layer in range(features.header.model.num_layers + 1):
        try:
            found = features.find(str(layer), pooling)
        except NotDerivableError:
            continue
        layers.append({"layer": layer, "column": stored.get(found.recipe, found.name)})
    return layers
