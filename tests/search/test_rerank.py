"""Hits scored again by their tokens, held against the definition written out over every document."""

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.core.features import DocumentFeatures, FeatureSet, ModelIdentity
from bertfeat.errors import IndexFolderError, NotDerivableError, UsageError, shell_spelling, spell_parameters
from bertfeat.search import (
    BuildOptions,
    Index,
    MaxSim,
    Metric,
    build_index,
    remove_documents,
    update_index,
    verify_index,
)
from tests.search.test_verify import edit_store, rewritten
from tests.support.features_toy import MODEL, ToyDocument, toy_part, toy_parts, toy_set

LAYERS = {"concat4": ("concat", (1, 2, 3, 4)), "layer3": ("concat", (3,)), "sum4": ("sum", (1, 2, 3, 4))}
QUERIES = toy_part(7, 0, 6)
COUNTLESS = MaxSim(idf=False)


@dataclass
class Stand:
    """Stands in for the extractor: a text is the id of a document of the queries' feature set."""

    documents: Sequence[DocumentFeatures]
    identity: ModelIdentity = MODEL

    def features(self, texts: Sequence[str]) -> list[DocumentFeatures]:
        return [self.documents[int(text)] for text in texts]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([document.vector("concat4_mean") for document in self.features(texts)])


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Stand:
    return Stand(list(FeatureSet(toy_set(tmp_path_factory.mktemp("queries"), first_part(QUERIES, ""))).documents()))


Make = Callable[..., Index]


@pytest.fixture
def make(tmp_path: Path, stand: Stand) -> Make:
    """An index over the toy corpus, whose token vectors are read from it or, with a column, kept."""

    def made(kept: str | None = None, **options: Any) -> Index:
        build_options = BuildOptions(evaluate=False, with_tokens=kept, **options)
        toy_set(tmp_path / "toy.features", *toy_parts())
        build_index(tmp_path / "toy.features", tmp_path / "toy.index", "concat4_mean", options=build_options)
        return Index(tmp_path / "toy.index", encoder=stand)

    return made


def units(matrix: NDArray[np.floating]) -> NDArray[np.float64]:
    length = np.linalg.norm(matrix.astype(np.float64), axis=-1, keepdims=True)
    return matrix / np.where(length > 0, length, 1)


def tokens_of(document: ToyDocument, recipe: str, unit: str) -> tuple[list[str], NDArray[np.float64]]:
    """The tokens or words that are compared, and their vectors of length 1."""
    operation, layers = LAYERS[recipe]
    matrix = units(document.feature(operation, layers, unit))
    if unit == "token":
        return document.words, matrix[1:-1]  # without [CLS] and [SEP]
    real = [at for at, word in enumerate(document.words) if word != "🙂"]  # which has no vector
    return [document.words[at] for at in real], matrix[real]


def by_definition(
    query: ToyDocument,
    documents: Sequence[ToyDocument],
    options: MaxSim,
    recipe: str = "concat4",
    unit: str = "token",
    metric: str = "cosine",
) -> list[tuple[str, float, float, float]]:
    """Id, score, first score and maxsim of the documents, best first."""
    options = options.of_tokens(trained=False)
    assert options.weight is not None
    strings, vectors = tokens_of(query, recipe, unit)
    having = [{*tokens_of(document, recipe, unit)[0]} for document in documents]
    weights = [
        math.log((len(documents) + 1) / (sum(string in each for each in having) + 1)) if options.idf else 1.0
        for string in strings
    ]
    ranked = []
    for document in documents:
        a, b = (each.feature("concat", (1, 2, 3, 4), "mean").astype(np.float64) for each in (query, document))
        first = float({"cosine": units(a) @ units(b), "ip": a @ b, "l2": -np.linalg.norm(a - b)}[metric])
        theirs = tokens_of(document, recipe, unit)[1]
        best = [max((float(vector @ other) for other in theirs), default=0.0) for vector in vectors]
        maxsim = float(np.dot(weights, best)) / sum(weights) if sum(weights) else 0.0
        ranked.append((document.id, maxsim + options.weight * first, abs(first) if metric == "l2" else first, maxsim))
    depth = sorted(ranked, key=lambda one: -(one[2] if metric != "l2" else -one[2]))[: options.depth or len(ranked)]
    return sorted(depth, key=lambda one: -one[1])


def test_a_threshold_is_one_of_the_new_scores(make: Make) -> None:
    """Of which larger ones are nearer, also where those by vector are distances."""
    index = make(metric=Metric.L2)
    hits = index.search("0", 30, rerank=COUNTLESS).hits
    threshold = hits[2].score
    found = index.search("0", 30, rerank=COUNTLESS, score_threshold=threshold)
    assert [hit.id for hit in found.hits] == [hit.id for hit in hits if hit.score >= threshold]
    assert 3 <= len(found.hits) < len(hits)


def all_documents() -> list[ToyDocument]:
    return [document for toy in toy_parts() for document in toy.documents]


