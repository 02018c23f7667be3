"""Clients that exist talk to ``bertfeat serve``, and get the vectors that an Extractor computes."""

# mypy: disable-error-code="import-not-found, misc, no-any-return, no-untyped-call, attr-defined"

import asyncio
import base64
import json
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from bertfeat import Extractor
from tests.support.tiny_models import Tiny

pytest.importorskip("fastapi", reason="pip install 'bertfeat[serve]'")
pytest.importorskip("orjson", reason="pip install 'bertfeat[serve]'")
pytest.importorskip("uvicorn", reason="pip install 'bertfeat[serve]'")
import uvicorn

from bertfeat.server import ServerSettings, create_app, open_service
from bertfeat.server.batching import QueueFullError

TEXTS = ["He sat on the bank of the river.", "The bank lends money.", "Water runs under the old mill — 은행, 🙂."]
LONG = " ".join(f"river {number}" for number in range(200))
KEY = "a-key"


@dataclass(frozen=True)
class Running:
    """A server that listens."""

    url: str  # without a slash at its end
    model: str
    offline: Extractor

    @property
    def v1(self) -> str:
        """What clients of OpenAI's API call the base URL."""
        return f"{self.url}/v1"

    def vectors(self, texts: list[str], **settings: Any) -> NDArray[np.float32]:
        """What answers have to be: vectors of length 1, computed without a server."""
        made = Extractor(self.offline.location, precision="fp32", pooling="mean", **settings) if settings else None
        return unit((made or self.offline).encode(texts))


def unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return scaled


def assert_same(found: ArrayLike, expected: ArrayLike) -> None:
    np.testing.assert_allclose(np.asarray(found, np.float64), np.asarray(expected, np.float64), atol=1e-5, rtol=0)


@pytest.fixture(scope="module")
def offline(tiny: Callable[[str], Tiny]) -> Extractor:
    return Extractor(tiny("bert").folder, precision="fp32", pooling="mean")


@pytest.fixture(scope="module")
def server(offline: Extractor) -> Iterator[Running]:
    """``bertfeat serve`` in a process of its own, which asks for a key."""
    arguments = ["serve", "--model", str(offline.location), "--pooling", "mean", "--precision", "fp32"]
    command = [sys.executable, "-c", "from bertfeat.cli import run; run()", *arguments, "--port", "0", "--api-key", KEY]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told: list[str] = []
        for line in process.stderr:
            told.append(line)
            if " at http://" in line:
                break
        else:
            pytest.fail("".join(told))
        # read on, so that the server never waits for somebody to read
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()
        try:
            yield Running(told[-1].split()[-1].rstrip("/"), offline.model.name, offline)
        finally:
            process.terminate()
            process.wait(30)
            reader.join(30)


# ── openai ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def openai_client(server: Running) -> Iterator[Any]:
    openai = pytest.importorskip("openai", reason="make ecosystem installs it")
    with openai.OpenAI(base_url=server.v1, api_key=KEY, max_retries=0) as client:
        yield client


def test_openai(server: Running, openai_client: Any) -> None:
    expected = server.vectors(TEXTS)
    answer = openai_client.embeddings.create(input=TEXTS, model=server.model)  # base64, which the library asks for
    assert_same([each.embedding for each in answer.data], expected)
    assert [each.index for each in answer.data] == [0, 1, 2]
    assert answer.model == server.model
    tokens = sum(each.n_tokens for each in server.offline.features(TEXTS))
    assert (answer.usage.prompt_tokens, answer.usage.total_tokens) == (tokens, tokens)
    floats = openai_client.embeddings.create(input=TEXTS, model=server.model, encoding_format="float")
    assert_same([each.embedding for each in floats.data], expected)
    raw = openai_client.embeddings.create(input=TEXTS, model=server.model, encoding_format="base64")
    decoded = [np.frombuffer(base64.b64decode(each.embedding), "<f4") for each in raw.data]
    assert_same(decoded, expected)
    one = openai_client.embeddings.create(input=TEXTS[1], model=server.model, dimensions=5)
    assert_same(one.data[0].embedding, unit(server.offline.encode([TEXTS[1]])[:, :5])[0])
    assert [model.id for model in openai_client.models.list()] == [server.model]
    assert openai_client.models.retrieve(server.model).id == server.model


