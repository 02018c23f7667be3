"""Which layers search best, held against NumPy's cosines and whitening and the definition of nDCG."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray
from scipy.stats import bootstrap

from bertfeat.cli import main
from bertfeat.core.features import DocumentFeatures, FeatureSet, ModelIdentity
from bertfeat.errors import BertfeatError, CorpusError, IndexFolderError, NotDerivableError, UsageError
from bertfeat.progress import StepProgress
from bertfeat.search import BuildOptions, LayerTable, build_index, evaluate_beir, evaluate_layers
from bertfeat.search.evaluation.layer_table import QueryResamples
from bertfeat.search.index import Index
from tests.search.test_beir import beir_folder
from tests.support.features_toy import MODEL, H, L, toy_part, toy_set
from tests.support.index_toy import vector_set, whitened

pytest.importorskip("ir_measures")

ROWS, QUERIES = 90, range(3, 63, 5)
LAYERS = {
    "layer0": ("layer", [0]),
    "layer3": ("layer", [3]),
    "concat4": ("concat", [1, 2, 3, 4]),
    "sum4": ("sum", [1, 2, 3, 4]),
}


@dataclass
class Echo:
    """Stands in for the extractor: a text is the row of the document whose features it has."""

    features_of: FeatureSet
    identity: ModelIdentity = MODEL

    def features(self, texts: Sequence[str]) -> list[DocumentFeatures]:
        return [self.features_of[int(text)] for text in texts]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        raise NotImplementedError


def judged() -> dict[str, dict[str, int]]:
    """Grades of ids, which are rows counted from 1; no query has its own id judged."""
    random = np.random.default_rng(5)
    return {
        str(row): {str(at + 1): int(random.integers(1, 4)) for at in random.choice(ROWS, 9, False) if at + 1 != row}
        for row in QUERIES
    }


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    toy = toy_part(rows=ROWS, layers="all", poolings=("mean", "cls", "max", "word"))
    return FeatureSet(toy_set(tmp_path_factory.mktemp("sets") / "toy.features", toy))


@pytest.fixture(scope="module")
def beir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return beir_folder(tmp_path_factory.mktemp("beir") / "toy", judged())


def table_of(features: FeatureSet, beir: Path, **options: Any) -> LayerTable:
    return evaluate_layers(features, beir, encoder=Echo(features), **{"own_ids": "drop", **options})


def ndcg(vectors: NDArray[np.floating], queries: Mapping[str, Mapping[str, int]]) -> NDArray[np.float64]:
    """By the definition; a query's own id is no hit."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(length > 0, length, 1)
    scores = []
    for query, grades in queries.items():
        order = np.argsort(-(units @ units[int(query)]), kind="stable")
        ranked = [str(row + 1) for row in order if str(row + 1) != query][:10]
        gains = [grades.get(document, 0) / np.log2(rank + 1) for rank, document in enumerate(ranked, 1)]
        ideal = [grade / np.log2(rank + 1) for rank, grade in enumerate(sorted(grades.values(), reverse=True)[:10], 1)]
        scores.append(sum(gains) / sum(ideal))
    return np.array(scores)


def vectors_of(column: str, transform: str) -> NDArray[np.floating]:
    recipe, pooling = column.rsplit("_", 1)
    documents = toy_part(rows=ROWS, layers="all", poolings=("mean",)).documents
    raw = np.stack([document.feature(*LAYERS[recipe], pooling) for document in documents])
    return raw if transform == "none" else whitened(transform, raw, raw)


def test_every_row_is_what_the_definitions_give(features: FeatureSet, beir: Path) -> None:
    transforms = ["none", "whiten:6", "half-whiten"]
    table = table_of(features, beir, layers=[*LAYERS], pooling="mean,cls", transforms=transforms)
    rows = [(row.column, row.transform) for row in table.rows]
    columns = [f"{recipe}_{pooling}" for pooling in ("mean", "cls") for recipe in LAYERS]
    assert rows == [(column, transform) for column in columns for transform in transforms]
    expected = {row: ndcg(vectors_of(*row), judged()) for row in rows}
    best = max(expected.values(), key=np.mean)
    for row in table.rows:
        scores = expected[row.column, row.transform]
        found = row.scores["ndcg_at_10"]
        assert found.value == pytest.approx(scores.mean(), abs=2e-5)
        assert row.difference.value == pytest.approx((scores - best).mean(), abs=2e-5)
        right = bootstrap((scores,), np.mean, method="percentile", n_resamples=2000, random_state=3)
        assert (found.low, found.high) == pytest.approx(right.confidence_interval, abs=0.03)
    assert expected[table.best.column, table.best.transform] is best
    assert (table.queries, table.documents, table.own_ids, table.left_out) == (len(QUERIES), ROWS, "drop", ())


