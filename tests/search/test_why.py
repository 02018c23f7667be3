"""``search --why``: the shares of pairs of words, against Hugging Face's hidden states, and against the scores."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from bertfeat import Extractor, Index, build_index, explain, memory_corpus
from bertfeat.cli import main
from bertfeat.core import DocumentFeatures
from bertfeat.core.corpus import CorpusSettings
from bertfeat.errors import UsageError
from bertfeat.search import BuildOptions, MaxSim, Metric, Origin, Why
from bertfeat.server import ServerSettings, create_app, open_service
from tests.support.sentence_models import sentence_folder
from tests.support.tiny_models import LONG_TEXT, TEXTS, Tiny, reference_tokenizer, text_states
from tests.support.token_models import save

SOME = [text for text in TEXTS if text.strip()] + [LONG_TEXT, "The bank lends money.", "don't stop, naïve café!"]
QUERIES = ["the bank of a river", "Don't stop the money!", LONG_TEXT]

Build = Callable[..., Index]


@pytest.fixture
def build(tiny: Callable[[str], Tiny], tmp_path: Path) -> Build:
    """Extract some texts, and open an index of them."""

    def made(
        family: str = "bert",
        column: str | None = None,
        texts: Sequence[Any] = SOME,
        options: BuildOptions | None = None,
        corpus: CorpusSettings | None = None,
        **settings: Any,
    ) -> Index:
        number = len([*tmp_path.iterdir()])
        features = tmp_path / f"{number}.features"
        extractor = Extractor(settings.pop("model", tiny(family).folder), **{"precision": "fp32", **settings})
        extractor.extract(memory_corpus(texts, corpus or CorpusSettings()), features)
        folder = tmp_path / f"{number}.index"
        build_index(features, folder, column, options=options or BuildOptions(type="flat"))
        return Index(folder)

    return made


def assert_sums(index: Index, queries: Sequence[str] = QUERIES, **settings: Any) -> None:
    for answer in index.search_batch(queries, k=20, why=True, **settings):
        assert answer.hits
        for hit in answer.hits:
            assert hit.why is not None
            assert hit.why.score == pytest.approx(hit.score, abs=1e-5 * max(1, abs(hit.score)))
            shown = [each for each in hit.why.words if each.origin is Origin.TEXT]
            assert [each.string for each in shown] == [(hit.text or "")[each.start : each.end] for each in shown]


# ── shares ──────────────────────────────────────────────────────────────────────────────────────────────────


def by_hand(folder: Path, query: str, text: str, layers: Sequence[int]) -> dict[tuple[str, str], float]:
    """The shares of pairs of words by a loop over Hugging Face's tokens; words are told by ``word_ids``."""
    sides = []
    for each in (query, text):
        encoded = reference_tokenizer(folder)(each, return_offsets_mapping=True)
        states = text_states(folder, each)[list(layers)].sum(0).astype(np.float64)
        strings = []
        for token, word in zip(encoded["input_ids"], encoded.word_ids(), strict=True):
            span = None if word is None else encoded.word_to_chars(word)
            special = reference_tokenizer(folder).convert_ids_to_tokens(token)
            strings.append(special if span is None else each[span.start : span.end])
        sides.append((strings, states / len(states), np.linalg.norm(states.mean(0))))
    (asked, own, length), (read, other, far) = sides
    found: dict[tuple[str, str], float] = {}
    for one, vector in zip(asked, own, strict=True):
        for two, against in zip(read, other, strict=True):
            found[one, two] = found.get((one, two), 0.0) + float(vector @ against / (length * far))
    return found


def by_strings(why: Why) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    for one, row in zip(why.query, why.shares.tolist(), strict=True):
        for two, share in zip(why.words, row, strict=True):
            found[one.string, two.string] = found.get((one.string, two.string), 0.0) + share
    return found


@pytest.mark.parametrize("family", ["bert", "mpnet"])
@pytest.mark.parametrize(("layers", "summed"), [("last", [5]), ("sum4", [2, 3, 4, 5])])
def test_shares_are_those_of_a_loop_over_tokens(
    tiny: Callable[[str], Tiny], family: str, layers: str, summed: list[int]
) -> None:
    query, text = "the unbelievable bank of a river", "He sat on the river-bank, unbelievably. The river!"
    extractor = Extractor(tiny(family).folder, layers=layers, pooling="mean", precision="fp32")
    why = explain(extractor, query, text)
    found, wanted = by_strings(why), by_hand(tiny(family).folder, query, text, summed)
    assert found.keys() == wanted.keys()
    for pair, share in wanted.items():
        assert found[pair] == pytest.approx(share, abs=1e-5)
    one, other = extractor.encode([query, text], normalize_embeddings=True)
    assert why.score == pytest.approx(float(one @ other), abs=1e-6)