def test_openai_with_layers_and_words(server: Running, openai_client: Any) -> None:
    asked = {"layers": "concat=1+2", "pooling": "word"}
    documents = Extractor(
        server.offline.location, precision="fp32", layers="concat=1+2", pooling="word", dtype="float32"
    ).features(TEXTS)
    for form in ({}, {"encoding_format": "float"}):
        answer = openai_client.embeddings.create(input=TEXTS, model=server.model, extra_body=asked, **form)
        for each, document in zip(answer.data, documents, strict=True):
            assert_same(np.reshape(each.embedding, each.shape), document.matrix())
            assert document.words is not None
            assert each.words == list(document.words.strings or ())
    answered = openai_client.embeddings.with_raw_response.create(
        input=[TEXTS[0], LONG], model=server.model, extra_body={"truncate": True}
    )
    assert answered.headers["x-truncated-inputs"] == "1"
    assert answered.headers["x-bertfeat-model"] == server.offline.model.fingerprint
    assert answered.headers["x-request-id"]
    cut = answered.parse()
    assert cut.usage.truncated == [1]
    assert_same([each.embedding for each in cut.data], server.vectors([TEXTS[0], LONG], long="truncate"))


def test_openai_async(server: Running) -> None:
    openai = pytest.importorskip("openai", reason="make ecosystem installs it")

    async def many() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=server.v1, api_key=KEY, max_retries=0) as client:
            asked = [client.embeddings.create(input=[text] * 3, model=server.model) for text in [*TEXTS, LONG] * 5]
            return [each.data[2].embedding for each in await asyncio.gather(*asked)]

    assert_same(asyncio.run(many()), np.tile(server.vectors([*TEXTS, LONG]), (5, 1)))


def test_openai_errors(server: Running, openai_client: Any) -> None:
    openai = pytest.importorskip("openai", reason="make ecosystem installs it")

    def refused(kind: type[Exception], **asked: Any) -> Any:
        with pytest.raises(kind) as found:
            openai_client.embeddings.create(**{"input": "a river", "model": server.model, **asked})
        return found.value

    missing = refused(openai.NotFoundError, model="text-embedding-3-small")
    assert (missing.code, missing.param, missing.type) == ("model_not_found", "model", "not_found_error")
    empty = refused(openai.BadRequestError, input=["a", ""])
    assert (empty.param, empty.body["message"]) == ("input", "text 1 is empty")
    assert empty.request_id
    assert "check_embedding_ctx_length=False" in refused(openai.BadRequestError, input=[[9906, 1917]]).message
    assert refused(openai.BadRequestError, dimensions=10**6).param == "dimensions"
    assert "2,049 texts" in refused(openai.BadRequestError, input=["a"] * 2049).message
    assert "maximum context length" in refused(openai.BadRequestError, input="a " * 400_000).message
    with openai.OpenAI(base_url=server.v1, api_key="another", max_retries=0) as stranger:
        with pytest.raises(openai.AuthenticationError) as found:
            stranger.embeddings.create(input="a", model=server.model)
        assert found.value.code == "invalid_api_key"
    lost = openai_client.with_options(base_url=f"{server.v1}/nothing")
    with pytest.raises(openai.NotFoundError, match="no such route"):
        lost.embeddings.create(input="a", model=server.model)


# ── a server that has too much to do, or has just started ───────────────────────────────────────────────────


class InThread:
    """A server on a thread, so that what it is asked can be interfered with."""

    def __init__(self, offline: Extractor) -> None:
        self.service = open_service([], ServerSettings(), model=str(offline.location), pooling="mean", precision="fp32")
        config = uvicorn.Config(create_app(self.service), port=0, ws="none", log_config=None, access_log=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
            assert self._thread.is_alive()
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.running = Running(f"http://127.0.0.1:{port}", offline.model.name, offline)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)


@pytest.fixture(scope="module")
def in_thread(offline: Extractor) -> Iterator[InThread]:
    server = InThread(offline)
    yield server
    server.stop()


class Full:
    """In place of a batcher's ``submit``: the queue is full the first times."""

    def __init__(self, submit: Callable[..., Any], times: int, seconds: float = 1.0) -> None:
        self.submit, self.times, self.seconds = submit, times, seconds
        self.calls = 0

    def __call__(self, *given: Any) -> Any:
        self.calls += 1
        if self.calls <= self.times:
            raise QueueFullError(self.seconds)
        return self.submit(*given)


def test_openai_waits_as_long_as_a_full_server_says(in_thread: InThread, monkeypatch: pytest.MonkeyPatch) -> None:
    openai = pytest.importorskip("openai", reason="make ecosystem installs it")
    full = Full(in_thread.service.batcher.submit, times=1)
    monkeypatch.setattr(in_thread.service.batcher, "submit", full)
    with openai.OpenAI(base_url=in_thread.running.v1, api_key="unused") as client:
        began = time.monotonic()
        answer = client.embeddings.create(input=TEXTS, model=in_thread.running.model)
        assert time.monotonic() - began >= 0.99  # which its own first pause, of half a second, is not
        assert full.calls == 2
        assert_same([each.embedding for each in answer.data], in_thread.running.vectors(TEXTS))
        full.times = 100
        with pytest.raises(openai.RateLimitError) as found:  # without retries
            client.with_options(max_retries=0).embeddings.create(input=TEXTS, model=in_thread.running.model)
        assert found.value.response.headers["retry-after"] == "1"
        assert found.value.type == "rate_limit_error"


