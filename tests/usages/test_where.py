"""Usages with the kept columns of their documents, and of those documents only that meet a condition."""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.errors import NotDerivableError, UsageError
from bertfeat.search import BuildOptions, Index, build_index, remove_documents
from bertfeat.usages import Usage, find_senses, find_usages
from tests.support.tiny_models import Tiny

RECORDS: list[dict[str, Any]] = [
    {"text": "the bank of the river", "year": 1850, "author": "Doyle", "score": 0.5},
    {"text": "a bank for money, a bank", "year": None, "author": "Eliot", "score": None},
    {"text": "nothing", "year": 1860, "author": "Doyle", "score": 1.5},
    {"text": "the bank", "year": 1900, "author": None, "score": 2.5},
    {"text": "river bank", "year": 1901, "author": "Dickens", "score": 3.5},
    {"text": "money in the bank", "year": 1920, "author": "Woolf", "score": 4.5},
]
LIKE = "on the bank of a river"
MARKED = "on the *bank* of a river"
KEPT = ("year", "author", "score")
CONDITIONS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "year > 1850": lambda r: r["year"] is not None and r["year"] > 1850,
    "not (year > 1850)": lambda r: r["year"] is not None and r["year"] <= 1850,
    "author like 'D%' or year is null": lambda r: (r["author"] or "").startswith("D") or r["year"] is None,
    "text contains 'money' and n_tokens > 1": lambda r: "money" in r["text"],
    "row between 1 and 4": lambda r: 1 <= RECORDS.index(r) <= 4,
    "year = 1": lambda r: False,
}


