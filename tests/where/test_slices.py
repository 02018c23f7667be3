"""Slices by whole numbers that no float64 holds, held against Python's own."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from bertfeat.core.corpus import KeptColumn
from bertfeat.core.features import FeatureSet
from bertfeat.errors import UsageError
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
    slices = cut_slices(features, "stamp", number).slices
    assert len(slices) == number
    for one in slices:
        assert one.documents == sum(one.first <= stamp <= one.last for stamp in known)  # type: ignore[operator]
        assert {one.first, one.last} <= {*known}
        assert one.name == (str(one.first) if one.first == one.last else f"{one.first}-{one.last}")
    assert sum(one.documents for one in slices) == len(known)


def test_ranges_of_whole_numbers_past_float64(features: FeatureSet) -> None:
    spec = f"{EDGE + 1},{EDGE + 2}-{EDGE + 3},{EDGE + 4},{-EDGE - 2}"
    assert [one.documents for one in cut_slices(features, "stamp", spec).slices] == [2, 3, 1, 1]
    with_a_dash = f"{EDGE + 2}–{EDGE + 3},{EDGE + 4}"
    assert [one.documents for one in cut_slices(features, "stamp", with_a_dash).slices] == [3, 1]
    with pytest.raises(UsageError, match="overlap"):
        cut_slices(features, "stamp", f"{EDGE + 1}-{EDGE + 2},{EDGE + 2}")


def test_an_empty_text_is_no_slice(tmp_path: Path) -> None:
    kept = {KeptColumn("kind", "string"): ["a", "", None, "b", "a"]}
    features = FeatureSet(vector_set(tmp_path / "toy.features", clustered(5), kept=kept))
    assert [(one.name, one.documents) for one in cut_slices(features, "kind").slices] == [("a", 2), ("b", 1)]


def test_real_numbers_keep_their_names(tmp_path: Path) -> None:
    values = [0.5, float("nan"), 2.0, None, 3.5, 2.25]
    kept = {KeptColumn("rating", "float64"): values}
    features = FeatureSet(vector_set(tmp_path / "toy.features", clustered(len(values)), kept=kept))
    assert [(one.name, one.documents) for one in cut_slices(features, "rating").slices] == [
        ("0.5-2", 2),
        ("2.25-3.5", 2),
    ]
    assert np.isfinite([one.first for one in cut_slices(features, "rating", "0-2,2.1-9").slices]).all()


@pytest.mark.parametrize("step", [1, 3, 10, 2**54])
def test_steps_of_whole_numbers_against_python(tmp_path: Path, step: int) -> None:
    known = [-1, 0, 9, 10, 11, 57, 60, EDGE, EDGE + 1][: 9 if step > 100 else 7]
    kept = {KeptColumn("year", "int64"): [*known, None]}
    features = FeatureSet(vector_set(tmp_path / "toy.features", clustered(len(known) + 1), kept=kept))
    cut = cut_slices(features, "year", f"every:{step}")
    starts = sorted({value // step * step for value in known})
    names = [f"{start}-{start + step - 1}" if step > 1 else f"{start}" for start in starts]
    assert [one.name for one in cut.slices] == names
    assert [one.documents for one in cut.slices] == [sum(v // step * step == start for v in known) for start in starts]
    assert cut.of_documents.tolist() == [*(starts.index(value // step * step) for value in known), -1]


def test_steps_of_real_numbers_leave_no_number_out(tmp_path: Path) -> None:
    known = [number / 10 for number in range(-7, 24)]
    kept = {KeptColumn("share", "float64"): [*known, float("nan"), None, float("inf")]}
    features = FeatureSet(vector_set(tmp_path / "toy.features", clustered(len(known) + 3), kept=kept))
    for spec, width in (("every:0.1", 0.1), ("every: 0.25", 0.25), ("every", 1.0)):
        cut = cut_slices(features, "share", spec)
        assert sum(one.documents for one in cut.slices) == len(known)
        assert cut.of_documents[-3:].tolist() == [-1, -1, -1]
        for value, number in zip(known, cut.of_documents.tolist(), strict=False):
            assert cut.slices[number].holds(value)
            assert cut.slices[number].first == pytest.approx(math.floor(value / width + 1e-9) * width)


@pytest.mark.parametrize(
    ("values", "first"),
    [
        ([1719, 1922], "1710-1719"),
        ([1, 9], "1"),
        ([1000, 1999], "1000-1099"),
        ([-5, 30], "-10--1"),
        ([0, 24], "0"),
        ([1801, 2050], "1800-1899"),
    ],
)
def test_a_step_is_chosen_that_makes_no_more_than_25_slices(tmp_path: Path, values: list[int], first: str) -> None:
    every = list(range(values[0], values[1] + 1))
    kept = {KeptColumn("year", "int64"): every}
    features = FeatureSet(vector_set(tmp_path / "toy.features", clustered(len(every)), kept=kept))
    slices = cut_slices(features, "year", "every").slices
    assert slices[0].name == first
    assert 2 <= len(slices) <= 25


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("every:0", "'0' is no step of 'stamp', but a whole number above 0 is; write every:10, or every alone"),
        ("every:-3", "'-3' is no step"),
        ("every:0.5", "'0.5' is no step"),
        ("every:ten", "'ten' is no step"),
        ("every:", "'' is no step"),
        ("every:5", "makes more than 1,000 slices of 'stamp'; give a wider step"),
        (
            ",".join(map(str, range(2000, 0, -1))),
            "2,000 slices of 'stamp' are too many, and at most 1,000 are compared",
        ),
        ("1" * 5000, "is no range of numbers"),
        ("every:" + "1" * 5000, "is no step"),
        (f"every:{2**65}", None),
    ],
)
def test_steps_that_cannot_be(features: FeatureSet, spec: str, told: str | None) -> None:
    if told is None:
        assert [one.documents for one in cut_slices(features, "stamp", spec).slices] == [3, 7]
        return
    with pytest.raises(UsageError, match=re.escape(told)):
        cut_slices(features, "stamp", spec)


def test_slices_count_only_documents_that_are_asked_for(features: FeatureSet) -> None:
    cut = cut_slices(features, "stamp", f"{EDGE + 1}-{EDGE + 2},{EDGE + 3}")
    mask = np.arange(len(STAMPS)) % 2 == 0
    assert [one.documents for one in cut.among(mask).slices] == [2, 1]


def test_real_numbers_whose_digits_do_not_suffice(tmp_path: Path) -> None:
    for at, values in enumerate(([1e15, 1e15 + 0.125, 1e15 + 0.25], [1e300, 2e300])):
        kept = {KeptColumn("share", "float64"): values}
        features = FeatureSet(vector_set(tmp_path / f"{at}.features", clustered(len(values)), kept=kept))
        for spec in ("every:0.125", f"every:0.{'0' * 29}1"):
            with pytest.raises(UsageError, match="give a wider step"):
                cut_slices(features, "share", spec)