def test_the_strongest_pairs(tiny: Callable[[str], Tiny]) -> None:
    why = explain(Extractor(tiny("bert").folder, layers="last", precision="fp32"), *QUERIES[:2])
    inner = why.shares[1:-1, 1:-1]
    assert [pair.share for pair in why.strongest(3)] == sorted(inner[inner > 0].tolist(), reverse=True)[:3]
    assert why.of_frame == pytest.approx(why.score - inner.sum())
    assert {each.origin for each in (why.query[0], why.words[-1])} == {Origin.SPECIAL}
    assert why.strongest(0) == ()
    assert len(why.strongest(10_000)) == int((inner > 0).sum())


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet", "modernbert", "distilbert"])
def test_they_add_up_to_the_score(build: Build, family: str, precision: str) -> None:
    if (family, precision) != ("modernbert", "int8"):  # which it does not have
        assert_sums(build(family, layers="last", precision=precision))


@pytest.mark.parametrize(
    "settings",
    [
        {"layers": "concat4", "column": "sum4"},  # derived
        {"layers": "embeddings"},
        {"layers": "mean-all", "special_tokens": False},
        {"layers": "last", "max_length": 16},  # of several windows
        {"layers": "last", "max_length": 16, "long": "truncate-left"},
        {"layers": "last", "prompt": "a text about "},
        {"layers": "last", "pooling": "token,mean", "column": "last_mean"},
    ],
    ids=str,
)
def test_of_every_reading(build: Build, settings: dict[str, Any]) -> None:
    assert_sums(build(**settings))


@pytest.mark.parametrize(
    "options",
    [
        {"type": "flat", "metric": "ip"},
        {"type": "flat", "transform": "whiten:8"},
        {"type": "flat", "transform": "half-whiten"},
        {"type": "PCA8,L2norm,Flat"},
        {"type": "L2norm,PCAR8,Flat", "metric": "ip"},
        {"type": "hnsw"},
    ],
    ids=str,
)
def test_of_every_index(build: Build, options: dict[str, Any]) -> None:
    texts = [*SOME, *(f"{text} {number}" for number in range(20) for text in SOME[:3])]
    assert_sums(build(layers="last", texts=texts, options=BuildOptions(**options)))


def test_of_spans(build: Build) -> None:
    texts = ["The bank lends money. He sat down! The river ran on.", "Money. A river."]
    index = build(layers="last", pooling="token", texts=texts, options=BuildOptions(type="flat", spans="sentences"))
    assert_sums(index, QUERIES[:2])
    hit = index.search("money", why=True).hits[0]
    assert hit.piece is not None
    assert hit.why is not None
    assert " ".join(each.string for each in hit.why.words) in ("The bank lends money .", "Money .")


