"""``/rerank`` and ``/v1/rerank``: scores against a loop over tokens, computed from features of single texts."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from starlette.testclient import TestClient

from bertfeat import Extractor, build_index, memory_corpus
from bertfeat.search import BuildOptions, Index, MaxSim
from bertfeat.server import ServerSettings, create_app, open_service
from tests.support.sentence_models import sentence_folder
from tests.support.tiny_models import Tiny

QUERY = "the bank of a river"
TEXTS = ["The bank lends money.", "He sat on the bank of the river.", "Water runs under the mill.", QUERY]


@pytest.fixture(scope="module")
def client(tiny: Callable[[str], Tiny]) -> Iterator[TestClient]:
    service = open_service([], ServerSettings(most_texts=20), model=str(tiny("bert").folder), precision="fp32")
    with TestClient(create_app(service), "http://localhost") as client:
        yield client


def by_hand(model: Tiny, layers: str, texts: list[str], indexed: Sequence[str] = ()) -> list[float]:
    """Each score by a loop over the tokens of the query, from features that the server has no part in."""
    extractor = Extractor(model.folder, layers=layers, pooling="mean,token", precision="fp32", dtype="float32")
    whole, name = (column.name for column in extractor.columns)

    def tokens(text: str) -> tuple[list[str], NDArray[np.float32], NDArray[np.float32]]:
        (document,) = extractor.features([text])
        assert document.tokens is not None
        assert document.tokens.strings is not None
        return [*document.tokens.strings][1:-1], document.matrix(name)[1:-1], document.vector(whole)

    def cosine(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
        return float(one @ other / (np.linalg.norm(one) * np.linalg.norm(other)))

    asked, vectors, query = tokens(QUERY)
    read, known = [tokens(text) for text in texts], [tokens(text) for text in indexed]
    scores = []
    for _, matrix, vector in read:
        total = weights = 0.0
        for string, one in zip(asked, vectors, strict=True):
            having = sum(string in strings for strings, _, _ in known)
            weight = math.log((len(known) + 1) / (having + 1)) if known else 1.0
            total += weight * max(cosine(one, other) for other in matrix)
            weights += weight
        scores.append((total / weights + 0.5 * cosine(query, vector)) / 1.5)
    return scores


@pytest.mark.parametrize("layers", [None, "1", "concat=1+2"])
def test_scores_are_those_of_a_loop(client: TestClient, tiny: Callable[[str], Tiny], layers: str | None) -> None:
    expected = by_hand(tiny("bert"), layers or "last", TEXTS)
    asked: dict[str, Any] = {"query": QUERY, "texts": TEXTS, "return_text": True, "layers": layers}
    found = client.post("/rerank", json=asked).json()
    assert [each["index"] for each in found] == np.argsort(-np.array(expected)).tolist()
    assert [each["score"] for each in found] == pytest.approx(sorted(expected, reverse=True), abs=1e-5)
    assert [each["text"] for each in found] == [TEXTS[each["index"]] for each in found]
    assert found[0] == {"index": 3, "score": pytest.approx(1.0, abs=1e-5), "text": QUERY}
    assert "text" not in client.post("/rerank", json={"query": QUERY, "texts": TEXTS}).json()[0]


def test_an_index_with_tokens_knows_which_are_rare(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    indexed = ["the bank of the mill", "the old mill", "a bank", "the water of a bank"]
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="mean,token", precision="fp32")
    extractor.extract(memory_corpus(indexed), tmp_path / "c.features")
    build_index(
        tmp_path / "c.features", tmp_path / "c.index", "last_mean", options=BuildOptions(with_tokens="last_token")
    )
    with TestClient(create_app(open_service([tmp_path / "c.index"], ServerSettings())), "http://localhost") as client:
        found = client.post("/rerank", json={"query": QUERY, "texts": TEXTS}).json()
    expected = by_hand(tiny("bert"), "last", TEXTS, indexed)
    assert [each["index"] for each in found] == np.argsort(-np.array(expected)).tolist()
    assert [each["score"] for each in found] == pytest.approx(sorted(expected, reverse=True), abs=1e-5)
    assert expected != pytest.approx(by_hand(tiny("bert"), "last", TEXTS), abs=1e-4)


def test_the_route_of_cohere_and_jina_gives_the_same(client: TestClient) -> None:
    plain = client.post("/rerank", json={"query": QUERY, "texts": TEXTS}).json()
    asked = {"query": QUERY, "documents": TEXTS, "top_n": 2, "return_documents": True, "model": None}
    answer = client.post("/v1/rerank", json=asked).json()
    assert [(each["index"], each["relevance_score"]) for each in answer["results"]] == [
        (each["index"], each["score"]) for each in plain[:2]
    ]
    assert [each["document"]["text"] for each in answer["results"]] == [TEXTS[each["index"]] for each in plain[:2]]
    tokens = [client.post("/tokenize", json={"inputs": text}).json()[0] for text in [QUERY, *TEXTS]]
    assert answer["usage"]["total_tokens"] == sum(map(len, tokens))
    assert len(client.post("/v1/rerank", json={"query": QUERY, "documents": TEXTS}).json()["results"]) == len(TEXTS)


def test_one_text_equal_texts_and_texts_without_words(client: TestClient) -> None:
    (alone,) = client.post("/rerank", json={"query": QUERY, "texts": [QUERY]}).json()
    assert alone == {"index": 0, "score": pytest.approx(1.0, abs=1e-5)}
    alike = client.post("/rerank", json={"query": QUERY, "texts": [TEXTS[0]] * 3}).json()
    assert sorted(each["index"] for each in alike) == [0, 1, 2]
    assert [each["score"] for each in alike] == pytest.approx([alike[0]["score"]] * 3, abs=1e-5)
    assert client.post("/rerank", json={"query": "?!", "texts": ["!", "…"]}).status_code == 200


def test_long_texts_are_read_whole_unless_they_are_cut(client: TestClient) -> None:
    texts = ["mill " * 900 + QUERY, "mill " * 900]
    whole = client.post("/rerank", json={"query": QUERY, "texts": texts})
    cut = client.post("/rerank", json={"query": QUERY, "texts": texts, "truncate": True})
    assert whole.json()[0]["index"] == 0
    assert "x-truncated-inputs" not in whole.headers
    assert cut.headers["x-truncated-inputs"] == "0,1"
    assert cut.json()[0]["score"] == cut.json()[1]["score"]
    ends = {"query": QUERY, "texts": texts, "truncate": True, "truncation_direction": "Left"}
    kept = client.post("/rerank", json=ends)
    assert kept.headers["x-truncated-inputs"] == "0,1"
    assert kept.json()[0]["index"] == 0
    assert kept.json()[0]["score"] > kept.json()[1]["score"]


@pytest.mark.parametrize(
    ("route", "name", "left"), [("/rerank", "texts", "Left"), ("/v1/rerank", "documents", "left")], ids=["TEI", "v1"]
)
def test_what_was_cut_is_told_by_the_numbers_of_the_answer(
    route: str, name: str, left: str, client: TestClient
) -> None:
    texts = ["frost", "word " * 900, "b"]
    asked = {"query": "frost", name: texts, "truncate": True, "truncation_direction": left}
    headers = client.post(route, json=asked).headers
    assert (headers["x-truncated-inputs"], headers.get("x-truncated-query")) == ("1", None)
    headers = client.post(route, json=asked | {"query": "frost " * 900, name: texts[::2]}).headers
    assert (headers.get("x-truncated-inputs"), headers["x-truncated-query"]) == (None, "true")


def test_sentences_are_numbered_without_the_one_they_are_compared_with(client: TestClient) -> None:
    long, cut = "word " * 900, {"truncate": True}
    for source, sentences, told in ((long, ["a", "b"], (None, "true")), ("a", ["b", long], ("1", None))):
        asked = {"inputs": {"source_sentence": source, "sentences": sentences}, "parameters": cut}
        headers = client.post("/similarity", json=asked).headers
        assert (headers.get("x-truncated-inputs"), headers.get("x-truncated-query")) == told


# ── prompts ─────────────────────────────────────────────────────────────────────────────────────────────────

NAMED = {"query": "query: ", "document": "passage: "}


@pytest.fixture(scope="module")
def prompted(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that names prompts."""
    return sentence_folder(tiny("bert").folder, tmp_path_factory.mktemp("prompted") / "model", prompts=NAMED)


