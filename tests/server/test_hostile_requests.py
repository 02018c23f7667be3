"""Requests that are wrong: the right status in the right form, and the server well afterwards."""

import json
import time
from typing import Any

import pytest

from tests.support.live_server import (
    BODY_SECONDS,
    MOST_BODY,
    Live,
    assert_refused,
    head,
)

pytestmark = pytest.mark.slow  # many and quick, but for CI alone


# ── bodies ──────────────────────────────────────────────────────────────────────────────────────────────────

DEEP = 100_000
_ROUTES = (
    "/v1/embeddings",
    "/embed",
    "/",
    "/features",
    "/search",
    "/usages",
    "/collocates",
    "/tokenize",
    "/decode",
    "/similarity",
)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embed"])
def test_bodies_that_are_too_large(live: Live, path: str) -> None:
    status = 400 if path.startswith("/v1/") else 413
    size = 50_000_000
    piece = b" " * 2**20
    assert_refused(live.raw(head(path, size), *[piece] * 48), path, status)
    assert_refused(live.raw(head(path, size)), path, status)  # before anything of it is sent
    assert_refused(live.raw(head(path, size, "Expect: 100-continue")), path, status)
    chunked = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    chunks = b"%x\r\n%s\r\n" % (len(piece), piece)
    assert_refused(live.raw(chunked, *[chunks] * 48), path, status)
    for length in ("9" * 19, "9" * 5000, "-5", "+5", "1e3", "0x10", "5, 6"):
        assert_refused(live.raw(head(path, length), b"{}"), path, 400, status)
    assert live.service.batcher.requests == 0


def test_lengths_that_lie(live: Live) -> None:
    body = json.dumps({"inputs": "a river"}).encode()
    began = time.monotonic()
    assert_refused(live.raw(head("/embed", len(body) + 100), body), "/embed", 408)
    assert time.monotonic() - began < BODY_SECONDS + 1
    assert_refused(live.raw(head("/embed", len(body) - 3), body), "/embed", 422)
    both = head("/embed", 5, "Transfer-Encoding: chunked")
    assert live.raw(both, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)).status in (200, 400)
    for chunk in (b"zz\r\n", b"-1\r\n", b"fffffffffffffffffffffff\r\n", b"\r\n\r\n", b"5;" + b"a" * 100_000 + b"\r\n"):
        chunked = b"POST /embed HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        assert_refused(live.raw(chunked, chunk), "/embed", 400, 408, 431)


@pytest.mark.sampled(0, 30)
@pytest.mark.parametrize("path", _ROUTES)
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * DEEP + b"]" * DEEP, id="deep lists"),
        pytest.param(b'{"a":' * DEEP + b"1" + b"}" * DEEP, id="deep objects"),
        pytest.param(b'{"input":' + b"[" * DEEP + b"]" * DEEP + b"}", id="deep input"),
        pytest.param(b'{"inputs":' + b"[" * 500 + b"]" * 500 + b"}", id="less deep"),
        pytest.param(b'{"input": "a", "inputs": "a", "texts": "a", ', id="half"),
        pytest.param(b"", id="empty"),
        pytest.param(b"null", id="null"),
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b'"\xff\xfe"', id="no UTF-8"),
        pytest.param(b'{"inputs": "\xc3\x28", "input": "\xed\xa0\x80"}', id="wrong UTF-8"),
        pytest.param(b"\x00" * 1000, id="NUL"),
        pytest.param(b"\xef\xbb\xbf{}", id="BOM"),
        pytest.param(b"1" * 100_000, id="a long number"),
        pytest.param(b'{"k": ' + b"1" * 5000 + b"}", id="a long k"),
        pytest.param(b"PK\x03\x04" + bytes(range(256)) * 20, id="a file"),
    ],
)
def test_bodies_that_are_no_request(live: Live, path: str, body: bytes) -> None:
    assert_refused(live.post(path, body), path, 400, 422)