def test_of_pairs_and_prompts(build: Build, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    index = build(layers="last", texts=[("the bank", "a river ran"), ("money", "the bank lends it")])
    assert_sums(index, QUERIES[:2])
    why = index.search("money", why=True).hits[0].why
    assert why is not None
    assert {each.origin for each in why.words} == {Origin.TEXT, Origin.PAIR, Origin.SPECIAL}
    prompts = {"query": "look for: ", "document": "it says: "}
    model = sentence_folder(tiny("bert").folder, tmp_path / "model", prompts=prompts, default_prompt="document")
    prompted = build(model=model, layers="last")
    assert_sums(prompted)
    why = prompted.search("the bank", why=True).hits[0].why
    assert why is not None
    assert [each.string for each in why.query if each.origin is Origin.PROMPT] == ["look", "for", ":"]
    assert [each.string for each in why.words if each.origin is Origin.PROMPT] == ["it", "says", ":"]
    assert not {"look", "it", "says"} & {
        each for pair in why.strongest() for each in (pair.query.string, pair.word.string)
    }


# ── the pairs that maxsim takes ─────────────────────────────────────────────────────────────────────────────


def assert_maxsim(index: Index, rerank: MaxSim, queries: Sequence[str] = QUERIES, atol: float = 1e-5) -> list[Why]:
    found = []
    for answer in index.search_batch(queries, k=20, why=True, rerank=rerank):
        assert answer.hits
        for hit in answer.hits:
            assert hit.why is not None
            assert hit.why.score == pytest.approx(hit.maxsim, abs=atol)
            found.append(hit.why)
    return found


def pairs_taken(document: DocumentFeatures, query: DocumentFeatures) -> dict[tuple[str, str], float]:
    """The shares of pairs of tokens in maxsim without idf, by a loop."""
    sides = []
    for each in (query, document):
        assert each.tokens is not None
        counted = np.flatnonzero(np.asarray(each.tokens.end) > np.asarray(each.tokens.start))
        strings = [(each.tokens.strings or ())[at] for at in counted.tolist()]
        vectors = each.matrix("last_token")[counted].astype(np.float64)
        sides.append((strings, vectors / np.linalg.norm(vectors, axis=1, keepdims=True)))
    (asked, own), (read, other) = sides
    found: dict[tuple[str, str], float] = {}
    for string, vector in zip(asked, own, strict=True):
        cosines = [float(vector @ each) for each in other]
        best = int(np.argmax(cosines))
        found[string, read[best]] = found.get((string, read[best]), 0.0) + cosines[best] / len(asked)
    return found


def test_maxsim_takes_the_pairs_of_a_loop_over_tokens(build: Build, tiny: Callable[[str], Tiny]) -> None:
    texts = ["the bank of a river", "a river ran", "the money"]  # each word is one token
    index = build(layers="last", pooling="mean,token", column="last_mean", texts=texts, dtype="float32")
    read = Extractor(tiny("bert").folder, layers="last", pooling="token", dtype="float32", precision="fp32")
    documents = dict(zip(texts, read.features(texts), strict=True))
    for query in ("a bank", "the river of money"):
        (asked,) = read.features([query])
        for hit in index.search(query, rerank=MaxSim(idf=False), why=True).hits:
            assert hit.why is not None
            assert hit.text is not None
            wanted = pairs_taken(documents[hit.text], asked)
            found = {pair: share for pair, share in by_strings(hit.why).items() if share}
            assert found.keys() == wanted.keys()
            for pair, share in wanted.items():
                assert found[pair] == pytest.approx(share, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "rerank"),
    [
        ({"pooling": "mean,token"}, MaxSim()),
        ({"pooling": "mean,token"}, MaxSim(weight=0.0, idf=False)),
        ({"pooling": "mean,word"}, MaxSim()),
        ({"pooling": "mean,token", "layers": "last,concat4", "column": "last_mean"}, MaxSim("sum4_token")),
        ({"pooling": "mean,token", "prompt": "a text about "}, MaxSim()),
        ({"pooling": "token", "options": BuildOptions(type="flat", encode="fde:64")}, MaxSim()),
        ({"pooling": "token", "options": BuildOptions(type="flat", spans="sentences")}, MaxSim()),
        ({"pooling": "mean,token", "max_length": 16}, MaxSim()),
    ],
    ids=str,
)
def test_shares_add_up_to_maxsim(build: Build, settings: dict[str, Any], rerank: MaxSim) -> None:
    column = None if settings["pooling"] == "token" else "last_mean"
    made = {"layers": "last", "dtype": "float32", "column": column, **settings}
    assert_maxsim(build(**made), rerank)


def test_of_tokens_in_the_index_they_are_near(build: Build) -> None:
    kept = BuildOptions(type="flat", with_tokens="last_token")
    index = build(layers="last", pooling="mean,token", column="last_mean", dtype="float32", options=kept)
    assert_maxsim(index, MaxSim(), atol=0.02)  # whose vectors have 8 bits


def test_of_pooled_tokens_there_is_none(build: Build) -> None:
    kept = BuildOptions(type="flat", with_tokens="last_token", pool_tokens=2)
    index = build(layers="last", pooling="mean,token", column="last_mean", options=kept)
    with pytest.raises(UsageError, match="the index keeps means of several tokens"):
        index.search("the bank", why=True, rerank="maxsim")


def test_maxsim_of_pairs_of_texts(build: Build) -> None:
    texts = [("the bank", "a river ran"), ("money", "the bank lends it")]
    index = build(layers="last", pooling="mean,token", column="last_mean", dtype="float32", texts=texts)
    origins = {word.origin for why in assert_maxsim(index, MaxSim(), ["money", "a river"]) for word in why.words}
    assert origins == {Origin.TEXT, Origin.PAIR}