def with_prompts(model: Path, query: str, texts: str) -> list[float]:
    """The score of each text, whose prompt is another one than the query's, by a loop over the tokens of the query."""
    settings: dict[str, Any] = {"pooling": "mean,token", "precision": "fp32", "dtype": "float32", "device": "cpu"}
    (asked,) = Extractor(model, prompt=query, **settings).features([QUERY])
    scores = []
    for text in Extractor(model, prompt=texts, **settings).features(TEXTS):
        (one, whole), (other, wholly) = (
            (unit(each.matrix("last_token")[within(each)]), unit(each.vector("last_mean"))) for each in (asked, text)
        )
        scores.append(((one @ other.T).max(axis=1).mean() + 0.5 * (whole @ wholly)) / 1.5)
    return scores


def within(document: Any) -> NDArray[np.bool_]:
    """Which tokens stand in the text: not those of its prompt, and no special ones."""
    inside: NDArray[np.bool_] = document.tokens.end > document.tokens.start
    return inside


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    found = vectors.astype(np.float64)
    normed: NDArray[np.float64] = found / np.linalg.norm(found, axis=-1, keepdims=True)
    return normed


def test_a_query_has_the_prompt_of_queries_and_texts_that_of_documents(prompted: Path, tiny: Any) -> None:
    other = tiny("roberta").folder
    service = open_service([], ServerSettings(), model=other, also_models={"own": prompted}, precision="fp32")
    with TestClient(create_app(service), "http://localhost") as client:
        for model, more, prompts in (
            (prompted, {"model": "own"}, ("query: ", "passage: ")),
            (prompted, {"model": "own", "prompt_name": "document"}, ("passage: ", "passage: ")),
            (other, {}, ("", "")),
        ):
            found = client.post("/rerank", json={"query": QUERY, "texts": TEXTS, **more}).json()
            scores = {each["index"]: each["score"] for each in found}
            expected = with_prompts(model, *prompts)
            assert [scores[at] for at in range(len(TEXTS))] == pytest.approx(expected, abs=1e-5)
        unknown = client.post("/rerank", json={"query": QUERY, "texts": TEXTS, "prompt_name": "passage"})
        assert (unknown.status_code, "prompt" in unknown.text) == (422, True)