@pytest.mark.parametrize("path", ["/v1/embeddings", "/embed", "/features", "/search", "/usages", "/decode"])
def test_wrong_types_everywhere(live: Live, path: str) -> None:
    names = (
        "input",
        "inputs",
        "texts",
        "query",
        "vector",
        "word",
        "ids",
        "layers",
        "pooling",
        "k",
        "where",
        "truncate",
    )
    more = (
        "model",
        "prompt",
        "prompt_name",
        "dimensions",
        "max_length",
        "encoding_format",
        "like",
        "senses",
        "features",
    )
    values: list[Any] = [
        None,
        True,
        2**70,
        float("nan"),
        "",
        "\x00",
        "\ud800",
        [],
        [[]],
        [None],
        {},
        ["a", 1],
        "a" * 2000,
    ]
    for name in (*names, *more):
        for value in values:
            reply = live.post(path, {"inputs": "a", "input": "a", "texts": "a", "word": "bank", name: value})
            if reply.status != 200:
                assert_refused(reply, path, 400, 404, 413, 422)


def test_a_million_wrong_items_cost_little(live: Live) -> None:
    """An error for each of them, for each of the types that they might have, would be gigabytes."""
    for item, field in ((b"{}", "inputs"), (b"1", "inputs"), (b"[{}]", "inputs"), (b'""', "vector"), (b"null", "ids")):
        path = {"vector": "/search", "ids": "/decode"}.get(field, "/embed")
        for count, statuses in ((MOST_BODY // (len(item) + 2), (413,)), (150_000, (400, 422))):
            body = b'{"%s": [%s]}' % (field.encode(), b",".join([item] * count))
            began = time.monotonic()
            assert_refused(live.post(path, body), path, *statuses)
            assert time.monotonic() - began < 3


def test_numbers_that_are_none(live: Live) -> None:
    width = live.service.models[0].extractor.model.hidden_size
    for value in ("NaN", "Infinity", "-Infinity", "1e999", "1e300", "-1e39", "9" * 400):
        body = f'{{"vector": [{", ".join([value] * width)}], "k": 2}}'.encode()
        assert_refused(live.post("/search", body), "/search", 400, 422)
    for wrong in ([], [0.5], [0.5] * (width + 1), [[0.5] * width]):
        assert_refused(live.post("/search", {"vector": wrong}), "/search", 422)
    zero = live.post("/search", {"vector": [0.0] * width, "k": 2})
    assert zero.status in (200, 422)
    assert b"NaN" not in zero.body


# ── texts and names ─────────────────────────────────────────────────────────────────────────────────────────


def test_too_many_texts_tokens_and_values(live: Live) -> None:
    for path, name in (
        ("/v1/embeddings", "input"),
        ("/embed", "inputs"),
        ("/features", "texts"),
        ("/tokenize", "inputs"),
    ):
        assert_refused(live.post(path, {name: ["a river"] * 10_000}), path, 400, 413)
        assert_refused(live.post(path, {name: "river " * 400_000}), path, 400, 413)
        assert_refused(live.post(path, {name: []}), path, 400)
    for path, given, name in (("/search", {}, "query"), ("/usages", {"word": "bank"}, "like")):
        assert_refused(live.post(path, given | {name: "bank river " * 200_000}), path, 413)
    assert_refused(live.post("/decode", {"ids": [7] * 60_000}), "/decode", 413)
    assert_refused(live.post("/decode", {"ids": [[7]] * 600}), "/decode", 413)
    # what is long only in the answer: prompts, columns of tokens, and words that have no tokens
    prompted = {"input": ["a"] * 400, "prompt": "river " * 10_000}
    assert_refused(live.post("/v1/embeddings", prompted), "/v1/embeddings", 400)
    tokens = {"texts": ["river " * 400] * 100, "layers": ["all", "concat=1+2"], "pooling": ["token", "word"]}
    assert_refused(live.post("/features", tokens), "/features", 413)
    columns = {"input": ["a"] * 10, "layers": ["last"] * 100_000}
    assert_refused(live.post("/v1/embeddings", columns), "/v1/embeddings", 400)
    marks = {"texts": ["\ufe0f " * 150_000], "pooling": "word"}
    assert_refused(live.post("/features", marks), "/features", 413)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("\u0301" * 5000, id="combining characters"),
        pytest.param("e" + "\u0301\u0302\u0303" * 3000, id="one letter, thousands of marks"),
        pytest.param("👩‍👩‍👧‍👦🏳️‍🌈" * 300, id="emoji"),
        pytest.param("\ufe0f\u200d\u200b", id="nothing to see"),
        pytest.param("\u202e\u2066abc\u2069", id="direction marks"),
        pytest.param("a\x00b\x00", id="NUL"),
        pytest.param("x" * 100_000, id="one word"),
        pytest.param("﷽ﷺ" * 2000, id="grows when normalized"),
        pytest.param("\U0010ffff\uffff\ufffe", id="no characters"),
        pytest.param("[CLS] [SEP] [MASK] [PAD] [UNK]", id="special tokens"),
        pytest.param("'; DROP TABLE texts; -- ${jndi:ldap://a} {{7*7}} <script>", id="for others"),
    ],
)
def test_strange_texts(live: Live, text: str) -> None:
    """Embedded as they are offline, next to an ordinary one."""
    for path, name in (("/v1/embeddings", "input"), ("/embed", "inputs")):
        reply = live.post(path, {name: ["a river", text]})
        assert reply.status == 200, reply.body[:300]
        assert b"NaN" not in reply.body
    assert live.post("/embed_all", {"inputs": text}).status in (200, 413)
    assert live.post("/features", {"texts": text, "pooling": ["word", "mean"]}).status in (200, 413)
    assert live.post("/tokenize", {"inputs": text}).status == 200
    assert live.post("/search", {"query": text, "why": True}).status == 200
    usages = live.post("/usages", {"word": text[:900], "like": f"the *bank* {text}", "layers": "1"})
    if usages.status != 200:
        assert_refused(usages, "/usages", 422)