def test_maxsim_of_a_model_that_compares_tokens(build: Build, tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    model = save(tiny("bert").folder, tmp_path / "model")
    index = build(model=model, layers="sentence", dtype="float32")
    why = assert_maxsim(index, MaxSim(), QUERIES[:2])[0]
    strings = [word.string for word in why.query]
    assert strings[:2] == ["[CLS]", "[Q] "]
    assert strings.count("[MASK]") == sum(word.origin is Origin.SPECIAL for word in why.query) - 3
    assert all(pair.query.is_own and pair.word.is_own for pair in why.strongest())


# ── in the shell and on the server ──────────────────────────────────────────────────────────────────────────


def test_in_the_shell(build: Build) -> None:
    index = build(layers="last")
    asked = ["search", str(index.folder), "the bank", "-k", "2", "--why"]
    lines = CliRunner().invoke(main, asked).stdout.splitlines()
    assert len(lines) == 4
    first = index.search("the bank", 1, why=True).hits[0].why
    assert first is not None
    pairs = ", ".join(f"{each.query.string}–{each.word.string} {each.share:.4f}" for each in first.strongest())
    assert lines[1] == f"         {pairs}, special tokens and prompts {first.of_frame:.4f}"
    answer = json.loads(CliRunner().invoke(main, [*asked, "--json"]).stdout)
    for hit in answer["hits"]:
        assert np.sum(hit["why"]["shares"]) == pytest.approx(hit["score"], abs=1e-5)
        assert hit["why"]["query"][1] == ["the", 0, 3, "text"]
    assert "why" not in json.loads(CliRunner().invoke(main, [*asked[:-1], "--json"]).stdout)["hits"][0]
    narrow = CliRunner().invoke(main, [*asked, "--width", "60"]).stdout.splitlines()
    assert all(len(line) <= 60 for line in narrow)


def test_on_the_server(build: Build) -> None:
    index = build(layers="last", pooling="mean,token", column="last_mean")
    service = open_service([index.folder], ServerSettings())
    with TestClient(create_app(service), "http://localhost") as client:
        answer = client.post("/search", json={"query": "the bank", "k": 3, "why": True}).json()
        wanted = index.search("the bank", 3, why=True)
        for found, hit in zip(answer["hits"], wanted.hits, strict=True):
            assert hit.why is not None
            assert found["why"]["words"] == hit.why.to_json()["words"]
            np.testing.assert_allclose(found["why"]["shares"], hit.why.shares, rtol=0, atol=1e-6)
        asked = {"query": "the bank", "k": 3, "why": True, "rerank": "maxsim", "rerank_idf": False}
        for hit in client.post("/search", json=asked).json()["hits"]:
            assert np.sum(hit["why"]["shares"]) == pytest.approx(hit["maxsim"], abs=1e-3)  # of tokens in float16
        refused = client.post("/search", json={"vector": [0.5] * 32, "why": True})
        assert refused.status_code == 422
        assert "why" in refused.text


# ── what is no sum ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"pooling": "cls"}, "last_cls is no mean of tokens"),
        ({"pooling": "max"}, "last_max is no mean of tokens"),
        ({"pooling": "word"}, "a hit is one word"),
        ({"options": BuildOptions(type="flat", metric=Metric.L2)}, "a distance is no sum"),
        ({"pooling": "token", "options": BuildOptions(type="flat", encode="fde:64")}, "is no mean of tokens"),
        ({"options": BuildOptions(type="flat", keep_text=False)}, "the index keeps no texts"),
    ],
    ids=str,
)
def test_it_says_why_there_is_no_why(build: Build, settings: dict[str, Any], told: str) -> None:
    query = "the *bank*" if settings.get("pooling") == "word" else "the bank"
    with pytest.raises(UsageError, match=told):
        build(**{"layers": "last", **settings}).search(query, why=True)


def test_vectors_have_none(build: Build) -> None:
    index = build(layers="last", pooling="mean,token", column="last_mean")
    with pytest.raises(UsageError, match="why compares the tokens of a text, and vectors have none"):
        index.search_vectors(np.ones((1, 32)), why=True)


def test_an_encoder_without_tokens(build: Build) -> None:
    index = build(layers="last")

    class Bare:
        identity = index.settings.model

        def encode(self, texts: Sequence[str], /) -> Any:
            return np.ones((len(texts), 32), np.float32)

        def features(self, texts: Sequence[str], /) -> Any:
            raise NotImplementedError

    with pytest.raises(UsageError, match="the encoder at hand gives no tokens"):
        Index(index.folder, encoder=Bare()).search("the bank", why=True)
