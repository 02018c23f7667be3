"""The words of hits that match a query best, against cosines of word vectors that are computed anew."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from bertfeat import Extractor, build_index
from bertfeat.core.features import unit_vectors
from bertfeat.server import ServerSettings, create_app, open_service
from tests.support.tiny_models import Tiny

TEXTS = ["He sat on the bank of the river.", "The bank lends money, and more money.", "Water runs under the old mill."]
QUERY = "money from a bank"


@pytest.fixture(scope="module")
def open_client(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., TestClient]:
    """A client of a server whose feature set has these poolings and layers."""
    place = tmp_path_factory.mktemp("highlights")
    (place / "c.jsonl").write_text("".join(f"{json.dumps({'text': f'{t} {n}'})}\n" for n, t in enumerate(TEXTS * 20)))
    folder = tiny("bert").folder
    Extractor(folder, pooling="mean", precision="fp32").extract(place / "c.jsonl", place / "c.mean")
    build_index(place / "c.mean", place / "c.index")

    def open_(pooling: str, layers: str = "last") -> TestClient:
        features = place / f"{pooling}.{layers}.features"
        extractor = Extractor(folder, pooling=pooling, layers=layers, precision="fp32", dtype="float32")
        extractor.extract(place / "c.jsonl", features)
        service = open_service([place / "c.index", place / "c.mean", features], ServerSettings())
        return TestClient(create_app(service), "http://localhost")

    return open_


def expected_highlights(extractor: Extractor, text: str) -> list[tuple[int, int, float]]:
    """By word vectors of the last layer that nothing stored."""
    asked, document = (
        [
            (start, end, vector)
            for start, end, string, vector in zip(
                found.words.start.tolist(),  # type: ignore[union-attr]
                found.words.end.tolist(),  # type: ignore[union-attr]
                found.words.strings or (),  # type: ignore[union-attr]
                unit_vectors(found.matrix()),
                strict=True,
            )
            if string.isalnum()
        ]
        for found in extractor.features([QUERY, text])
    )
    scored = [(start, end, max(float(vector @ other) for *_, other in asked)) for start, end, vector in document]
    best = sorted(scored, key=lambda each: -each[2])[:5]
    return sorted(each for each in best if each[2] >= 0.5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("pooling", "layers"),
    [("word,token", "last"), ("token,word", "last"), ("word", "last,1"), ("word,token", "1,last,0")],
)
def test_highlights_are_words_with_their_own_vectors(
    open_client: Callable[..., TestClient], tiny: Callable[[str], Tiny], pooling: str, layers: str
) -> None:
    with open_client(pooling, layers) as client:
        body = client.post("/search", json={"query": QUERY, "k": 4, "highlight": True}).json()
        numbers = [hit["number"] for hit in body["hits"]]
        on_screen = client.post("/page/highlights", json={"query": QUERY, "numbers": numbers}).json()["highlights"]
    assert body["highlights"] == on_screen
    assert any(on_screen)
    extractor = Extractor(tiny("bert").folder, pooling="word", layers="last", precision="fp32", dtype="float32")
    for hit, highlights in zip(body["hits"], on_screen, strict=True):
        expected = expected_highlights(extractor, hit["text"])
        assert [(start, end) for start, end, _ in highlights] == [(start, end) for start, end, _ in expected]
        np.testing.assert_allclose([each[2] for each in highlights], [each[2] for each in expected], atol=1e-4)


def test_tokens_are_highlighted_where_there_are_no_words(open_client: Callable[..., TestClient]) -> None:
    with open_client("token") as client:
        body = client.post("/search", json={"query": QUERY, "k": 6, "highlight": True}).json()
    marked = {
        hit["text"][s:e] for hit, found in zip(body["hits"], body["highlights"], strict=True) for s, e, _ in found
    }
    assert marked & {"money", "bank"}
    assert all(string.isalnum() for string in marked)


def test_only_hits_on_the_screen_are_highlighted(open_client: Callable[..., TestClient]) -> None:
    with open_client("word") as client:
        for numbers in ([60], [-1], list(range(51)), ["a"], None):
            asked = {"query": QUERY, "numbers": numbers}
            assert client.post("/page/highlights", json=asked).status_code == 422, numbers
        assert client.post("/page/highlights", json={"query": " ", "numbers": [1]}).status_code in (400, 422)
        assert client.post("/page/highlights", json={"query": QUERY, "numbers": []}).json() == {"highlights": []}


def test_a_set_without_words_highlights_nothing(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("\n".join(TEXTS))
    Extractor(tiny("bert").folder, pooling="mean", precision="fp32").extract(tmp_path / "c.txt", tmp_path / "f")
    build_index(tmp_path / "f", tmp_path / "i")
    service = open_service([tmp_path / "i", tmp_path / "f"], ServerSettings())
    with TestClient(create_app(service), "http://localhost") as client:
        body = client.post("/search", json={"query": QUERY, "highlight": True}).json()
    assert body["highlights"] == [[], [], []]


def test_a_screen_of_highlights_costs_little(open_client: Callable[..., TestClient]) -> None:
    """Of sixty hits eight are on the screen: the work is that of eight."""
    with open_client("word", "last,1") as client:
        body = client.post("/search", json={"query": QUERY, "k": 60}).json()
        numbers = [hit["number"] for hit in body["hits"][:8]]
        client.post("/page/highlights", json={"query": QUERY, "numbers": numbers})
        began = time.process_time()
        for _ in range(5):
            client.post("/page/highlights", json={"query": QUERY, "numbers": numbers})
        assert (time.process_time() - began) / 5 < 0.3
