"""A stand-in for Qdrant's server: its HTTP interface as far as an export asks it, over qdrant-client's in-memory mode.

What is stored and found is qdrant-client's own work; what is invented here are the faults, the key and the states.
"""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType
from typing import Any, Self

from qdrant_client import QdrantClient, models


class QdrantServer:
    """Serves collections of its own as long as the ``with`` block lasts."""

    def __init__(self, *, api_key: str | None = None) -> None:
        self.api_key = api_key
        self.local = QdrantClient(":memory:")
        self.requests: list[str] = []  # "PUT /collections/x/points", those that were harmed too
        self.faults: deque[int | str] = deque()  # of the next requests for points: a status, or "drop" after the work
        self.states: deque[str] = deque()  # of the collection, one for each time that it is asked for
        self.keeps_metadata = True
        self.needed_ef = 0  # a search with less finds the farthest points
        self.is_qdrant = True

    def __enter__(self) -> Self:
        self._http = HTTPServer(("127.0.0.1", 0), _Handler)
        self._http.qdrant = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        self.local.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def answer(self, method: str, path: str, body: Any) -> Any:
        """The result of a request, as JSON has it."""
        match (method, path.strip("/").split("/")):
            case ("GET", [""]):
                return {"title": "qdrant - vector search engine", "version": "1.20.0"}
            case ("GET", ["collections", name, "exists"]):
                return {"exists": self.local.collection_exists(name)}
            case ("PUT", ["collections", name]):
                return self.local.create_collection(name, models.VectorParams(**body["vectors"]))
            case ("DELETE", ["collections", name]):
                return self.local.delete_collection(name)
            case ("PATCH", ["collections", name]):
                return not self.keeps_metadata or self.local.update_collection(name, metadata=body["metadata"])
            case ("GET", ["collections", name]):
                info = self.local.get_collection(name).model_dump(mode="json")
                info["status"] = self.states.popleft() if self.states else "green"
                return info
            case ("PUT", ["collections", name, "points"]):
                self.local.upsert(name, models.Batch(**body["batch"]))
                return {"operation_id": 0, "status": "completed"}
            case ("POST", ["collections", name, "points", "count"]):
                return {"count": self.local.count(name, exact=body["exact"]).count}
            case ("POST", ["collections", name, "points", "query", "batch"]):
                return [self._search(name, search) for search in body["searches"]]
        raise LookupError(path)

    def _search(self, name: str, search: Any) -> Any:
        assert search["params"]["exact"] is False
        near = (search["params"].get("hnsw_ef") or 0) >= self.needed_ef
        nearest = search["query"]["nearest"]
        query = nearest if near else [-value for value in nearest]
        found = self.local.query_points(name, query, limit=search["limit"], with_payload=search["with_payload"])
        return found.model_dump(mode="json")


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Say nothing."""

    def _serve(self) -> None:
        server: QdrantServer = self.server.qdrant  # type: ignore[attr-defined]
        path = self.path.partition("?")[0]
        content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server.requests.append(f"{self.command} {path}")
        fault = server.faults.popleft() if "/points" in path and server.faults else None
        if server.api_key is not None and self.headers.get("api-key") != server.api_key:
            return self._send(401, b"Must provide an API key or an Authorization bearer token")
        if not server.is_qdrant:
            return self._send(200, b"<html>It works!</html>")
        if isinstance(fault, int):
            return self._send(fault, json.dumps({"status": {"error": "try later"}}).encode())
        try:
            result = server.answer(self.command, path, json.loads(content) if content else None)
        except (LookupError, ValueError) as error:
            return self._send(400, json.dumps({"status": {"error": str(error)}}).encode())
        if fault == "drop":
            return None  # the connection ends without an answer
        whole = result if path == "/" else {"result": result, "status": "ok", "time": 0.0}
        return self._send(200, json.dumps(whole).encode())

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

    def _send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if status == 429:
            self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(content)
