"""FAISS factory strings: what ends a process or answers wrongly is refused, the others do all that an index does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.search import (
    BuildOptions,
    Metric,
    VectorIndex,
    build_index,
    remove_documents,
    update_index,
    verify_index,
)
from tests.support.index_toy import clustered, neighbors, vector_set

COUNT, NEW = 700, 60
REMOVED = 200


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sets")
    new = [str(row + 1) for row in range(COUNT - 30, COUNT + 30)]  # the first 30 replace others
    old = vector_set(folder / "old.features", clustered(COUNT))
    return old, vector_set(folder / "new.features", clustered(NEW, seed=3), ids=new)


ABORTS = (
    *("HNSW0", "HNSW1", "HNSW0,Flat", "IVF8_HNSW0,Flat", "IVF8_HNSW1,Flat", "PQ4x0", "IVF0,Flat", "RR0,Flat"),
    *("PCAR0,Flat", "OPQ4_0,PQ4", "LSQ0x4", "RQ4x0", "PQ4x4fs_0", "ZnLattice0x8_6", "NSG0", "NSG16"),
    *("PQ4,Refine(PQ4x4fs)", "SQ8,Refine(IVF4,Flat)", "IVF12,RQ2x4_Ncqint8", "SQ8,Refine(RaBitQfs)"),
)


@pytest.mark.parametrize("factory", ABORTS)
def test_strings_that_end_the_process_or_never_end_are_refused(
    factory: str, sets: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"FAISS cannot make .*; choose auto, flat, hnsw"):
        build_index(sets[0], tmp_path / "toy.index", options=BuildOptions(type=factory))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("factory", "metric", "message"),
    [
        pytest.param("IDMap,Flat", "ip", "leave out IDMap", id="IDMap"),
        pytest.param("Flat,IDMap2", "ip", "leave out IDMap", id="IDMap2"),
        pytest.param("IVF4,FlatDedup", "l2", "keeps equal vectors once", id="FlatDedup"),
        pytest.param("HNSW8_PQ4", "ip", "another metric without saying so", id="metric"),
        pytest.param("ZnLattice2x8_6", "l2", "what it wrote it cannot read again", id="lattice"),
        pytest.param("RCQ2x4", "l2", "cannot take 700 vectors more", id="quantizer"),
        pytest.param("x" * 5000, "l2", "it has 5,000 characters", id="long"),
        pytest.param("(" * 150, "l2", "FAISS cannot make", id="parentheses"),
        pytest.param("", "l2", "FAISS cannot make ''", id="empty"),
        pytest.param("IVF99999999999999999999,Flat", "l2", "cannot be divided|cannot make", id="clusters"),
        pytest.param("IVF4,RQ4x4fs", "cosine", "FAISS cannot search this index", id="no nprobe"),
    ],
)
def test_strings_that_do_not_fit_are_an_error(
    factory: str, metric: str, message: str, sets: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises((UsageError, IndexFolderError), match=message):
        build_index(sets[0], tmp_path / "toy.index", options=BuildOptions(type=factory, metric=Metric(metric)))
    assert list(tmp_path.iterdir()) == []


WHOLE = (
    *("HNSW2", "HNSW8_FlatPanorama", "IVF4,Flat", "IVF8_HNSW8,Flat", "IVF4,FlatPanorama4", "IVF4,SQ8,RFlat"),
    *("IVF16(PQ2x4),Flat", "PQ4x4fs,RFlat", "OPQ4_8,IVF4,PQ4x4fs,RFlat", "HNSW8,RFlat", "FlatL2Panorama4"),
)
CODED = ("PQ4x4fs", "PQ4", "PQ4,Refine(SQ8)", "RQ2x4", "IVF4,PQ4x4fs", "PCA8,PQ4x4fs", "LSH", "RaBitQ", "IVF4,RaBitQfs")


FEW = ("HNSW2", "IVF8_HNSW8,Flat", "PQ4x4fs,RFlat", "OPQ4_8,IVF4,PQ4x4fs,RFlat", "IVF4,PQ4x4fs", "PCA8,PQ4x4fs", "LSH")


@pytest.mark.sampled(3, 4)
@pytest.mark.parametrize(
    "factory", [pytest.param(each, marks=[pytest.mark.slow] * (each not in FEW)) for each in (*WHOLE, *CODED)]
)
def test_what_is_left_does_all_that_an_index_does(factory: str, sets: tuple[Path, Path], tmp_path: Path) -> None:
    """Built, read, removed from, appended to, emptied: always exactly the living documents are found."""
    folder = tmp_path / "toy.index"
    build_index(sets[0], folder, options=BuildOptions(type=factory, metric=Metric.L2))
    living = {str(row + 1): vector for row, vector in enumerate(clustered(COUNT))}
    finds_the_living(folder, living, whole=factory in WHOLE)
    for row in range(REMOVED):
        del living[str(row + 1)]
    remove_documents(folder, [str(row + 1) for row in range(REMOVED)])
    finds_the_living(folder, living, whole=factory in WHOLE)
    living |= {str(COUNT - 30 + row + 1): vector for row, vector in enumerate(clustered(NEW, seed=3))}
    assert update_index(folder, [sets[1]]).removed == 30
    finds_the_living(folder, living, whole=factory in WHOLE)
    remove_documents(folder, list(living))
    assert VectorIndex(folder).search(clustered(3), 5).numbers.shape == (3, 0)
    update_index(folder, [sets[1]])
    finds_the_living(folder, dict(list(living.items())[-NEW:]), whole=factory in WHOLE)


def finds_the_living(folder: Path, living: dict[str, Any], *, whole: bool) -> None:
    verify_index(folder)
    index = VectorIndex(folder)
    assert len(index) == len(living)
    queries = clustered(10, seed=9)
    options: dict[str, Any]
    for options in ({}, {"exact": True}, {"search_parameter": 1}):
        found = index.search(queries, len(living) + 5, **options)
        names = np.array(index.documents.take(found.numbers.ravel())["id"].to_pylist()).reshape(found.numbers.shape)
        assert all(set(row) == set(living) for row in names.tolist())
        assert np.isfinite(found.scores).all()
    first = index.search(queries, 5, exact=True)
    if whole:
        scores, _ = neighbors(np.stack(list(living.values())), queries, "l2")
        np.testing.assert_allclose(first.scores, scores[:, :5], rtol=1e-4)
    where = "id in ('690', '695', '700')"
    expected = sorted({"690", "695", "700"} & set(living))
    chosen = index.search(queries, 5, where=where).numbers
    assert all(sorted(index.documents.take(row)["id"].to_pylist()) == expected for row in chosen)


@pytest.mark.parametrize("factory", ["PCAW8,L2norm,Flat", "L2norm,Flat", "PCAW8,IVF4,Flat", "PCA8,L2norm,Flat"])
def test_recall_is_measured_after_transforms_that_change_what_is_near(
    factory: str, sets: tuple[Path, Path], tmp_path: Path
) -> None:
    """An exhaustive search over whitened vectors finds all that are near among whitened vectors."""
    metric = Metric.IP if factory.startswith("L2norm") else Metric.COSINE
    settings = build_index(sets[0], tmp_path / "toy.index", options=BuildOptions(type=factory, metric=metric))
    assert settings.evaluation is not None
    assert settings.evaluation.transformed
    assert settings.evaluation.recall["10"] >= 0.95
    exact = VectorIndex(tmp_path / "toy.index").search(clustered(30, seed=5), 10, exact=True)
    quick = VectorIndex(tmp_path / "toy.index").search(clustered(30, seed=5), 10, search_parameter=4)
    np.testing.assert_array_equal(exact.numbers, quick.numbers)  # compared as they are stored, not as they came
    np.testing.assert_allclose(exact.scores, quick.scores, rtol=1e-4, atol=1e-5)


def test_recall_of_fewer_dimensions_is_that_of_the_vectors_as_they_came(
    sets: tuple[Path, Path], tmp_path: Path
) -> None:
    settings = build_index(sets[0], tmp_path / "toy.index", options=BuildOptions(type="PCA4,Flat"))
    assert settings.evaluation is not None
    assert not settings.evaluation.transformed
    assert settings.evaluation.recall["10"] < 0.9


@pytest.mark.parametrize("metric", ["ip", "l2"])
def test_vectors_so_long_that_scores_overflow_are_refused(metric: str, tmp_path: Path) -> None:
    """FAISS gives -1 for a distance that is infinite; vectors that pass have none."""
    vectors = clustered(50)
    vectors *= 1.8e19 / 2 / np.linalg.norm(vectors, axis=1).max()
    vector_set(tmp_path / "toy.features", vectors)
    build_index(tmp_path / "toy.features", tmp_path / "toy.index", options=BuildOptions(metric=Metric(metric)))
    found = VectorIndex(tmp_path / "toy.index").search(-vectors, 50)
    assert np.isfinite(found.scores).all()
    with pytest.raises(UsageError, match="query vector 0 is not finite"):
        VectorIndex(tmp_path / "toy.index").search(vectors[:1] / np.abs(vectors[:1]).max() * 1e19, 5)