def test_openai_waits_for_a_server_that_is_not_ready(in_thread: InThread) -> None:
    openai = pytest.importorskip("openai", reason="make ecosystem installs it")
    service = in_thread.service
    service.is_ready = False
    ready = threading.Timer(0.5, lambda: setattr(service, "is_ready", True))
    try:
        with openai.OpenAI(base_url=in_thread.running.v1, api_key="unused") as client:
            with pytest.raises(openai.InternalServerError) as found:
                client.with_options(max_retries=0).embeddings.create(input="a", model=in_thread.running.model)
            assert found.value.status_code == 503
            ready.start()
            answer = client.embeddings.create(input=TEXTS, model=in_thread.running.model)
        assert_same([each.embedding for each in answer.data], in_thread.running.vectors(TEXTS))
    finally:
        ready.cancel()
        service.is_ready = True


# ── the others ──────────────────────────────────────────────────────────────────────────────────────────────


def test_langchain(server: Running) -> None:
    langchain = pytest.importorskip("langchain_openai", reason="make ecosystem installs it")
    asked = {"base_url": server.v1, "api_key": KEY, "model": server.model, "check_embedding_ctx_length": False}
    embeddings = langchain.OpenAIEmbeddings(**asked, chunk_size=2)
    assert_same(embeddings.embed_documents([*TEXTS, LONG]), server.vectors([*TEXTS, LONG]))
    assert_same(embeddings.embed_query(TEXTS[0]), server.vectors(TEXTS[:1])[0])
    assert_same(asyncio.run(embeddings.aembed_documents(TEXTS)), server.vectors(TEXTS))
    layers = langchain.OpenAIEmbeddings(**asked, model_kwargs={"extra_body": {"layers": "concat=1+2"}})
    assert_same(layers.embed_documents(TEXTS), server.vectors(TEXTS, layers="concat=1+2"))


def test_langchain_is_told_why_its_token_ids_are_refused(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    langchain = pytest.importorskip("langchain_openai", reason="make ecosystem installs it")
    openai, tiktoken = pytest.importorskip("openai"), pytest.importorskip("tiktoken")
    # OpenAI's vocabularies are fetched from the net; any other one makes ids just as well
    bytes_alone = tiktoken.Encoding(
        "bytes", pat_str=r"\S+|\s+", mergeable_ranks={bytes([each]): each for each in range(256)}, special_tokens={}
    )
    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda name: bytes_alone)
    embeddings = langchain.OpenAIEmbeddings(base_url=server.v1, api_key=KEY, model=server.model)
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False") as found:
        embeddings.embed_documents(TEXTS)
    assert found.value.code == "token_ids"
    with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
        embeddings.embed_query(TEXTS[0])


def test_llama_index(server: Running) -> None:
    name = "llama_index.embeddings.text_embeddings_inference"
    llama_index = pytest.importorskip(name, reason="make ecosystem installs it")

    def made(key: str = KEY, **settings: Any) -> Any:
        return llama_index.TextEmbeddingsInference(
            model_name=server.model, base_url=server.url, auth_token=key, **settings
        )

    embeddings = made(embed_batch_size=2)  # has long texts cut unless told otherwise
    cut = server.vectors([*TEXTS, LONG], long="truncate")
    assert_same(embeddings.get_text_embedding_batch([*TEXTS, LONG]), cut)
    assert_same(asyncio.run(embeddings.aget_text_embedding_batch([*TEXTS, LONG])), cut)
    assert_same(embeddings.get_query_embedding(TEXTS[0]), server.vectors(TEXTS[:1])[0])
    assert_same(made(truncate_text=False).get_text_embedding(LONG), server.vectors([LONG])[0])
    with pytest.raises(KeyError):  # it reads errors as vectors; ours are no lists, so it fails at once
        made("another").get_text_embedding(TEXTS[0])


