"""``export_to_qdrant``, into folders and over HTTP; qdrant-client itself and NumPy read what was loaded.

The server is a stand-in (tests/support/qdrant_server.py): no test meets Qdrant's own server and its index.
"""

import json
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from qdrant_client import QdrantClient, models

from bertfeat.core.corpus import KeptColumn
from bertfeat.errors import DatabaseError, UsageError
from bertfeat.progress import StepProgress
from bertfeat.search import export_to_qdrant
from bertfeat.search.databases import qdrant_collection
from bertfeat.search.databases.database_rows import RowBlock
from bertfeat.search.databases.qdrant_collection import _batches
from tests.support.features_toy import KEPT, toy_parts, toy_set
from tests.support.index_toy import clustered, files_of, vector_set
from tests.support.qdrant_server import QdrantServer

NAMES = [str(row + 1) for row in range(100)]  # the ids of the documents of ``folder``


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small requests, no patience, and no waiting."""
    monkeypatch.setattr(qdrant_collection, "_BATCH_POINTS", 16)
    monkeypatch.setattr(qdrant_collection, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(qdrant_collection, "PATIENCE", 5.0)
    monkeypatch.setattr("bertfeat.search.databases.qdrant_collection.time.sleep", lambda _: None)


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return vector_set(tmp_path / "books.features", clustered(100), parts=1)


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(vectors / np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32)


def records(client: QdrantClient, name: str) -> list[models.Record]:
    found: list[models.Record]
    found, rest = client.scroll(name, limit=10_000, with_vectors=True)
    assert rest is None
    return found


def stored(place: Path, name: str) -> list[models.Record]:
    client = QdrantClient(path=str(place))
    try:
        return records(client, name)
    finally:
        client.close()


def in_order(found: list[models.Record], names: Sequence[str]) -> list[models.Record]:
    """The points of those documents, one of each."""
    of_name: dict[Any, models.Record] = {record.payload["id"]: record for record in found if record.payload}
    assert len(of_name) == len(found) == len(names)
    return [of_name[name] for name in names]


def vectors_of(found: list[models.Record]) -> NDArray[np.float32]:
    return np.array([record.vector for record in found], np.float32)


def state_of(client: QdrantClient, name: str) -> Any:
    return (client.get_collection(name).config.metadata or {}).get("bertfeat", {}).get("state")


def interrupted(after: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next exports be interrupted after so many requests with points."""
    upsert = QdrantClient.upsert
    done: list[None] = []

    def interrupt(self: QdrantClient, *arguments: Any, **options: Any) -> Any:
        if len(done) == after:
            raise KeyboardInterrupt
        done.append(None)
        return upsert(self, *arguments, **options)

    monkeypatch.setattr(QdrantClient, "upsert", interrupt)


# ── what is loaded ──────────────────────────────────────────────────────────────────────────────────────────


def test_documents(tmp_path: Path) -> None:
    parts = toy_parts(layers="concat4")
    documents = [doc for part in parts for doc in part.documents]
    report = export_to_qdrant(toy_set(tmp_path / "f.features", *parts), "sum4_mean", folder=tmp_path / "q")
    assert (report.place, report.collection, report.column) == (str(tmp_path / "q"), "f", "sum4_mean")
    assert (report.documents, report.vectors, report.added, report.removed) == (15, 15, 15, 0)
    assert report.recall is not None
    assert report.recall.default == 1.0
    found = in_order(stored(tmp_path / "q", "f"), [doc.id for doc in documents])
    names = ["id", "text", *(kept.name for kept in KEPT)]
    expected_payloads = [dict(zip(names, (doc.id, doc.text, *doc.kept), strict=True)) for doc in documents]
    assert [record.payload for record in found] == expected_payloads
    expected = unit(np.stack([doc.feature("sum", [1, 2, 3, 4], "mean") for doc in documents]))
    np.testing.assert_allclose(vectors_of(found), expected, atol=1e-6)


