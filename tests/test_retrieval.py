"""Queries by text: embedded by the recorded model only, answered with what belongs to each hit."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.corpus import KeptColumn
from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.features import DocumentFeatures, FeatureSet, ModelIdentity
from bertfeat.index import BuildOptions, Metric, build_index
from bertfeat.recipe import Operation, Recipe, parse_recipes
from bertfeat.retrieval import Index
from tests.features_toy import MODEL, toy_part, toy_set
from tests.index_toy import LAYERS, clustered, neighbours, vector_set

KEPT = {KeptColumn("year", "int64"): [1900 + row for row in range(100)]}
TOY = ModelIdentity("toy/model", "f" * 64, None, LAYERS, 16)


@dataclass
class Stand:
    """Stands in for the extractor: a text is the number of the vector it is given."""

    vectors: NDArray[np.float32]
    model: ModelIdentity = TOY
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
    (answer, other) = index.search(["7", "40"], k=3)
    scores, order = neighbours(clustered(100), clustered(100)[[7, 40]], "cosine")
    assert (answer.query, other.query) == ("7", "40")
    assert [hit.row for hit in answer.hits] == order[0, :3].tolist()
    assert [hit.rank for hit in other.hits] == [1, 2, 3]
    np.testing.assert_allclose([hit.score for hit in other.hits], scores[1, :3], atol=1e-5)
    best = answer.hits[0]
    assert (best.id, best.text, best.values, best.place) == ("8", "text of 8", {"year": 1907}, None)
    assert best.source == str(folder.with_name("toy.features"))
    np.testing.assert_allclose(np.linalg.norm(index.reconstruct(np.array([best.number]))), 1, atol=1e-6)


def test_one_query_as_a_string(folder: Path) -> None:
    index = Index(folder, encoder=Stand(clustered(100)))
    assert index.search("3", k=1)[0].hits[0].id == "4"
    assert index.search([]) == []


def test_the_form_in_json(folder: Path) -> None:
    (answer,) = Index(folder, encoder=Stand(clustered(100))).search("0", k=1)
    hit = {"rank": 1, "id": "1", "score": 1.0, "text": "text of 1", "row": 0, "values": {"year": 1900}}
    assert answer.plain() == {"query": "0", "hits": [hit]}


def test_own_vectors_and_conditions(folder: Path) -> None:
    answers = Index(folder).search_vectors(clustered(100)[:5], k=4, where="year >= 1998")
    assert [sorted(hit.row for hit in answer.hits) for answer in answers] == [[98, 99]] * 5
    assert answers[0].query is None


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
    (answer,) = Index(tmp_path / "toy.index", encoder=Stand(clustered(10))).search("2", k=1)
    assert answer.plain() == {"query": "2", "hits": [{"rank": 1, "id": "3", "score": 1.0, "row": 2}]}


@pytest.mark.parametrize("kind", ["word", "token"])
def test_words_and_tokens_are_found_in_their_places(kind: str, tmp_path: Path) -> None:
    toy = toy_part(poolings=(kind,), dtype="float32")
    toy_set(tmp_path / "toy.features", toy)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(metric=Metric.L2))
    documents = list(FeatureSet(tmp_path / "toy.features"))
    index = Index(tmp_path / "toy.index", encoder=Stand(np.empty(0, np.float32), MODEL, documents))
    (answer,) = index.search("The *bank,* by the river.", k=2)
    best = answer.hits[0]
    assert (best.id, best.row, best.score) == ("1", 0, 0.0)
    assert best.place is not None
    assert (best.place.string, best.place.start, best.place.end, best.place.in_pair) == ("bank,", 4, 9, False)
    assert best.place.number == (1 if kind == "word" else 2)
    assert {"start": 4, "end": 9, "string": "bank,"}.items() <= best.plain().items()
    number = 1 if kind == "word" else 2
    np.testing.assert_array_equal(index.reconstruct(np.array([best.number]))[0], documents[0].matrix()[number])
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
