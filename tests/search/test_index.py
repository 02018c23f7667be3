"""Queries by text: embedded by the recorded model only, answered with what belongs to each hit."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from bertfeat.core.corpus import KeptColumn
from bertfeat.core.features import DocumentFeatures, FeatureSet, ModelIdentity
from bertfeat.core.grammar import parse_recipes
from bertfeat.core.recipe import Operation, Recipe
from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.search import BuildOptions, Index, Metric, SearchScope, build_index, remove_documents
from tests.support.features_toy import MODEL, toy_part, toy_set
from tests.support.index_toy import LAYERS, clustered, neighbors, vector_set

KEPT = {KeptColumn("year", "int64"): [1900 + row for row in range(100)]}
TOY = ModelIdentity("toy/model", "f" * 64, None, LAYERS, 16)


@dataclass
class Stand:
    """Stands in for the extractor: a text is the number of the vector it is given."""

    vectors: NDArray[np.float32]
    identity: ModelIdentity = TOY
    documents: Sequence[DocumentFeatures] = ()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return self.vectors[[int(text) for text in texts]]

    def features(self, texts: Sequence[str]) -> list[DocumentFeatures]:
        return [next(document for document in self.documents if document.text == text) for text in texts]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    vector_set(tmp_path / "toy.features", clustered(100), kept=KEPT)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index")
    return tmp_path / "toy.index"


def test_hits_bring_what_belongs_to_them(folder: Path) -> None:
    index = Index(folder, encoder=Stand(clustered(100)))
    (answer, other) = index.search_batch(["7", "40"], k=3)
    scores, order = neighbors(clustered(100), clustered(100)[[7, 40]], "cosine")
    assert (answer.query, other.query) == ("7", "40")
    assert [hit.row for hit in answer.hits] == order[0, :3].tolist()
    assert [hit.rank for hit in other.hits] == [1, 2, 3]
    np.testing.assert_allclose([hit.score for hit in other.hits], scores[1, :3], atol=1e-5)
    best = answer.hits[0]
    assert (best.id, best.text, best.values, best.piece) == ("8", "text of 8", {"year": 1907}, None)
    assert best.source == str(folder.with_name("toy.features"))
    np.testing.assert_allclose(np.linalg.norm(index.reconstruct(np.array([best.number]))), 1, atol=1e-6)


def test_one_query_has_one_answer_and_several_have_as_many(folder: Path) -> None:
    index = Index(folder, encoder=Stand(clustered(100)))
    assert index.search("3", k=1).hits[0].id == "4"
    assert index.search("3", k=np.int64(1)) == index.search("3", k=1)  # type: ignore[arg-type]
    assert index.search("3", k=2) == index.search_batch(["3"], k=2)[0]
    assert [answer.query for answer in index.search_batch(iter(("3", "5")))] == ["3", "5"]
    assert [answer.query for answer in index.search_batch(np.array(["3", "5"]))] == ["3", "5"]
    assert index.search_batch([]) == []


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (["3"], "must be a text, not list"),
        ({"text": "3"}, "must be a text, not dict"),
        (None, "must be a text, not None"),
        ("", "the query is empty"),
        (" \n", "the query is empty"),
        ("a \udcff", "holds bytes that are no UTF-8"),
    ],
)
def test_what_is_no_query(query: Any, problem: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=problem):
        Index(folder, encoder=Stand(clustered(100))).search(query)


@pytest.mark.parametrize(
    ("queries", "problem"),
    [
        ("3", r"takes a list of texts, not str; search\(\) takes one"),
        (b"3", "not bytes"),
        ({"text": "3"}, "not dict"),  # W7: its keys were embedded
        ({"3", "4"}, "not set"),
        (pd.DataFrame({"text": ["3"]}), "not DataFrame"),
        (np.array([["3"]]), "not ndarray"),
        (3, "not int"),
        (["3", 4], "query 1 is no text, but int"),
        (["3", None], "query 1 is no text"),
        (["3", ""], "query 1 is empty"),
        (["3", "\ud800"], "query 1 holds bytes"),
    ],
)
def test_what_are_no_queries(queries: Any, problem: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=problem):
        Index(folder, encoder=Stand(clustered(100))).search_batch(queries)


def test_the_form_in_json(folder: Path) -> None:
    answer = Index(folder, encoder=Stand(clustered(100))).search("0", k=1)
    hit = {"rank": 1, "id": "1", "score": 1.0, "text": "text of 1", "row": 0, "values": {"year": 1900}}
    assert answer.to_json() == {"query": "0", "hits": [hit]}


def test_a_warning_of_the_encoder_is_in_the_answer(folder: Path) -> None:
    class Judge(Stand):
        def language_warning(self, text: str, /) -> str | None:
            return "the model does not know it" if text == "3" else None

    index = Index(folder, encoder=Judge(clustered(100)))
    known, unknown = index.search_batch(["2", "3"], k=1)
    assert (known.warnings, unknown.warnings) == ((), ("the model does not know it",))
    assert unknown.to_json()["warnings"] == ["the model does not know it"]
    assert "warnings" not in known.to_json()


def test_own_vectors_and_conditions(folder: Path) -> None:
    answers = Index(folder).search_vectors(clustered(100)[:5], k=4, where="year >= 1998")
    assert [sorted(hit.row for hit in answer.hits) for answer in answers] == [[98, 99]] * 5
    assert answers[0].query is None


@pytest.mark.parametrize("metric", [*Metric])
def test_a_threshold_keeps_what_is_near_enough(metric: Metric, tmp_path: Path) -> None:
    vectors = clustered(60)
    vector_set(tmp_path / "toy.features", vectors)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(metric=metric))
    index = Index(tmp_path / "toy.index", encoder=Stand(vectors))
    all_answers = index.search_batch(["7", "20"], 60)
    threshold = all_answers[0].hits[4].score
    wanted = [
        [hit for hit in each.hits if (hit.score <= threshold if metric is Metric.L2 else hit.score >= threshold)]
        for each in all_answers
    ]
    assert len(wanted[0]) == 5
    assert [[*each.hits] for each in index.search_batch(["7", "20"], 60, score_threshold=threshold)] == wanted
    assert [*index.search("7", 3, score_threshold=threshold).hits] == wanted[0][:3]
    of_vectors = index.search_vectors(vectors[[7, 20]], 60, score_threshold=threshold)
    assert [[hit.row for hit in each.hits] for each in of_vectors] == [[hit.row for hit in each] for each in wanted]
    with pytest.raises(UsageError, match="score_threshold=nan: must be a finite number"):
        index.search("7", score_threshold=float("nan"))


@pytest.mark.parametrize("dtype", ["float16", ">f4", "float64", "longdouble", "int8", ">i8", "uint16"])
def test_own_vectors_of_any_number(dtype: str, tmp_path: Path) -> None:
    stored = np.round(clustered(60)).clip(0, 100).astype(np.float32)
    vector_set(tmp_path / "toy.features", stored)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(metric=Metric.L2))
    index = Index(tmp_path / "toy.index")
    asked = stored[20:25].astype(dtype)
    assert [answer.hits[0].score for answer in index.search_vectors(asked, 1)] == [0] * 5
    assert index.search_vectors(asked.tolist(), 3) == index.search_vectors(stored[20:25], 3)


@pytest.mark.parametrize(
    ("vectors", "problem"),
    [
        (np.ones((2, 16)) * 1j, "whole or real numbers, not complex128"),  # W7: the imaginary parts were dropped
        (np.ones((2, 16), bool), "not bool"),
        (np.full((2, 16), "1"), "not <U1"),
        (np.full((2, 16), 1, object), "not object"),
        (np.ones(16), r"must be \[n, 16\], as in this index, not \[16\]; a single vector is given as vector\[None\]"),
        (np.ones((2, 8)), r"not \[2, 8\]"),
        (np.ones((1, 2, 16)), r"not \[1, 2, 16\]"),
        ([[1.0] * 16, [1.0] * 15], r"must be an array \[n, 16\] of numbers"),
        (5, r"not \[\]"),
        (np.array([[0.0] * 16, [np.nan] * 16]), "query vector 1 has a value that is not finite"),
        (np.full((1, 16), 1e300), "query vector 0 has a value that is not finite, or too large"),
    ],
)
def test_what_are_no_vectors(vectors: Any, problem: str, folder: Path) -> None:
    with pytest.raises(UsageError, match=problem):
        Index(folder).search_vectors(vectors)


def test_a_condition_is_read_before_the_model_is_loaded(folder: Path) -> None:
    index = Index(folder, model="nowhere")
    with pytest.raises(UsageError, match="no column 'yaer'"):
        index.search("3", where="yaer > 3")
    with pytest.raises(UsageError, match="this quote is not closed"):
        index.search_batch([], where="id = '3")


def test_how_much_is_searched(folder: Path) -> None:
    assert Index(folder).count() == SearchScope(100, 100)
    assert Index(folder).count("year < 1910") == SearchScope(10, 10)
    build_index(folder.with_name("toy.features"), folder, options=BuildOptions(type="hnsw", evaluate=False))
    remove_documents(folder, ["1", "50"])
    assert Index(folder).count() == SearchScope(98, 98)
    assert Index(folder).count("year < 1910") == SearchScope(9, 9)


def test_values_that_json_does_not_have_are_null(tmp_path: Path) -> None:
    kept = {KeptColumn("score", "float64"): [float("nan"), float("inf"), 0.5]}
    vector_set(tmp_path / "toy.features", clustered(3), kept=kept)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index")
    index = Index(tmp_path / "toy.index")
    assert index.kept == ("score",)
    answers = json.loads(json.dumps([answer.to_json() for answer in index.search_vectors(clustered(3), 1)]))
    assert [answer["hits"][0]["values"]["score"] for answer in answers] == [None, None, 0.5]


def test_another_model_is_refused(folder: Path) -> None:
    other = dataclasses.replace(TOY, name="other/model", fingerprint="e" * 64)
    with pytest.raises(IndexFolderError, match=r"made with toy/model .*at hand is other/model .*cannot be compared"):
        Index(folder, encoder=Stand(clustered(100), other))


def test_another_width_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match=r"holds vectors of 16 values \(last_mean of toy/model\), but .* 1 × 8"):
        Index(folder, encoder=Stand(clustered(100, 8))).search("0")


def test_without_texts(tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", clustered(10), kept=None)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(keep_text=False))
    answer = Index(tmp_path / "toy.index", encoder=Stand(clustered(10))).search("2", k=1)
    assert answer.to_json() == {"query": "2", "hits": [{"rank": 1, "id": "3", "score": 1.0, "row": 2}]}


@pytest.mark.parametrize("kind", ["word", "token"])
def test_words_and_tokens_are_found_in_their_places(kind: str, tmp_path: Path) -> None:
    toy = toy_part(poolings=(kind,), dtype="float32")
    toy_set(tmp_path / "toy.features", toy)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(metric=Metric.L2))
    documents = list(FeatureSet(tmp_path / "toy.features"))
    index = Index(tmp_path / "toy.index", encoder=Stand(np.empty(0, np.float32), MODEL, documents))
    answer = index.search("The *bank,* by the river.", k=2)
    best = answer.hits[0]
    assert (best.id, best.row, best.score) == ("1", 0, 0.0)
    assert best.piece is not None
    assert (best.piece.string, best.piece.start, best.piece.end, best.piece.in_pair) == ("bank,", 4, 9, False)
    assert best.piece.number == (1 if kind == "word" else 2)
    assert {"start": 4, "end": 9, "string": "bank,"}.items() <= best.to_json().items()
    number = 1 if kind == "word" else 2
    np.testing.assert_array_equal(index.reconstruct(np.array([best.number]))[0], documents[0].matrix("last")[number])
    with pytest.raises(UsageError, match="say which word"):
        index.search("The bank, by the river.")
    with pytest.raises(UsageError, match="say which word"):
        index.search("The *bank,* by the *river.*")


def test_special_tokens_are_not_indexed(tmp_path: Path) -> None:
    toy = toy_part(poolings=("token",))
    toy_set(tmp_path / "toy.features", toy)
    settings = build_index(tmp_path / "toy.features", tmp_path / "toy.index")
    tokens = sum(len(document.tokens) for document in toy.documents)
    assert (settings.count, settings.skipped) == (tokens - 2 * len(toy.documents), 2 * len(toy.documents))


def test_every_recipe_is_written_so_that_it_parses_to_itself() -> None:
    for spec in ("last", "embeddings", "concat4", "sum-all", "mean=1+3", "concat=2..4", "-2"):
        (recipe,) = parse_recipes(spec, 6)
        assert parse_recipes(recipe.spec, 6) == (recipe,)
    assert Recipe(Operation.SUM, (1, 2), "sum_1_2").spec == "sum=1+2"