def test_words(tmp_path: Path) -> None:
    parts = toy_parts(layers="last")
    report = export_to_qdrant(toy_set(tmp_path / "f", *parts), "last_word", folder=tmp_path / "q", collection="w")
    expected = [
        {"id": doc.id, "position": at, "string": word, "start": start, "end": end}
        for part in parts
        for doc in part.documents
        for at, (word, (start, end)) in enumerate(zip(doc.words, doc.spans(), strict=True))
        if word != "🙂"
    ]
    of_word = {
        (each.payload["id"], each.payload["position"]): each for each in stored(tmp_path / "q", "w") if each.payload
    }
    assert report.vectors == len(expected) == len(of_word)
    found = [of_word[word["id"], word["position"]] for word in expected]
    for record, word in zip(found, expected, strict=True):
        assert record.payload is not None
        assert {name: record.payload[name] for name in word} == word


def test_numbers_that_json_lacks(tmp_path: Path) -> None:
    scores: list[Any] = [float("nan"), float("inf"), 0.5]
    folder = vector_set(tmp_path / "f", clustered(3), parts=1, kept={KeptColumn("score", "float64"): scores})
    export_to_qdrant(folder, folder=tmp_path / "q")
    payloads = [record.payload for record in in_order(stored(tmp_path / "q", "f"), ["1", "2", "3"])]
    assert [payload["score"] for payload in payloads if payload] == [None, None, 0.5]


def test_what_it_says_of_itself(folder: Path, tmp_path: Path) -> None:
    export_to_qdrant(folder, folder=tmp_path / "q")
    client = QdrantClient(path=str(tmp_path / "q"))
    metadata = client.get_collection("books").config.metadata
    params = client.get_collection("books").config.params.vectors
    client.close()
    assert metadata is not None
    own = metadata["bertfeat"]
    assert (own["state"], own["column"], own["vectors"]) == ("complete", "last_mean", 100)
    assert isinstance(params, models.VectorParams)
    assert (params.size, params.distance) == (16, models.Distance.COSINE)


def test_requests_are_small() -> None:
    texts = ["x" * (3 << 20), "", "x" * (3 << 20), "x" * (20 << 20), "y", *[""] * 40]
    columns = pa.table({"text": pa.array(texts, pa.large_string())})
    block = RowBlock(0, np.zeros((45, 4), np.float32), pa.array(map(str, range(45))), columns)
    assert list(_batches(block)) == [(0, 3), (3, 4), (4, 20), (20, 36), (36, 45)]


# ── what is there already ───────────────────────────────────────────────────────────────────────────────────


