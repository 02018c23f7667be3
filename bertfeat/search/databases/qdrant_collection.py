"""A collection of Qdrant, on a server or in a folder: filled, resumed, searched. Only this module imports Qdrant.

A collection's metadata say which feature column is being loaded, and at the end that it is complete. The ids of points
are made of their contents, so the ids that are there say which points are missing.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from bertfeat.errors import DatabaseError, UsageError, parameter, shorten
from bertfeat.search.databases.database_rows import (
    DatabaseRows,
    RowBlock,
    RowChange,
    number_keys,
    refuse_foreign_keys,
)
from bertfeat.search.vectors.faiss_search import EMPTY

PATIENCE = 120.0  # seconds during which a request is repeated after temporary faults
_MOST_PAUSE = 15.0  # seconds between two tries
_POLL_SECONDS = 1.0
_ANSWER_SECONDS = 60  # to wait for one answer
_IDS_AT_ONCE = 10_000
_BATCH_POINTS = 256  # the most that Qdrant's documentation recommends
_BATCH_BYTES = 8 << 20  # of JSON; a server takes 32 MiB
_VALUE_BYTES = 20  # of a number in JSON
_QUERIES_AT_ONCE = 20
_PASSING = frozenset({408, 429, 500, 502, 503, 504})  # HTTP status codes of temporary faults
_MARK = "bertfeat"  # our key in a collection's metadata

T = TypeVar("T")


class QdrantCollection:
    """A collection, to be filled with the rows of a feature column."""

    trials: Sequence[Mapping[str, int]] = ({"hnsw_ef": 256}, {"hnsw_ef": 1024})
    rebuild = "load it into a collection that was created with larger m and ef_construct"

    def __init__(self, client: QdrantClient, place: str, name: str, *, remote: bool) -> None:
        self.where = f"{place}, collection {shorten(name)!r}"
        if name in ("", ".", ".."):  # in local mode the collection would be in another folder than its own
            raise UsageError("no collection can have this name", where=self.where, remedy="name another one")
        self._client, self._name, self._remote = client, name, remote
        self._rows: DatabaseRows

    def begin(self, rows: DatabaseRows, *, update: bool, overwrite: bool) -> pa.Array:
        """See :class:`VectorDatabase`."""
        self._rows = rows
        exists = self._ask(lambda: self._client.collection_exists(self._name), patience=0)
        if exists and overwrite:
            self._ask(lambda: self._client.delete_collection(self._name), patience=0)
        present = pa.array([], pa.string())
        if exists and not overwrite:
            present = self._present_keys(update=update)
        else:
            size = models.VectorParams(size=rows.width, distance=models.Distance.COSINE)
            self._ask(lambda: self._client.create_collection(self._name, vectors_config=size), patience=0)
        self._mark("loading")
        if self._recorded() is None:
            raise DatabaseError(
                "this Qdrant keeps no metadata of collections, by which an interrupted export is known",
                where=self.where,
                remedy="update it to version 1.16 or later",
            )
        return present

    def load(self, blocks: Iterator[RowBlock], change: RowChange) -> None:
        """Store the points of all blocks, and then delete those that are gone."""
        for block in blocks:
            for start, stop in _batches(block):
                self._ask(partial(self._client.upsert, self._name, _points(block, start, stop), wait=True))
        for start in range(0, len(change.gone), _IDS_AT_ONCE):
            listed = models.PointIdsList(points=change.gone[start : start + _IDS_AT_ONCE].to_pylist())
            self._ask(partial(self._client.delete, self._name, listed, wait=True))

    def count(self) -> int:
        """Count the points in the collection."""
        count: int = self._ask(lambda: self._client.count(self._name, exact=True)).count
        return count

    def finish(self, done: Callable[[int], None]) -> str:
        """Wait until Qdrant has finished indexing, and record that the collection is complete."""
        info, quiet = self._info(), 0
        while self._remote and quiet < 2:  # the status is green for a moment between the last point and the indexing
            done(info.indexed_vectors_count or 0)
            if info.status is models.CollectionStatus.RED:
                raise DatabaseError(f"its optimizer failed: {info.optimizer_status}", where=self.where)
            quiet = quiet + 1 if info.status is models.CollectionStatus.GREEN else 0
            time.sleep(_POLL_SECONDS)
            info = self._info()
        self._mark("complete")
        if not self._remote:
            return "no index: local mode scans, search is exact"
        hnsw, indexed = info.config.hnsw_config, info.indexed_vectors_count or 0
        return f"HNSW, cosine, m {hnsw.m}, ef_construct {hnsw.ef_construct}, {indexed:,} vectors indexed"

    def search(self, queries: NDArray[np.float32], k: int, parameters: Mapping[str, int]) -> NDArray[np.int64]:
        """See :class:`VectorDatabase`."""
        chosen = models.SearchParams(exact=False, hnsw_ef=parameters.get("hnsw_ef"))
        found = np.full((len(queries), k), EMPTY, np.int64)
        for start in range(0, len(queries), _QUERIES_AT_ONCE):
            asked = [
                models.QueryRequest(query=query.tolist(), limit=k, params=chosen, with_payload=False)
                for query in queries[start : start + _QUERIES_AT_ONCE]
            ]
            answers = self._ask(partial(self._client.query_batch_points, self._name, asked))
            for at, answer in enumerate(answers, start):
                found[at, : len(answer.points)] = number_keys(str(point.id) for point in answer.points)
        return found

    def _present_keys(self, *, update: bool) -> pa.Array:
        """The ids of the points of a collection that is to be filled, updated or resumed; refuses other contents."""
        theirs = _described(self._info().config.params.vectors)
        ours = _described(models.VectorParams(size=self._rows.width, distance=models.Distance.COSINE))
        if theirs != ours:
            raise DatabaseError(
                f"it is for other vectors ({theirs}) than these ({ours})",
                where=self.where,
                remedy=f"name another collection or replace it ({parameter('overwrite', True)})",
            )
        present, recorded = self.count(), self._recorded()
        if present and update:
            self._rows.refuse_others(recorded, self.where)
        elif present and recorded != {**self._rows.origin, "state": "loading"}:
            raise DatabaseError(
                f"it has {present:,} points, which no interrupted export of these features left",
                where=self.where,
                remedy=f"bring it up to date ({parameter('update', True)}), replace it "
                f"({parameter('overwrite', True)}), or name another collection",
            )
        keys = pa.array((str(point.id) for point in self._scrolled()) if present else [], pa.string())
        refuse_foreign_keys(keys, self.where)
        return keys

    def _scrolled(self) -> Iterator[models.Record]:
        """All points of the collection, without their payloads and vectors."""
        scroll = partial(self._client.scroll, self._name, limit=_IDS_AT_ONCE, with_payload=False, with_vectors=False)
        points, rest = self._ask(scroll)
        yield from points
        while rest is not None:
            points, rest = self._ask(partial(scroll, offset=rest))
            yield from points

    def _info(self) -> models.CollectionInfo:
        return self._ask(lambda: self._client.get_collection(self._name))

    def _recorded(self) -> object:
        return (self._info().config.metadata or {}).get(_MARK)

    def _mark(self, state: str) -> None:
        mark = {_MARK: {**self._rows.origin, "state": state}}
        self._ask(lambda: self._client.update_collection(self._name, metadata=mark))

    def _ask(self, request: Callable[[], T], *, patience: float | None = None) -> T:
        return _ask_qdrant(request, self.where, PATIENCE if patience is None else patience)


@contextmanager
def open_qdrant(url: str | None, folder: Path | None, api_key: str | None) -> Iterator[QdrantClient]:
    """Connect to a server, or open a folder of Qdrant's local mode."""
    if folder is not None:
        _refuse_other_folder(folder)
        client = _ask_qdrant(lambda: QdrantClient(path=str(folder)), folder, 0.0)
    else:
        try:
            client = QdrantClient(url=url, api_key=api_key, timeout=_ANSWER_SECONDS, check_compatibility=False)
        except ValueError as error:
            remedy = "an address is written http://localhost:6333"
            raise UsageError(f"this is no address of a server: {error}", where=url, remedy=remedy) from error
        _ask_qdrant(client.info, url, 0.0)
    try:
        yield client
    finally:
        client.close()