@pytest.mark.parametrize("transform", ["none", "whiten:5", "half-whiten"])
def test_a_row_is_what_its_index_scores(transform: str, features: FeatureSet, beir: Path, tmp_path: Path) -> None:
    (row,) = table_of(features, beir, layers=["sum4_mean"], transforms=[transform]).rows
    options = BuildOptions(transform=transform, evaluate=False)
    build_index(features, tmp_path / "toy.index", row.column, options=options)
    index = Index(tmp_path / "toy.index", encoder=Encoded(features, row.column))
    assert evaluate_beir(index, beir, own_ids="drop").scores == pytest.approx(
        {key: each.value for key, each in row.scores.items()}
    )


@dataclass
class Encoded(Echo):
    column: str = ""

    def __init__(self, features: FeatureSet, column: str) -> None:
        super().__init__(features)
        self.column = column

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([document.vector(self.column) for document in self.features(texts)])


def test_by_default_all_that_is_stored(features: FeatureSet, beir: Path) -> None:
    layers = [f"layer{layer}_{pooling}" for pooling in ("mean", "cls", "max") for layer in range(L + 1)]
    assert [row.column for row in table_of(features, beir).rows] == layers
    assert {row.width for row in table_of(features, beir, pooling="max").rows} == {H}


def test_recipes_that_a_pooling_does_not_have(features: FeatureSet, beir: Path) -> None:
    table = table_of(features, beir, layers=["sum4", "cls", "layer3_max", "last", "layer4"])
    assert [row.column for row in table.rows] == [
        *("sum4_mean", "layer4_mean", "sum4_cls", "layer4_cls", "layer3_max", "layer4_max"),
    ]
    (left_out,) = table.left_out
    assert (left_out.column, left_out.reason.split(":")[0]) == ("sum4", "sum4_max cannot be derived")


@pytest.mark.parametrize(
    ("options", "kind", "problem"),
    [
        ({"layers": ["sum4"], "pooling": "max"}, NotDerivableError, "max pooling does not commute"),
        ({"layers": ["all", "nope"]}, NotDerivableError, "there is no column 'nope'"),
        ({"layers": ["last_word"]}, NotDerivableError, "documents are searched by vectors of documents, and last_word"),
        ({"pooling": "word"}, UsageError, "documents are searched by vectors of documents, and word gives none"),
        ({"transforms": ["sphere"]}, UsageError, "transform 'sphere' is unknown"),
        ({"layers": ["layer1_mean"], "transforms": ["whiten:9"]}, UsageError, "90 vectors of 8 values vary in 8 direc"),
        ({"seed": -1}, UsageError, "-1 is below 0"),
        ({"own_ids": "never"}, UsageError, "own_ids='never': must be one of 'keep', 'drop'"),
        ({"split": "dev"}, CorpusError, r"dev\.tsv cannot be read"),
    ],
)
def test_what_cannot_be_had(
    options: dict[str, Any], kind: type[BertfeatError], problem: str, features: FeatureSet, beir: Path
) -> None:
    with pytest.raises(kind, match=problem):
        table_of(features, beir, **options)


def test_another_corpus(features: FeatureSet, tmp_path: Path) -> None:
    other = beir_folder(tmp_path / "other", {"3": {"D1": 1, "D2": 2}})
    with pytest.raises(CorpusError, match="none of the 2 judged documents is in the feature set"):
        table_of(features, other)
    partly = beir_folder(tmp_path / "partly", {"3": {"D1": 1, "5": 2}})
    assert table_of(features, partly, layers=["layer1_mean"]).unknown_documents == 1


