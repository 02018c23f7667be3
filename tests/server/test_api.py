"""The routes, as clients see them; numbers against the same texts computed offline."""

import base64
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from bertfeat import Extractor, build_index
from bertfeat.errors import UsageError
from bertfeat.server import ServerSettings, create_app, open_service
from tests.support.tiny_models import Tiny

TEXTS = ["He sat on the bank of the river.", "The bank lends money.", "Water runs under the old mill."]
LONG = " ".join(f"river {number}" for number in range(200))


@pytest.fixture(scope="module")
def folder(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index and a set of words."""
    place = tmp_path_factory.mktemp("served")
    corpus = place / "c.jsonl"
    rows = [f'{{"text": "{text} {number}", "year": {1900 + number}}}\n' for number, text in enumerate(TEXTS * 10)]
    corpus.write_text("".join(rows))
    from bertfeat import CorpusSettings

    extractor = Extractor(tiny("bert").folder, pooling="mean,word", layers="last,1", precision="fp32")
    extractor.extract(corpus, place / "c.features", corpus_settings=CorpusSettings(keep=("year",)))
    build_index(place / "c.features", place / "c.index", column="last_mean")
    return place


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    service = open_service([folder / "c.index", folder / "c.features"], ServerSettings(most_texts=100))
    with TestClient(create_app(service), "http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def extractor(tiny: Callable[[str], Tiny]) -> Extractor:
    return Extractor(tiny("bert").folder, precision="fp32", pooling="mean")


def normalized(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


# ── OpenAI ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_embeddings(client: TestClient, extractor: Extractor) -> None:
    answer = client.post("/v1/embeddings", json={"input": TEXTS, "model": extractor.model.name})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert [each["index"] for each in body["data"]] == [0, 1, 2]
    expected = extractor.encode(TEXTS)
    got = np.array([each["embedding"] for each in body["data"]], np.float32)
    np.testing.assert_allclose(got, normalized(expected), atol=1e-5)
    assert body["usage"]["total_tokens"] == sum(each.n_tokens for each in extractor.features(TEXTS))
    assert answer.headers["x-bertfeat-model"] == extractor.model.fingerprint
    assert answer.headers["x-bertfeat-columns"] == "last_mean"
    assert answer.headers["x-bertfeat-precision"] == "fp32"
    in_text = client.post("/v1/embeddings", json={"input": TEXTS, "encoding_format": "base64"}).json()
    decoded = [np.frombuffer(base64.b64decode(each["embedding"]), "<f4") for each in in_text["data"]]
    np.testing.assert_array_equal(np.stack(decoded), got)
    short = client.post("/v1/embeddings", json={"input": TEXTS[0], "dimensions": 5, "normalize": False}).json()
    np.testing.assert_allclose(short["data"][0]["embedding"], expected[0][:5], atol=1e-5)


def test_layers_and_words_of_a_request(client: TestClient, extractor: Extractor) -> None:
    asked = {"input": TEXTS, "layers": "concat=1+2", "pooling": "word"}
    body = client.post("/v1/embeddings", json=asked).json()
    offline = Extractor(extractor.location, precision="fp32", layers="concat=1+2", pooling="word", dtype="float32")
    for each, document, text in zip(body["data"], offline.features(TEXTS), TEXTS, strict=True):
        assert document.words is not None
        assert each["words"] == list(document.words.strings or ())
        assert [text[start:end] for start, end in each["offsets"]] == each["words"]
        np.testing.assert_allclose(each["embedding"], document.matrix(), atol=1e-5)
        assert each["shape"] == list(np.shape(each["embedding"]))


def test_what_is_cut_is_told(client: TestClient) -> None:
    whole = client.post("/v1/embeddings", json={"input": [TEXTS[0], LONG]})
    assert "truncated" not in whole.json()["usage"]
    assert "x-truncated-inputs" not in whole.headers
    cut = client.post("/v1/embeddings", json={"input": [TEXTS[0], LONG], "truncate": True})
    assert cut.json()["usage"]["truncated"] == [1]
    assert cut.headers["x-truncated-inputs"] == "1"
    tei = client.post("/embed", json={"inputs": [LONG, TEXTS[0]], "truncate": True})
    assert tei.headers["x-truncated-inputs"] == "0"


@pytest.mark.parametrize(("direction", "policy"), [("right", "truncate"), ("Left", "truncate-left")])
def test_either_end_is_cut(direction: str, policy: str, client: TestClient, tiny: Callable[[str], Tiny]) -> None:
    asked = {"truncate": True, "truncation_direction": direction}
    expected = normalized(Extractor(str(tiny("bert").folder), precision="fp32", long=policy).encode([LONG]))[0]
    embedded = client.post("/embed", json={"inputs": LONG, **asked}).json()[0]
    (openai,) = client.post("/v1/embeddings", json={"input": LONG, **asked}).json()["data"]
    for found in (embedded, openai["embedding"]):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({"input": []}, 400, "no texts"),
        ({"input": ""}, 400, "text 0 is empty"),
        ({"input": ["a", "  "]}, 400, "text 1 is empty"),
        ({"input": [3, 17]}, 400, "check_embedding_ctx_length=False"),
        ({"input": [[3, 17]]}, 400, "token ids"),
        ({"input": "a", "layers": "99"}, 400, "99"),
        ({"input": "a", "layers": "last,1"}, 400, "one of"),
        ({"input": "a", "pooling": "meen"}, 400, "meen"),
        ({"input": "a", "dimensions": 9999}, 400, "dimensions"),
        ({"input": "a", "model": "other"}, 404, "no model 'other'"),
        ({"input": ["a"] * 101}, 400, "101 texts"),
        ({"input": {"a": 1}}, 400, ""),
        ({}, 400, "input"),
        ({"input": "a", "encoding_format": "xml"}, 400, "base64"),
        ({"input": "a \ud800"}, 400, "surrogate"),
    ],
)
def test_wrong_requests(client: TestClient, body: dict[str, Any], status: int, told: str) -> None:
    import json

    answer = client.post("/v1/embeddings", content=json.dumps(body), headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert told in error["message"]
    assert "Traceback" not in answer.text


def test_models(client: TestClient, extractor: Extractor) -> None:
    name = extractor.model.name
    (model,) = client.get("/v1/models").json()["data"]
    assert model["id"] == name
    assert client.get("/v1/models/nothing").status_code == 404


# ── text-embeddings-inference ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", ["/embed", "/", "/invocations"])
def test_embed(client: TestClient, extractor: Extractor, path: str) -> None:
    expected = extractor.encode(TEXTS)
    answer = client.post(path, json={"inputs": TEXTS, "normalize": False})
    np.testing.assert_allclose(answer.json(), expected, atol=1e-5)
    np.testing.assert_allclose(client.post(path, json={"inputs": TEXTS}).json(), normalized(expected), atol=1e-5)
    assert {"x-compute-time", "x-queue-time", "x-inference-time", "x-tokenization-time"} <= set(answer.headers)
    raw = client.post(path, json={"inputs": TEXTS, "normalize": False}, headers={"accept": "application/octet-stream"})
    assert raw.headers["x-shape"] == f"3,{expected.shape[1]}"
    np.testing.assert_allclose(np.frombuffer(raw.content, "<f4").reshape(3, -1), expected, atol=1e-5)


def test_other_tei_routes(client: TestClient, extractor: Extractor) -> None:
    offline = Extractor(extractor.location, precision="fp32", pooling="token", dtype="float32").features(TEXTS)
    matrices = client.post("/embed_all", json={"inputs": TEXTS}).json()
    for matrix, document in zip(matrices, offline, strict=True):
        np.testing.assert_allclose(matrix, document.matrix(), atol=1e-5)
    vectors = normalized(extractor.encode(TEXTS))
    cosines = client.post("/similarity", json={"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}}).json()
    np.testing.assert_allclose(cosines, vectors[1:] @ vectors[0], atol=1e-5)
    (tokens,) = client.post("/tokenize", json={"inputs": TEXTS[0]}).json()
    inner = [token for token in tokens if not token["special"]]
    assert next(token["special"] for token in tokens) is tokens[-1]["special"] is True
    assert tuple(token["text"] for token in tokens) == offline[0].tokens.strings  # type: ignore[union-attr]
    assert all(TEXTS[0][token["start"] : token["stop"]] for token in inner)
    (text,) = client.post("/decode", json={"ids": [token["id"] for token in tokens]}).json()
    assert "bank" in text
    assert client.post("/decode", json={"ids": []}).status_code == 400
    assert client.post("/similarity", json={"inputs": {"source_sentence": "a", "sentences": []}}).status_code == 400
    info = client.get("/info").json()
    assert info["served_model_name"] == info["model_id"]
    assert info["max_client_batch_size"] == 100
    assert info["model_type"] == {"embedding": {"pooling": "mean"}}
    assert {client.get(path).status_code for path in ("/health", "/ping", "/ready")} == {200}
    metrics = client.get("/metrics").text
    assert 'te_request_count{method="batch"}' in metrics
    assert "te_request_inference_duration_bucket" in metrics
    types = {family.name: family.type for family in text_string_to_metric_families(metrics)}
    assert {types[f"te_request_{name}"] for name in ("count", "success", "failure")} == {"counter"}
    assert {types[name] for name in ("te_queue_size", "te_batch_next_size")} == {"gauge"}


@pytest.mark.parametrize(
    ("path", "body", "status", "kind"),
    [
        ("/embed", {"inputs": []}, 400, "Empty"),
        ("/embed", {"inputs": ""}, 400, "Empty"),
        ("/embed", {"inputs": 3}, 422, "Validation"),
        ("/embed", {"inputs": [1, 2]}, 400, "Validation"),
        ("/embed", {"inputs": ["a"] * 101}, 413, "Validation"),
        ("/embed", {"inputs": "a", "truncate": True, "truncation_direction": "both"}, 422, "Validation"),
        ("/embed", {"inputs": "a", "prompt_name": "nothing"}, 422, "Validation"),
        ("/embed", {"inputs": "a", "pooling": "token"}, 422, "Validation"),
        ("/nothing", {}, 404, "NotFound"),
        ("/info", {}, 405, "NotFound"),
    ],
)
def test_wrong_requests_in_their_form(
    client: TestClient, path: str, body: dict[str, Any], status: int, kind: str
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error", "error_type"}
    assert answer.json()["error_type"] == kind


# ── ours ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_features_in_every_form(client: TestClient, extractor: Extractor) -> None:
    asked = {"texts": TEXTS, "layers": ["last", "1"], "pooling": ["mean", "word"]}
    offline = Extractor(
        extractor.location, precision="fp32", layers="last,1", pooling="mean,word", dtype="float32"
    ).features(TEXTS)
    body = client.post("/features", json=asked).json()
    assert body["columns"] == ["last_mean", "last_word", "layer1_mean", "layer1_word"]
    arrow = client.post("/features", json=asked, headers={"accept": "application/vnd.apache.arrow.stream"})
    table = pa.ipc.open_stream(arrow.content).read_all()
    for number, document in enumerate(offline):
        item = body["data"][number]
        for name in body["columns"]:
            expected = document.vector(name) if name.endswith("mean") else document.matrix(name)
            np.testing.assert_allclose(item[name], expected, atol=1e-5)
            np.testing.assert_allclose(table[name][number].as_py(), expected, atol=1e-5)
        assert item["words"]["strings"] == table["words"][number].as_py() == list(document.words.strings or ())  # type: ignore[union-attr]


def test_search(client: TestClient, folder: Path) -> None:
    from bertfeat import Index

    expected = Index(folder / "c.index").search("money", 4, where="year > 1905")
    body = client.post("/search", json={"query": "money", "k": 4, "where": "year > 1905"}).json()
    assert [hit["id"] for hit in body["hits"]] == [hit.id for hit in expected.hits]
    third = client.post("/search", json={"query": "money", "k": 4}).json()["hits"][2]["score"]
    below = {"query": "money", "k": 100, "score_threshold": third - 1e-6}  # scores are rounded to six decimals
    near = client.post("/search", json=below).json()["hits"]
    assert min(hit["score"] for hit in near) == third
    assert client.post("/search", json={"query": "money", "score_threshold": 0}).status_code == 200
    guesses: list[dict[str, Any]] = [{"score_threshold": "0.1"}, {"score_threshold": True}]
    for guess in (*guesses, {"rerank": "maxsim", "rerank_weight": "1"}):
        assert client.post("/search", json={"query": "money", **guess}).status_code == 422, guess
    for hit in client.post("/search", json={"query": "money", "k": 4, "why": True}).json()["hits"]:
        assert sum(map(sum, hit["why"]["shares"])) == pytest.approx(hit["score"], abs=1e-5)
    strange = client.post("/search", json={"query": "река течёт в море", "k": 1}).json()
    assert strange["warnings"] == list(Index(folder / "c.index").search("река течёт в море", 1).warnings)
    assert "does not know the language" in strange["warnings"][0]
    assert "warnings" not in body
    vector = Index(folder / "c.index").encode(["money"])[0].tolist()
    assert client.post("/search", json={"vector": vector, "k": 1}).json()["hits"][0]["rank"] == 1
    for wrong in ({}, {"query": "a", "vector": [1.0]}, {"query": "a", "where": "nothing > 3"}, {"query": "a", "k": 0}):
        assert client.post("/search", json=wrong).status_code == 422, wrong
    assert client.post("/search", json={"query": "a", "where": "year > 1900); drop"}).status_code == 422


@pytest.mark.parametrize(
    "options",
    [{}, {"depth": 3}, {"weight": 0.0, "idf": False}, {"column": "layer1_word"}, {"depth": 30, "weight": 2.0}],
    ids=str,
)
def test_search_scores_again_as_the_library_does(client: TestClient, folder: Path, options: dict[str, Any]) -> None:
    from bertfeat import Index, MaxSim

    query = "The old bank of a river"
    expected = Index(folder / "c.index").search(query, 5, where="year > 1903", rerank=MaxSim(**options)).hits
    given = {f"rerank_{name}": value for name, value in options.items()}
    body = {"query": query, "k": 5, "where": "year > 1903", "rerank": "maxsim", **given}
    answer = client.post("/search", json=body)
    assert answer.status_code == 200, answer.text
    plain = [{name: hit[name] for name in hit if name != "number"} for hit in answer.json()["hits"]]
    for hit, theirs in zip(plain, (each.to_json() for each in expected), strict=True):
        assert set(hit) == set(theirs)
        for name, value in theirs.items():
            assert hit[name] == (pytest.approx(value, abs=1e-5) if isinstance(value, float) else value), name


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"rerank": "colbert"}, "maxsim"),
        ({"rerank_depth": 3}, 'rerank_depth is for "rerank": "maxsim"'),
        ({"rerank": "maxsim", "rerank_depth": 0}, "rerank_depth"),
        ({"rerank": "maxsim", "rerank_weight": -1}, '"rerank_weight": -1.0: must be from 0 to 1,000,000'),
        ({"rerank": "maxsim", "rerank_column": "layer99_word"}, "99"),
        ({"rerank": "maxsim", "rerank_column": "last_mean"}, "last_mean is one vector a document"),
        ({"rerank": "maxsim", "query": None, "vector": [0.5] * 4}, "leave one out"),
    ],
)
def test_wrong_ways_to_score_again(client: TestClient, body: dict[str, Any], told: str) -> None:
    answer = client.post("/search", json={"query": "money", **body})
    assert answer.status_code == 422, answer.text
    assert told in answer.json()["error"]


RIGHT: dict[str, dict[str, Any]] = {
    "/rerank": {"query": "money", "texts": ["a", "b"]},
    "/v1/rerank": {"query": "money", "documents": ["a", "b"]},
    "/v1/embeddings": {"input": "a"},
    "/embed": {"inputs": "a"},
    "/": {"inputs": "a"},
    "/invocations": {"inputs": "a"},
    "/embed_all": {"inputs": "a"},
    "/similarity": {"inputs": {"source_sentence": "a", "sentences": ["b"]}},
    "/tokenize": {"inputs": "a"},
    "/decode": {"ids": [1]},
    "/features": {"texts": "a"},
    "/search": {"query": "money"},
    "/usages": {"word": "bank", "layers": "last"},
    "/collocates": {"word": "bank", "least": 1},
    "/tag": {"texts": "a"},
}
"""A body that each route takes."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("path", RIGHT)
def test_an_option_that_is_null_is_left_out(client: TestClient, path: str) -> None:
    schema = client.get("/openapi.json").json()
    reference = schema["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"]
    body = schema["components"]["schemas"][reference.rpartition("/")[2]]
    options = sorted(set(body["properties"]) - set(body.get("required", ())) - set(RIGHT[path]))
    without = client.post(path, json=RIGHT[path])
    for names in [*([name] for name in options), options]:
        answer = client.post(path, json=RIGHT[path] | dict.fromkeys(names))
        assert (answer.status_code, answer.content) == (without.status_code, without.content), names
    for name in options:
        assert {"type": "null"} in body["properties"][name]["anyOf"]
    needed = dict.fromkeys(body.get("required", ()))
    assert client.post(path, json=needed or {"query": None}).status_code in (400, 422)


def test_unknown_fields_are_refused_with_those_that_there_are(client: TestClient) -> None:
    """To ignore one would be to answer another question."""
    for path, body in RIGHT.items():
        answer = client.post(path, json={**body, "rerankk": "maxsim"})
        assert answer.status_code == (400 if path.startswith("/v1/") else 422), (path, answer.text)
        assert "rerankk: there is no such field; the fields are " in answer.text
        assert next(iter(body)) in answer.text.partition("the fields are")[2]
        assert client.post(path, json={**body, "x" * 5000: 1}).status_code == (400 if path.startswith("/v1/") else 422)
    nested = client.post("/similarity", json=RIGHT["/similarity"] | {"parameters": {"normalize": True}})
    assert nested.status_code == 422
    assert "parameters.normalize: there is no such field; the fields are truncate, " in nested.json()["error"]
    for path, body in RIGHT.items():  # fields that are put into the address
        answer = client.post(f"{path}?rerank=maxsim", json=body)
        assert answer.status_code == (400 if path.startswith("/v1/") else 422), (path, answer.text)
        assert "rerank: there is no such query parameter; the body takes " in answer.text
        assert next(iter(body)) in answer.text.partition("the body takes")[2]


@pytest.mark.parametrize("path", ["/info", "/health", "/ready", "/metrics", "/v1/models", "/page/state"])
def test_a_query_parameter_that_no_route_has(client: TestClient, path: str) -> None:
    assert client.get(path).status_code in (200, 202)
    assert client.get(f"{path}?").status_code in (200, 202)
    for query in ("foo=1", "foo"):
        answer = client.get(f"{path}?{query}")
        assert answer.status_code == (400 if path.startswith("/v1/") else 422), answer.text
        assert "foo: there is no such query parameter; the route has none" in answer.text
    assert len(client.get(path, params={"x" * 5000: 1}).text) < 500


def test_query_parameters_that_a_route_has(client: TestClient) -> None:
    assert len(client.get("/page/documents?numbers=1,2").json()["documents"]) == 2
    answer = client.get("/page/documents?numbers=1&number=2")
    assert answer.status_code == 422
    expected = "number: there is no such query parameter; the parameters are numbers, rows, layout"
    assert answer.json()["error"] == expected
    twice = client.get("/page/documents?numbers=1&numbers=2")
    assert (twice.status_code, twice.json()["error"]) == (422, "numbers: it is given twice")


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/openapi.json"])
def test_files_take_any_query_parameter(client: TestClient, path: str) -> None:
    assert client.get(f"{path}?v=17&utm_source=mail&v=18").content == client.get(path).content


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/embeddings", {"input": "a", "user": "me", "dimensions": None, "encoding_format": None}),
        ("/embed", {"inputs": "a", "truncate": True, "truncation_direction": "Right", "prompt_name": None}),
        ("/embed", {"inputs": ["a"], "options": {"wait_for_model": True, "use_cache": False}}),
        ("/", {"inputs": "a", "normalize": None, "dimensions": None, "encoding_format": "float"}),
        ("/embed_all", {"inputs": "a", "truncate": False, "truncation_direction": "right"}),
    ],
)
def test_fields_that_clients_send_are_known(client: TestClient, path: str, fields: dict[str, Any]) -> None:
    answer = client.post(path, json=fields)
    assert answer.status_code == 200, answer.text


