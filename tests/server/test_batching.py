"""Requests that are computed together, against the same texts computed offline."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from starlette.testclient import TestClient

from bertfeat import Extractor
from bertfeat.core.corpus import Document
from bertfeat.core.tokens import LongTextPolicy
from bertfeat.server import ServerSettings, create_app, open_service
from bertfeat.server.batching import Batcher, ClosedError, EncoderError, QueueFullError, TextRequest
from bertfeat.server.wanted import ServedModel
from tests.support.live_server import hold_encoder
from tests.support.tiny_models import Tiny, build

WORDS = ["river", "bank", "old", "mill", "water", "stone", "north", "wind", "letter", "light"]


@pytest.fixture
def extractor(tiny: Callable[[str], Tiny]) -> Extractor:
    return Extractor(tiny("bert").folder, precision="fp32", dtype="float32")


@contextmanager
def batching(extractor: Extractor) -> Iterator[Batcher]:
    batcher = Batcher([extractor], round_tokens=300)
    try:
        yield batcher
    finally:
        batcher.close(10)


@pytest.fixture
def batcher(extractor: Extractor) -> Iterator[Batcher]:
    with batching(extractor) as batcher:
        yield batcher


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Extractor:
    """Give a model as wide as bert-base, in the precision that this processor is fastest in."""
    folder = tmp_path_factory.mktemp("wide") / "bert"
    sizes = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 2}
    build("bert", folder, **sizes)
    extractor = Extractor(folder, dtype="float32", pooling="mean")
    if not extractor.encoder.path.same_bytes:
        extractor = Extractor(folder, dtype="float32", pooling="mean", precision="fp32")
    if not extractor.encoder.path.same_bytes:
        pytest.skip("no kernels compute here, and libraries' products depend on the number of rows")
    return extractor


def documents(texts: list[str]) -> list[Document]:
    return [Document(number, str(number), text) for number, text in enumerate(texts)]


def random_texts(draw: Random, most: int = 30) -> list[str]:
    return [" ".join(draw.choices(WORDS, k=draw.randint(1, 60))) for _ in range(draw.randint(1, most))]


def test_answers_are_those_of_offline_runs_whoever_shares_the_batch(extractor: Extractor, batcher: Batcher) -> None:
    reader = ServedModel(extractor)
    kinds: list[dict[str, Any]] = [
        {"layers": "last", "pooling": "mean"},
        {"layers": "concat4", "pooling": "cls"},
        {"layers": ["1", "sum-last-4"], "pooling": "mean,max"},
        {"layers": "0", "pooling": "mean", "prompt": "query: "},
        {"layers": "last", "pooling": "word"},
        {"layers": "concat4", "pooling": "token"},
        {"layers": "last", "pooling": "mean", "long": LongTextPolicy.TRUNCATE, "max_length": 8},
        {"layers": "last", "pooling": "mean", "long": LongTextPolicy.TRUNCATE_LEFT, "max_length": 8},
    ]

    def ask(seed: int) -> None:
        draw = Random(seed)
        kind, texts = draw.choice(kinds), random_texts(draw)
        wanted = reader.read(**kind)
        features = batcher.submit(documents(texts), wanted).future.result(60)
        more = {name: kind[name] for name in ("long", "max_length") if name in kind}
        alone = Extractor(
            extractor.location,
            precision="fp32",
            dtype="float32",
            layers=kind["layers"],
            pooling=kind["pooling"],
            prompt=kind.get("prompt"),
            **more,
        ).features(texts)
        assert features.n_tokens.tolist() == [each.n_tokens for each in alone]
        assert features.n_truncated.tolist() == [each.n_truncated for each in alone]
        for column in wanted.columns:
            if column.pooling.per_document:
                expected = np.stack([each.vector(column.name) for each in alone])
                np.testing.assert_allclose(features.vectors[column.name], expected, atol=1e-5)
                continue
            for got, each in zip(features.documents, alone, strict=True):
                assert got is not None
                np.testing.assert_allclose(got.matrix(column.name), each.matrix(column.name), atol=1e-5)
                ours, theirs = got.words or got.tokens, each.words or each.tokens
                assert ours is not None
                assert theirs is not None
                assert ours.strings == theirs.strings
                assert (list(ours.start), list(ours.end)) == (list(theirs.start), list(theirs.end))

    with ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(ask, seed) for seed in range(60)]:
            done.result()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "word"])
def test_company_changes_no_byte(wide: Extractor, monkeypatch: pytest.MonkeyPatch, pooling: str) -> None:
    """Of first tokens alone too, for which the encoder computes fewer rows of the last layer."""
    reader, draw = ServedModel(wide), Random(7)
    wanted = reader.read("last", pooling)

    def vectors(features: Any) -> bytes:
        if pooling != "word":
            return bytes(features.vectors[f"last_{pooling}"].tobytes())
        return b"".join(document.matrix("last_word").tobytes() for document in features.documents)

    texts = random_texts(draw, 5)
    with batching(wide) as batcher:
        alone = vectors(batcher.submit(documents(texts), wanted).future.result(20))
        go, _ = hold_encoder(monkeypatch)
        kinds = [("last", "mean"), ("last", "cls"), ("1", "cls"), ("last,1", "cls,max"), ("0", "word")] * 3
        others = [batcher.submit(documents(random_texts(draw, 4)), reader.read(*kind)) for kind in kinds]
        mine = batcher.submit(documents(texts), wanted)
        others += [batcher.submit(documents(random_texts(draw, 4)), reader.read(*kind)) for kind in kinds]
        go.set()
        for other in others:
            other.future.result(20)
        assert vectors(mine.future.result(20)) == alone


def test_a_text_has_the_same_bytes_over_http(wide: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a request of its own, among other texts, beside other requests, and from the library."""
    draw = Random(3)
    texts = random_texts(draw, 8)
    service = open_service([], ServerSettings(), model=str(wide.location), precision=wide.precision.value)
    with TestClient(create_app(service), "http://localhost") as client:

        def ask(asked: list[str]) -> bytes:
            raw = {"accept": "application/octet-stream"}
            answer = client.post("/embed", json={"inputs": asked, "normalize": False}, headers=raw)
            assert answer.status_code == 200, answer.text
            return answer.content

        alone = [ask([text]) for text in texts]
        go, _ = hold_encoder(monkeypatch)
        with ThreadPoolExecutor(9) as pool:
            asked = [pool.submit(ask, given) for given in (texts, *([text] for text in texts))]
            go.set()
            together, *each = [answer.result(60) for answer in asked]
    assert together == b"".join(alone)
    assert each == alone
    assert wide.encode(texts).tobytes() == together


