"""Slices by whole numbers that no float64 holds, held against Python's own."""

from pathlib import Path

import numpy as np
import pytest

from bertfeat.corpus import KeptColumn
from bertfeat.errors import UsageError
from bertfeat.features import FeatureSet
from bertfeat.where import cut_slices
from tests.support.index_toy import clustered, vector_set

EDGE = 2**53
STAMPS = [EDGE + 1, EDGE + 2, EDGE + 3, EDGE + 3, EDGE + 4, None, -(2**63), 2**63 - 1, EDGE + 1, -EDGE - 1, -EDGE - 2]


@pytest.fixture
def features(tmp_path: Path) -> FeatureSet:
    kept = {KeptColumn("stamp", "int64"): STAMPS}
    return FeatureSet(vector_set(tmp_path / "toy.features", clustered(len(STAMPS)), kept=kept))


@pytest.mark.parametrize("number", range(2, 9))
def test_equal_slices_of_whole_numbers_past_float64(features: FeatureSet, number: int) -> None:
    known = [stamp for stamp in STAMPS if stamp is not None]
    slices = cut_slices(features, "stamp", number)
    assert len(slices) == number
    for one in slices:
        assert one.documents == sum(one.first <= stamp <= one.last for stamp in known)  # type: ignore[operator]
        assert {one.first, one.last} <= {*known}
        assert one.name == (str(one.first) if one.first == one.last else f"{one.first}-{one.last}")
    assert sum(one.documents for one in slices) == len(known)


def test_ranges_of_whole_numbers_past_float64(features: FeatureSet) -> None:
    spec = f"{EDGE + 1},{EDGE + 2}-{EDGE + 3},{EDGE + 4},{-EDGE - 2}"
    assert [one.documents for one in cut_slices(features, "stamp", spec)] == [2, 3, 1, 1]
    with_a_dash = f"{EDGE + 2}–{EDGE + 3},{EDGE + 4}"
    assert [one.documents for one in cut_slices(features, "stamp", with_a_dash)] == [3, 1]
    with pytest.raises(UsageError, match="overlap"):
        cut_slices(features, "stamp", f"{EDGE + 1}-{EDGE + 2},{EDGE + 2}")


def test_an_empty_text_is_no_slice(tmp_path: Path) -> None:
    kept = {KeptColumn("kind", "string"): ["a", "", None, "b", "a"]}
    features = FeatureSet(vector_set(tmp_path / "toy.features", clustered(5), kept=kept))
    assert [(one.name, one.documents) for one in cut_slices(features, "kind")] == [("a", 2), ("b", 1)]


def test_real_numbers_keep_their_names(tmp_path: Path) -> None:
    values = [0.5, float("nan"), 2.0, None, 3.5, 2.25]
    kept = {KeptColumn("rating", "float64"): values}
    features = FeatureSet(vector_set(tmp_path / "toy.features", clustered(len(values)), kept=kept))
    assert [(one.name, one.documents) for one in cut_slices(features, "rating")] == [("0.5-2", 2), ("2.25-3.5", 2)]
    assert np.isfinite([one.first for one in cut_slices(features, "rating", "0-2,2.1-9")]).all()
