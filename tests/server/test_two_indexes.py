"""Two indexes on one server, of two models: named by requests, and one set in the place of the other by a link."""

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat import CorpusSettings, Extractor, build_index
from bertfeat.errors import UsageError
from bertfeat.search import BuildOptions, Index, Metric
from bertfeat.server import ServerSettings, following, open_service
from tests.support.live_server import Live, serving
from tests.support.tiny_models import Tiny
from tests.support.waiting import wait_for

TEXTS = [f"The {noun} of the {other}." for noun in ("bank", "river", "mill") for other in ("town", "king", "sea")]
QUERY = "a mill by the sea"


@pytest.fixture
def place(tiny: Callable[[str], Tiny], tmp_path: Path) -> Path:
    """Two feature sets of one corpus with their indexes, by two models, and a link to the first index."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(TEXTS))
    for name, family in (("old", "bert"), ("new", "distilbert")):
        prompt = "a text of the sea: " if name == "new" else None
        extractor = Extractor(tiny(family).folder, pooling="mean", layers="last", prompt=prompt, device="cpu")
        extractor.extract(corpus, tmp_path / f"{name}.features", corpus_settings=CorpusSettings())
        build_index(tmp_path / f"{name}.features", tmp_path / f"{name}.index")
    (tmp_path / "live.index").symlink_to("old.index")
    return tmp_path


@pytest.fixture
def also(tiny: Callable[[str], Tiny]) -> dict[str, str]:
    return {"newcomer": str(tiny("distilbert").folder)}


@pytest.fixture
def server(place: Path, also: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    for module in (following, sys.modules["bertfeat.server.service"]):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    service = open_service([place / "live.index", place / "new.index"], ServerSettings(), also_models=also)
    with serving(service) as server:
        yield server


def scores(server: Live, **body: Any) -> list[tuple[str, float]]:
    reply = server.post("/search", {"query": QUERY, "k": 9, "exact": True, **body})
    assert reply.status == 200, reply.body
    return [(hit["id"], hit["score"]) for hit in reply.json()["hits"]]


def offline(place: Path, name: str) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in Index(place / f"{name}.index").search(QUERY, 9, exact=True).hits]


def same(found: list[tuple[str, float]], expected: list[tuple[str, float]]) -> bool:
    return [name for name, _ in found] == [name for name, _ in expected] and bool(
        np.allclose([score for _, score in found], [score for _, score in expected], atol=1e-5)
    )


def set_link(place: Path, target: str) -> None:
    """Set the link anew in one step."""
    (place / "next").symlink_to(target)
    os.replace(place / "next", place / "live.index")


def test_a_request_names_its_index(place: Path, server: Live) -> None:
    old, new = offline(place, "old"), offline(place, "new")
    assert old != new
    assert same(scores(server), old)
    assert same(scores(server, index="live.index"), old)
    assert same(scores(server, index="new.index"), new)
    refused = server.post("/search", {"query": QUERY, "index": "other.index"})
    assert (refused.status, refused.json()["error"]) == (404, "'other.index' is none of live.index, new.index")
    folders = server.get("/info").json()["folders"]
    assert [(each["name"], each["documents"]) for each in folders] == [("live.index", 9), ("new.index", 9)]
    metrics = server.get("/metrics").body.decode()
    assert 'bertfeat_index_documents{folder="new.index"} 9.0' in metrics


def test_one_switch_under_way(place: Path, server: Live) -> None:
    """All answers are of one index, old or new, and after the switch only of the new one; it can be taken back."""
    old, new = offline(place, "old"), offline(place, "new")
    over, answers = threading.Event(), list[list[tuple[str, float]]]()

    def ask() -> None:
        while not over.is_set():
            answers.append(scores(server))

    with ThreadPoolExecutor(4) as pool:
        asking = [pool.submit(ask) for _ in range(4)]
        try:
            for target, expected in (("new", new), ("old", old), ("new", new)):
                set_link(place, f"{target}.index")
                wait_for(lambda expected=expected: same(scores(server), expected))  # type: ignore[misc]
        finally:
            over.set()
        for each in asking:
            each.result()
    assert all(same(each, old) or same(each, new) for each in answers)
    assert server.get("/health").json() == {"status": "ok"}
    assert server.get("/info").json()["folders"][0]["reloads"] == 3


def test_texts_are_ordered_as_a_server_of_the_index_of_their_model_alone_does(
    place: Path, server: Live, also: dict[str, str]
) -> None:
    """The index of the second model has a prompt for texts, which the model by itself has not."""

    def ordered(server: Live, **named: str) -> list[tuple[int, float]]:
        reply = server.post("/rerank", {"query": QUERY, "texts": TEXTS, **named})
        assert reply.status == 200, reply.body
        return [(each["index"], each["score"]) for each in reply.json()]

    found = ordered(server, model="newcomer")
    with serving(open_service([place / "new.index"], ServerSettings())) as alone:
        expected = ordered(alone)
    assert [number for number, _ in found] == [number for number, _ in expected]
    np.testing.assert_allclose([score for _, score in found], [score for _, score in expected], atol=1e-5)
    with serving(open_service([], ServerSettings(), model=also["newcomer"])) as without:
        plain = ordered(without)
    assert not np.allclose([score for _, score in found], [score for _, score in plain], atol=1e-3)


def test_without_the_model_the_link_stays_what_it_was(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service = open_service([place / "live.index"], ServerSettings())
    with serving(service) as server:
        set_link(place, "new.index")
        told = server.post("/reload", {}).json()
        assert not told["changed"]
        (folder,) = told["folders"]
        assert "was made by" in folder["problem"]
        assert "also_models" in folder["problem"]
        assert same(scores(server), offline(place, "old"))


def test_what_is_refused_at_the_start(place: Path) -> None:
    with pytest.raises(UsageError, match=r"new\.index: was made by .*, and this server has .*; add it by also_models"):
        open_service([place / "old.index", place / "new.index"], ServerSettings())
    (place / "there").mkdir()
    (place / "there" / "old.index").symlink_to(place / "new.index")
    with pytest.raises(UsageError, match=r"there/old\.index: has the name of \S+old\.index, and requests choose"):
        open_service([place / "old.index", place / "there" / "old.index"], ServerSettings())


def test_two_indexes_of_one_model(place: Path) -> None:
    build_index(place / "old.features", place / "second.index", options=BuildOptions(metric=Metric.L2))
    with serving(open_service([place / "old.index", place / "second.index"], ServerSettings())) as two:
        assert two.post("/search", {"query": QUERY, "index": "second.index"}).json()["hits"][0]["score"] > 0
        assert same(scores(two), offline(place, "old"))