def _refuse_other_folder(folder: Path) -> None:
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise DatabaseError(f"it is no folder: {error.strerror}", where=folder) from error
    if names and "meta.json" not in names:
        raise DatabaseError(
            f"{min(names)!r} is in it, and it is no folder of Qdrant's local mode",
            where=folder,
            remedy="name another folder",
        )


def _ask_qdrant(request: Callable[[], T], where: object, patience: float) -> T:
    """The answer to a request, which is repeated after temporary faults for at most ``patience`` seconds."""
    start, pause = time.monotonic(), 0.25
    while True:
        try:
            return request()
        except (ApiException, QdrantException, ValueError, RuntimeError, OSError, sqlite3.Error) as error:
            left = start + patience - time.monotonic()
            if left <= 0 or not _is_passing_fault(error):
                raise _as_database_error(error, where) from error
            wait = error.retry_after_s if isinstance(error, ResourceExhaustedResponse) else pause
        time.sleep(min(left, max(wait, pause)))
        pause = min(2 * pause, _MOST_PAUSE)


def _is_passing_fault(error: Exception) -> bool:
    if isinstance(error, UnexpectedResponse):
        return error.status_code in _PASSING
    if isinstance(error, ResponseHandlingException):
        return isinstance(error.source, httpx.TransportError)
    return isinstance(error, ResourceExhaustedResponse)