def test_haystack(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    haystack = pytest.importorskip("haystack", reason="make ecosystem installs it")
    embedders = pytest.importorskip("haystack.components.embedders")
    settings = {
        "api_key": haystack.utils.Secret.from_token(KEY),
        "api_base_url": server.v1,
        "model": server.model,
        "max_retries": 0,
    }
    found = embedders.OpenAITextEmbedder(**settings).run(TEXTS[0])
    assert_same(found["embedding"], server.vectors(TEXTS[:1])[0])
    assert found["meta"]["usage"]["total_tokens"] == server.offline.features(TEXTS[:1])[0].n_tokens
    documents = [haystack.Document(content=text) for text in [*TEXTS, LONG]]
    many = embedders.OpenAIDocumentEmbedder(**settings, batch_size=3, progress_bar=False)
    for answer in (many.run(documents), asyncio.run(many.run_async(documents))):
        assert_same([each.embedding for each in answer["documents"]], server.vectors([*TEXTS, LONG]))
        assert answer["meta"]["model"] == server.model
        assert answer["meta"]["usage"]["prompt_tokens"] > 3
    first = embedders.OpenAIDocumentEmbedder(**settings, dimensions=5, progress_bar=False).run(documents[:1])
    assert_same(first["documents"][0].embedding, unit(server.offline.encode(TEXTS[:1])[0, :5]))


def test_huggingface_hub(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    from huggingface_hub.errors import HfHubHTTPError

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # the server is on this machine
    client = hub.InferenceClient(server.url, token=KEY)
    assert_same(client.feature_extraction(TEXTS), server.vectors(TEXTS))
    assert_same(client.feature_extraction(TEXTS[0]), server.vectors(TEXTS[:1]))
    assert_same(client.feature_extraction(TEXTS, normalize=False), server.offline.encode(TEXTS))
    cut = client.feature_extraction([LONG], truncate=True, truncation_direction="right", dimensions=5)
    whole = Extractor(server.offline.location, precision="fp32", pooling="mean", long="truncate").encode([LONG])
    assert_same(cut, unit(whole[:, :5]))
    assert_same(client.feature_extraction(TEXTS, prompt_name="query"), server.vectors(TEXTS))
    similar = client.sentence_similarity(TEXTS[0], TEXTS[1:], model=f"{server.url}/similarity")
    vectors = server.vectors(TEXTS)
    assert_same(similar, vectors[1:] @ vectors[0])
    with pytest.raises(HfHubHTTPError, match="no prompt 'passage'"):
        client.feature_extraction(TEXTS, prompt_name="passage")
    with pytest.raises(HfHubHTTPError, match="key") as found:
        hub.InferenceClient(server.url, token="another").feature_extraction(TEXTS)
    assert found.value.response.status_code == 401


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl(server: Running, tmp_path: Path) -> None:
    def curl(path: str, *more: str) -> tuple[int, bytes]:
        form = ["-w", "%{http_code}", "-o", str(tmp_path / "body"), "-H", f"Authorization: Bearer {KEY}"]
        done = subprocess.run(["curl", "-sS", *form, *more, server.url + path], capture_output=True, timeout=60)
        assert not done.stderr, done.stderr
        return int(done.stdout), (tmp_path / "body").read_bytes()

    expected = server.vectors(TEXTS)
    as_json = ("-H", "Content-Type: application/json")
    status, body = curl("/v1/embeddings", *as_json, "-d", json.dumps({"input": TEXTS, "model": server.model}))
    assert status == 200, body
    assert_same([each["embedding"] for each in json.loads(body)["data"]], expected)
    status, body = curl("/embed", "--json", json.dumps({"inputs": TEXTS}, ensure_ascii=False))
    assert_same(json.loads(body), expected)
    status, body = curl(
        "/embed", *as_json, "-d", json.dumps({"inputs": TEXTS}), "-H", "Accept: application/octet-stream"
    )
    assert_same(np.frombuffer(body, "<f4").reshape(3, -1), expected)
    (tmp_path / "asked.json").write_text(json.dumps({"inputs": [LONG] * 500}))  # with Expect: 100-continue
    status, body = curl("/embed", *as_json, "-d", f"@{tmp_path / 'asked.json'}")
    assert_same(json.loads(body)[499], server.vectors([LONG])[0])
    status, body = curl("/embed", "-d", '{"inputs": "a"}')  # a form, as far as curl tells
    assert status == 422
    assert "Content-Type: application/json" in json.loads(body)["error"]
    status, body = curl("/embed", *as_json, "-d", '{"inputs": "a"')
    assert status == 422
    assert set(json.loads(body)) == {"error", "error_type"}
    assert curl("/health")[0] == 200
    status, body = curl("/metrics")
    assert b"te_request_count" in body


def test_schemathesis(server: Running, tmp_path: Path) -> None:
    """It finds no 5xx, and no status, type or form that OpenAPI's document does not name."""
    pytest.importorskip("schemathesis", reason="make ecosystem installs it")
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    start = "from schemathesis.cli import schemathesis; schemathesis()"
    run = ["run", f"{server.url}/openapi.json", "--checks", checks, "--phases", "examples,fuzzing", "-n", "8"]
    more = ["--header", f"Authorization: Bearer {KEY}", "--seed", "14", "--continue-on-failure", "--warnings", "off"]
    done = subprocess.run([sys.executable, "-c", start, *run, *more], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = urllib.request.Request(f"{server.url}/openapi.json", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(asked) as answer:
        operations = sum(map(len, json.load(answer)["paths"].values()))
    assert f"Tested: {operations}" in done.stdout, done.stdout
