"""The map: PCA as scikit-learn computes it, and a PNG for every kind of colour."""

from pathlib import Path

import numpy as np
import pytest

from bertfeat.corpus import KeptColumn, Value
from bertfeat.errors import NotDerivable, UsageError
from bertfeat.features import FeatureSet
from bertfeat.plots import _METHODS, draw_map
from tests.features_toy import toy_part, toy_set
from tests.index_toy import clustered, vector_set

COUNT = 120
KEPT: dict[KeptColumn, list[Value]] = {
    KeptColumn("year", "int64"): [None if row == 3 else 1900 + row for row in range(COUNT)],
    KeptColumn("lang", "string"): [("de", "_en", "$x_$", None)[row % 4] for row in range(COUNT)],
    KeptColumn("many", "string"): [f"value {row // 2}" for row in range(COUNT)],
    KeptColumn("good", "bool"): [row % 2 == 0 for row in range(COUNT)],
}


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    return FeatureSet(vector_set(tmp_path_factory.mktemp("plots") / "toy.features", clustered(COUNT), kept=KEPT))


def test_pca_is_scikit_learns() -> None:
    decomposition = pytest.importorskip("sklearn.decomposition")
    vectors = clustered(500)
    flat, explained = _METHODS["pca"](vectors)
    oracle = decomposition.PCA(2, svd_solver="full").fit(vectors.astype(np.float64))
    np.testing.assert_allclose(np.abs(flat), np.abs(oracle.transform(vectors.astype(np.float64))), rtol=1e-4, atol=1e-4)
    assert explained == pytest.approx(oracle.explained_variance_ratio_.sum(), rel=1e-6)


@pytest.mark.parametrize("color", [None, "year", "lang", "many", "good", "row", "id"])
def test_every_kind_of_colour(features: FeatureSet, color: str | None, tmp_path: Path) -> None:
    drawn = draw_map(features, tmp_path / "map.png", color=color)
    assert (drawn.points, drawn.of) == (COUNT, COUNT)
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["map.png"]


def test_tsne(features: FeatureSet, tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    drawn = draw_map(features, tmp_path / "map.png", method="tsne", points=50)
    assert (drawn.points, drawn.explained) == (50, None)


def test_the_same_picture_every_time(features: FeatureSet, tmp_path: Path) -> None:
    pictures = []
    for name in ("a.png", "b.png"):
        draw_map(features, tmp_path / name, color="lang")
        pictures.append((tmp_path / name).read_bytes())
    assert pictures[0] == pictures[1]


def test_what_cannot_be_drawn(features: FeatureSet, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kept column 'yaer' to colour by; there are: row, id, year"):
        draw_map(features, tmp_path / "map.png", color="yaer")
    with pytest.raises(UsageError, match="by pca or tsne, not by 'umap'"):
        draw_map(features, tmp_path / "map.png", method="umap")
    with pytest.raises(NotDerivable, match="layer"):
        draw_map(features, tmp_path / "map.png", column="concat4_mean")
    toy_set(tmp_path / "word.features", toy_part(poolings=("word",)))
    with pytest.raises(UsageError, match="a map shows document columns"):
        draw_map(FeatureSet(tmp_path / "word.features"), tmp_path / "map.png")
    vector_set(tmp_path / "two.features", clustered(2), parts=1)
    with pytest.raises(UsageError, match="at least 3 documents; there are 2"):
        draw_map(FeatureSet(tmp_path / "two.features"), tmp_path / "map.png")
    assert not (tmp_path / "map.png").exists()
