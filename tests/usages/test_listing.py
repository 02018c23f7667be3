"""Lists of usages: sorted as Python sorts contexts and columns, drawn at random, in pages."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.core.words import split_words
from bertfeat.errors import UsageError
from bertfeat.search import build_index
from bertfeat.usages import Usage, find_usages, find_usages_by
from tests.support.tiny_models import Tiny

DOCUMENTS: list[dict[str, Any]] = [
    {"text": "The old bank was closed.", "year": 1901, "name": "b", "share": 0.5},
    {"text": "bank, and bank of the river", "year": 1899, "name": None, "share": float("nan")},
    {"text": "An OLD bank; the new bank and money", "year": None, "name": "a", "share": -1.0},
    {"text": "bank", "year": 1850, "name": "b", "share": None},
    {"text": "his Old bank was open. Our bank Was open", "year": 1901, "name": "É", "share": 2.0},
    {"text": "no money", "year": 1902, "name": "c", "share": 0.0},
]


@pytest.fixture(scope="module")
def features(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    """Eight usages of bank in small parts, with columns of each kind."""
    folder = tmp_path_factory.mktemp("listing") / "c.features"
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="word", precision="fp32", device="cpu")
    corpus = memory_corpus(DOCUMENTS, CorpusSettings(keep=("year", "name", "share")))
    extractor.extract(corpus, folder, part_rows=2)
    return FeatureSet(folder)


def neighbors(usage: Usage, side: str) -> list[str]:
    """The three words beside a usage, the nearest first."""
    context = usage.left if side == "left" else usage.right
    spans = split_words(context)
    words = [context[start:end].lower() for start, end in zip(spans.start, spans.end, strict=True)]
    return (words[::-1] if side == "left" else words)[:3]


def places(usages: Sequence[Usage]) -> list[tuple[int, int]]:
    return [(usage.row, usage.start) for usage in usages]


@pytest.mark.parametrize("side", ["left", "right"])
def test_sorted_by_the_words_beside_it(side: str, features: FeatureSet) -> None:
    every = find_usages(features, "bank", k=99).usages
    found = find_usages(features, "bank", k=99, sort=side).usages
    assert places(found) == places(sorted(every, key=lambda usage: neighbors(usage, side)))
    assert len({tuple(neighbors(usage, side)) for usage in found}) > 4


@pytest.mark.parametrize("column", ["year", "name", "share"])
def test_sorted_by_a_column(column: str, features: FeatureSet) -> None:
    """Documents without a value come last; those of one value stay in the order of the corpus."""

    def key(usage: Usage) -> tuple[bool, Any]:
        value = usage.values[column]
        missing = value is None or value != value
        return missing, 0 if missing else value

    every = find_usages(features, "bank", k=99).usages
    assert places(find_usages(features, "bank", k=99, sort=column).usages) == places(sorted(every, key=key))


@pytest.mark.parametrize(
    "options", [{}, {"sort": "right"}, {"like": "a *bank*"}, {"one_per_document": True}, {"sample": 5}]
)
def test_pages_together_are_the_whole_list(options: dict[str, Any], features: FeatureSet) -> None:
    whole = find_usages(features, "bank", k=99, **options).usages
    pages = [find_usages(features, "bank", k=2, page=page, **options).usages for page in range(1, 6)]
    assert [place for page in pages for place in places(page)] == places(whole)
    assert [len(page) for page in pages][:2] == [2, 2]


def test_pages_of_slices(features: FeatureSet) -> None:
    whole = find_usages_by(features, "bank", "year", "1850-1899,1900-1902", k=99)
    second = find_usages_by(features, "bank", "year", "1850-1899,1900-1902", k=2, page=2)
    assert [places(one.usages) for one in second.slices] == [places(one.usages[2:4]) for one in whole.slices]
    assert [one.found for one in second.slices] == [3, 3]


def test_a_sample_is_drawn_from_all(features: FeatureSet) -> None:
    every = places(find_usages(features, "bank", k=99).usages)
    drawn = find_usages(features, "bank", k=99, sample=4)
    assert places(drawn.usages) == places(find_usages(features, "bank", k=99, sample=4).usages)
    assert drawn.found == len(every) == 8
    assert len(drawn.usages) == 4
    assert places(drawn.usages) == sorted(set(places(drawn.usages)) & set(every))
    assert places(drawn.usages) != every[:4]
    near = find_usages(features, "bank", k=99, sample=4, like="a *bank*")
    assert sorted(places(near.usages)) == places(drawn.usages)
    assert places(find_usages(features, "bank", k=99, sample=8).usages) == every


def test_frequencies_of_slices_are_those_of_counting(features: FeatureSet) -> None:
    found = find_usages_by(features, "bank", "year", "1850-1899,1900-1902", where="year != 1902")
    words = [6 + 1, 5 + 9]
    assert [one.words for one in found.slices] == words
    assert [one.per_million for one in found.slices] == [round(1e6 * 3 / number, 2) for number in words]


def test_pages_of_an_index(features: FeatureSet, tmp_path: Path) -> None:
    index = tmp_path / "c.index"
    build_index(features.folder, index)
    whole = find_usages(index, "*", like="a *bank*", k=9).usages
    pages = [find_usages(index, "*", like="a *bank*", k=3, page=page).usages for page in (1, 2, 3)]
    assert [place for page in pages for place in places(page)] == places(whole)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"page": 0}, "at least 1"),
        ({"sample": 0}, "at least 1"),
        ({"sort": "lefft"}, "did you mean left.*there are: left, right, year, name, share"),
        ({"sort": "left", "like": "a *bank*"}, "sorts usages by likeness"),
    ],
)
def test_what_cannot_be(options: dict[str, Any], problem: str, features: FeatureSet) -> None:
    with pytest.raises(UsageError, match=problem):
        find_usages(features, "bank", **options)
    with pytest.raises(UsageError, match=problem):
        find_usages_by(features, "bank", "year", **options)
