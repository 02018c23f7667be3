"""Several models in one server: each request gets its own model's features, as these are computed offline."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import numpy as np
import pytest
from numpy.typing import NDArray
from starlette.testclient import TestClient
from tokenizers import Tokenizer

from bertfeat import Extractor, build_index
from bertfeat.errors import UsageError
from bertfeat.server import ServerSettings, create_app, open_service
from bertfeat.usages import find_usages
from tests.support.tagging_toy import feature_set, train
from tests.support.tiny_models import Tiny

TEXTS = ["He sat on the bank of the river.", "The bank lends money.", "Water runs under the old mill."]
FIRST, SECOND = "bert", "roberta"

Families = Callable[[str], Tiny]


@pytest.fixture(scope="module")
def folder(tiny: Families, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the first model; words and a tagger of the second."""
    place = tmp_path_factory.mktemp("models")
    (place / "c.txt").write_text("\n".join(f"{text} {number}" for number, text in enumerate(TEXTS * 4)))
    Extractor(tiny(FIRST).folder, pooling="mean", precision="fp32").extract(place / "c.txt", place / "c.features")
    build_index(place / "c.features", place / "c.index")
    Extractor(tiny(SECOND).folder, pooling="word", precision="fp32").extract(place / "c.txt", place / "words.features")
    train_set, dev_set = (feature_set(tiny(SECOND).folder, place / f"{n}.features", n, n) for n in (20, 5))
    train(train_set, dev_set, place / "tagger", layers="last")
    return place


