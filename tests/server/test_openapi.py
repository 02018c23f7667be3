"""OpenAPI's document holds: random bodies get statuses, types and forms of errors that it names, and no 5xx."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from starlette.testclient import TestClient

from bertfeat import CorpusSettings, Extractor, build_index
from bertfeat.server import ServerSettings, create_app, open_service
from tests.support.tagging_toy import feature_set, train
from tests.support.tiny_models import Tiny

POST_PATHS = (
    "/v1/embeddings",
    "/embeddings",
    "/v1/rerank",
    "/rerank",
    "/",
    "/embed",
    "/invocations",
    "/embed_all",
    "/similarity",
    "/tokenize",
    "/decode",
    "/features",
    "/search",
    "/usages",
    "/collocates",
    "/tag",
)
RELOAD = "/reload"  # which takes no body
GET_PATHS = (
    "/v1/models",
    "/v1/models/{name}",
    "/models",
    "/models/{name}",
    "/info",
    "/health",
    "/ping",
    "/ready",
    "/metrics",
)
ACCEPT = ("*/*", "application/json", "application/octet-stream", "application/vnd.apache.arrow.stream", "image/png", "")
FAILURES = (424, 429, 499)  # that tell of an error in the server here, where nothing else is asked

_Schema = dict[str, Any]
_some = settings(max_examples=30, suppress_health_check=list(HealthCheck), derandomize=True, database=None)


@pytest.fixture(scope="module")
def client(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A server of everything that there is: an index, words, a tagger."""
    place = tmp_path_factory.mktemp("openapi")
    texts = ("He sat on the bank of the river.", "The bank lends money.", "Water runs under the old mill.")
    rows = [json.dumps({"text": f"{text} {number}", "year": 1900 + number}) for number, text in enumerate(texts * 4)]
    (place / "c.jsonl").write_text("\n".join(rows))
    model = tiny("bert").folder
    extractor = Extractor(model, pooling="mean,word", layers="last,1", precision="fp32")
    extractor.extract(place / "c.jsonl", place / "c.features", corpus_settings=CorpusSettings(keep=("year",)))
    build_index(place / "c.features", place / "c.index", column="last_mean")
    train_set, dev_set = (feature_set(model, place / f"{n}.features", n, n) for n in (20, 5))
    train(train_set, dev_set, place / "tagger", layers="last")
    folders = [place / "c.index", place / "c.features"]
    service = open_service(folders, ServerSettings(most_texts=20), tagger=place / "tagger")
    with TestClient(create_app(service), "http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def document(client: TestClient) -> _Schema:
    found: _Schema = client.get("/openapi.json").json()
    return found


# ── bodies ──────────────────────────────────────────────────────────────────────────────────────────────────

_SPECS = ("last", "1", "-2", "concat=1+2", "all", "sum4", "")
_POOLINGS = ("mean", "cls", "max", "word", "token", "")
_KNOWN = {  # strings that mean something in a field; of all others, and of these too, any string is tried
    "word": ("bank", "river", "BANK", "ban"),
    "like": ("He sat on the *bank*.", "The bank of a river."),
    "where": ("year > 1905", "year in (1900, 1903)", "nothing = 1"),
    "features": ("c.features",),
    "layers": _SPECS,
    "pooling": _POOLINGS,
    "model": ("bert",),
    "prompt_name": ("query", "document"),
}
_TEXTS = ("river bank", "The *bank* of the river.", "a", "", " ")
_odd = st.one_of(
    st.text(max_size=20), st.sampled_from(("\ud83d", "a \udc00 b", "\x00", "\u2028", "\ufe0f", "x" * 3000))
)
_strings = st.sampled_from(_TEXTS) | _odd
_numbers = st.one_of(
    st.integers(-3, 40), st.integers(-(2**70), 2**70), st.floats(), st.sampled_from((2**31 - 1, 2**31, 2**63, 1e400))
)
_anything = st.recursive(
    st.one_of(st.none(), st.booleans(), _numbers, _strings),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_strings, inner, max_size=3),
    max_leaves=6,
)


