"""Usages near another word: found by going through the words of every text."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.core.words import is_word, split_words
from bertfeat.errors import UsageError
from bertfeat.usages import find_collocates, find_senses, find_usages, find_usages_by
from tests.support.tiny_models import Tiny

VOCABULARY = ("bank", "Banks", "river", "rivers", "the", "of", "old", ",", ".", "of course", "!")


def random_texts() -> list[dict[str, Any]]:
    """Texts in which usages stand near one another, at the ends, and beside punctuation marks."""
    random = Random(5)
    return [
        {"text": " ".join(random.choices(VOCABULARY, k=random.randrange(1, 16))), "year": 1850 + number % 3}
        for number in range(80)
    ]


@pytest.fixture(scope="module")
def features(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    folder = tmp_path_factory.mktemp("near") / "c.features"
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="word", precision="fp32", device="cpu")
    extractor.extract(memory_corpus(random_texts(), CorpusSettings(keep=("year",))), folder, part_rows=30)
    return FeatureSet(folder)


def words_of(text: str) -> list[tuple[int, str]]:
    """The words of a text, without punctuation marks, and where they begin."""
    spans = split_words(text)
    words = [(int(start), text[start:end].lower()) for start, end in zip(spans.start, spans.end, strict=True)]
    return [(start, word) for start, word in words if is_word(word)]


def ranges(words: Sequence[str], pattern: str) -> list[tuple[int, int]]:
    """Where a pattern of words stands; a star at its end takes all words that begin so."""
    parts, size = pattern.rstrip("*").split(), len(pattern.split())
    found = []
    for at in range(len(words) - size + 1):
        last = words[at + size - 1]
        fits = last.startswith(parts[-1]) if pattern.endswith("*") else last == parts[-1]
        if fits and list(words[at : at + size - 1]) == parts[:-1]:
            found.append((at, at + size))
    return found


def by_hand(word: str, near: str, left: int, right: int) -> list[tuple[int, int]]:
    """The row and the first character of every usage that the other word is near."""
    found = []
    for row, document in enumerate(random_texts()):
        placed = words_of(document["text"])
        words = [each for _, each in placed]
        for begin, end in ranges(words, word):
            others = ranges(words, near)
            before = any(0 <= begin - stop < left for _, stop in others)
            after = any(0 <= start - end < right for start, _ in others)
            if before or after:
                found.append((row, placed[begin][0]))
    return found


@pytest.mark.parametrize(("left", "right"), [(5, 5), (1, 1), (0, 2), (3, 0), (100, 100)])
@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("bank", "river"),
        ("bank", "riv*"),
        ("bank", "bank"),
        ("bank*", "old"),
        ("of course", "river"),
        ("the", "of course"),
    ],
)
def test_they_are_those_that_a_reader_finds(word: str, near: str, left: int, right: int, features: FeatureSet) -> None:
    found = find_usages(features, word, near=near, left=left, right=right, k=1000)
    expected = by_hand(word, near, left, right)
    assert [(usage.row, usage.start) for usage in found.usages] == expected
    assert (found.found, found.near, found.documents) == (len(expected), near, 80)
    assert 0 < len(expected) < find_usages(features, word, k=0).found or left == 100


@pytest.mark.parametrize(("left", "right"), [(5, 5), (1, 0), (0, 2)])
@pytest.mark.parametrize(("word", "near"), [("!", "!"), (",", "!"), ("!", "river"), ("bank", ","), ("the", "the")])
def test_a_usage_is_not_near_itself(word: str, near: str, left: int, right: int, features: FeatureSet) -> None:
    """Also where it is a punctuation mark, or an emoji, which takes up no words between others."""
    expected = []
    for row, document in enumerate(random_texts()):
        text = document["text"]
        spans = split_words(text)
        words = [text[start:end].lower() for start, end in zip(spans.start, spans.end, strict=True)]
        for at in (at for at, each in enumerate(words) if each == word):
            before = [sum(map(is_word, words[other + 1 : at])) for other in range(at) if words[other] == near]
            after = [
                sum(map(is_word, words[at + 1 : other])) for other in range(at + 1, len(words)) if words[other] == near
            ]
            if min(before, default=left) < left or min(after, default=right) < right:
                expected.append((row, int(spans.start[at])))
    found = find_usages(features, word, near=near, left=left, right=right, k=1000)
    assert [(usage.row, usage.start) for usage in found.usages] == expected
    assert (found.found, len(expected) > 0) == (len(expected), True)


def test_five_words_on_each_side_are_near_as_of_collocates(features: FeatureSet) -> None:
    usages = find_usages(features, "bank", near="river", k=1000).usages
    assert [(usage.row, usage.start) for usage in usages] == by_hand("bank", "river", 5, 5)
    collocates = {one.word: one for one in find_collocates(features, "bank", left=2, right=1, least=1, k=99).collocates}
    assert find_usages(features, "bank", near="old", left=2, right=1).found > 0
    assert collocates.keys() & {"old", "river"}


def test_slices_and_senses_count_them_alone(features: FeatureSet) -> None:
    every = by_hand("bank", "the", 2, 2)
    sliced = find_usages_by(features, "bank", "year", "every:1", near="the", left=2, right=2, k=1000)
    assert sliced.near == "the"
    assert sum(one.found for one in sliced.slices) == len(every)
    for one in sliced.slices:
        assert [(usage.row, usage.start) for usage in one.usages] == [
            place for place in every if 1850 + place[0] % 3 == one.slice.first
        ]
    senses = find_senses(features, "bank", 2, near="the", left=2, right=2, k=1000)
    grouped = sorted((usage.row, usage.start) for sense in senses.senses for usage in sense.usages)
    assert (grouped, senses.found, senses.near) == (every, len(every), "the")


def test_likeness_conditions_and_pages_go_with_it(features: FeatureSet) -> None:
    expected = [place for place in by_hand("bank", "river", 5, 5) if place[0] % 3 == 1]
    options: dict[str, Any] = {"near": "river", "where": "year = 1851"}
    nearest = find_usages(features, "bank", like="The *bank* of the river.", k=1000, device="cpu", **options).usages
    assert sorted((usage.row, usage.start) for usage in nearest) == expected
    pages = [find_usages(features, "bank", k=2, page=page, **options).usages for page in (1, 2)]
    assert [(usage.row, usage.start) for page in pages for usage in page] == expected[:4]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"left": 2}, "left=2 says how near a word must stand; name it with near"),
        ({"near": "river", "left": 0, "right": 0}, "left=0 and right=0 leave no word near"),
        ({"near": "river", "left": -1}, "left"),
        ({"near": " "}, "word"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str, features: FeatureSet) -> None:
    with pytest.raises(UsageError, match=message):
        find_usages(features, "bank", **options)
    with pytest.raises(UsageError, match=message):
        find_senses(features, "bank", 2, **options)