@pytest.fixture(scope="module")
def client(tiny: Families, folder: Path) -> Iterator[TestClient]:
    service = open_service(
        [folder / "c.index", folder / "words.features"],
        ServerSettings(served_names=("small",), most_texts=100),
        also_models={"other": tiny(SECOND).folder},
        tagger=folder / "tagger",
    )
    with TestClient(create_app(service), "http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def offline(tiny: Families) -> dict[str, Extractor]:
    return {
        family: Extractor(tiny(family).folder, precision="fp32", pooling="mean,token", dtype="float32")
        for family in (FIRST, SECOND)
    }


def unit_means(extractor: Extractor, texts: list[str]) -> NDArray[np.float32]:
    vectors = np.stack([each.vector("last_mean") for each in extractor.features(texts)])
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def test_each_name_gets_its_own_model(client: TestClient, offline: dict[str, Extractor]) -> None:
    listed = client.get("/v1/models").json()["data"]
    assert [each["id"] for each in listed] == ["small", "other"]
    second = offline[SECOND].model
    assert listed[1]["fingerprint"] == second.fingerprint
    assert client.get("/models/other").json() == listed[1]
    names = {"small": FIRST, "bert": FIRST, "other": SECOND, str(second.name): SECOND, second.fingerprint: SECOND}
    for name, family in [(None, FIRST), *names.items()]:
        asked = {"input": TEXTS, "pooling": "mean", "model": name}
        answer = client.post("/v1/embeddings", json=asked)
        body = answer.json()
        assert body["model"] == {FIRST: "small", SECOND: "other"}[family]
        found = np.array([each["embedding"] for each in body["data"]])
        np.testing.assert_allclose(found, unit_means(offline[family], TEXTS), atol=1e-5)
        assert answer.headers["x-bertfeat-model"] == offline[family].model.fingerprint
    refused = client.post("/v1/embeddings", json={"input": "a", "model": "third"})
    assert refused.status_code == 404
    assert refused.json()["error"]["message"] == "there is no model 'third' here, only 'small' and 'other'"
    assert client.get("/v1/models/third").status_code == 404


def test_every_route_takes_the_model(client: TestClient, offline: dict[str, Extractor]) -> None:
    for name, family in (("small", FIRST), ("other", SECOND)):
        own = {"model": name, "pooling": "mean"}
        vectors = unit_means(offline[family], TEXTS)
        (document,) = offline[family].features(TEXTS[:1])
        assert document.tokens is not None
        strings = [*(document.tokens.strings or ())]
        found = client.post("/embed", json={"inputs": TEXTS, **own}).json()
        np.testing.assert_allclose(found, vectors, atol=1e-5)
        sentences = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
        found = client.post("/similarity", json={"inputs": sentences, "parameters": own}).json()
        np.testing.assert_allclose(found, vectors[1:] @ vectors[0], atol=1e-5)
        found = client.post("/embed_all", json={"inputs": TEXTS[0], "model": name, "layers": "last"}).json()
        np.testing.assert_allclose(found[0], document.matrix("last_token"), atol=1e-5)
        found = client.post("/features", json={"texts": TEXTS[0], "model": name, "pooling": "token"}).json()
        assert found["data"][0]["tokens"]["strings"] == strings
        tokens = client.post("/tokenize", json={"inputs": [TEXTS[0]], "model": name}).json()[0]
        assert [each["text"] for each in tokens] == strings
        ids = [each["id"] for each in tokens]
        plain = Tokenizer.from_file(str(Path(offline[family].location) / "tokenizer.json"))
        assert client.post("/decode", json={"ids": ids, "model": name}).json() == [plain.decode(ids)]
        for path, field in (("/rerank", "texts"), ("/v1/rerank", "documents")):
            answer = client.post(path, json={"query": TEXTS[1], field: TEXTS, "model": name, "layers": "last"})
            assert answer.headers["x-bertfeat-model"] == offline[family].model.fingerprint
            assert (answer.json() if path == "/rerank" else answer.json()["results"])[0]["index"] == 1


def test_words_and_a_tagger_are_read_by_the_model_that_made_them(client: TestClient, folder: Path) -> None:
    like = "He sat on the *bank* of a river."
    found = client.post("/usages", json={"word": "bank", "like": like}).json()
    expected = find_usages(folder / "words.features", "bank", like=like)
    assert [each["row"] for each in found["usages"]] == [each.row for each in expected.usages]
    assert found["column"] == expected.column
    assert client.post("/search", json={"query": "the old mill", "k": 1}).json()["hits"][0]["text"].startswith("Water")
    assert client.post("/tag", json={"texts": TEXTS}).json()["texts"][0]["words"][0] == "He"


def test_requests_of_two_models_at_once(client: TestClient, offline: dict[str, Extractor]) -> None:
    def ask(seed: int) -> None:
        draw = Random(seed)
        name, family = draw.choice((("small", FIRST), ("other", SECOND)))
        texts = [" ".join(draw.choices(["river", "bank", "mill", "stone"], k=draw.randint(1, 60))) for _ in range(9)]
        found = client.post("/embed", json={"inputs": texts, "model": name, "pooling": "mean"}).json()
        np.testing.assert_allclose(found, unit_means(offline[family], texts), atol=1e-5)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(ask, seed) for seed in range(40)]:
            done.result()


def test_what_cannot_be_served_together(tiny: Families, folder: Path) -> None:
    first, second = tiny(FIRST).folder, tiny(SECOND).folder
    with pytest.raises(UsageError, match=r"is served already; give it a second name by served_names"):
        open_service([], ServerSettings(), model=first, also_models={"again": first})
    with pytest.raises(UsageError, match=r"is served already; name it once"):
        open_service([], ServerSettings(), model=first, also_models={"a": second, "b": second})
    with pytest.raises(UsageError, match="two models would have the name 'a'"):
        open_service([], ServerSettings(served_names=("a",)), model=first, also_models={"a": second})
    with pytest.raises(UsageError, match=r"words.features: was made by .*add it by also_models"):
        open_service([folder / "c.index", folder / "words.features"], ServerSettings())
    with pytest.raises(UsageError, match=r"tagger: was made by .*add it by also_models"):
        open_service([folder / "c.index"], ServerSettings(), tagger=folder / "tagger")