def test_routes_of_one_vector_say_what_there_is_instead(tiny: Callable[[str], Tiny], extractor: Extractor) -> None:
    """Where the default is tokens, or several columns."""
    texts = {"inputs": {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}}
    vectors = normalized(extractor.encode(TEXTS))
    default: list[dict[str, Any]] = [{"pooling": "token"}, {"pooling": "mean,cls"}, {"layers": "last,1"}]
    for settings in default:
        service = open_service([], ServerSettings(), model=str(tiny("bert").folder), precision="fp32", **settings)
        with TestClient(create_app(service), "http://localhost") as client:
            for path, body in (("/similarity", texts), ("/embed", {"inputs": TEXTS})):
                refused = client.post(path, json=body)
                assert refused.status_code == 422, refused.text
                assert ("last_token" if settings.get("pooling") == "token" else "last_mean") in refused.json()["error"]
            chosen = {**texts, "parameters": {"layers": "last", "pooling": "mean"}}
            cosines = client.post("/similarity", json=chosen).json()
            np.testing.assert_allclose(cosines, vectors[1:] @ vectors[0], atol=1e-5)


def test_usages(client: TestClient, folder: Path) -> None:
    from bertfeat import find_collocates, find_senses, find_usages, find_usages_by
    from bertfeat.usages import PATTERN_HELP

    like = "She sat on the bank of a river."
    expected = find_usages(folder / "c.features", "bank", like=like, k=5, column="last")
    body = client.post("/usages", json={"word": "bank", "like": like, "k": 5, "layers": "last"}).json()
    assert [usage["row"] for usage in body["usages"]] == [usage.row for usage in expected.usages]
    second = {"word": "bank", "k": 1, "page": 2, "sort": "left", "sample": 3, "layers": "last"}
    listed = client.post("/usages", json=second).json()
    expected = find_usages(folder / "c.features", "bank", k=1, page=2, sort="left", sample=3, column="last")
    assert ([usage["row"] for usage in listed["usages"]], listed["per_million"]) == (
        [usage.row for usage in expected.usages], expected.per_million,
    )  # fmt: skip
    by_year = {"word": "bank", "by": "year", "slices": "every:1", "k": 0, "layers": "last"}
    pattern = client.post("/usages", json={"word": "the []{0,2} b*k", "k": 0, "layers": "last"}).json()
    assert pattern["found"] == find_usages(folder / "c.features", "the []{0,2} b*k", k=0, column="last").found > 0
    unknown = client.post("/usages", json={"word": "[lemma='go']", "layers": "last"})
    assert (unknown.status_code, PATTERN_HELP in unknown.text.replace('\\"', '"').replace("\\\\", "\\")) == (422, True)
    sliced = find_usages_by(folder / "c.features", "bank", "year", "every:1", k=0).slices
    assert [
        (one["slice"]["name"], one["found"], one["per_million"])
        for one in client.post("/usages", json=by_year).json()["slices"]
    ] == [(one.slice.name, one.found, one.per_million) for one in sliced]
    assert client.post("/usages", json={"word": "bank", "slices": "every"}).status_code == 422
    nearby = {"word": "bank", "near": "the", "left": 2, "right": 0, "layers": "last"}
    found = find_usages(folder / "c.features", "bank", near="the", left=2, right=0, column="last").usages
    beside = client.post("/usages", json=nearby).json()["usages"]
    assert [(usage["row"], usage["start"]) for usage in beside] == [(usage.row, usage.start) for usage in found] != []
    assert client.post("/usages", json={"word": "bank", "left": 2}).status_code == 422
    within = {"word": "bank", "near": "the", "spans": "words:3", "layers": "last"}
    found = find_usages(folder / "c.features", "bank", near="the", spans="words:3", column="last").usages
    beside = client.post("/usages", json=within).json()["usages"]
    assert [(usage["left"], usage["right"]) for usage in beside] == [(usage.left, usage.right) for usage in found] != []
    for path in ("/usages", "/collocates"):
        refused = client.post(path, json={"word": "bank", "spans": "lines"})
        assert refused.status_code == 422
        assert "these spans are unknown" in refused.json()["error"]
        refused = client.post(path, json={"word": "bank", "spans": "column:nothing"})
        assert refused.status_code == 422
        assert "no column 'nothing' of texts was kept" in refused.json()["error"]
    near = client.post("/collocates", json={"word": "bank", "left": 2, "least": 1, "measure": "log-dice"}).json()
    collocates = find_collocates(folder / "c.features", "bank", left=2, least=1, measure="log-dice")
    assert [one["word"] for one in near["collocates"]] == [one.word for one in collocates.collocates] != []
    cut = client.post("/collocates", json={"word": "bank", "least": 1, "spans": "words:3"}).json()
    collocates = find_collocates(folder / "c.features", "bank", least=1, spans="words:3")
    assert ([one["word"] for one in cut["collocates"]], cut["spans"]) == (
        [one.word for one in collocates.collocates], "words:3",
    )  # fmt: skip
    assert client.post("/collocates", json={"word": "bank", "where": "nothing > 1"}).status_code == 422
    grouped = client.post("/usages", json={"word": "bank", "senses": 2, "layers": "last"}).json()
    senses = find_senses(folder / "c.features", "bank", 2, column="last")
    assert [sense["count"] for sense in grouped["senses"]] == [sense.count for sense in senses.senses]
    assert client.post("/usages", json={"word": "bank", "features": "other"}).status_code == 404
    for wrong in ({"layers": "99"}, {"like": "no mark of it"}, {"k": 3, "where": "nothing > 1", "layers": "last"}):
        refused = client.post("/usages", json={"word": "bank", **wrong})
        assert refused.status_code == 422, refused.text
        assert "--" not in refused.json()["error"]
    assert client.post("/usages", json={"word": "bank"}).json()["column"] == "last_word"
    assert client.post("/tag", json={"texts": "a"}).status_code == 404


