"""New versions of the folders of a running server: seen, checked, and served without a pause; the old one goes on."""

import gc
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bertfeat import CorpusSettings, Extractor, Tagger, build_index, update_index
from bertfeat.io import Address as BucketAddress
from bertfeat.server import ServerSettings, following, open_service
from tests.support.live_server import Address, Live, Reply, serving
from tests.support.tagging_toy import feature_set, train
from tests.support.tiny_models import Tiny
from tests.support.waiting import wait_for

NOUNS = ("bank", "river", "money", "mill", "water")


class Corpus:
    """A corpus with its feature set and index, which all change together."""

    def __init__(self, place: Path, model: Path) -> None:
        self.features, self.index = place / "c.features", place / "c.index"
        self._file, self._extractor = (
            place / "c.jsonl",
            Extractor(model, pooling="mean,word", layers="last", precision="fp32", device="cpu"),
        )
        self.write(0)
        self.extract()
        build_index(self.features, self.index, column="last_mean")

    def write(self, day: int) -> None:
        """Each day has texts of its own, of which each names it."""
        rows = [{"id": f"{day}.same", "text": "A text of every day."}]
        rows += [{"id": f"{day}.{at}", "text": f"The {noun} of day{day}."} for at, noun in enumerate(NOUNS * (day + 1))]
        self._file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def extract(self) -> None:
        settings = CorpusSettings(id_column="id")
        self._extractor.extract(self._file, self.features, corpus_settings=settings, update=True)

    def next(self, day: int) -> None:
        self.write(day)
        self.extract()
        update_index(self.index)


@pytest.fixture
def corpus(bert: Tiny, tmp_path: Path) -> Corpus:
    return Corpus(tmp_path, bert.folder)