def test_an_interrupted_export_goes_on(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(4, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        export_to_qdrant(folder, folder=tmp_path / "q")
    monkeypatch.undo()
    monkeypatch.setattr(qdrant_collection, "_BATCH_POINTS", 16)
    client = QdrantClient(path=str(tmp_path / "q"))
    assert (client.count("books").count, state_of(client, "books")) == (64, "loading")
    client.close()
    report = export_to_qdrant(folder, folder=tmp_path / "q")
    assert (report.added, report.removed) == (36, 0)
    assert report.recall is not None
    assert report.recall.default == 1.0
    found = in_order(stored(tmp_path / "q", "books"), NAMES)
    np.testing.assert_allclose(vectors_of(found), unit(clustered(100)), atol=1e-6)


def test_other_features_do_not_go_on_there(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(2, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        export_to_qdrant(folder, folder=tmp_path / "q")
    monkeypatch.undo()
    other = vector_set(tmp_path / "other", clustered(100, seed=1))
    problem = (
        r"q, collection 'books': it has 32 points, which no interrupted export of these features left; .*overwrite"
    )
    with pytest.raises(DatabaseError, match=problem):
        export_to_qdrant(other, folder=tmp_path / "q", collection="books")
    export_to_qdrant(other, folder=tmp_path / "q", collection="books", overwrite=True)
    np.testing.assert_allclose(
        vectors_of(in_order(stored(tmp_path / "q", "books"), NAMES)), unit(clustered(100, seed=1)), atol=1e-6
    )


def test_a_complete_collection_is_replaced_only_if_asked(folder: Path, tmp_path: Path) -> None:
    export_to_qdrant(folder, folder=tmp_path / "q")
    with pytest.raises(DatabaseError, match=r"it has 100 points, .*overwrite=True"):
        export_to_qdrant(folder, folder=tmp_path / "q")
    fewer = vector_set(tmp_path / "g", clustered(7))
    export_to_qdrant(fewer, folder=tmp_path / "q", collection="books", overwrite=True)
    assert len(stored(tmp_path / "q", "books")) == 7
    export_to_qdrant(fewer, folder=tmp_path / "q", collection="beside")
    assert len(stored(tmp_path / "q", "books")) == 7


@pytest.mark.parametrize(
    ("config", "described"),
    [
        (models.VectorParams(size=8, distance=models.Distance.COSINE), "8 values, Cosine"),
        (models.VectorParams(size=16, distance=models.Distance.DOT), "16 values, Dot"),
        ({"named": models.VectorParams(size=16, distance=models.Distance.COSINE)}, "named or none"),
    ],
)
def test_a_collection_of_other_vectors(config: Any, described: str, folder: Path, tmp_path: Path) -> None:
    client = QdrantClient(path=str(tmp_path / "q"))
    client.create_collection("books", config)
    client.close()
    with pytest.raises(DatabaseError, match=rf"it is for other vectors \({described}\) than these \(16 values, Cosine"):
        export_to_qdrant(folder, folder=tmp_path / "q")


def test_an_empty_collection_of_ones_own_is_filled(folder: Path, server: QdrantServer) -> None:
    size = models.VectorParams(size=16, distance=models.Distance.COSINE)
    server.local.create_collection("mine", size, metadata={"owner": "me"})
    export_to_qdrant(folder, url=server.url, collection="mine")
    metadata = server.local.get_collection("mine").config.metadata
    assert metadata is not None
    assert (metadata["owner"], state_of(server.local, "mine")) == ("me", "complete")
    assert "PUT /collections/mine" not in server.requests


def test_other_folders_stay(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for place, problem in ((folder, "'.bertfeat' is in it"), (tmp_path / "file", "it is no folder")):
        before = files_of(tmp_path)
        with pytest.raises(DatabaseError, match=problem):
            export_to_qdrant(folder, folder=place, overwrite=True)
        assert files_of(tmp_path) == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # qdrant-client leaves its lock open
def test_a_folder_in_use(folder: Path, tmp_path: Path) -> None:
    client = QdrantClient(path=str(tmp_path / "q"))
    with pytest.raises(DatabaseError, match="is already accessed by another instance"):
        export_to_qdrant(folder, folder=tmp_path / "q")
    client.close()


# ── over HTTP ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_with_faults(folder: Path, server: QdrantServer) -> None:
    server.faults.extend([503, "drop", 429, 500, "drop", "drop"])
    server.states.extend(["green", "green", "yellow", "green", "yellow", "green", "green"])
    steps: list[StepProgress] = []
    report = export_to_qdrant(folder, url=server.url, progress=steps.append)
    assert report.index == "HNSW, cosine, m 16, ef_construct 100, 0 vectors indexed"
    found = in_order(records(server.local, "books"), NAMES)
    np.testing.assert_allclose(vectors_of(found), unit(clustered(100)), atol=1e-6)
    assert server.requests.count("PUT /collections/books/points") == 7 + 6
    assert not server.states  # it waited until it was green twice
    assert state_of(server.local, "books") == "complete"
    assert report.recall is not None
    assert report.recall.default == 1.0


@pytest.mark.slow
def test_recall_that_a_larger_ef_gives(folder: Path, server: QdrantServer) -> None:
    server.needed_ef = 500
    report = export_to_qdrant(folder, url=server.url)
    assert report.recall is not None
    assert (report.recall.default, report.recall.parameters) == (0.0, {"hnsw_ef": 1024})
    assert report.advice == (
        "recall at 10 is 0.000 for stored vectors disturbed as questions are, with the database's own search "
        "parameters, and 1.000 with hnsw_ef=1024; search with these"
    )
    server.needed_ef = 5000
    hopeless = export_to_qdrant(folder, url=server.url, overwrite=True)
    assert hopeless.advice.endswith("; load it into a collection that was created with larger m and ef_construct")


@pytest.mark.slow
def test_a_fault_that_lasts(folder: Path, server: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant_collection, "PATIENCE", 0.0)
    server.faults.append(503)
    with pytest.raises(DatabaseError, match=r"collection 'books': Qdrant refuses: try later \(503\)$"):
        export_to_qdrant(folder, url=server.url)
    assert state_of(server.local, "books") == "loading"
    assert export_to_qdrant(folder, url=server.url).vectors == 100


def test_what_is_no_passing_fault_is_not_repeated(folder: Path, server: QdrantServer) -> None:
    server.faults.append(413)
    with pytest.raises(DatabaseError, match=r"try later \(413\)"):
        export_to_qdrant(folder, url=server.url)
    assert server.requests.count("PUT /collections/books/points") == 1


@pytest.mark.filterwarnings("ignore:Api key is used with an insecure connection")
def test_keys(folder: Path) -> None:
    with QdrantServer(api_key="right") as server:
        for key in (None, "wrong"):
            problem = r"Qdrant refuses: Must provide an API key .* \(401\); set the key in QDRANT_API_KEY"
            with pytest.raises(DatabaseError, match=problem):
                export_to_qdrant(folder, url=server.url, api_key=key)
        assert export_to_qdrant(folder, url=server.url, api_key="right").vectors == 100


def test_no_server(folder: Path, server: QdrantServer) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(DatabaseError, match=rf"^{url}: no answer: .*refused; start the server or correct its address$"):
        export_to_qdrant(folder, url=url)
    server.is_qdrant = False
    with pytest.raises(DatabaseError, match="what answers there is no Qdrant; correct the address"):
        export_to_qdrant(folder, url=server.url)
    with pytest.raises(UsageError, match="this is no address of a server: Unknown scheme: ftp"):
        export_to_qdrant(folder, url="ftp://here")


def test_a_server_that_fails_to_index(folder: Path, server: QdrantServer) -> None:
    server.states.extend(["green", "green", "red"])
    with pytest.raises(DatabaseError, match="collection 'books': its optimizer failed"):
        export_to_qdrant(folder, url=server.url)
    assert state_of(server.local, "books") == "loading"


def test_a_server_without_metadata(folder: Path, server: QdrantServer) -> None:
    server.keeps_metadata = False
    with pytest.raises(DatabaseError, match=r"this Qdrant keeps no metadata of collections.*1\.16 or later"):
        export_to_qdrant(folder, url=server.url)


def test_points_that_others_remove(folder: Path, server: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = server.answer

    def one_less(method: str, path: str, body: Any) -> Any:
        return {"count": 99} if path.endswith("/count") else answer(method, path, body)

    monkeypatch.setattr(server, "answer", one_less)
    with pytest.raises(DatabaseError, match="100 vectors were loaded, and it has 99; something else changes it"):
        export_to_qdrant(folder, url=server.url)
    assert state_of(server.local, "books") == "loading"


# ── wrong uses ──────────────────────────────────────────────────────────────────────────────────────────────


def test_wrong_uses(folder: Path, tmp_path: Path) -> None:
    for places in ({}, {"url": "http://here", "folder": tmp_path}):
        with pytest.raises(UsageError, match="name the server with url or a folder with folder, one of the two"):
            export_to_qdrant(folder, **places)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="writes to a folder of this machine"):
        export_to_qdrant(folder, folder="s3://bucket/folder")
    for name in (".", ".."):
        with pytest.raises(UsageError, match="no collection can have this name"):
            export_to_qdrant(folder, folder=tmp_path / "q", collection=name)
    with pytest.raises(DatabaseError, match="cannot contain '/'"):
        export_to_qdrant(folder, folder=tmp_path / "q", collection="a/b")


def test_a_damaged_folder(folder: Path, tmp_path: Path) -> None:
    export_to_qdrant(folder, folder=tmp_path / "q")
    (tmp_path / "q" / "meta.json").write_text(json.dumps({"collections": 3})[:-3])
    with pytest.raises(DatabaseError, match="q: "):
        export_to_qdrant(folder, folder=tmp_path / "q")