@pytest.fixture
def features(tiny: Callable[[str], Tiny], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FeatureSet:
    from bertfeat.core.corpus import memory_corpus

    monkeypatch.setattr("bertfeat.core.features.part.ROW_GROUP_BYTES", 2000)
    extractor = Extractor(tiny("bert").folder, layers="concat4", pooling="word", precision="fp32", device="cpu")
    corpus = memory_corpus(RECORDS, CorpusSettings(keep=KEPT))
    extractor.extract(corpus, tmp_path / "words.features", part_rows=3)
    return FeatureSet(tmp_path / "words.features")


def of_rows(usages: Sequence[Usage], where: str) -> list[Usage]:
    return [usage for usage in usages if CONDITIONS[where](RECORDS[usage.row])]


def check_same_usages(usages: Sequence[Usage], expected: Sequence[Usage]) -> None:
    """The same usages in the same order; of scores that differ by less than 1e-5 the order may differ too.

    A product of matrices of another size may give other last digits.
    """
    if all(usage.score is None for usage in expected):
        assert list(usages) == list(expected)
        return
    assert sorted(map(place_of, usages)) == sorted(map(place_of, expected))
    twins = {place_of(usage): usage for usage in expected}
    for usage, of_this_rank in zip(usages, expected, strict=True):
        twin = twins[place_of(usage)]
        assert usage.score is not None
        assert [twin.score, of_this_rank.score] == pytest.approx([usage.score] * 2, abs=1e-5)
        assert dataclasses.replace(usage, score=twin.score) == twin


def place_of(usage: Usage) -> tuple[int, bool, int, int]:
    return usage.row, usage.in_pair, usage.start, usage.end


def test_a_usage_brings_the_kept_values_of_its_document(features: FeatureSet) -> None:
    for found in (find_usages(features, "bank"), find_usages(features, "bank", like=LIKE, k=99)):
        assert [usage.values for usage in found.usages] == [
            {name: RECORDS[usage.row][name] for name in KEPT} for usage in found.usages
        ]
    (sense, _) = find_senses(features, "bank", 2).senses
    assert sense.usages[0].values == {name: RECORDS[sense.usages[0].row][name] for name in KEPT}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("where", CONDITIONS)
def test_only_documents_that_meet_the_condition_are_searched(where: str, features: FeatureSet) -> None:
    documents = sum(map(CONDITIONS[where], RECORDS))
    asked: list[dict[str, Any]] = [{}, {"like": LIKE}, {"like": MARKED}, {"one_per_document": True}]
    for options in asked:
        word = "*" if options.get("like") == MARKED else "bank"
        every = find_usages(features, word, k=99, **options)
        found = find_usages(features, word, k=99, where=where, **options)
        check_same_usages(found.usages, of_rows(every.usages, where))
        assert found.documents == documents
        if "one_per_document" not in options:
            assert found.found == len(found.usages)


def test_senses_are_of_those_documents(features: FeatureSet) -> None:
    found = find_senses(features, "bank", 2, where="year > 1850", k=99)
    rows = sorted(usage.row for sense in found.senses for usage in sense.usages)
    assert rows == [3, 4, 5]
    assert (found.documents, found.found, found.grouped) == (4, 3, 3)


def test_vectors_are_read_only_of_documents_that_meet_it(features: FeatureSet, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[int]] = []
    stream_rows = FeatureSet.stream_rows

    def spy(self: FeatureSet, rows: Collection[int], names: Sequence[str]) -> Any:
        read.append(sorted(rows))
        return stream_rows(self, rows, names)

    monkeypatch.setattr(FeatureSet, "stream_rows", spy)
    find_usages(features, "bank", like=LIKE, where="year = 1901")
    assert read == [[4], [4]]  # first the vectors, then the contexts that are shown


@pytest.mark.sampled(4)
@pytest.mark.parametrize("where", [None, *(where for where in CONDITIONS if "n_tokens" not in where)])
@pytest.mark.parametrize("removed", [(), ("2",)])
def test_an_index_finds_what_a_scan_finds(
    where: str | None, removed: Sequence[str], features: FeatureSet, tmp_path: Path
) -> None:
    build_index(features.folder, tmp_path / "words.index", options=BuildOptions(type="hnsw", evaluate=False))
    remove_documents(tmp_path / "words.index", removed)
    by_scan = find_usages(features, "*", like=MARKED, k=99, where=where)
    by_index = find_usages(Index(tmp_path / "words.index"), "*", like=MARKED, k=99, where=where)
    assert in_order(by_index.usages) == in_order([usage for usage in by_scan.usages if usage.id not in removed])
    left = [r for r in RECORDS if (where is None or CONDITIONS[where](r)) and str(RECORDS.index(r) + 1) not in removed]
    assert by_index.documents == len(left)
    assert by_index.found == sum(len(record["text"].replace(",", " ,").split()) for record in left)


def in_order(usages: Sequence[Usage]) -> list[tuple[Any, ...]]:
    return sorted((usage.row, usage.start, usage.word, list(usage.values.items())) for usage in usages)


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("yaer > 3", r"no column 'yaer'; there are: row, id, text, year, author, score, n_tokens"),
        ("concat4_word > 3", "no column 'concat4_word'"),
        ("year = 'x'", "year holds whole numbers"),
        ("", "the condition is empty"),
    ],
)
def test_conditions_that_do_not_fit(where: str, problem: str, features: FeatureSet, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=problem):
        find_usages(features, "bank", where=where)
    with pytest.raises(UsageError, match=problem):
        find_senses(features, "bank", 2, where=where)
    build_index(features.folder, tmp_path / "words.index")
    with pytest.raises(UsageError, match=problem.partition(";")[0]):
        find_usages(tmp_path / "words.index", "*", like=MARKED, where=where)


def test_a_condition_is_read_before_the_model_is_opened(features: FeatureSet) -> None:
    with pytest.raises(UsageError, match="no column 'yaer'"):
        find_usages(features, "bank", like=LIKE, where="yaer > 3", model="nowhere")
    with pytest.raises(NotDerivableError):
        find_usages(features, "bank", like=LIKE, column="0", model="nowhere")