# ── operation ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_model_with_names_for_clients(tiny: Callable[[str], Tiny]) -> None:
    model = str(tiny("bert").folder)
    settings = ServerSettings(served_names=("corpus", "text-embedding-3-small"))
    with TestClient(create_app(open_service([], settings, model=model)), "http://localhost") as named:
        ids = [each["id"] for each in named.get("/v1/models").json()["data"]]
        assert ids == ["corpus", "text-embedding-3-small"]
        assert named.get("/v1/models/text-embedding-3-small").json()["id"] == "text-embedding-3-small"
        info = named.get("/info").json()
        assert (info["served_model_name"], info["model_id"]) == ("corpus", model)
        assert named.get("/page/state").json()["model"]["name"] == model
        for name in (None, *ids, model):
            body = {"input": "a", **({} if name is None else {"model": name})}
            assert named.post("/v1/embeddings", json=body).json()["model"] == "corpus"
        refused = named.post("/v1/embeddings", json={"input": "a", "model": "other"})
        assert refused.status_code == 404
        assert "only 'corpus' and 'text-embedding-3-small'" in refused.json()["error"]["message"]
    with pytest.raises(UsageError, match="served_names='a': this name is given twice"):
        ServerSettings(served_names=("a", "a"))
    for wrong in ("a b", "", "x" * 201, "é", "\t"):
        with pytest.raises(UsageError, match=r"served_names=.*: a name has up to 200 printable characters"):
            ServerSettings(served_names=(wrong,))
        with pytest.raises(UsageError, match=r"also_models=.*: a name has up to 200 printable characters"):
            open_service([], ServerSettings(), model=model, also_models={wrong: tiny("roberta").folder})


