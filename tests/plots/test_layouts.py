"""Layouts of vectors in the plane: against scikit-learn, the same every time, kept in the cache, in another process."""

import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertfeat.errors import BertfeatError, UsageError
from bertfeat.plots import lay_out_apart, lay_out_vectors
from tests.support.index_toy import clustered
from tests.support.waiting import wait_for


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept layouts, empty before each test."""
    monkeypatch.setenv("BERTFEAT_CACHE", str(tmp_path))
    return tmp_path / "maps"


def test_pca_is_scikit_learns() -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    vectors = clustered(500)
    made = lay_out_vectors(vectors, "pca")
    oracle = decomposition.PCA(2, svd_solver="full").fit(vectors.astype(np.float64))
    wanted = np.abs(oracle.transform(vectors.astype(np.float64)))
    np.testing.assert_allclose(np.abs(made.flat), wanted, rtol=1e-4, atol=1e-4)
    assert made.shares == pytest.approx(tuple(oracle.explained_variance_ratio_), rel=1e-6)
    assert made.explained == pytest.approx(oracle.explained_variance_ratio_.sum(), rel=1e-6)


def test_one_dimension_and_equal_vectors() -> None:
    line = lay_out_vectors(np.array([[1], [2], [4]], np.float32), "pca")
    np.testing.assert_allclose(line.flat, [[-4 / 3, 0], [-1 / 3, 0], [5 / 3, 0]], rtol=1e-6)
    assert line.shares == pytest.approx((1.0, 0.0))
    equal = lay_out_vectors(np.ones((5, 3), np.float32), "pca")
    np.testing.assert_allclose(equal.flat, 0)
    with pytest.raises(UsageError, match="all 5 vectors are equal"):
        lay_out_vectors(np.ones((5, 3), np.float32), "tsne")


@pytest.mark.parametrize("method", ["tsne", "umap"])
@pytest.mark.parametrize("count", [3, 60])
def test_neighbors_stay_neighbors_the_same_way_every_time(method: str, count: int) -> None:
    pytest.importorskip("sklearn" if method == "tsne" else "umap", exc_type=ImportError)
    groups = np.arange(count) % 3
    vectors = (np.eye(3, 16)[groups] * 50 + clustered(count) / 20).astype(np.float32)
    one, other = lay_out_vectors(vectors, method), lay_out_vectors(vectors, method)
    assert (one.shares, one.explained) == (None, None)
    np.testing.assert_array_equal(one.flat, other.flat)
    if count > 3:
        distances = np.linalg.norm(one.flat[:, None] - one.flat[None], axis=-1) + np.diag(np.full(count, np.inf))
        assert (groups[distances.argmin(axis=1)] == groups).mean() > 0.95


def test_umap_is_called_so_that_it_repeats_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    class Reducer:
        def __init__(self, **given: Any) -> None:
            asked.append(given)

        def fit_transform(self, vectors: np.ndarray) -> np.ndarray:
            return vectors[:, :2]

    library = types.ModuleType("umap")
    library.UMAP = Reducer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "umap", library)
    vectors = clustered(6)
    np.testing.assert_array_equal(lay_out_vectors(vectors, "umap").flat, vectors[:, :2])
    assert (asked[0]["n_neighbors"], asked[0]["n_jobs"]) == (5, 1)
    assert isinstance(asked[0]["random_state"], int)
    start = lay_out_vectors(vectors, "pca").flat
    np.testing.assert_allclose(asked[0]["init"], start / start[:, 0].std())


def test_a_method_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(
        BertfeatError, match=r"needs umap-learn, which is not installed; pip install 'bertfeat\[umap\]'"
    ):
        lay_out_vectors(clustered(6), "umap")


# ── kept, and in another process ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.hostile
def test_another_process_makes_the_same_layout(cache: Path) -> None:
    pytest.importorskip("sklearn")
    vectors = clustered(60)
    apart = lay_out_apart(vectors, "tsne")
    (kept,) = cache.iterdir()
    kept.unlink()
    np.testing.assert_array_equal(lay_out_vectors(vectors, "tsne").flat, apart)


def test_a_layout_is_kept_for_the_same_vectors(cache: Path) -> None:
    pytest.importorskip("sklearn")
    vectors = clustered(60)
    lay_out_vectors(vectors, "tsne")
    (kept,) = cache.iterdir()
    marked = np.full((60, 2), 7, np.float32)
    np.save(kept, marked)
    np.testing.assert_array_equal(lay_out_vectors(vectors, "tsne").flat, marked)
    np.testing.assert_array_equal(lay_out_apart(vectors, "tsne"), marked)
    assert (lay_out_vectors(vectors + np.float32(1), "tsne").flat != 7).any()
    assert len(list(cache.iterdir())) == 2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("damage", [b"", b"not an array", None])
def test_a_damaged_file_counts_as_none(cache: Path, damage: bytes | None) -> None:
    pytest.importorskip("sklearn")
    vectors = clustered(60)
    made = lay_out_vectors(vectors, "tsne").flat
    (kept,) = cache.iterdir()
    if damage is None:
        np.save(kept, np.full((60, 2), np.nan, np.float32))
    else:
        kept.write_bytes(damage)
    np.testing.assert_array_equal(lay_out_vectors(vectors, "tsne").flat, made)


def test_a_cache_that_cannot_be_written(cache: Path) -> None:
    pytest.importorskip("sklearn")
    cache.write_text("a file where the folder would be")
    assert lay_out_vectors(clustered(60), "tsne").flat.shape == (60, 2)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="it looks processes up in Linux's /proc")
def test_the_other_process_ends_with_the_one_that_asked(tmp_path: Path) -> None:
    """A process that asks for a long layout is killed; the one that computes ends soon after."""
    pytest.importorskip("sklearn")
    code = (
        "import numpy as np; from bertfeat.plots import lay_out_apart; "
        "lay_out_apart(np.random.default_rng(0).normal(size=(20_000, 50)).astype(np.float32), 'tsne')"
    )
    environment = {**os.environ, "BERTFEAT_CACHE": str(tmp_path)}
    asking = subprocess.Popen([sys.executable, "-c", code], env=environment)
    children = Path(f"/proc/{asking.pid}/task/{asking.pid}/children")
    child = Path(f"/proc/{wait_for(children.read_text).strip()}/stat")
    asking.kill()
    asking.wait()
    wait_for(lambda: not child.exists() or child.read_text().rpartition(")")[2].split()[0] == "Z")


@pytest.mark.hostile
def test_what_failed_in_the_other_process_is_told() -> None:
    pytest.importorskip("sklearn")
    with pytest.raises(BertfeatError, match=r"layout by t-SNE failed: all 5 vectors are equal"):
        lay_out_apart(np.ones((5, 3), np.float32), "tsne")