def assert_same(
    index: Index, expected: Callable[[ToyDocument], list[Any]], options: MaxSim, atol: float = 2e-5
) -> None:
    numbers = [0, 1, 3, 4]  # document 2 is empty
    for number, answer in zip(numbers, index.search_batch(list(map(str, numbers)), 30, rerank=options), strict=True):
        wanted = expected(QUERIES.documents[number])
        assert [hit.rank for hit in answer.hits] == list(range(1, len(wanted) + 1))
        found = {hit.id: (hit.score, hit.first_score, hit.maxsim) for hit in answer.hits}
        assert found.keys() == {one[0] for one in wanted}
        for name, *scores in wanted:
            assert found[name] == pytest.approx(scores, abs=atol), name
        assert [hit.score for hit in answer.hits] == sorted((hit.score for hit in answer.hits), reverse=True)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kept", [None, "concat4_token"])
@pytest.mark.parametrize("idf", [True, False])
@pytest.mark.parametrize("column", [None, "layer3", "sum4_token"])
def test_scores_are_those_of_the_definition(kept: str | None, idf: bool, column: str | None, make: Make) -> None:
    options = MaxSim(column, idf=idf)
    recipe = (column or "concat4").removesuffix("_token")
    index = make(kept)
    named = replace(options, column=column and f"{recipe}_token")
    atol = 0.02 if kept else 2e-5
    assert_same(index, lambda query: by_definition(query, all_documents(), named, recipe), named, atol)


@pytest.mark.parametrize("kept", [None, "concat4_word"])
def test_words_are_compared_but_those_without_a_vector(kept: str | None, make: Make) -> None:
    options = MaxSim("concat4_word")
    index = make(kept)
    atol = 0.02 if kept else 1e-3
    assert_same(index, lambda query: by_definition(query, all_documents(), options, unit="word"), options, atol)


@pytest.mark.parametrize("metric", ["ip", "l2"])
def test_other_metrics_give_the_first_score(metric: str, make: Make) -> None:
    options = MaxSim(weight=0.1)
    index = make(metric=Metric(metric))
    assert_same(index, lambda query: by_definition(query, all_documents(), options, metric=metric), options, 1e-4)


def test_only_the_best_by_vector_are_scored_again(make: Make) -> None:
    index, options = make(), MaxSim(depth=4, weight=0.0)
    first = {hit.id for hit in index.search("0", 4).hits}
    expected = by_definition(QUERIES.documents[0], all_documents(), options)
    assert first == {one[0] for one in expected}
    found = index.search("0", 2, rerank=options)
    assert [hit.id for hit in found.hits] == [one[0] for one in expected[:2]]
    assert len(index.search("0", 6, rerank=options).hits) == 6  # so many are asked for


def test_equal_scores_keep_their_order(make: Make) -> None:
    index = make()  # document 2 has no tokens to compare: every maxsim is 0
    plain, again = index.search("2", 15), index.search("2", 15, rerank=MaxSim(weight=1.0))
    assert [hit.id for hit in again.hits] == [hit.id for hit in plain.hits]
    assert {hit.maxsim for hit in again.hits} == {0.0}


def test_the_name_alone_means_the_defaults(make: Make) -> None:
    index = make()
    assert index.search("0", rerank="maxsim") == index.search("0", rerank=MaxSim())
    assert index.search("0").hits[0].maxsim is None
    assert "maxsim" not in index.search("0").to_json()["hits"][0]  # type: ignore[index]
    shown = index.search("0", rerank="maxsim").hits[0].to_json()
    assert {"score", "first_score", "maxsim"} <= shown.keys()


def test_conditions_choose_before(make: Make) -> None:
    index, options = make(), MaxSim(weight=0.3)
    found = index.search("0", 30, where="year >= 1906", rerank=options)
    assert {int(hit.id) for hit in found.hits} == {one.row + 1 for one in all_documents() if one.row >= 6}
    whole = {hit.id: hit.score for hit in index.search("0", 30, rerank=options).hits}
    for hit in found.hits:  # the frequencies are those of the whole index
        assert hit.score == pytest.approx(whole[hit.id], abs=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["flat", "HNSW8"])
@pytest.mark.parametrize("kept", [None, "concat4_token"])
def test_frequencies_are_those_of_the_documents_that_are_left(kept: str | None, kind: str, make: Make) -> None:
    index = make(kept, type=kind)
    folder = Path(str(index.vectors.folder))
    gone = ["1", "7", "13", "18"]
    remove_documents(folder, gone)
    more = toy_part(3, 0, 4)  # the rows of another corpus
    new = folder.with_name("more.features")
    toy_set(new, first_part(more, "new "))
    update_index(folder, new)
    index = Index(folder, encoder=index.encoder)
    documents = [document for document in all_documents() if document.id not in gone]
    documents += [replace(document, id=f"new {document.id}") for document in more.documents]
    if kept is not None:
        shutil.rmtree(new)
        assert verify_index(folder).settings.tokens is not None
    options = MaxSim()
    atol = 0.02 if kept else 2e-5
    assert_same(index, lambda query: by_definition(query, documents, options), options, atol)