@pytest.fixture
def server(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """A server that looks for new versions all the time."""
    for module in (following, sys.modules["bertfeat.server.service"]):
        monkeypatch.setattr(module, "LOOK_SECONDS", 0.05)
    with serving(open_service([corpus.index, corpus.features], ServerSettings())) as server:
        yield server


@pytest.fixture
def resting(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """A server that looks only where it is told to."""
    for module in (following, sys.modules["bertfeat.server.service"]):
        monkeypatch.setattr(module, "LOOK_SECONDS", 3600.0)
    with serving(open_service([corpus.index, corpus.features], ServerSettings(api_keys=("secret",)))) as server:
        yield server


def found(server: Address, **headers: str) -> set[str]:
    """The days of the documents that a search finds."""
    reply = server.post("/search", {"query": "the river", "k": 50}, **headers)
    assert reply.status == 200, reply.body
    return {hit["id"].partition(".")[0] for hit in reply.json()["hits"]}


def metric(server: Live, name: str, **headers: str) -> dict[str, float]:
    families = text_string_to_metric_families(server.get("/metrics", **headers).body.decode())
    return {
        each.labels.get("folder", ""): each.value
        for family in families
        for each in family.samples
        if each.name in (name, f"{name}_total")
    }


def described(server: Live) -> dict[str, Any]:
    return {each["name"]: each for each in server.get("/info").json()["folders"]}


def wait_until_found(server: Address, day: int) -> None:
    wait_for(lambda: found(server) == {str(day)})


def wait_until_open(server: Live, name: str, documents: int) -> None:
    wait_for(lambda: described(server)[name]["documents"] == documents)


def answered(server: Live, path: str) -> Reply:
    """The answer, once it is no longer "not yet"."""
    wait_for(lambda: server.get(path).status == 200)
    return server.get(path)


def test_new_versions_are_served(corpus: Corpus, server: Live) -> None:
    assert found(server) == {"0"}
    first = server.post("/search", {"query": "the river"}).headers["X-Index-Version"]
    for day in (1, 2):
        corpus.next(day)
        wait_until_found(server, day)
        wait_until_open(server, "c.features", 5 * day + 6)
        told = described(server)["c.index"]
        assert (told["version"], told["documents"], told["vectors"]) == (f"version-{day + 1}", 5 * day + 6, 5 * day + 6)
        assert 0 <= told["age_seconds"] < 600
        usages = server.post("/usages", {"word": "river", "k": 50}).json()
        assert usages["found"] == day + 1
    assert server.post("/search", {"query": "the river"}).headers["X-Index-Version"] != first
    assert metric(server, "bertfeat_index_documents") == {"c.index": 16}
    assert metric(server, "bertfeat_index_age_seconds")["c.index"] < 600
    assert metric(server, "bertfeat_reloads") == {"c.index": 2, "c.features": 2}
    wait_for(lambda: metric(server, "bertfeat_stale") == {"c.index": 0, "c.features": 0})
    assert server.get("/health").json() == {"status": "ok"}


def test_no_search_fails_and_none_is_stale_after_the_switch(corpus: Corpus, server: Live) -> None:
    over, answers = threading.Event(), list[set[str]]()

    def ask() -> None:
        while not over.is_set():
            answers.append(found(server))

    with ThreadPoolExecutor(6) as pool:
        asking = [pool.submit(ask) for _ in range(6)]
        try:
            for day in range(1, 6):
                corpus.next(day)
                wait_until_open(server, "c.index", 5 * day + 6)
                assert found(server) == {str(day)}
        finally:
            over.set()
        for each in asking:
            each.result()
    assert all(len(days) == 1 for days in answers)
    assert {"0", "5"} <= set.union(*answers)


def test_words_of_a_set_that_was_replaced_are_read_from_the_new_one(corpus: Corpus, resting: Live) -> None:
    key = {"Authorization": "Bearer secret"}
    assert resting.post("/usages", {"word": "river"}, **key).json()["found"] == 1
    corpus.write(3)
    corpus.extract()
    reply = resting.post("/usages", {"word": "river"}, **key)
    assert (reply.status, reply.json()["found"]) == (200, 4)
    assert resting.post("/collocates", {"word": "river", "least": 1}, **key).status == 200


def test_a_reload_is_for_those_with_the_key(corpus: Corpus, resting: Live) -> None:
    key = {"Authorization": "Bearer secret"}
    corpus.next(1)
    assert resting.post("/reload", {}).status == 401
    assert found(resting, **key) == {"0"}
    told = resting.post("/reload", {}, **key).json()
    assert told["changed"]
    assert {each["name"]: each["documents"] for each in told["folders"]} == {"c.index": 11, "c.features": 11}
    assert found(resting, **key) == {"1"}
    assert not resting.post("/reload", {}, **key).json()["changed"]


def test_a_version_that_cannot_be_opened_is_told_and_the_old_one_goes_on(
    corpus: Corpus, server: Live, caplog: pytest.LogCaptureFixture
) -> None:
    record = corpus.index / ".bertfeat" / "index.json"
    whole = record.read_bytes()
    record.write_bytes(whole[: len(whole) // 2])
    wait_for(lambda: server.get("/health").json() == {"status": "ok", "stale": ["c.index"]})
    assert "cannot be read" in described(server)["c.index"]["problem"]
    assert metric(server, "bertfeat_stale")["c.index"] == 1
    assert found(server) == {"0"}
    told = [each for each in caplog.messages if "the version of" in each]
    assert len(told) == 1
    assert re.search(r"the version of \S+c\.index that was opened before is served: \S+ cannot be read", told[0])
    record.write_bytes(whole)
    wait_for(lambda: server.get("/health").json() == {"status": "ok"})
    shutil.move(corpus.index, corpus.index.with_name("elsewhere"))
    wait_for(lambda: "problem" in described(server)["c.index"])
    assert found(server) == {"0"}
    shutil.move(corpus.index.with_name("elsewhere"), corpus.index)
    corpus.next(1)
    wait_until_found(server, 1)


def test_an_index_of_another_model_is_not_served(corpus: Corpus, server: Live, tiny: Callable[[str], Tiny]) -> None:
    other = corpus.index.with_name("other")
    other.mkdir()
    shutil.rmtree(corpus.index)
    shutil.move(Corpus(other, tiny("roberta").folder).index, corpus.index)
    wait_for(lambda: "was made by" in described(server)["c.index"].get("problem", ""))
    assert found(server) == {"0"}


def test_features_that_have_changed_since_the_index_was_made_are_told(
    corpus: Corpus, server: Live, caplog: pytest.LogCaptureFixture
) -> None:
    corpus.write(1)
    corpus.extract()
    told = r"c\.features changed since the index .* bring it up to date: bertfeat index -o \S+ --upd"
    wait_for(lambda: re.search(told, described(server)["c.index"].get("problem") or ""))  # not of a set that changes
    assert server.get("/health").json() == {"status": "ok", "stale": ["c.index"]}
    assert len([each for each in caplog.messages if "changed since the index" in each]) == 1
    update_index(corpus.index)
    wait_for(lambda: server.get("/health").json() == {"status": "ok"})


def test_what_was_open_before_is_given_back(corpus: Corpus, server: Live) -> None:
    for path in ("/page/state", "/page/map"):
        server.get(path)
    index, features = server.service.index, server.service.features[0]
    assert index is not None
    assert server.post("/usages", {"word": "river", "like": "a *river*"}).status == 200
    gone: list[weakref.ref[Any]] = [weakref.ref(each) for each in (index, index.vectors.documents, features)]
    del index, features
    corpus.write(1)
    corpus.extract()
    wait_for(lambda: "stale" in server.get("/health").json())  # told in the log, whose records pytest keeps
    update_index(corpus.index)
    wait_for(lambda: found(server) == {"1"} and len(server.service.features[0]) == 11)

    def are_gone() -> bool:
        gc.collect()
        return all(each() is None for each in gone)

    wait_for(are_gone)


def test_the_page_is_told_which_version_it_shows(corpus: Corpus, server: Live) -> None:
    state = server.get("/page/state").json()["index"]
    shown = f"{state['version']}.{state['made']}"
    for path in ("/page/documents?numbers=0,1", "/page/map", "/page/clusters"):
        reply = answered(server, path)
        assert reply.headers["X-Index-Version"] == shown
    assert server.post("/page/why", {"query": "a", "numbers": [0]}).headers["X-Index-Version"] == shown
    corpus.next(1)
    wait_until_found(server, 1)
    state = server.get("/page/state").json()["index"]
    assert f"{state['version']}.{state['made']}" != shown
    reply = server.get("/page/documents?numbers=9")
    assert reply.headers["X-Index-Version"] == f"{state['version']}.{state['made']}"
    assert reply.json()["documents"][0]["text"].endswith("day1.")


def test_a_tagger_that_was_trained_anew_is_served(bert: Tiny, tmp_path: Path) -> None:
    train_set, dev_set = (feature_set(bert.folder, tmp_path / f"{n}.features", n, n) for n in (20, 5))
    for name, layers in (("served", "last"), ("next", "concat4")):
        train(train_set, dev_set, tmp_path / name, layers=layers)
    service = open_service([], ServerSettings(), model=bert.folder, tagger=tmp_path / "served")
    try:
        before = service.tagger
        assert not service.look(at_once=True)
        assert service.tagger is before
        shutil.rmtree(tmp_path / "served")
        assert not service.look(at_once=True)
        assert "served" in service.problems()
        shutil.move(tmp_path / "next", tmp_path / "served")
        assert service.look(at_once=True)
        assert service.tagger is not None
        assert service.tagger.record.input.recipe.name == "concat4"
        assert service.describe_folders() == [{"name": "served", "kind": "tagger", "reloads": 1}]
        texts = ["the bank of owners", "river ran"]
        tags = [list(each.tags) for each in Tagger(tmp_path / "served").tag(texts)]
        assert [list(each["tags"]) for each in service.tag(service.tagger, texts)] == tags
    finally:
        service.batcher.close(0.0)


def test_an_index_at_an_address_is_followed(corpus: Corpus, bucket: BucketAddress) -> None:
    build_index(corpus.features, bucket / "c.index", column="last_mean")
    service = open_service([bucket / "c.index"], ServerSettings())
    try:
        corpus.write(1)
        corpus.extract()
        update_index(bucket / "c.index")
        assert not service.look()  # there it looks less often
        assert service.look(at_once=True)
        assert service.index is not None
        assert {hit.id for hit in service.index.search_vectors([[1.0] * 32], 50)[0].hits} == {
            "1.same",
            *(f"1.{at}" for at in range(10)),
        }
    finally:
        service.batcher.close(0.0)


@pytest.mark.slow
def test_a_signal_reloads(corpus: Corpus) -> None:
    run = [sys.executable, "-c", "from bertfeat.cli import run; run()"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    code = "import bertfeat.server.service as s; s.LOOK_SECONDS = 3600.0; from bertfeat.cli import run; run()"
    run[2] = code
    command = [*run, "serve", str(corpus.index), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        try:
            address = re.search(r":(\d+)/", process.stderr.readline())
            assert address is not None
            server = Address(int(address[1]))
            wait_for(lambda: server.get("/ready").status == 200)
            corpus.next(1)
            assert found(server) == {"0"}
            process.send_signal(signal.SIGHUP)
            wait_until_found(server, 1)
            lines = [json.loads(process.stderr.readline()) for _ in range(2)]
            assert process.poll() is None
        finally:
            process.terminate()
            rest = process.stderr.read()
        told = [each.get("message", "") for each in lines] + rest.splitlines()
        assert any("has changed, and its new version is served: version-2, 11 documents" in each for each in told)
