"""Change of words: measures equal brute force over all pairs, slices are those asked for, plants are found."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist, jensenshannon

from bertfeat.core.corpus import Value
from bertfeat.core.features import FeatureSet
from bertfeat.errors import BertfeatError, FeatureSetError, NotDerivableError, UsageError
from bertfeat.progress import StepProgress
from bertfeat.study import ChangeMeasure, ChangeSettings, Interval, WordChange, measure_change
from bertfeat.study.change import mean_usages, measure_distance, sense_divergence
from bertfeat.where import cut_slices, slice_number
from tests.support.change_toy import WIDTH, DatedText, dated, dated_set
from tests.support.features_toy import toy_part, toy_set

TYPES = {"year": "int64", "kind": "string", "share": "float64", "good": "bool"}
YEARS = (1850, 1860, 1870, 1900, 1910, 1920)


def toy_documents(seed: int = 0, per_year: int = 8) -> list[DatedText]:
    """Texts in which "cell" moves from one direction to another, and "door" stays between two."""
    random = np.random.default_rng(seed)
    prison, body, house = random.standard_normal((3, WIDTH))

    def near(*middles: NDArray[np.float64]) -> NDArray[np.float64]:
        chosen: NDArray[np.float64] = middles[random.integers(len(middles))] + random.normal(0, 0.3, WIDTH)
        return chosen

    made = []
    for year, number in itertools.product((*YEARS, None), range(per_year)):
        late = year is None or year > 1880
        vectors = [near(house), near(body if late else prison), near(house), near(prison, body)]
        kept: dict[str, Value] = {"year": year, "kind": "late" if late else "early", "share": number / 8, "good": late}
        made.append(dated("the Cell a door", vectors, **kept))
    unaligned = [near(house), np.zeros(WIDTH)]
    made.append(dated("the cell", unaligned, year=1850, kind="early", share=0.0, good=False))
    return made


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    return dated_set(tmp_path_factory.mktemp("change") / "toy.features", toy_documents(), TYPES, part_rows=20)


def measure(features: FeatureSet, *words: str, by: str = "year", **settings: Any) -> tuple[WordChange, ...]:
    given = {"slices": "1850-1870,1900-1920", "least": 5, **settings}
    return measure_change(features, words or None, by, ChangeSettings(**given)).words


def usages_of(word: int, years: Sequence[int]) -> NDArray[np.float64]:
    chosen = [document for document in toy_documents() if document.kept["year"] in years and len(document.vectors) == 4]
    return np.array([document.vectors[word] for document in chosen], np.float64)


# ── measures ────────────────────────────────────────────────────────────────────────────────────────────────


def test_measures_equal_brute_force(features: FeatureSet) -> None:
    (change,) = measure(features, "cell", most=1000)
    early, late = usages_of(1, YEARS[:3]), usages_of(1, YEARS[3:])
    assert (change.counts, change.compared) == ({"1850-1870": 24, "1900-1920": 24}, 24)
    assert change.overall.apd.value == pytest.approx(cdist(early, late, "cosine").mean(), abs=2e-6)
    units = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (early, late)]
    one, other = (unit.mean(axis=0) for unit in units)
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    assert change.overall.prt.value == pytest.approx(1 / max(cosine, 1e-3), rel=1e-5)
    shares = [np.array(senses) / 24 for senses in change.senses.values()]
    assert change.overall.jsd.value == pytest.approx(jensenshannon(*shares, base=2) ** 2, abs=2e-6)
    assert [sum(senses) for senses in change.senses.values()] == [24, 24]
    assert (change.overall,) == change.steps


def test_intervals_are_those_of_resamples_one_by_one() -> None:
    random = np.random.default_rng(3)
    units = random.standard_normal((2, 9, 5)).astype(np.float32)
    units = units + 2
    units /= np.linalg.norm(units, axis=2, keepdims=True)
    labels = random.integers(0, 3, (2, 9))
    means = [mean_usages("ab"[at], units[at], labels[at], 3, np.random.default_rng([7, at])) for at in range(2)]
    distance = measure_distance(*means)
    apds, jsds = [], []
    draws = [np.random.default_rng([7, at]).multinomial(9, np.full(9, 1 / 9), 1000) for at in range(2)]
    for one, other in zip(*draws, strict=True):
        chosen = [np.repeat(np.arange(9), counts) for counts in (one, other)]
        apds.append(cdist(units[0][chosen[0]], units[1][chosen[1]], "cosine").mean())
        shares = [np.bincount(labels[at][chosen[at]], minlength=3) / 9 for at in range(2)]
        jsds.append(jensenshannon(*shares, base=2) ** 2)
    for interval, resampled in ((distance.apd, apds), (distance.jsd, jsds)):
        high, low = 2 * interval.value - np.percentile(resampled, [2.5, 97.5])
        assert (interval.low, interval.high) == pytest.approx((max(low, 0), max(high, 0)), abs=3e-6)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.1, 0.9)], ids=["no change", "change"])
def test_intervals_hold_what_is_true_of_all_usages(shares: tuple[float, float]) -> None:
    random = np.random.default_rng(0)
    middles = random.normal(0, 1.2, 48) + random.normal(0, 0.5, (2, 48))

    def draw(number: int, share: float) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        senses = (random.random(number) < share).astype(np.int64)
        vectors = middles[senses] + random.normal(0, 0.8, (number, 48))
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), senses

    one, other = (draw(100_000, share)[0].mean(axis=0, dtype=np.float64) for share in shares)
    prt = np.linalg.norm(one) * np.linalg.norm(other) / (one @ other)
    jsd = jensenshannon(*([share, 1 - share] for share in shares), base=2) ** 2
    trials = [measure_distance(*(mean_usages("", *draw(100, share), 2, random) for share in shares)) for _ in range(40)]
    for measure, truth in (("apd", 1 - one @ other), ("prt", prt), ("jsd", jsd)):
        intervals = [getattr(trial, measure) for trial in trials]
        assert sum(each.low - 1e-4 <= truth <= each.high + 1e-4 for each in intervals) >= 30
    stands_out = [trial.prt.low > 1 and trial.jsd.low > 0 for trial in trials]
    assert all(stands_out) if shares == (0.1, 0.9) else not any(stands_out)


def test_measures_of_what_did_not_move() -> None:
    units = np.ones((4, 2), np.float32) / np.sqrt(np.float32(2))
    same = mean_usages("a", units, np.zeros(4, int), 2, np.random.default_rng(1))
    distance = measure_distance(same, same)
    nothing = Interval(0.0, 0.0, 0.0)
    assert (distance.apd, distance.jsd, distance.prt) == (nothing, nothing, Interval(1.0, 1.0, 1.0))
    opposite = mean_usages("b", -units, np.ones(4, int), 2, np.random.default_rng(1))
    distance = measure_distance(same, opposite)
    assert (distance.apd.value, distance.prt.value, distance.jsd.value) == (2.0, 1000.0, 1.0)
    assert sense_divergence(np.array([[1.0, 0.0]]), np.array([[0.5, 0.5]])) == pytest.approx(
        [jensenshannon([1, 0], [0.5, 0.5], base=2) ** 2]
    )


def test_a_planted_change_is_found(features: FeatureSet) -> None:
    for ranked_by in ChangeMeasure:
        changes = measure(features, measure=ranked_by)
        assert changes[0].word == "cell"
        assert {change.word for change in changes} == {"cell", "door", "the", "a"}
    cell, door = measure(features, "cell", "door", measure="jsd")
    assert cell.overall.jsd.low > door.overall.jsd.high
    assert cell.overall.prt.low > door.overall.prt.high


def test_usages_that_moved_most(features: FeatureSet) -> None:
    (change,) = measure(features, "door", most=1000, usages=2, context=4)
    early, late = (
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        for vectors in (usages_of(3, YEARS[:3]), usages_of(3, YEARS[3:]))
    )
    for usages, of, to in ((change.before, early, late), (change.after, late, early)):
        prototype = to.mean(axis=0) / np.linalg.norm(to.mean(axis=0))
        assert [usage.score for usage in usages] == pytest.approx(np.sort(of @ prototype)[:2], abs=2e-6)
        assert {(usage.left, usage.word, usage.right) for usage in usages} == {("l a ", "door", "")}
    assert {usage.values["kind"] for usage in change.before} == {"early"}
    assert {usage.values["kind"] for usage in change.after} == {"late"}


def test_slices_have_equally_many_usages(features: FeatureSet) -> None:
    (change,) = measure(features, "cell", slices="1850-1860,1870-1910,1920", most=10)
    assert change.counts == {"1850-1860": 16, "1870-1910": 24, "1920": 8}
    assert change.compared == 8
    assert [(step.first, step.last) for step in change.steps] == [("1850-1860", "1870-1910"), ("1870-1910", "1920")]
    assert (change.overall.first, change.overall.last) == ("1850-1860", "1920")
    assert [sum(senses) for senses in change.senses.values()] == [8, 8, 8]
    (change,) = measure(features, "cell", most=6)
    assert change.compared == 6


def test_equal_seeds_give_equal_results(features: FeatureSet) -> None:
    once, again, other = (measure(features, "door", most=6, seed=seed) for seed in (1, 1, 2))
    assert once == again
    assert once != other


def test_the_vocabulary_is_measured_as_words_are(features: FeatureSet, monkeypatch: pytest.MonkeyPatch) -> None:
    ranked = measure(features, most=6)
    assert {change.word: change for change in ranked} == {
        change.word: change for word in ("the", "cell", "a", "door") for change in measure(features, word, most=6)
    }
    monkeypatch.setattr("bertfeat.study.change_sample.MEMORY", 1)  # a word at a time
    assert measure(features, most=6) == ranked


@pytest.mark.slow
def test_samples_are_even(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    documents = [dated("word", random.standard_normal((1, WIDTH)), year=at % 2) for at in range(60)]
    features = dated_set(tmp_path / "even.features", documents, {"year": "int64"})
    drawn = np.zeros(60)
    for seed in range(200):
        (change,) = measure(features, "word", slices="0,1", most=5, senses=2, usages=5, seed=seed)
        for usage in (*change.before, *change.after):
            drawn[usage.row] += 1
    assert drawn.sum() == 2000
    assert np.abs(drawn / 200 - 1 / 6).max() < 4 * np.sqrt(1 / 6 * 5 / 6 / 200)


def test_any_stored_layer(features: FeatureSet) -> None:
    (change,) = measure(features, "cell", most=1000, column="last")
    early, late = (usages_of(1, years)[:, 24:] for years in (YEARS[:3], YEARS[3:]))
    assert change.overall.apd.value == pytest.approx(cdist(early, late, "cosine").mean(), abs=2e-6)


# ── slices ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("by", "spec", "names", "documents"),
    [
        ("year", None, ["1850-1870", "1900-1920"], [25, 24]),
        ("year", 3, ["1850-1860", "1870-1900", "1910-1920"], [17, 16, 16]),
        ("year", "6", ["1850", "1860", "1870", "1900", "1910", "1920"], [9, 8, 8, 8, 8, 8]),
        ("year", "1900-1920, 1850", ["1900-1920", "1850"], [24, 9]),
        ("share", "0-0.25,0.5-1", ["0-0.25", "0.5-1"], [22, 28]),
        ("share", "-1--0.5,0", None, None),
        ("kind", None, ["early", "late"], [25, 32]),
        ("kind", "late,early", ["late", "early"], [32, 25]),
        ("good", None, ["false", "true"], [25, 32]),
    ],
)
def test_slices(
    features: FeatureSet, by: str, spec: str | int | None, names: list[str] | None, documents: list[int] | None
) -> None:
    if names is None:
        with pytest.raises(UsageError, match=r"no document has a value in -1--0\.5"):
            cut_slices(features, by, spec)
        return
    slices = cut_slices(features, by, spec).slices
    assert [one.name for one in slices] == names
    assert [one.documents for one in slices] == documents


def test_a_value_is_in_one_slice(features: FeatureSet) -> None:
    slices = cut_slices(features, "year", 3).slices
    assert [slice_number(slices, value) for value in (1850, 1865, 1900, 1905, None, float("nan"))] == [
        0, None, 1, None, None, None,
    ]  # fmt: skip
    report = measure_change(features, ["cell"], "year", ChangeSettings(slices=3, least=5))
    assert report.outside == 8
    assert sum(one.documents for one in report.slices) + report.outside == len(features)


def test_one_frequent_value_leaves_room_for_the_others(tmp_path: Path) -> None:
    documents = [dated("word", np.ones((1, WIDTH)), year=max(at, 90)) for at in range(100)]
    features = dated_set(tmp_path / "skew.features", documents, {"year": "int64"})
    assert [one.name for one in cut_slices(features, "year", 3).slices] == ["90", "91", "92-99"]


# ── what cannot be ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("by", "spec", "told"),
    [
        ("nowhere", None, "no kept column 'nowhere'; there are: year, kind, share, good; extract with keep"),
        ("year", "1850-1900,1900-1920", "the slices 1850-1900 and 1900-1920 overlap"),
        ("year", "1850-1900,1860-1870", "overlap"),
        ("year", "1850-1900", "one slice leaves nothing to compare"),
        ("year", 1, "6 different values, which do not make 1 slices"),
        ("year", 7, "6 different values, which do not make 7 slices"),
        ("year", "1900-1850,1910", "the slice 1900-1850 ends before it begins; write 1850-1900"),
        ("year", "early,late", "'early' is no range of numbers, which 'year' holds"),
        ("year", "1700-1750,1900", "no document has a value in 1700-1750"),
        ("year", "", None),
        ("kind", "1850-1870,1900", "'kind' does not hold numbers but names, and no document has '1850-1870'"),
        ("kind", "early", "one slice"),
        ("kind", "early,early", "overlap"),
    ],
)
def test_slices_that_cannot_be(features: FeatureSet, by: str, spec: str | int | None, told: str | None) -> None:
    if told is None:
        assert cut_slices(features, by, spec).slices == cut_slices(features, by).slices
        return
    with pytest.raises(UsageError, match=told):
        cut_slices(features, by, spec)


def test_too_many_categories(tmp_path: Path) -> None:
    documents = [dated("word", np.ones((1, WIDTH)), name=f"n{at}") for at in range(1001)]
    features = dated_set(tmp_path / "names.features", documents, {"name": "string"})
    with pytest.raises(
        UsageError, match="1,001 slices of 'name' are too many, and at most 1,000 are compared; give fewer"
    ):
        cut_slices(features, "name")
    assert [one.name for one in cut_slices(features, "name", "n7,n3").slices] == ["n7", "n3"]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"senses": 1}, "senses=1: must be at least 2"),
        ({"least": 1}, "least=1: must be at least 2"),
        ({"most": 10_001}, "most=10001: must be from 2 to 10,000"),
        ({"usages": -1}, "usages=-1: must be from 0 to 10,000"),
        ({"most": 2, "senses": 5}, "5 senses cannot be told apart in 4 usages"),
        ({"measure": "ed"}, "measure='ed': must be one of 'prt', 'apd', 'jsd'"),
    ],
)
def test_settings_that_cannot_be(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        ChangeSettings(**settings)


def test_words_that_cannot_be_measured_are_told(features: FeatureSet) -> None:
    settings = ChangeSettings(slices="1850-1860,1870-1920", least=16)
    report = measure_change(features, ["cell", "gone", "cell", "the a"], "year", settings)
    assert [change.word for change in report.words] == ["cell"]
    told = "does not occur in the documents of any slice"
    assert [word.reason for word in report.unmeasured] == [f"'gone' {told}", f"'the a' {told}"]
    assert report.unmeasured[0].counts == {"1850-1860": 0, "1870-1920": 0}


def test_no_word_is_measured(features: FeatureSet) -> None:
    settings = ChangeSettings(least=25)
    with pytest.raises(UsageError, match=r"'cell' has too few usages to compare 25 of each .* 24 in .*; 'gone' does"):
        measure_change(features, ["cell", "gone"], "year", settings)
    with pytest.raises(UsageError, match="no word has 25 usages in every slice of year; give a smaller least"):
        measure_change(features, None, "year", settings)


def test_equal_vectors_have_no_senses(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    documents = [dated("same word", [np.ones(WIDTH), random.standard_normal(WIDTH)], year=at % 2) for at in range(20)]
    features = dated_set(tmp_path / "same.features", documents, {"year": "int64"})
    report = measure_change(features, None, "year", ChangeSettings(least=5))
    assert [change.word for change in report.words] == ["word"]
    assert [(word.word, word.reason) for word in report.unmeasured] == [
        ("same", "'same' has only 1 different vectors, which are too few for 4 senses")
    ]


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"poolings": ["mean"]}, FeatureSetError, "one vector a document, but usages compare words"),
        ({"text": False}, FeatureSetError, "there are no words to look for"),
        ({"layers": "last"}, NotDerivableError, "layer 2"),
    ],
)
def test_sets_without_what_is_needed(
    tmp_path: Path, options: dict[str, Any], error: type[BertfeatError], told: str
) -> None:
    folder = toy_set(tmp_path / "toy.features", toy_part(**options))
    with pytest.raises(error, match=told):
        measure_change(folder, ["bank"], "year", ChangeSettings(column="2"))


def test_progress_counts_words(features: FeatureSet) -> None:
    told: list[StepProgress] = []
    measure_change(features, ["cell", "door"], "year", ChangeSettings(least=5), progress=told.append)
    assert [str(step) for step in told] == ["1 of 2 words", "2 of 2 words"]