PATHLIKE = (
    "../../etc/passwd",
    "/etc/passwd",
    "..%2f..%2fetc%2fpasswd",
    "file:///etc/passwd",
    "C:\\x",
    "s3://a/b",
    "~",
    "\x00",
)


@pytest.mark.parametrize("name", PATHLIKE)
def test_names_that_are_paths(live: Live, name: str) -> None:
    assert_refused(live.post("/v1/embeddings", {"input": "a", "model": name}), "/v1/embeddings", 404)
    assert_refused(live.post("/usages", {"word": "bank", "features": name}), "/usages", 404)
    assert_refused(live.post("/embed", {"inputs": "a", "prompt_name": name}), "/embed", 422)
    assert_refused(live.post("/features", {"texts": "a", "layers": name}), "/features", 422)
    if name.isprintable() and "\\" not in name:
        for before in ("/v1/models/", "/page/", "/", "//", "/page/../", "/static/"):
            reply = live.get(f"{before}{name}")
            assert reply.status in (400, 404), (before, name, reply.status)
            assert b"root:" not in reply.body


WHERES = (
    "year > 1900); drop table x; --",
    "1=1 or 1=1",
    "year > 1900 union select * from documents",
    "__import__('os').system('true')",
    "text like '%" + "(a+)+" * 500 + "$%'",
    "text like '" + "%_" * 5000 + "'",
    "(" * 100_000 + "year" + ")" * 100_000,
    "not " * 100_000 + "year = 1",
    " or ".join(["year = 1"] * 20_000),
    "year in (" + ", ".join(["1"] * 100_000) + ")",
    "year = " + "9" * 5000,
    "year = 1e999",
    "\x00",
    "\u202e year",
    "year = 'x",
    "row = '../../etc/passwd'",
    "`year` = 1",
    '"year" = 1',
    "a" * 1_000_000,
    "",
)


@pytest.mark.parametrize("where", WHERES, ids=lambda where: where[:20])
def test_conditions_of_others(live: Live, where: str) -> None:
    for path, more in (("/search", {"query": "money"}), ("/usages", {"word": "bank", "layers": "last"})):
        began = time.monotonic()
        reply = live.post(path, {**more, "where": where})
        assert time.monotonic() - began < 3
        if reply.status != 200:
            assert_refused(reply, path, 422)
    for k in (0, -1, 1001, 10**12, 10**30, 1.5, "10 or 1", None):
        reply = live.post("/search", {"query": "money", "k": k})
        if reply.status != 200:
            assert_refused(reply, "/search", 422)
