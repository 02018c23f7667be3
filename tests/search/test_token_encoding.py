"""Fixed dimensional encodings, against a slow enumeration of tokens and partitions over the same stored vectors."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat import Extractor, FeatureSet, StoredEncoder
from bertfeat.core.spans import SpanRule
from bertfeat.errors import IndexFolderError, NotDerivableError, UsageError
from bertfeat.io import json_content
from bertfeat.search import (
    BuildOptions,
    Index,
    MaxSim,
    build_index,
    compute_maxsim,
    evaluate_beir,
    remove_documents,
    update_index,
    verify_index,
)
from bertfeat.search.options import ENCODED_WIDTH
from bertfeat.search.settings import ENCODING_NAME, SETTINGS_NAME
from bertfeat.search.vectors import token_encoding
from bertfeat.usages import find_usages
from tests.support.tiny_models import Tiny
from tests.support.token_sets import QUERIES, TEXTS, Make, make_token_set

WIDTH = 32  # of the tiny models, and so of each partition

Vectors = NDArray[np.float32]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return partial(make_token_set, tmp_path)


def encoded_index(
    features: Path | Sequence[Path], partitions: int = 4, column: str | None = None, **more: Any
) -> Index:
    folder = (features if isinstance(features, Path) else features[0]).with_suffix(".index")
    values = more.pop("values", WIDTH)
    options = BuildOptions(**{"encode": f"fde:{values * partitions}", "evaluate": False, **more})
    build_index(features, folder, column, options=options)
    return Index(folder)


def partitions_of(index: Index) -> tuple[list[Vectors], Vectors]:
    """The centers of the partitions and the directions, as another reader finds them."""
    shape = index.settings.encoding
    assert shape is not None
    array = np.load(Path(str(index.folder)) / index.settings.version / ENCODING_NAME)
    return list(array[: shape.partitions]), array[shape.partitions :]


def slow_encoding(tokens: Sequence[Vectors], index: Index, *, is_query: bool) -> Vectors:
    """The encoding of a text, token by token."""
    centers, directions = partitions_of(index)
    members: list[list[Vectors]] = [[] for _ in centers]
    for token in tokens:
        direction = token / np.linalg.norm(token)
        members[max(range(len(centers)), key=lambda at: float(direction @ centers[at]))].append(directions @ direction)
    values: list[NDArray[np.floating]] = []
    for at, center in enumerate(centers):
        if is_query:
            values.append(sum(members[at], start=np.zeros(len(directions), np.float32)) / len(tokens))
            continue
        by_distance = sorted(range(len(centers)), key=lambda other: (other != at, -float(centers[other] @ center)))
        filled = next(members[other] for other in by_distance if members[other])
        values.append(np.mean(filled, axis=0))
    return np.concatenate(values).astype(np.float32)


def stored_tokens(features: Path, column: str = "last_token") -> dict[str, list[Vectors]]:
    """The vectors of the tokens, or words, of each document, without special tokens."""
    found = {}
    for document in FeatureSet(features):
        pieces = document.words if column.endswith("_word") else document.tokens
        assert pieces is not None
        usable = pieces.end > pieces.start
        if pieces.aligned is not None:
            usable &= pieces.aligned
        found[document.id] = list(document.matrix(column)[usable])
    return found


def query_tokens(tiny: Tiny, query: str) -> list[Vectors]:
    (document,) = Extractor(str(tiny.folder), pooling="token", precision="fp32", dtype="float32").features([query])
    assert document.tokens is not None
    return list(document.matrix("last_token")[document.tokens.end > document.tokens.start])


def unit(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    units: NDArray[np.floating] = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return units


def assert_encodings(index: Index, expected: dict[str, list[Vectors]], tiny: Tiny, atol: float = 3e-5) -> None:
    """Every document is found with the cosine of its encoding and the query's, and is stored so."""
    slow = {name: unit(slow_encoding(tokens, index, is_query=False)) for name, tokens in expected.items()}
    for answer, query in zip(index.search_batch(QUERIES, 100), QUERIES, strict=True):
        asked = slow_encoding(query_tokens(tiny, query), index, is_query=True)
        np.testing.assert_allclose(index.encode([query])[0], asked, atol=atol)
        found = {hit.id: hit for hit in answer.hits}
        assert found.keys() == slow.keys()
        for name, vector in slow.items():
            assert found[name].score == pytest.approx(float(unit(asked) @ vector), abs=atol)
            np.testing.assert_allclose(index.reconstruct(np.array([found[name].number]))[0], vector, atol=atol)


