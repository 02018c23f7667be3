"""Usages and senses by slice: those that each slice's own documents give, and counts that brute force gives."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.errors import UsageError
from bertfeat.usages import Usage, find_senses, find_usages, find_usages_by
from tests.support.change_toy import WIDTH, DatedText, dated, dated_set
from tests.support.tiny_models import Tiny

LIKE = "on the bank of a river"
RECORDS: list[dict[str, Any]] = [
    {"text": text, "year": year, "kind": kind}
    for text, year, kind in [
        ("the bank of the river", 1850, "a"),
        ("a bank for money, a bank", None, "b"),
        ("nothing", 1860, "a"),
        ("the bank", 1900, None),
        ("river bank, a bank", 1901, "c"),
        ("money in the bank", 1920, "a"),
    ]
]


@pytest.fixture(scope="module")
def features(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    folder = tmp_path_factory.mktemp("by") / "words.features"
    extractor = Extractor(tiny("bert").folder, layers="concat4", pooling="word", precision="fp32", device="cpu")
    extractor.extract(memory_corpus(RECORDS, CorpusSettings(keep=("year", "kind"))), folder, part_rows=2)
    return FeatureSet(folder)


def scored(usages: Sequence[Usage]) -> list[float]:
    return [usage.score for usage in usages if usage.score is not None]


def year_of(usage: Usage) -> int:
    year = usage.values["year"]
    return year if isinstance(year, int) else 0


SLICES = [
    ("year", "1850-1899,1900-1920", {"1850-1899": "year < 1900", "1900-1920": "year >= 1900"}),
    ("year", "1920,1850-1860", {"1920": "year = 1920", "1850-1860": "year < 1861"}),
    ("kind", None, {kind: f"kind = '{kind}'" for kind in "abc"}),
    ("kind", "c,a", {kind: f"kind = '{kind}'" for kind in "ca"}),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("like", [None, LIKE])
@pytest.mark.parametrize(("by", "slices", "conditions"), SLICES)
@pytest.mark.parametrize("one_per_document", [False, True])
def test_each_slice_has_the_usages_of_its_documents(
    features: FeatureSet,
    like: str | None,
    by: str,
    slices: str | None,
    conditions: dict[str, str],
    one_per_document: bool,
) -> None:
    asked: dict[str, Any] = {"like": like, "k": 2, "one_per_document": one_per_document}
    found = find_usages_by(features, "bank", by, slices, **asked)
    assert [one.slice.name for one in found.slices] == list(conditions)
    for one in found.slices:
        expected = find_usages(features, "bank", where=conditions[one.slice.name], **asked)
        assert (one.slice.documents, one.found, one.skipped) == (expected.documents, expected.found, 0)
        assert [dataclasses.replace(usage, score=None) for usage in one.usages] == [
            dataclasses.replace(usage, score=None) for usage in expected.usages
        ]
        assert scored(one.usages) == pytest.approx(scored(expected.usages), abs=1e-5)
    every = find_usages(features, "bank", like=like, k=99)
    assert found.outside + sum(one.found for one in found.slices) == every.found
    assert (found.documents, found.like, found.column) == (len(RECORDS), like, "last_word")


def test_the_score_of_a_slice_is_the_mean_of_all_its_usages(features: FeatureSet) -> None:
    found = find_usages_by(features, "bank", "year", "1850-1860,1900-1920", like=LIKE, k=1)
    every = find_usages(features, "bank", like=LIKE, k=99).usages
    for one, (first, last) in zip(found.slices, [(1850, 1860), (1900, 1920)], strict=True):
        scores = scored([usage for usage in every if first <= year_of(usage) <= last])
        assert one.score == pytest.approx(np.mean(scores), abs=2e-6)
    assert all(one.score is None for one in find_usages_by(features, "bank", "year", 2).slices)


def test_a_condition_holds_in_every_slice(features: FeatureSet) -> None:
    found = find_usages_by(features, "bank", "year", "1850-1860,1900-1920", where="kind = 'a'")
    assert [(one.slice.documents, one.found) for one in found.slices] == [(2, 1), (1, 1)]
    nothing = find_usages_by(features, "zebra", "year", 2)
    assert [(one.found, one.usages) for one in nothing.slices] == [(0, ())] * 2


@pytest.mark.parametrize(
    ("by", "options", "problem"),
    [
        ("when", {}, "there is no kept column 'when'; there are: year, kind"),
        ("year", {"slices": "1850-1900"}, "one slice leaves nothing to compare"),
        ("year", {"slices": "1850-1900,1880-1920"}, "overlap"),
        ("year", {"slices": "1-2,3-4"}, "no document has a value in 1-2"),
        ("year", {"slices": "early"}, "no range of numbers"),
        ("kind", {"slices": "a,z"}, "no document has 'z'"),
        ("year", {"k": -1}, "-1 usages cannot be"),
        ("year", {"context": -1}, "cannot be"),
    ],
)
def test_slices_that_cannot_be(features: FeatureSet, by: str, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        find_usages_by(features, "bank", by, **options)
    with pytest.raises(UsageError, match=problem):
        find_senses(features, "bank", 2, by=by, **options)


# ── senses ──────────────────────────────────────────────────────────────────────────────────────────────────

YEARS = (1850, 1860, 1900, 1910, None)


@pytest.fixture(scope="module")
def two_senses(tmp_path_factory: pytest.TempPathFactory) -> tuple[FeatureSet, dict[int, tuple[int, int]]]:
    """ "cell" in two well separated senses, and how often each has which in documents of each year."""
    random = np.random.default_rng(3)
    prison, body = np.eye(WIDTH)[:2] * 5
    documents: list[DatedText] = []
    planted: dict[Any, tuple[int, int]] = {1850: (9, 1), 1860: (7, 3), 1900: (4, 6), 1910: (2, 8), None: (5, 5)}
    for year in YEARS:
        for middle, number in zip((prison, body), planted[year], strict=True):
            for _ in range(number):
                vectors = [np.ones(WIDTH), middle + random.normal(0, 0.1, WIDTH)]
                documents.append(dated("the cell", vectors, year=year))
    documents.append(dated("the cell", [np.ones(WIDTH), np.zeros(WIDTH)], year=1850))  # without a vector
    folder = tmp_path_factory.mktemp("senses") / "toy.features"
    return dated_set(folder, documents, {"year": "int64"}, part_rows=7), planted


def test_senses_are_counted_in_slices(two_senses: tuple[FeatureSet, dict[int, tuple[int, int]]]) -> None:
    features, planted = two_senses
    found = find_senses(features, "cell", 2, by="year", slices="1850,1860,1900-1910", column="concat4")
    expected = [planted[1850], planted[1860], tuple(np.add(planted[1900], planted[1910]).tolist())]
    counts = {tuple(sense.counts) for sense in found.senses}
    assert counts == set(zip(*expected, strict=True))
    assert all(sum(sense.counts) == sense.count for sense in found.senses)
    assert (found.by, [one.name for one in found.slices]) == ("year", ["1850", "1860", "1900-1910"])
    assert (found.found, found.skipped, found.grouped, found.outside) == (41, 1, 40, 10)
    plain = find_senses(features, "cell", 2)
    assert (plain.by, plain.slices, plain.outside, plain.senses[0].counts) == (None, (), 0, ())
    assert plain.found == 51


def test_slices_without_a_column_are_refused(features: FeatureSet) -> None:
    with pytest.raises(UsageError, match="name it"):
        find_senses(features, "bank", 2, slices="1850,1900")


def test_a_sample_keeps_its_slices(
    two_senses: tuple[FeatureSet, dict[int, tuple[int, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertfeat.usages.senses.MOST", 12)
    found = find_senses(two_senses[0], "cell", 2, by="year", slices="1850-1860,1900-1910", column="concat4", k=99)
    assert found.grouped == sum(sense.count for sense in found.senses) == 12
    for sense in found.senses:
        years = list(map(year_of, sense.usages))
        assert sense.counts == (sum(y < 1900 for y in years), sum(y >= 1900 for y in years))