def test_what_whitening_does_not_bear_is_left_out(tmp_path: Path) -> None:
    equal = FeatureSet(vector_set(tmp_path / "equal.features", np.ones((90, 8), np.float32)))
    beir = beir_folder(tmp_path / "beir", {"3": {"5": 1}})
    table = table_of(equal, beir, transforms=["none", "whiten"])
    assert [(row.column, row.transform) for row in table.rows] == [("layer4_mean", "none")]
    assert [(each.column, each.transform) for each in table.left_out] == [("layer4_mean", "whiten")]
    with pytest.raises(UsageError, match="whiten: vectors that do not differ"):
        table_of(equal, beir, transforms=["whiten"])
    vectors = np.ones((90, 8), np.float32)
    vectors[70, 1] = np.inf
    broken = FeatureSet(vector_set(tmp_path / "broken.features", vectors))
    with pytest.raises(IndexFolderError, match="vector 70 is not finite"):
        table_of(broken, beir)


def test_progress_reaches_its_end(features: FeatureSet, beir: Path) -> None:
    seen: list[StepProgress] = []
    table_of(features, beir, layers=["all"], transforms=["none", "half-whiten"], progress=seen.append)
    assert [step.done for step in seen] == sorted(step.done for step in seen)
    assert (seen[-1].done, seen[-1].fraction) == (2 * 3 * (L + 1) * ROWS, 1.0)


def test_resamples_are_paired_and_seeded() -> None:
    one, other = QueryResamples(40, 7), QueryResamples(40, 7)
    scores = np.random.default_rng(0).uniform(size=40)
    assert (
        one.interval(scores) == one.interval(scores) == other.interval(scores) != QueryResamples(40, 8).interval(scores)
    )
    constant = one.interval(scores + 0.25 - scores)
    assert (constant.low, constant.high) == (0.25, 0.25)


# ── the command ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def run(features: FeatureSet, beir: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("bertfeat.search.queries.RecordedVectors.open_encoder", lambda *_: Echo(features))

    def run(*arguments: str, of: object = features.folder) -> Result:
        return CliRunner().invoke(main, ["evaluate", str(of), "--beir", str(beir), *arguments])

    return run


def test_the_table(run: Any, tmp_path: Path) -> None:
    result = run("--layers", "last,sum4", "--transform", "none,whiten", "--plot", str(tmp_path / "table.svg"))
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "toy/model: exact search for 12 queries among 90 documents"
    assert [line.split()[:3] for line in lines[4:6]] == [["last_mean", "none", "8"], ["last_mean", "whiten", "8"]]
    assert sum("  best" in line for line in lines) == 1
    assert "warning: sum4 left out: sum4_max cannot be derived" in result.stderr
    assert "last_cls" in (tmp_path / "table.svg").read_text()


def test_the_json(run: Any) -> None:
    told = json.loads(run("--layers", "concat4", "--pooling", "cls", "--transform", "whiten", "--json").stdout)
    assert list(told) == [
        *("features", "model", "metrics", "documents", "queries", "judged_documents", "unknown_documents", "own_ids"),
        *("rows", "left_out", "own_first", "best"),
    ]
    (row,) = told["rows"]
    assert list(row) == ["column", "transform", "width", "scores", "difference", "few_vectors"]
    assert (row["width"], row["few_vectors"]) == (4 * H, True)
    assert told["best"] == {"column": "concat4_cls", "transform": "whiten"}
    assert list(row["scores"]["map"]) == ["value", "low", "high"]


def test_few_vectors_are_warned_about(run: Any) -> None:
    result = run("--layers", "concat4", "--pooling", "cls", "--transform", "whiten")
    assert (
        "warning: 90 vectors are few for whitening in full (1 row, marked with !): give a width, such as whiten:9"
        in result.stderr
    )
    assert "32!" in result.stdout


def test_options_of_the_other_kind(run: Any, features: FeatureSet, tmp_path: Path) -> None:
    result = run("--exact")
    assert (result.exit_code, "--exact: for an index" in result.stderr) == (2, True)
    build_index(features, tmp_path / "toy.index", "layer1_mean")
    for options in (["--layers", "all"], ["--transform", "whiten"], ["--plot", "a.png"]):
        result = run(*options, of=tmp_path / "toy.index")
        assert (result.exit_code, f"{options[0]}: for a feature set" in result.stderr) == (2, True)
    result = run("--plot", str(tmp_path / "a.gif"))
    assert (result.exit_code, "goes by the ending" in result.stderr) == (2, True)