@pytest.mark.sampled(4)
def test_encodings_are_those_of_an_enumeration(any_tiny: Tiny, make: Make) -> None:
    features = make(any_tiny, TEXTS)
    index = encoded_index(features)
    assert_encodings(index, stored_tokens(features), any_tiny)
    settings = index.settings
    assert (settings.unit, settings.contents, settings.width) == ("document", "fde:128 of last_token", 4 * WIDTH)
    assert (settings.per_document, settings.marks_words, settings.count) == (True, False, len(TEXTS))
    verify_index(index.folder)


def test_fewer_values_than_the_tokens_have(bert: Tiny, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_encoding, "MOST_VALUES", 8)
    features = make(bert, TEXTS)
    index = encoded_index(features, values=8)
    assert index.settings.encoding == token_encoding.EncodingShape(4, 8)
    assert_encodings(index, stored_tokens(features), bert)
    _, directions = partitions_of(index)
    np.testing.assert_allclose(directions @ directions.T, np.eye(8), atol=1e-5)
    tokens = unit(np.concatenate([np.stack(each) for each in stored_tokens(features).values()]))
    variances = np.linalg.svd(tokens, compute_uv=False)[:8] ** 2
    np.testing.assert_allclose(((tokens @ directions.T) ** 2).sum(axis=0), variances, rtol=1e-3)


def test_documents_of_one_token_score_as_by_maxsim(bert: Tiny, make: Make) -> None:
    """With one token there is nothing to lose: the inner product is the mean cosine with it."""
    texts = {str(at): word for at, word in enumerate(["bank", "river", "night", "the", "it", "rose", "storm"])}
    features = make(bert, texts)
    tokens = {name: np.stack(vectors) for name, vectors in stored_tokens(features).items()}
    single = {name: vectors for name, vectors in tokens.items() if len(vectors) == 1}
    assert len(single) >= 3
    index = encoded_index(features, metric="ip")
    for answer, query in zip(index.search_batch(QUERIES, 100), QUERIES, strict=True):
        asked = unit(np.stack(query_tokens(bert, query)))
        found = {hit.id: hit.score for hit in answer.hits}
        for name, vectors in single.items():
            weights = np.ones(len(asked), np.float32)
            assert found[name] == pytest.approx(compute_maxsim(asked, weights, unit(vectors)), abs=1e-5)


def test_words_and_derived_layers(bert: Tiny, make: Make) -> None:
    features = make(bert, TEXTS, pooling="word,mean", layers="concat=1..2")
    index = encoded_index(features, 3, "sum=1..2_word")
    assert index.settings.contents == "fde:96 of sum_1_2_word"
    expected = stored_tokens(features, "sum=1..2_word")
    for number, tokens in enumerate(expected.values()):
        vector = unit(slow_encoding(tokens, index, is_query=False))
        np.testing.assert_allclose(index.reconstruct(np.array([number]))[0], vector, atol=3e-5)


@pytest.mark.parametrize("rule", ["sentences", "words:4:1"])
def test_spans_are_encoded_by_their_tokens(bert: Tiny, make: Make, rule: str) -> None:
    features = make(bert, TEXTS)
    index = encoded_index(features, spans=rule)
    assert (index.settings.unit, index.settings.contents) == ("span", f"fde:128 of {rule} of last_token")
    number = 0
    for document in FeatureSet(features):
        spans, tokens = SpanRule.parse(rule).split(document.text or ""), document.tokens
        assert tokens is not None
        for start, end in zip(spans.start.tolist(), spans.end.tolist(), strict=True):
            inside = (tokens.start < end) & (tokens.end > start) & (tokens.end > tokens.start)
            vector = unit(slow_encoding(list(document.matrix("last_token")[inside]), index, is_query=False))
            np.testing.assert_allclose(index.reconstruct(np.array([number]))[0], vector, atol=3e-5)
            number += 1
    assert number == len(index)
    hits = index.search(QUERIES[0], 100, rerank=MaxSim(depth=100)).hits
    assert len(hits) == number
    assert all(hit.piece and hit.text and hit.piece.string == hit.text[hit.piece.start : hit.piece.end] for hit in hits)


