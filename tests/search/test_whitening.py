"""Whitened indexes, held against NumPy's eigendecomposition and brute force."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss  # type: ignore[import-untyped,unused-ignore]
import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.errors import IndexFolderError, UsageError
from bertfeat.io import digest_file
from bertfeat.search import (
    BuildOptions,
    IndexSettings,
    Metric,
    VectorIndex,
    Whitening,
    WhiteningKind,
    as_whitening,
    build_index,
    measure_recall,
    remove_documents,
    update_index,
    verify_index,
)
from bertfeat.search.settings import read_index_settings, write_index_settings
from bertfeat.search.vectors.faiss_transforms import fit_whitening, measure_spectrum
from tests.support.index_toy import clustered, neighbors, vector_set, version_of, whitened

COUNT, WIDTH = 700, 16


def stored() -> NDArray[np.float32]:
    """Vectors whose mean is far from 0, as embeddings have it."""
    return clustered(COUNT, WIDTH) + np.linspace(-3, 9, WIDTH, dtype=np.float32)


def asked() -> NDArray[np.float32]:
    return clustered(60, WIDTH, seed=1) + np.linspace(-3, 9, WIDTH, dtype=np.float32)


def expected(
    name: str, metric: str, documents: NDArray[np.float32], queries: NDArray[np.float32]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """What brute force finds among documents that are whitened as the stored ones are."""
    made = [whitened(name, of, stored()).astype(np.float32) for of in (documents, queries)]
    return neighbors(made[0], made[1], metric)


def built(folder: Path, transform: str, kind: str = "flat", metric: str = "cosine", **options: Any) -> IndexSettings:
    if not (folder / "toy.features").exists():
        vector_set(folder / "toy.features", stored())
    chosen = BuildOptions(type=kind, metric=Metric(metric), transform=as_whitening(transform), **options)
    return build_index(folder / "toy.features", folder / "toy.index", options=chosen)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("metric", Metric)
@pytest.mark.parametrize("name", ["whiten", "half-whiten", "whiten:5", "half-whiten:5"])
def test_neighbors_are_those_of_vectors_whitened_by_numpy(name: str, metric: str, tmp_path: Path) -> None:
    settings = built(tmp_path, name, metric=metric)
    index = VectorIndex(tmp_path / "toy.index")
    scores, order = expected(name, metric, stored(), asked())
    for exact in (False, True):
        found = index.search(asked(), 10, exact=exact)
        np.testing.assert_allclose(found.scores, scores[:, :10], atol=2e-5, rtol=2e-5)
        assert (found.numbers == order[:, :10]).mean() > 0.99  # but for ties
    assert settings.stored_width == int(name.partition(":")[2] or WIDTH)
    assert str(settings.transform) == (name if ":" in name else f"{name}:{WIDTH}")
    plain = faiss.read_index(str(version_of(tmp_path / "toy.index") / "index.faiss"))  # which needs nothing of bertfeat
    np.testing.assert_array_equal(plain.search(asked(), 3)[1], found.numbers[:, :3])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["hnsw", "ivf", "sq8", "IVF8,SQ8", "IVF8,SQ8,RFlat", "PCA10,Flat", "ivf on disk"])
def test_every_type_searches_whitened_vectors(kind: str, tmp_path: Path) -> None:
    memory = 10_000 if kind.endswith("on disk") else None
    settings = built(tmp_path, "half-whiten:12", kind.removesuffix(" on disk"), memory=memory, target_recall=1.0)
    assert settings.evaluation is not None
    assert settings.evaluation.transformed
    assert settings.evaluation.recall["10"] > (0.4 if "PCA" in kind else 0.93)
    index = VectorIndex(tmp_path / "toy.index")
    _, order = expected("half-whiten:12", "cosine", stored(), asked())
    found = index.search(asked(), 10).numbers
    shares = [len({*row} & {*right[:10]}) / 10 for row, right in zip(found.tolist(), order.tolist(), strict=True)]
    assert np.mean(shares) > (0.4 if "PCA" in kind else 0.9)
    assert verify_index(tmp_path / "toy.index").vectors == COUNT
    assert measure_recall(index, queries=50).recall["10"] > 0.8


def test_what_is_stored_comes_back_and_finds_itself(tmp_path: Path) -> None:
    built(tmp_path, "whiten:7", "ivf")
    index = VectorIndex(tmp_path / "toy.index")
    numbers = np.array([7, 0, COUNT - 1, 7])
    right = whitened("whiten:7", stored()[numbers], stored())
    np.testing.assert_allclose(
        np.abs(index.reconstruct(numbers)), np.abs(right) / np.linalg.norm(right, axis=1, keepdims=True), atol=1e-5
    )
    assert index.search_stored(index.reconstruct(numbers), 1).numbers[:, 0].tolist() == numbers.tolist()
    assert verify_index(tmp_path / "toy.index").vectors == COUNT


def test_appended_documents_are_whitened_as_the_first_were(tmp_path: Path) -> None:
    built(tmp_path, "half-whiten")
    new = clustered(50, WIDTH, seed=2) * 40 - 100  # which would change the mean
    vector_set(tmp_path / "new.features", new, ids=[f"new{row}" for row in range(50)])
    report = update_index(tmp_path / "toy.index", tmp_path / "new.features")
    assert str(report.settings.transform) == f"half-whiten:{WIDTH}"
    remove_documents(tmp_path / "toy.index", ["1", "5"])
    living = np.delete(np.concatenate([stored(), new]), [0, 4], axis=0)
    scores, _ = expected("half-whiten", "cosine", living, asked())
    np.testing.assert_allclose(
        VectorIndex(tmp_path / "toy.index").search(asked(), 10).scores, scores[:, :10], atol=2e-5
    )
    assert verify_index(tmp_path / "toy.index").vectors == COUNT + 48


def test_zero_vectors_are_vectors_as_others(tmp_path: Path) -> None:
    vectors = stored()
    vectors[3] = 0
    vector_set(tmp_path / "toy.features", vectors)
    assert built(tmp_path, "whiten").zero_vectors == 0
    right = whitened("whiten", vectors[3:4], vectors)
    found = VectorIndex(tmp_path / "toy.index").reconstruct(np.array([3]))
    np.testing.assert_allclose(np.abs(found), np.abs(right) / np.linalg.norm(right), atol=1e-5)
    assert verify_index(tmp_path / "toy.index").vectors == COUNT


def reseal(folder: Path, **changes: Any) -> Path:
    settings = read_index_settings(folder)
    state = digest_file(version_of(folder) / "index.faiss")
    write_index_settings(replace(settings, files={**settings.files, "index.faiss": state}, **changes), folder)
    return folder


@pytest.mark.parametrize(
    ("transform", "problem"),
    [
        (None, r"is not the index that was written: it is IndexPreTransform, where Flat has IndexFlat"),
        (Whitening(WhiteningKind.WHITEN), "vectors of 16 values become 0 values"),
        (Whitening(WhiteningKind.WHITEN, 17), "vectors of 16 values become 17 values"),
    ],
)
def test_settings_that_tell_another_transform(transform: Whitening | None, problem: str, tmp_path: Path) -> None:
    built(tmp_path, "whiten:4")
    with pytest.raises(IndexFolderError, match=problem):
        verify_index(reseal(tmp_path / "toy.index", transform=transform))


# ── the fit ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_covariance_of_whitened_vectors(tmp_path: Path) -> None:
    blocks = [stored()[:1], stored()[1:300], stored()[300:]]
    spectrum = measure_spectrum(blocks, WIDTH)
    for kind, power in ((WhiteningKind.WHITEN, 0.0), (WhiteningKind.HALF_WHITEN, 0.5)):
        made = fit_whitening(Whitening(kind), spectrum).matrix().apply(stored()).astype(np.float64)
        np.testing.assert_allclose(made.mean(axis=0), 0, atol=1e-5)
        np.testing.assert_allclose(np.cov(made.T, bias=True), np.diag(spectrum.variances**power), atol=1e-4)


def test_directions_in_which_nothing_varies_are_left_out(tmp_path: Path) -> None:
    vectors = stored()
    vectors[:, 3] = 5.1  # constant
    vectors[:, 4] = vectors[:, 5] * 2  # the same direction
    vector_set(tmp_path / "toy.features", vectors)
    assert built(tmp_path, "whiten").stored_width == WIDTH - 2
    problem = f"whiten:{WIDTH - 1}: 700 vectors of 16 values vary in 14 directions; give a width of 14 or less, or none"
    with pytest.raises(UsageError, match=problem):
        built(tmp_path, f"whiten:{WIDTH - 1}")
    assert read_index_settings(tmp_path / "toy.index").stored_width == WIDTH - 2  # the older one


def test_fewer_vectors_than_values() -> None:
    assert len(measure_spectrum([stored()[:5]], WIDTH).variances) == 4


@pytest.mark.parametrize("value", [0.0, 3.3, -1e9])
def test_equal_vectors_cannot_be_whitened(value: float, tmp_path: Path) -> None:
    vector_set(tmp_path / "toy.features", np.full((40, WIDTH), value, np.float32))
    with pytest.raises(UsageError, match="whiten: vectors that do not differ cannot be whitened; there are 40"):
        built(tmp_path, "whiten")


def test_a_vector_that_is_not_finite(tmp_path: Path) -> None:
    vectors = stored()
    vectors[600, 2] = np.nan
    vector_set(tmp_path / "toy.features", vectors)
    with pytest.raises(IndexFolderError, match="vector 600 is not finite"):
        built(tmp_path, "half-whiten")
    vector_set(tmp_path / "sound" / "toy.features", stored())
    built(tmp_path / "sound", "whiten")
    with pytest.raises(UsageError, match="query vector 1 is not finite"):
        VectorIndex(tmp_path / "sound" / "toy.index").search(vectors[599:601], 3)


@pytest.mark.parametrize("name", ["Whiten", "whiten:", "whiten:0", "whiten:-3", "whiten:x", "half", "", "whiten:1:2"])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(UsageError, match=r"transform .* is unknown; there are: none, whiten, half-whiten"):
        as_whitening(name)


def test_names() -> None:
    assert as_whitening("none") is None
    assert as_whitening("half-whiten:128") == Whitening(WhiteningKind.HALF_WHITEN, 128)
    assert str(as_whitening("whiten")) == "whiten"
    assert BuildOptions(transform="whiten:3").whitening == Whitening(WhiteningKind.WHITEN, 3)
