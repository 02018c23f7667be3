"""Requests of all routes at once, right, wrong and given up, against the command over all that it can serve.

``BERTFEAT_REQUESTS=20000`` sets how many; each has the status that docs/serving.md says, and right ones the library's
own vectors, hits, usages and tags.
"""

import json
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from bertfeat import CorpusSettings, Extractor, Index, MaxSim, Tagger, build_index, find_usages
from bertfeat.search import BuildOptions
from tests.server.test_hostile_process import process
from tests.support.live_server import TEXTS, Address, Reply, assert_refused, head
from tests.support.tagging_toy import feature_set, train
from tests.support.tiny_models import Tiny

pytestmark = pytest.mark.slow

REQUESTS = int(os.environ.get("BERTFEAT_REQUESTS", "800"))
CLIENTS = 12
GROWTH = 48 * 2**20  # bytes of memory, after the first part of the requests
WRONG: list[tuple[str, Any, int]] = [
    ("/embed", {"inputs": ""}, 400),
    ("/embed", {"inputs": [1, 2]}, 400),
    ("/embed", {"inputs": "a", "pooling": "token"}, 422),
    ("/embed", {"input": "a"}, 422),
    ("/embed", b"{", 422),
    ("/embed", {"inputs": "x" * 3_000_000}, 413),
    ("/embed", {"inputs": ["a"] * 3000}, 413),
    ("/embed_all", {"inputs": "a", "pooling": "mean"}, 422),
    ("/similarity", {"inputs": {"source_sentence": "a", "sentences": []}}, 400),
    ("/tokenize", {"inputs": []}, 400),
    ("/decode", {"ids": [-1]}, 422),
    ("/features", {"texts": "a", "layers": "99"}, 422),
    ("/features", {"texts": ["a", " "]}, 400),
    ("/search", {"query": "a", "vector": [1.0]}, 422),
    ("/search", {"query": "a", "where": "nothing > 3"}, 422),
    ("/search", {"query": "a", "rerank_depth": 3}, 422),
    ("/search", {"query": "a", "rerank": "maxsim", "rerank_column": "layer1_word"}, 422),
    ("/search", {"vector": [0.5]}, 422),
    ("/usages", {"word": "bank", "k": -1}, 422),
    ("/usages", {"word": "bank", "features": "other"}, 404),
    ("/tag", {"texts": []}, 400),
    ("/v1/embeddings", {"input": "a", "model": "other"}, 404),
    ("/v1/embeddings", {"input": "a", "layers": "last,1"}, 400),
    ("/v1/embeddings", {"input": "a", "unknown": 1}, 400),
    ("/v1/nothing", {}, 404),
    ("/health", {}, 405),
]
GET = ("/info", "/health", "/metrics", "/v1/models", "/", "/openapi.json", "/page/state", "/page/documents?numbers=1,2")
STATUSES = (200, 202, 400, 404, 405, 408, 413, 422, 499)
COLUMNS = (("last", "mean"), ("last", "cls"), ("1", "max"), ("concat=1+2", "mean"))