@pytest.mark.parametrize("kept", [None, "last_token"])
def test_hits_are_scored_again(bert: Tiny, make: Make, kept: str | None) -> None:
    features = make(bert, TEXTS)
    index = encoded_index(features, with_tokens=kept)
    tokens = stored_tokens(features)
    asked = unit(np.stack(query_tokens(bert, QUERIES[0])))
    first = {hit.id: hit.score for hit in index.search(QUERIES[0], 100).hits}
    for hit in index.search(QUERIES[0], 100, rerank=MaxSim(idf=False)).hits:
        maxsim = float((asked @ unit(np.stack(tokens[hit.id])).T).max(axis=1).mean())
        assert (hit.maxsim, hit.first_score) == pytest.approx((maxsim, first[hit.id]), abs=0.02 if kept else 3e-5)


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_updates_keep_the_encoding(bert: Tiny, make: Make, kind: str) -> None:
    features = make(bert, TEXTS)
    index = encoded_index(features, type=kind)
    before = partitions_of(index)
    later = {"c": "Another text. It has two sentences.", "f": "New."}
    added = make(bert, later, "later")
    assert update_index(index.folder, added).removed == 1
    assert remove_documents(index.folder, ["e"]).removed == 1
    updated = Index(index.folder)
    for old, new in zip(before, partitions_of(updated), strict=True):
        np.testing.assert_array_equal(old, new)
    expected = {**stored_tokens(features), **stored_tokens(added)}
    del expected["e"]
    assert_encodings(updated, expected, bert)
    verify_index(index.folder)


