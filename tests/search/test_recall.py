"""Recall of an index as it is, against NumPy's own neighbors."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.errors import FeatureSetError, IndexFolderError, UsageError
from bertfeat.search import BuildOptions, Metric, VectorIndex, build_index, measure_recall, remove_documents
from tests.search.test_index import TOY, Stand
from tests.support.index_toy import clustered, neighbors, vector_set

COUNT = 600


def built(folder: Path, kind: str, metric: Metric = Metric.COSINE) -> Path:
    vector_set(folder / "toy.features", clustered(COUNT))
    build_index(
        folder / "toy.features", folder / "toy.index", options=BuildOptions(type=kind, metric=metric, evaluate=False)
    )
    return folder / "toy.index"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("kind", ["flat", "hnsw", "IVF16,Flat"])
def test_recall_is_the_share_of_the_true_nearest(kind: str, metric: Metric, tmp_path: Path) -> None:
    folder = built(tmp_path, kind, metric)
    report = measure_recall(folder, disturbed=False)
    assert (report.queries, report.vectors, report.of) == (COUNT, COUNT, "stored")
    _, order = neighbors(clustered(COUNT), clustered(COUNT), metric.value)
    answers = VectorIndex(folder).search(clustered(COUNT), 11).numbers
    shares = []
    for number in range(COUNT):
        true = [one for one in order[number].tolist() if one != number][:10]
        found = [one for one in answers[number].tolist() if one != number][:10]
        shares.append(len({*true} & {*found}) / 10)
    assert report.recall["10"] == pytest.approx(np.mean(shares), abs=2e-3)  # of equals any will do
    assert set(report.recall) == {"1", "10", "100"}
    if kind == "flat":
        assert report.recall == {"1": 1.0, "10": 1.0, "100": 1.0}


def test_removed_vectors_are_neither_queries_nor_answers(tmp_path: Path) -> None:
    folder = built(tmp_path, "hnsw")
    remove_documents(folder, [str(row + 1) for row in range(300)])
    report = measure_recall(folder, queries=50)
    assert (report.queries, report.vectors) == (50, 300)
    assert report.recall["10"] > 0.9


def test_what_cannot_be_measured(tmp_path: Path) -> None:
    folder = built(tmp_path, "PQ4x4fs")
    assert 0 < measure_recall(folder, queries=20).recall["10"] <= 1  # among the vectors as they are stored
    with pytest.raises(UsageError, match="0 queries measure nothing"):
        measure_recall(folder, queries=0)
    remove_documents(folder, [str(row + 1) for row in range(COUNT - 1)])
    with pytest.raises(UsageError, match=r"toy\.index has 1 vectors"):
        measure_recall(folder)
    with pytest.raises(IndexFolderError, match="no index"):
        measure_recall(tmp_path)


def questions(count: int) -> NDArray[np.float32]:
    """Vectors between the places where documents lie: means of two that are not alike."""
    vectors = clustered(COUNT)
    pairs = np.random.default_rng(7).integers(COUNT, size=(2, count))
    between: NDArray[np.float32] = (vectors[pairs[0]] + vectors[pairs[1]]) / 2
    return between


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "metric", "transform"),
    [
        *((kind, metric, None) for kind in ("hnsw", "ivf", "ivfpq") for metric in Metric),
        *(
            ("hnsw", Metric.L2, "half-whiten"),
            ("ivf", Metric.IP, "half-whiten"),
            ("ivfpq", Metric.COSINE, "half-whiten"),
        ),
    ],
)
def test_recall_that_is_told_holds_for_vectors_between_the_stored_ones(
    kind: str, metric: Metric, transform: str | None, tmp_path: Path
) -> None:
    vector_set(tmp_path / "toy.features", clustered(COUNT))
    options = BuildOptions(type=kind, metric=metric, target_recall=0.9, transform=transform)
    settings = build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=options)
    told, effort = settings.evaluation, settings.effort
    assert told is not None
    assert told.of == "disturbed"
    assert effort is not None
    assert effort.value >= {"nprobe": 4, "efSearch": 20}[effort.name]
    index = VectorIndex(tmp_path / "toy.index")
    found, exact = (index.search(questions(400), 10, exact=exact).numbers for exact in (False, True))
    shares = [len({*one} & {*other}) / 10 for one, other in zip(found.tolist(), exact.tolist(), strict=True)]
    assert np.mean(shares) >= told.recall["10"] - 0.01
    again = measure_recall(tmp_path / "toy.index")
    assert again.of == "disturbed"
    if kind != "ivfpq" and transform is None:  # which is measured among its codes then, and after whitening
        assert again.recall["10"] == pytest.approx(told.recall["10"], abs=0.02)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("count", [2, 3, 12])
@pytest.mark.parametrize("kind", ["flat", "hnsw", "ivf", "IVF1,SQ8"])
def test_few_vectors_and_few_queries(kind: str, count: int, tmp_path: Path) -> None:
    vectors = clustered(count)
    vectors[1] = vectors[0]
    vector_set(tmp_path / "toy.features", vectors)
    options = BuildOptions(type=kind, target_recall=1.0)
    for queries in (None, ["0"], ["0", "0", "1"]):
        settings = build_index(
            tmp_path / "toy.features", tmp_path / "toy.index", options=options, queries=queries, encoder=Stand(vectors)
        )
        assert settings.evaluation is not None
        assert settings.evaluation.of == ("disturbed" if queries is None else "given")
        if kind != "IVF1,SQ8":
            assert set(settings.evaluation.recall.values()) == {1.0}


def test_queries_that_cannot_be_tuned_on(tmp_path: Path) -> None:
    folder = vector_set(tmp_path / "toy.features", clustered(20))

    def build(queries: list[str], **options: Any) -> None:
        chosen = BuildOptions(**options)
        build_index(folder, tmp_path / "toy.index", options=chosen, queries=queries, encoder=Stand(clustered(20)))

    with pytest.raises(UsageError, match="no queries to tune on"):
        build([])
    with pytest.raises(UsageError, match="query 1 is empty"):
        build(["0", " "])
    with pytest.raises(UsageError, match="without evaluation nothing is tuned"):
        build(["0"], evaluate=False)
    foreign = Stand(clustered(20), identity=replace(TOY, fingerprint="0" * 64))
    with pytest.raises(FeatureSetError, match="vectors of two models"):
        build_index(folder, tmp_path / "toy.index", queries=["0"], encoder=foreign)
    assert not (tmp_path / "toy.index").exists()