@pytest.mark.parametrize("query_prompt", [None, "find: "])
def test_prompts_are_those_of_a_search_in_the_servers_index(
    query_prompt: str | None, prompted: Path, tmp_path: Path
) -> None:
    extractor = Extractor(prompted, pooling="mean,token", precision="fp32", dtype="float32", prompt="of old: ")
    extractor.extract(memory_corpus(TEXTS), tmp_path / "c.features")
    options = BuildOptions(type="flat", evaluate=False, query_prompt=query_prompt)
    build_index(tmp_path / "c.features", tmp_path / "c.index", "last_mean", options=options)
    hits = Index(tmp_path / "c.index").search(QUERY, rerank=MaxSim(idf=False)).hits
    service = open_service([tmp_path / "c.index"], ServerSettings())
    with TestClient(create_app(service), "http://localhost") as client:
        found = client.post("/rerank", json={"query": QUERY, "texts": TEXTS}).json()
    assert [each["index"] for each in found] == [int(hit.id) - 1 for hit in hits]
    assert [each["score"] for each in found] == pytest.approx([hit.score / 1.5 for hit in hits], abs=1e-5)
    expected = with_prompts(prompted, query_prompt or "query: ", "of old: ")
    assert [each["score"] for each in found] == pytest.approx(sorted(expected, reverse=True), abs=1e-5)


@pytest.mark.parametrize("wrong", [{"top_n": True}, {"top_n": "1"}, {"top_n": 1.5}, {"return_documents": "yes"}])
def test_numbers_and_truth_values_are_not_guessed(wrong: dict[str, Any], client: TestClient) -> None:
    asked = {"query": QUERY, "documents": TEXTS, "user": "someone"}
    assert client.post("/v1/rerank", json=asked).status_code == 200
    refused = client.post("/v1/rerank", json=asked | wrong)
    assert (refused.status_code, next(iter(wrong)) in refused.text) == (400, True)


@pytest.mark.parametrize(
    ("path", "body", "status", "problem"),
    [
        ("/rerank", {"query": "a", "texts": []}, 400, "there are no texts to rank"),
        ("/rerank", {"query": " ", "texts": ["a"]}, 400, "text 0 is empty"),
        ("/rerank", {"query": "a", "texts": ["a", ""]}, 400, "text 1 is empty"),
        ("/rerank", {"query": "a", "texts": ["a"], "layers": "all"}, 422, "one recipe of layers is compared"),
        ("/rerank", {"query": "a", "texts": ["a"], "layers": "99"}, 422, "99"),
        ("/rerank", {"query": "a", "texts": ["a"], "truncation_direction": "up"}, 422, "truncation_direction"),
        ("/rerank", {"query": "a", "texts": ["a"] * 21}, 413, "21 texts are more than the 20 of a request"),
        ("/v1/rerank", {"query": "a", "documents": ["a"], "top_n": 0}, 400, "top_n"),
        ("/v1/rerank", {"query": "a", "documents": [{"title": "a"}]}, 400, "documents"),
        ("/v1/rerank", {"query": "a", "documents": ["a"], "model": "other"}, 404, "there is no model 'other'"),
    ],
)
def test_what_cannot_be_is_refused(
    client: TestClient, path: str, body: dict[str, Any], status: int, problem: str
) -> None:
    answer = client.post(path, json=body)
    assert (answer.status_code, problem in answer.text) == (status, True), answer.text


def test_openais_routes_are_there_without_v1(client: TestClient) -> None:
    asked = {"input": TEXTS}
    assert client.post("/embeddings", json=asked).content == client.post("/v1/embeddings", json=asked).content
    assert client.get("/models").content == client.get("/v1/models").content
    assert client.post("/embeddings", json={"input": []}).json()["error"]["type"] == "invalid_request_error"