def test_health_is_not_readiness(tiny: Callable[[str], Tiny], monkeypatch: pytest.MonkeyPatch) -> None:
    service = open_service([], ServerSettings(), model=str(tiny("bert").folder))
    with TestClient(create_app(service), "http://localhost") as served:
        assert [served.get(path).status_code for path in ("/health", "/ready")] == [200, 200]
        monkeypatch.setattr(type(service.batcher), "waiting_tokens", service.batcher.most_tokens)
        assert [served.get(path).status_code for path in ("/health", "/ready")] == [200, 503]
        monkeypatch.undo()
        service.is_ready = False
        assert [served.get(path).status_code for path in ("/health", "/ping", "/ready")] == [200, 200, 503]


# ── access and limits ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def locked(tiny: Callable[[str], Tiny]) -> Iterator[TestClient]:
    settings = ServerSettings(
        api_keys=("first", "second"), cors_origins=("https://a.example",), most_body=2000, prefix="/below"
    )
    with TestClient(create_app(open_service([], settings, model=str(tiny("bert").folder)))) as client:
        yield client


def test_keys_sizes_prefixes_and_pages_of_others(locked: TestClient) -> None:
    body = {"input": "a river"}
    for headers in ({}, {"Authorization": "Bearer other"}, {"Authorization": "Bearer "}, {"X-API-Key": "firs"}):
        answer = locked.post("/v1/embeddings", json=body, headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_api_key"
    assert locked.get("/metrics").status_code == 401
    assert locked.get("/health").status_code == 200
    for headers in ({"Authorization": "Bearer first"}, {"Authorization": "second"}, {"X-API-Key": "first"}):
        assert locked.post("/v1/embeddings", json=body, headers=headers).status_code == 200
        assert locked.post("/below/v1/embeddings", json=body, headers=headers).status_code == 200
    key = {"Authorization": "Bearer first"}
    large = locked.post("/embed", json={"inputs": "a " * 2000}, headers=key)
    assert (large.status_code, large.json()["error_type"]) == (413, "Validation")
    chunks = locked.post("/embed", content=(b" " * 500 for _ in range(10)), headers=key)
    assert chunks.status_code == 413
    preflight = locked.options(
        "/v1/embeddings",
        headers={
            "Origin": "https://a.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        },
    )
    assert preflight.status_code == 200
    assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
    refused = locked.post("/v1/embeddings", json=body, headers={"Origin": "https://a.example"})
    assert refused.headers["access-control-allow-origin"] == "https://a.example"


def test_token_ids_where_they_are_taken() -> None:
    """With the default model, whose tokenizer can decode."""
    text = "Don't stop: the café 🙂 lends money [UNK]."
    with TestClient(create_app(open_service([], ServerSettings(accept_token_ids=True))), "http://localhost") as client:
        (tokens,) = client.post("/tokenize", json={"inputs": text}).json()
        by_ids = client.post("/embed", json={"inputs": [[token["id"] for token in tokens]]})
        by_text = client.post("/embed", json={"inputs": [text]})
        assert by_ids.status_code == 200, by_ids.text
        np.testing.assert_allclose(by_ids.json(), by_text.json(), atol=1e-6)
        assert client.post("/embed", json={"inputs": [[29_999, 29_998]]}).status_code in (200, 400)
        assert client.post("/embed", json={"inputs": [[99_999_999]]}).status_code == 400