def test_a_text_that_fails_does_so_alone(
    extractor: Extractor, batcher: Batcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = Extractor.compute_rows

    def fail(self: Any, tokenized: Any, **more: Any) -> Any:
        if any("poison" in document.text for document in tokenized.documents):
            raise ZeroDivisionError
        return compute(self, tokenized, **more)

    monkeypatch.setattr(Extractor, "compute_rows", fail)
    wanted = ServedModel(extractor).read()
    requests = [batcher.submit(documents([text]), wanted) for text in ("a river", "poison", "a bank")]
    assert requests[0].future.result(20).n_tokens.tolist() != [0]
    with pytest.raises(EncoderError):
        requests[1].future.result(20)
    assert requests[2].future.result(20).n_tokens.tolist() != [0]
    assert batcher.requests == 0


def test_too_much_is_refused_and_the_dropped_is_not_computed(
    extractor: Extractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, computed = hold_encoder(monkeypatch)
    batcher = Batcher([extractor], round_tokens=50, most_tokens=200)
    wanted = ServedModel(extractor).read()
    text = " ".join(WORDS * 2)
    requests: list[TextRequest] = []

    def submit_many() -> None:
        for _ in range(50):
            requests.append(batcher.submit(documents([f"{text} {len(requests)}"]), wanted))
            time.sleep(0.01)

    with pytest.raises(QueueFullError) as refused:
        submit_many()
    assert refused.value.seconds >= 1
    batcher.drop(requests[-1])
    go.set()
    for request in requests[:-1]:
        request.future.result(20)
    batcher.close(10)
    assert f"{text} {len(requests) - 1}" not in computed
    assert batcher.waiting_tokens == 0
    with pytest.raises(ClosedError):
        batcher.submit(documents([text]), wanted)


def test_closing_finishes_what_waits(extractor: Extractor) -> None:
    batcher = Batcher([extractor], round_tokens=40)
    wanted = ServedModel(extractor).read()
    requests = [batcher.submit(documents([" ".join(WORDS)] * 5), wanted) for _ in range(10)]
    batcher.close(30)
    assert all(request.future.result(0).n_tokens.min() > 0 for request in requests)


class OnDevice:
    """An extractor that says that it is on a GPU, and computes where it is."""

    device = SimpleNamespace(type="cuda")

    def __init__(self, extractor: Extractor) -> None:
        self._extractor = extractor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._extractor, name)


def test_a_device_has_one_round_at_a_time(extractor: Extractor, monkeypatch: pytest.MonkeyPatch) -> None:
    """And two threads, so that one tokenizes while the other one's round is computed."""
    compute, at_work, most = Extractor.compute_rows, [0], [0]

    def count(self: Any, tokenized: Any, **more: Any) -> Any:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        time.sleep(0.01)
        result = compute(self, tokenized, **more)
        at_work[0] -= 1
        return result

    monkeypatch.setattr(Extractor, "compute_rows", count)
    batcher = Batcher([cast(Extractor, OnDevice(extractor))], round_tokens=40)
    texts, wanted = [" ".join(WORDS[:number]) for number in range(1, 11)], ServedModel(extractor).read()
    requests = [batcher.submit(documents([text]), wanted) for text in texts]
    found = np.concatenate([request.future.result(20).vectors[wanted.columns[0].name] for request in requests])
    batcher.close(10)
    monkeypatch.undo()
    np.testing.assert_allclose(found, extractor.encode(texts), atol=1e-5)
    assert most == [1]