def test_nothing_found_and_nothing_asked_for(make: Make) -> None:
    index = make()
    assert index.search("0", where="year > 3000", rerank="maxsim").hits == ()
    with pytest.raises(UsageError, match="k is 0, but at least one hit must be asked for"):
        index.search("0", 0, rerank="maxsim")


def test_documents_that_are_in_other_rows_than_the_index_says(make: Make, tmp_path: Path) -> None:
    index = make()
    folder = tmp_path / "toy.index"
    edit_store(folder, "documents.arrow", id=lambda ids: [f"new {name}" for name in ids])
    rewritten(folder)
    index = Index(folder, encoder=index.encoder)
    with pytest.raises(IndexFolderError, match=r"documents of it are not in their rows of .* any more; build the"):
        index.search("0", 30, rerank=MaxSim())


def first_part(toy: Any, prefix: str) -> Any:
    ids = [f"{prefix}{name}" for name in toy.content.ids]
    return replace(toy, header=replace(toy.header, number=0), content=replace(toy.content, ids=ids))


# ── what cannot be ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"depth": 0}, r"MaxSim\(depth=0\): must be at least 1"),
        ({"weight": -1.0}, r"MaxSim\(weight=-1.0\): must be from 0 to 1,000,000"),
        ({"weight": math.nan}, r"MaxSim\(weight=nan\): must be a finite number"),
        ({"weight": 1e7}, r"MaxSim\(weight=10000000.0\): must be from 0 to 1,000,000"),
        ({"weight": math.inf}, r"MaxSim\(weight=inf\): must be a finite number"),
    ],
)
def test_options_that_cannot_be(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        MaxSim(**options)


def test_options_are_named_as_the_command_writes_them() -> None:
    with spell_parameters(shell_spelling), pytest.raises(UsageError, match=r"^--rerank-depth 0: must be at least 1"):
        MaxSim(depth=0)


def test_what_there_is_not(make: Make) -> None:
    index = make()
    with pytest.raises(UsageError, match="hits cannot be scored again by 'colbert'; there is maxsim"):
        index.search("0", rerank="colbert")
    with pytest.raises(NotDerivableError, match="concat4_mean is one vector a document, and maxsim compares tokens"):
        index.search("0", rerank=MaxSim("concat4_mean"))
    with pytest.raises(NotDerivableError, match="needs layer 0, which the stored columns"):
        index.search("0", rerank=MaxSim("layer0_token"))


def test_an_index_of_words_is_refused(tmp_path: Path, stand: Stand) -> None:
    toy_set(tmp_path / "toy.features", *toy_parts())
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", "concat4_word", options=BuildOptions(evaluate=False))
    with pytest.raises(UsageError, match="holds concat4_word, and only documents and spans are scored again"):
        Index(tmp_path / "toy.index", encoder=stand).search("*bank*", rerank="maxsim")
    options = BuildOptions(with_tokens="concat4_token")
    with pytest.raises(UsageError, match="concat4_word is of tokens or words, so no others"):
        build_index(tmp_path / "toy.features", tmp_path / "other.index", "concat4_word", options=options)


def test_a_set_without_tokens_is_refused(tmp_path: Path, stand: Stand) -> None:
    toy_set(tmp_path / "toy.features", *toy_parts(poolings=("mean",)))
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(evaluate=False))
    with pytest.raises(NotDerivableError, match="there is one vector a document only"):
        Index(tmp_path / "toy.index", encoder=stand).search("0", rerank="maxsim")


def test_a_set_that_is_gone_or_changed_is_told(make: Make, tmp_path: Path, stand: Stand) -> None:
    index = make()
    features = tmp_path / "toy.features"
    features.rename(tmp_path / "moved.features")
    with pytest.raises(IndexFolderError, match=r"cannot be opened .*; put it back, or build the index anew with"):
        index.search("0", rerank="maxsim")
    toy_set(features, *toy_parts(layers="concat4,last"))
    with pytest.raises(IndexFolderError, match="which changed since the index was made from it"):
        Index(tmp_path / "toy.index", encoder=stand).search("0", rerank="maxsim")


def test_without_texts_there_are_no_frequencies(tmp_path: Path, stand: Stand) -> None:
    features, folder = tmp_path / "toy.features", tmp_path / "toy.index"
    toy_set(features, *toy_parts(text=False))
    for with_tokens in (None, "concat4_token"):
        build_index(features, folder, "concat4_mean", options=BuildOptions(evaluate=False, with_tokens=with_tokens))
        index = Index(folder, encoder=stand)
        with pytest.raises(IndexFolderError, match="made without texts, so there are no tokens to count"):
            index.search("0", rerank="maxsim")
        assert_same(index, lambda query: by_definition(query, all_documents(), COUNTLESS), COUNTLESS, 0.02)