class Asker:
    """Draws requests, sends them, and judges the answers by what the library computed before."""

    def __init__(self, address: Address, place: Path, model: Path) -> None:
        self.address, self.place = address, place
        draw = Random(11)
        words = " ".join(TEXTS).split()
        self.texts = [" ".join(draw.choices(words, k=draw.randint(1, 60))) for _ in range(30)]
        self.vectors = {
            each: Extractor(model, precision="fp32", layers=each[0], pooling=each[1]).encode(self.texts)
            for each in COLUMNS
        }
        index = Index(place / "c.index")
        ways = (None, MaxSim(), MaxSim(depth=4, weight=0.0, idf=False))
        self.found = [
            (query, number, [hit.id for hit in index.search(query, 5, where="year > 1904", rerank=way).hits])
            for query in self.texts[:6]
            for number, way in enumerate(ways)
        ]
        usages = find_usages(place / "c.features", "bank", like="She sat on the *bank*.", k=4, column="last")
        self.usages = [usage.row for usage in usages.usages]
        self.tags = [list(each.tags) for each in Tagger(place / "tagger").tag(self.texts)]
        self.statuses: Counter[int] = Counter()

    def ask(self, seed: int) -> None:
        """Send one request, and judge its answer."""
        draw = Random(seed)
        draw.choice((self.vectors_of_texts, self.vectors_of_texts, self.search, self.others, self.wrong, self.give_up))(
            draw
        )

    def post(self, path: str, body: Any, status: int = 200) -> Reply:
        """Send a request; it is told by its status."""
        reply = self.address.post(path, body)
        self.statuses[reply.status] += 1
        assert reply.status == status, (path, str(body)[:200], reply.status, reply.body[:300])
        assert reply.headers["x-request-id"]
        return reply

    def vectors_of_texts(self, draw: Random) -> None:
        """Embed some texts by one of three routes."""
        layers, pooling = draw.choice(COLUMNS)
        numbers = draw.sample(range(len(self.texts)), draw.randint(1, 12))
        texts, expected = [self.texts[number] for number in numbers], self.vectors[layers, pooling][numbers]
        more = {"layers": layers, "pooling": pooling}
        match draw.randrange(3):
            case 0:
                found = self.post("/embed", {"inputs": texts, "normalize": False, **more}).json()
            case 1:
                data = self.post("/v1/embeddings", {"input": texts, "normalize": False, "user": "a", **more}).json()
                found = [each["embedding"] for each in data["data"]]
            case _:
                answer = self.post("/features", {"texts": texts, **more}).json()
                found = [each[answer["columns"][0]] for each in answer["data"]]
        np.testing.assert_allclose(found, expected, atol=1e-5)

    def search(self, draw: Random) -> None:
        """Search by text, perhaps scoring again."""
        query, way, ids = draw.choice(self.found)
        options: list[dict[str, Any]] = [
            {},
            {"rerank": "maxsim"},
            {"rerank": "maxsim", "rerank_depth": 4, "rerank_weight": 0, "rerank_idf": False},
        ]
        body = {"query": query, "k": 5, "where": "year > 1904", "why": draw.random() < 0.3 and not way, **options[way]}
        assert [hit["id"] for hit in self.post("/search", body).json()["hits"]] == ids

    def others(self, draw: Random) -> None:
        """Ask any of the other routes."""
        number = draw.randrange(len(self.texts))
        text = self.texts[number]
        match draw.randrange(7):
            case 0:
                like = {"word": "bank", "like": "She sat on the *bank*.", "k": 4, "layers": "last"}
                found = self.post("/usages", like).json()["usages"]
                assert [usage["row"] for usage in found] == self.usages
            case 1:
                (tagged,) = self.post("/tag", {"texts": text}).json()["texts"]
                assert tagged["tags"] == self.tags[number]
            case 2:
                (tokens,) = self.post("/tokenize", {"inputs": text}).json()
                self.post("/decode", {"ids": [token["id"] for token in tokens]})
            case 3:
                others = self.texts[:5]
                body = {"inputs": {"source_sentence": text, "sentences": others}, "parameters": {"pooling": "mean"}}
                unit = self.vectors["last", "mean"]
                unit = unit / np.linalg.norm(unit, axis=1, keepdims=True)
                np.testing.assert_allclose(self.post("/similarity", body).json(), unit[:5] @ unit[number], atol=1e-5)
            case 4:
                (matrix,) = self.post("/embed_all", {"inputs": text}).json()
                assert np.isfinite(matrix).all()
            case _:
                reply = self.address.get(draw.choice(GET))
                self.statuses[reply.status] += 1
                assert reply.status in (200, 202), reply.body[:300]

    def wrong(self, draw: Random) -> None:
        """Ask for something that cannot be."""
        path, body, status = draw.choice(WRONG)
        assert_refused(self.post(path, body, status), path, status)

    def give_up(self, draw: Random) -> None:
        """Send a request, or half of one, or several, and go away."""
        path, body = draw.choice(
            (("/embed", {"inputs": self.texts}), ("/search", {"query": self.texts[0], "rerank": "maxsim"}))
        )
        request = json.dumps(body).encode()
        request = head(path, len(request)) + request
        with self.address.connect() as connection:
            connection.sendall(draw.choice((request, request * 20, request[: len(request) // 2])))
            time.sleep(draw.random() / 20)
            if draw.random() < 0.5:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")  # a reset
        self.statuses[499] += 1


@pytest.mark.hostile
def test_all_kinds_of_requests_at_once(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    model = tiny("bert").folder
    rows = [{"text": f"{text} {number}", "year": 1900 + number} for number, text in enumerate(TEXTS * 10)]
    (tmp_path / "c.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    extractor = Extractor(model, pooling="mean,word,token", layers="last,1", precision="fp32")
    extractor.extract(tmp_path / "c.jsonl", tmp_path / "c.features", corpus_settings=CorpusSettings(keep=("year",)))
    build_index(
        tmp_path / "c.features",
        tmp_path / "c.index",
        column="last_mean",
        options=BuildOptions(with_tokens="last_token"),
    )
    train_set, dev_set = (feature_set(model, tmp_path / f"{n}.features", n, n) for n in (20, 5))
    train(train_set, dev_set, tmp_path / "tagger", layers="last")
    folders = [str(tmp_path / name) for name in ("c.index", "c.features")]
    with process(*folders, "--tagger", str(tmp_path / "tagger")) as server, ThreadPoolExecutor(CLIENTS) as pool:
        asker = Asker(server.address, tmp_path, model)
        resident = []
        step = max(100, REQUESTS // 8)
        for start in range(0, REQUESTS, step):
            list(pool.map(asker.ask, range(start, start + step)))
            resident.append(server.resident())
        told = f"{dict(sorted(asker.statuses.items()))}, MiB: {[size // 2**20 for size in resident]}"
        sys.stdout.write(f"{REQUESTS:,} requests: {told}\n")
        assert server.address.is_well()
        assert max(resident[1:]) < resident[1] + GROWTH, resident
        assert server.end(15) == 143
    lines = [json.loads(line) for line in server.said.splitlines() if line.startswith("{")]
    odd = [line for line in lines if line.get("status", 200) not in STATUSES]
    assert not odd, (Counter(line["status"] for line in odd), odd[:3])
    assert "Traceback" not in server.said
    assert 'level": "error' not in server.said
