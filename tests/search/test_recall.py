"""Recall of an index as it is, against NumPy's own neighbours."""

from pathlib import Path

import numpy as np
import pytest

from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.search import BuildOptions, Metric, VectorIndex, build_index, measure_recall, remove_documents
from bertfeat.search.evaluation import recall
from tests.support.index_toy import clustered, neighbours, vector_set

COUNT = 600


@pytest.fixture(autouse=True)
def _timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "SECONDS_TIMED", 0.0)


def built(folder: Path, kind: str, metric: Metric = Metric.COSINE) -> Path:
    vector_set(folder / "toy.features", clustered(COUNT))
    build_index(
        folder / "toy.features", folder / "toy.index", options=BuildOptions(type=kind, metric=metric, evaluate=False)
    )
    return folder / "toy.index"


@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("kind", ["flat", "hnsw", "IVF16,Flat"])
def test_recall_is_the_share_of_the_true_nearest(kind: str, metric: Metric, tmp_path: Path) -> None:
    folder = built(tmp_path, kind, metric)
    report = measure_recall(folder)
    assert (report.queries, report.vectors) == (COUNT, COUNT)
    _, order = neighbours(clustered(COUNT), clustered(COUNT), metric.value)
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