def test_tuned_on_queries_and_evaluated(bert: Tiny, make: Make, tmp_path: Path) -> None:
    pytest.importorskip("ir_measures")
    features = make(bert, TEXTS)
    options = BuildOptions(encode="fde:64", type="IVF2,Flat")
    settings = build_index(features, features.with_suffix(".index"), options=options, queries=QUERIES)
    assert settings.evaluation is not None
    assert settings.evaluation.of == "given"
    index = Index(features.with_suffix(".index"))
    best = index.search(QUERIES[0]).hits[0].id
    (tmp_path / "judged" / "qrels").mkdir(parents=True)
    (tmp_path / "judged" / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": QUERIES[0]}) + "\n")
    (tmp_path / "judged" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\nq\t{best}\t1\n")
    assert evaluate_beir(index, tmp_path / "judged", metrics=["RR"]).scores == {"mrr": 1.0}


def test_stored_encoders_answer(bert: Tiny, make: Make) -> None:
    """An index of encodings is searched with no model in memory, by queries whose tokens are stored."""
    features = make(bert, TEXTS)
    index = encoded_index(features)
    asked = make(bert, dict(zip("xyz", QUERIES, strict=True)), "queries", pooling="mean,token")
    given = Index(index.folder, encoder=StoredEncoder(asked, "last_mean"))
    for ours, theirs in zip(given.search_batch(QUERIES), index.search_batch(QUERIES), strict=True):
        assert [hit.id for hit in ours.hits] == [hit.id for hit in theirs.hits]
        np.testing.assert_allclose([hit.score for hit in ours.hits], [hit.score for hit in theirs.hits], atol=1e-5)


def test_a_text_without_tokens_scores_nothing(bert: Tiny, make: Make) -> None:
    index = encoded_index(make(bert, {**TEXTS, "empty": ""}), 2)
    assert (index.settings.zero_vectors, index.settings.count) == (1, len(TEXTS) + 1)
    assert {hit.id: hit.score for hit in index.search(QUERIES[0], 100).hits}["empty"] == 0


def test_spans_that_overlap_and_documents_without_any(bert: Tiny, make: Make) -> None:
    rows = [
        {"id": "a", "text": "The river rose.", "entities": "[[0, 9], [0, 15], [4, 14]]"},
        {"id": "b", "text": "Nobody saw it.", "entities": "[]"},
        {"id": "c", "text": "", "entities": "[]"},
    ]
    index = encoded_index(make(bert, rows, keep=("entities",)), 2, spans="column:entities")
    assert len(index) == 3
    later = make(bert, rows[1:], "later", keep=("entities",))  # not a single span
    assert update_index(index.folder, later).removed == 2
    hits = Index(index.folder).search(QUERIES[0]).hits
    assert {hit.piece.string for hit in hits if hit.piece} == {"The river", "The river rose.", "river rose"}


def test_pairs_and_short_types(bert: Tiny, make: Make) -> None:
    """All tokens of both texts are encoded, of the vectors as they are stored."""
    rows = [
        {"id": "p", "text": "The river rose.", "pair": "It has the bank."},
        {"id": "q", "text": "It.", "pair": "No"},
    ]
    for dtype in ("float16", "int8"):
        features = make(bert, rows, dtype, dtype=dtype)
        index = encoded_index(features, 2)
        for number, tokens in enumerate(stored_tokens(features).values()):
            vector = unit(slow_encoding(tokens, index, is_query=False))
            np.testing.assert_allclose(index.reconstruct(np.array([number]))[0], vector, atol=3e-5)


def test_several_sets(bert: Tiny, make: Make) -> None:
    texts = list(TEXTS.items())
    sets = [
        make(bert, dict(part), f"part{at}", part_rows=1) for at, part in enumerate([texts[:1], texts[1:3], texts[3:]])
    ]
    index = encoded_index(sets, 3)
    assert_encodings(index, {name: tokens for each in sets for name, tokens in stored_tokens(each).items()}, bert)


def test_vectors_of_texts_are_not_encoded(bert: Tiny, make: Make) -> None:
    features = make(bert, TEXTS, pooling="token,mean")
    with pytest.raises(NotDerivableError, match="last_mean has one vector of each text, and an encoding is made of"):
        encoded_index(features, column="last_mean")


def test_every_set_has_all_words(bert: Tiny, make: Make) -> None:
    whole = make(bert, {"a": TEXTS["a"]}, "whole", pooling="word")
    some = make(bert, {"e": TEXTS["e"]}, "some", pooling="word", only=("bank",))
    with pytest.raises(NotDerivableError, match="an encoding is made of those of all"):
        encoded_index([whole, some], 2)
    index = encoded_index(whole, 2)
    with pytest.raises(NotDerivableError, match="an encoding is made of those of all"):
        update_index(index.folder, some)
    assert len(Index(index.folder)) == 1


def test_own_vectors_and_many_queries(bert: Tiny, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    index = encoded_index(make(bert, TEXTS))
    whole = index.encode(QUERIES)
    monkeypatch.setattr("bertfeat.search.queries._ENCODED_AT_ONCE", 2)
    np.testing.assert_allclose(index.encode(QUERIES), whole, atol=1e-6)
    assert index.encode([]).shape == (0, 4 * WIDTH)
    found = [[hit.id for hit in answer.hits] for answer in index.search_vectors(whole)]
    assert found == [[hit.id for hit in answer.hits] for answer in index.search_batch(QUERIES)]
    with pytest.raises(UsageError, match=r"query vectors must be \[n, 128\]"):
        index.search_vectors(whole[:, :WIDTH])


def test_the_default_fits_small_corpora(bert: Tiny, make: Make) -> None:
    features = make(bert, {"a": "The bank.", "b": "It rose."})
    count = sum(map(len, stored_tokens(features).values()))
    assert encoded_index(features, encode="fde").settings.encoding == token_encoding.EncodingShape(count, WIDTH)
    chosen = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "many_vectors.json").read_text("utf-8"))
    assert chosen["default_width"] == ENCODED_WIDTH


def test_sets_without_a_token(bert: Tiny, make: Make) -> None:
    with pytest.raises(UsageError, match="there are no vectors of last_token in it, so nothing to index"):
        encoded_index(make(bert, {"a": "", "b": ""}))


def test_tokens_that_are_not_finite() -> None:
    tokens = np.ones((9, 4), np.float32)
    tokens[5, 1] = np.nan
    with pytest.raises(IndexFolderError, match="a vector of a token is not finite"):
        token_encoding.fit_encoding(tokens, token_encoding.EncodingShape(2, 4))


@pytest.mark.parametrize("name", ["fde", "fde:4096", "fde:32768"])
def test_names_of_encodings(name: str) -> None:
    assert BuildOptions(encode=name).encode == name


@pytest.mark.parametrize("name", ["", "FDE", "fde:", "fde:0", "fde:-1", "fde:1.5", "fde:32769", "fde:1,024", "muvera"])
def test_unknown_encodings(name: str) -> None:
    with pytest.raises(UsageError, match=r"encode.*unknown; there is fde.*such as fde:4096"):
        BuildOptions(encode=name)


@pytest.mark.parametrize("other", [{"transform": "whiten"}, {"metric": "l2"}])
def test_what_does_not_go_with_encodings(other: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=rf"an encoding imitates maxsim.*leave out .*{next(iter(other))}"):
        BuildOptions(encode="fde", **other)


def test_widths_that_do_not_fit(bert: Tiny, make: Make) -> None:
    features = make(bert, TEXTS)
    for wrong, remedy in ((100, "fde:96$"), (8, "fde:32$")):
        with pytest.raises(UsageError, match=rf"each partition of these tokens has 32 values.*choose {remedy}"):
            encoded_index(features, encode=f"fde:{wrong}")
    with pytest.raises(
        UsageError, match=r"sampled tokens cannot be divided into 1,000 partitions; choose fde:\d+ at most"
    ):
        encoded_index(features, 1000)


def test_sets_without_vectors_of_all_tokens(bert: Tiny, make: Make) -> None:
    for settings in ({"pooling": "mean"}, {"pooling": "mean,word", "only": ("bank",)}):
        features = make(bert, TEXTS, **settings)
        with pytest.raises(NotDerivableError, match="an encoding is made of those of all tokens or words"):
            encoded_index(features)


def test_usages_need_words(bert: Tiny, make: Make) -> None:
    index = encoded_index(make(bert, TEXTS))
    with pytest.raises(
        IndexFolderError, match="fde:128 of last_token, one vector a document, but usages compare words"
    ):
        find_usages(index.folder, "*", like="the *bank* of it")


def test_damaged_encodings(bert: Tiny, make: Make) -> None:
    index = encoded_index(make(bert, TEXTS))
    record = Path(str(index.folder)) / SETTINGS_NAME
    file = record.parent.parent / index.settings.version / ENCODING_NAME
    whole = file.read_bytes()
    for damaged in (whole[:-4], whole[:10], b"", whole[:-1] + b"!"):
        file.write_bytes(damaged)
        with pytest.raises(IndexFolderError, match=ENCODING_NAME):
            Index(index.folder)
    file.unlink()
    with pytest.raises(IndexFolderError, match=ENCODING_NAME):
        Index(index.folder)
    file.write_bytes(whole)
    assert Index(index.folder).settings == index.settings


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("encoding", None, "lists an encoding, and says that there is none"),
        ("encoding", {"partitions": 4, "values": 64}, "fde:256 of last_token, of 32 values"),
        ("encoding", {"partitions": 0, "values": 32}, "partitions"),
        ("transform", {"kind": "whiten", "width": 128}, "by the transform whiten:128"),
    ],
)
def test_records_that_contradict_themselves(bert: Tiny, make: Make, key: str, value: Any, problem: str) -> None:
    index = encoded_index(make(bert, TEXTS))
    record = Path(str(index.folder)) / SETTINGS_NAME
    content = {**json.loads(record.read_bytes()), key: value}
    content.pop("digest")
    record.write_bytes(json_content(content))
    with pytest.raises(IndexFolderError, match=problem):
        Index(index.folder)