def of_schema(schema: _Schema, document: _Schema, name: str = "") -> st.SearchStrategy[Any]:
    """Values that a schema allows for a field, and more often than by chance those that mean something there."""
    if "$ref" in schema:
        return of_schema(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    if "anyOf" in schema:
        return st.one_of([of_schema(each, document, name) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "object" if "properties" not in schema:
            return st.dictionaries(_strings, _anything, max_size=2)
        case "object":
            fields = {field: of_schema(each, document, field) for field, each in schema["properties"].items()}
            required = {field: fields.pop(field) for field in schema.get("required", ())}
            few = st.fixed_dictionaries(required)
            return few | st.fixed_dictionaries(required, optional=fields)
        case "array":
            least = schema.get("minItems", 0)
            return st.lists(of_schema(schema["items"], document, name), min_size=least, max_size=max(4, least))
        case "integer":
            least = int(schema.get("minimum", -3))
            most = int(schema.get("maximum", schema.get("exclusiveMaximum", least + 2**31) - 1))
            return st.integers(least, min(most, least + 40)) | st.integers(least, most)
        case "number":
            return st.floats(-2, 2) | st.floats()
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case _:
            known = st.sampled_from(_KNOWN.get(name, _TEXTS))
            return st.one_of(known, known, known, _odd)


def bodies(schema: _Schema, document: _Schema) -> st.SearchStrategy[Any]:
    """Bodies that a schema allows, and such with something else in one place, or everywhere."""
    right = of_schema(schema, document)
    names = sorted(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"])
    wrong = st.builds(lambda body, name, value: {**body, name: value}, right, st.sampled_from(names), _anything)
    return st.one_of(right, wrong, _anything)


def is_openai(path: str) -> bool:
    return path.startswith(("/v1/", "/models", "/embeddings"))


# ── tests ───────────────────────────────────────────────────────────────────────────────────────────────────


def assert_documented(answer: Any, responses: _Schema, *, openai: bool) -> None:
    status = answer.status_code
    assert status < 500
    assert status not in FAILURES, answer.text
    assert str(status) in responses, (status, answer.text)
    assert answer.headers["content-type"].partition(";")[0] in responses[str(status)]["content"]
    assert answer.headers["x-request-id"]
    if status >= 400:
        error = answer.json()
        if openai:
            assert set(error["error"]) == {"message", "type", "param", "code"}
        else:
            assert set(error) == {"error", "error_type"}
        assert error["error"]
        assert "Traceback" not in answer.text


def test_the_document_names_every_route(document: _Schema) -> None:
    paths = document["paths"]
    assert sorted(path for path in paths if "post" in paths[path]) == sorted((*POST_PATHS, RELOAD))
    assert sorted(path for path in paths if "get" in paths[path]) == sorted(GET_PATHS)
    for path, operations in paths.items():
        for operation in operations.values():
            wrong = {"400", "401", "429"} if is_openai(path) else {"401", "413", "429"}
            assert wrong <= set(operation["responses"]), path
            assert is_openai(path) <= ("422" not in operation["responses"]), path
    assert "HTTPValidationError" not in document["components"]["schemas"]
    assert set(paths["/metrics"]["get"]["responses"]["200"]["content"]) == {"text/plain"}
    forms = {"application/json", "application/octet-stream", "application/vnd.apache.arrow.stream"}
    assert set(paths["/features"]["post"]["responses"]["200"]["content"]) == forms


@pytest.mark.sampled(3, 5)
@pytest.mark.parametrize("path", POST_PATHS)
@_some
@given(data=st.data())
def test_random_bodies(client: TestClient, document: _Schema, path: str, data: st.DataObject) -> None:
    operation = document["paths"][path]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    body = json.dumps(data.draw(bodies(schema, document)))
    headers = {"content-type": "application/json", "accept": data.draw(st.sampled_from(ACCEPT))}
    answer = client.post(path, content=body, headers=headers)
    assert_documented(answer, operation["responses"], openai=is_openai(path))


@_some
@given(
    path=st.sampled_from(POST_PATHS),
    body=st.binary(max_size=30)
    | st.sampled_from((b"", b"[" * 100_000, b'{"a":' * 50_000, b"\xff\xfe{\x00}\x00", b"NaN")),
    kind=st.sampled_from(
        ("application/json", "application/x-www-form-urlencoded", "text/plain", "application/json; charset=x")
    ),
)
def test_bodies_that_are_no_json(client: TestClient, document: _Schema, path: str, body: bytes, kind: str) -> None:
    answer = client.post(path, content=body, headers={"content-type": kind})
    assert answer.status_code >= 400
    assert_documented(answer, document["paths"][path]["post"]["responses"], openai=is_openai(path))


@pytest.mark.parametrize(
    ("path", "body", "kind", "status", "told"),
    [
        ("/v1/embeddings", '{"input": "a", "prompt": "\\ud83d"}', "application/json", 400, "surrogate pair"),
        ("/features", '{"texts": "a", "prompt": "\\ud83d"}', "application/json", 422, "surrogate pair"),
        ("/embed", '{"inputs": "a"}', "application/x-www-form-urlencoded", 422, "Content-Type: application/json"),
        ("/v1/embeddings", '{"input": "a"}', "text/plain", 400, "Content-Type: application/json"),
        ("/v1/embeddings", '{"input": {"a": 1}}', "application/json", 400, '"param":"input"'),
    ],
)
def test_what_random_bodies_found(client: TestClient, path: str, body: str, kind: str, status: int, told: str) -> None:
    answer = client.post(path, content=body, headers={"content-type": kind})
    assert answer.status_code == status
    assert told in answer.text


@_some
@given(path=st.sampled_from(GET_PATHS), name=st.text(min_size=1, max_size=10))
def test_getting(client: TestClient, document: _Schema, path: str, name: str) -> None:
    from urllib.parse import quote

    answer = client.get(path.replace("{name}", quote(name, safe="")), params={name: name})
    assert_documented(answer, document["paths"][path]["get"]["responses"], openai=is_openai(path))