def _as_database_error(error: Exception, where: object) -> DatabaseError:
    if isinstance(error, UnexpectedResponse):
        remedy = "set the key in QDRANT_API_KEY" if error.status_code in (401, 403) else ""
        return DatabaseError(f"Qdrant refuses: {_told(error)}", where=where, remedy=remedy)
    if isinstance(error, ResponseHandlingException) and isinstance(error.source, httpx.TransportError):
        problem = f"no answer: {str(error.source) or type(error.source).__name__}"
        return DatabaseError(problem, where=where, remedy="start the server or correct its address")
    if isinstance(error, ResponseHandlingException | json.JSONDecodeError):
        return DatabaseError("what answers there is no Qdrant", where=where, remedy="correct the address")
    return DatabaseError(str(error).partition("\n")[0], where=where)


def _told(error: UnexpectedResponse) -> str:
    """Return the server's message about an error, with the status code."""
    try:
        said = json.loads(error.content)["status"]["error"]
    except (ValueError, KeyError, TypeError):
        said = error.content.decode("utf-8", "replace").strip() or error.reason_phrase
    return f"{shorten(said)} ({error.status_code})"


def _described(vectors: object) -> str:
    if isinstance(vectors, models.VectorParams):
        return f"{vectors.size} values, {vectors.distance}"
    return "named or none"


def _batches(block: RowBlock) -> Iterator[tuple[int, int]]:
    """Divide the rows of a block into requests; yields the start and end of each."""
    sizes = np.full(len(block.vectors), block.vectors.shape[1] * _VALUE_BYTES, np.int64)
    for column in block.columns.columns:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy()
    ends, start = np.cumsum(sizes), 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        stop = int(np.searchsorted(ends, before + _BATCH_BYTES, side="right"))
        stop = min(max(stop, start + 1), start + _BATCH_POINTS)
        yield start, stop
        start = stop


def _points(block: RowBlock, start: int, stop: int) -> models.Batch:
    rows = block.columns.slice(start, stop - start)
    payloads = [{name: _json_form(value) for name, value in row.items()} for row in rows.to_pylist()]
    keys = block.keys[start:stop].to_pylist()
    return models.Batch(ids=keys, vectors=block.vectors[start:stop].tolist(), payloads=payloads)


def _json_form(value: object) -> object:
    """A value as JSON has it: no NaN and no infinite numbers."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
