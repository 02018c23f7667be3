"""Which words of hits meet which words of the query, as the page asks for it: against the search itself."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from bertfeat import Extractor, Index, build_index
from bertfeat.search import Origin
from bertfeat.server import ServerSettings, create_app, open_service
from tests.support.tiny_models import Tiny

TEXTS = ["He sat on the bank of the river.", "The bank lends money, and more money.", "Water runs under the old mill."]
QUERY = "money, from a bank!"


@pytest.fixture(scope="module")
def place(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("why")
    (place / "c.jsonl").write_text("".join(f"{json.dumps({'text': f'{t} {n}'})}\n" for n, t in enumerate(TEXTS * 20)))
    extractor = Extractor(tiny("bert").folder, layers="last,cls", pooling="mean", precision="fp32")
    extractor.extract(place / "c.jsonl", place / "c.features")
    build_index(place / "c.features", place / "c.index", "last_mean")
    build_index(place / "c.features", place / "cls.index", "last_cls")
    return place


@pytest.fixture(scope="module")
def client(place: Path) -> Iterator[TestClient]:
    with TestClient(create_app(open_service([place / "c.index"], ServerSettings())), "http://localhost") as client:
        yield client


def test_the_words_of_hits_and_their_shares(client: TestClient, place: Path) -> None:
    hits = Index(place / "c.index").search(QUERY, 4, why=True).hits
    found = client.post("/page/why", json={"query": QUERY, "numbers": [hit.number for hit in hits]}).json()
    assert [QUERY[start:end] for start, end in found["query"]] == ["money", "from", "a", "bank"]
    for shown, hit in zip(found["hits"], hits, strict=True):
        assert hit.why is not None
        assert hit.text is not None
        one, other = (
            [at for at, word in enumerate(side) if word.origin is Origin.TEXT and word.string.isalnum()]
            for side in (hit.why.query, hit.why.words)
        )
        assert [hit.text[start:end] for start, end in shown["words"]] == [hit.why.words[at].string for at in other]
        np.testing.assert_allclose(shown["shares"], hit.why.shares[np.ix_(one, other)], rtol=0, atol=2e-6)


def test_only_hits_on_the_screen_are_asked_for(client: TestClient) -> None:
    for numbers in ([60], [-1], list(range(51)), ["a"], None):
        assert client.post("/page/why", json={"query": QUERY, "numbers": numbers}).status_code == 422, numbers
    assert client.post("/page/why", json={"query": " ", "numbers": [1]}).status_code in (400, 422)
    assert client.post("/page/why", json={"query": QUERY, "numbers": []}).json() == {"query": [], "hits": []}


def test_an_index_whose_scores_are_no_sums_says_so(place: Path) -> None:
    with TestClient(create_app(open_service([place / "cls.index"], ServerSettings())), "http://localhost") as client:
        found = client.post("/page/why", json={"query": QUERY, "numbers": [1]}).json()
        assert "last_cls is no mean of tokens" in found["problem"]
        refused = client.post("/search", json={"query": QUERY, "why": True})
        assert refused.status_code == 422


def test_long_texts_are_not_read_again(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text(f"money\n{'the bank ' * 3000}\n")
    Extractor(tiny("bert").folder, layers="last", pooling="mean", precision="fp32").extract(
        tmp_path / "c.txt", tmp_path / "f"
    )
    build_index(tmp_path / "f", tmp_path / "i")
    service = open_service([tmp_path / "i"], ServerSettings(most_tokens=1000))
    with TestClient(create_app(service), "http://localhost") as client:
        found = client.post("/page/why", json={"query": QUERY, "numbers": [1, 0]}).json()["hits"]
        assert [len(hit["words"]) for hit in found] == [0, 1]
        assert client.post("/search", json={"query": QUERY, "k": 2}).status_code == 200
        refused = client.post("/search", json={"query": QUERY, "k": 2, "why": True})
        assert refused.status_code == 413
        assert "why reads at most 1,000" in refused.text


def test_a_screen_of_hits_costs_little(client: TestClient) -> None:
    """Of sixty hits eight are on the screen: the work is that of eight."""
    hits = client.post("/search", json={"query": QUERY, "k": 60}).json()["hits"]
    numbers = [hit["number"] for hit in hits[:8]]
    client.post("/page/why", json={"query": QUERY, "numbers": numbers})
    began = time.process_time()
    for _ in range(5):
        client.post("/page/why", json={"query": QUERY, "numbers": numbers})
    assert (time.process_time() - began) / 5 < 0.3
