"""Collocates: counted by going through every word, and scored as SciPy scores a table."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from scipy.stats import chi2_contingency

from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.core.words import is_word, split_words
from bertfeat.errors import FeatureSetError, UsageError
from bertfeat.usages import Collocates, find_collocates
from tests.support.tiny_models import Tiny

VOCABULARY = ("bank", "Bank", "river", "the", "of", "money", "old", "mill", ",", ".", "of course")


def random_texts(seed: int = 3) -> list[dict[str, Any]]:
    """Texts of few words, so that usages stand near one another, at the ends, and beside punctuation marks."""
    random = Random(seed)
    return [
        {"text": " ".join(random.choices(VOCABULARY, k=random.randrange(1, 14))), "year": 1850 + number}
        for number in range(60)
    ]


@pytest.fixture(scope="module")
def made(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    """A set with one vector a text: collocates need no vectors of words."""
    folder = tmp_path_factory.mktemp("collocates") / "c.features"
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="mean", precision="fp32", device="cpu")
    extractor.extract(memory_corpus(random_texts(), CorpusSettings(keep=("year",))), folder, part_rows=20)
    return FeatureSet(folder)


def words_of(text: str) -> list[str]:
    spans = split_words(text)
    words = [text[start:end].lower() for start, end in zip(spans.start, spans.end, strict=True)]
    return [word for word in words if is_word(word)]


def by_hand(
    texts: Sequence[str], node: Sequence[str], left: int, right: int
) -> tuple[Counter[str], Counter[str], Counter[str]]:
    """Words on the left and the right of the nearest usage, and all words that are in no usage."""
    near: dict[str, Counter[str]] = {"left": Counter(), "right": Counter()}
    free: Counter[str] = Counter()
    for text in texts:
        words = words_of(text)
        starts = [at for at in range(len(words)) if words[at : at + len(node)] == list(node)]
        inside = {at + more for at in starts for more in range(len(node))}
        for at, word in enumerate(words):
            if at in inside:
                continue
            free[word] += 1
            ways = [(start - at, "left") for start in starts if 0 < start - at <= left]
            ways += [
                (at - start - len(node) + 1, "right") for start in starts if 0 < at - start - len(node) + 1 <= right
            ]
            if ways:
                near[min(ways)[1]][word] += 1
    return near["left"], near["right"], free


@pytest.mark.parametrize(("left", "right"), [(5, 5), (1, 1), (0, 3), (2, 0), (100, 100)])
@pytest.mark.parametrize("word", ["bank", "of course", "the"])
def test_they_are_those_of_counting(word: str, left: int, right: int, made: FeatureSet) -> None:
    texts = [document["text"] for document in random_texts()]
    found = find_collocates(made, word, left=left, right=right, least=1, k=99)
    lefts, rights, free = by_hand(texts, word.split(), left, right)
    all_near, all_free = sum(lefts.values()) + sum(rights.values()), sum(free.values())
    every = Counter(each for text in texts for each in words_of(text))
    assert (found.words, found.near, found.documents) == (sum(every.values()), all_near, len(texts))
    expected = {}
    for each in lefts | rights:
        near = lefts[each] + rights[each]
        by_chance = all_near * free[each] / all_free
        if near > by_chance:
            table = [[near, all_near - near], [free[each] - near, all_free - all_near - free[each] + near]]
            score = (
                chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic
                if all_near < all_free
                else 0
            )
            dice = 14 + math.log2(2 * near / (found.found + every[each]))
            expected[each] = (
                lefts[each],
                rights[each],
                round(by_chance, 2),
                every[each],
                round(score, 2),
                round(dice, 2),
            )
    got = {
        one.word: (one.left, one.right, one.expected, one.found, one.log_likelihood, one.log_dice)
        for one in found.collocates
    }
    assert got.keys() == expected.keys()
    for each, values in expected.items():
        assert got[each] == pytest.approx(values, abs=0.011), each


def test_the_strongest_come_first_and_rare_ones_are_left_out(made: FeatureSet) -> None:
    for measure, field in (("log-likelihood", "log_likelihood"), ("log-dice", "log_dice")):
        found = find_collocates(made, "bank", measure=measure, least=1, k=99).collocates
        scores = [getattr(one, field) for one in found]
        assert scores == sorted(scores, reverse=True)
        assert find_collocates(made, "bank", measure=measure, least=1, k=2).collocates == found[:2]
        most = max(one.near for one in found)
        assert {one.near for one in find_collocates(made, "bank", measure=measure, least=most).collocates} == {most}


def test_only_documents_that_meet_a_condition_count(made: FeatureSet) -> None:
    """As a set of these documents alone would have them."""
    some = [document["text"] for document in random_texts() if document["year"] < 1880]
    found = find_collocates(made, "bank", where="year < 1880", least=1, k=99)
    lefts, rights, free = by_hand(some, ["bank"], 5, 5)
    assert (found.documents, found.words) == (len(some), sum(map(len, map(words_of, some))))
    assert {one.word: one.near for one in found.collocates}.items() <= (lefts + rights).items()
    assert found.collocates
    assert all(one.found == free[one.word] for one in found.collocates)


def test_beginnings_and_words_that_are_nowhere(made: FeatureSet) -> None:
    assert find_collocates(made, "ban*") == Collocates("ban*", *astuple_but_word(find_collocates(made, "bank")))
    nowhere = find_collocates(made, "zebra")
    assert (nowhere.found, nowhere.near, nowhere.collocates) == (0, 0, ())


def astuple_but_word(found: Collocates) -> tuple[Any, ...]:
    return (found.documents, found.words, found.found, found.near, found.left, found.right, found.collocates)


def test_pairs_are_two_texts(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="mean", precision="fp32", device="cpu")
    extractor.extract(memory_corpus([("the bank", "river old"), ("old mill", "the bank")]), tmp_path / "p.features")
    found = find_collocates(tmp_path / "p.features", "bank", least=1)
    assert [(one.word, one.left, one.right) for one in found.collocates] == [("the", 2, 0)]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"left": 0, "right": 0}, "leave no word near"),
        ({"left": -1}, "at least 0"),
        ({"least": 0}, "at least 1"),
        ({"k": 0}, "at least 1"),
        ({"measure": "mutual"}, "must be one of 'log-likelihood', 'log-dice'"),
        ({"where": "yaer > 3"}, "no column 'yaer'"),
    ],
)
def test_what_cannot_be(options: dict[str, Any], problem: str, made: FeatureSet) -> None:
    with pytest.raises(UsageError, match=problem):
        find_collocates(made, "bank", **options)


def test_a_set_without_texts(tiny: Callable[[str], Tiny], tmp_path: Path) -> None:
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="word", precision="fp32", device="cpu")
    extractor.extract(memory_corpus(["a bank"]), tmp_path / "n.features", keep_text=False)
    with pytest.raises(FeatureSetError, match="no words to look for"):
        find_collocates(tmp_path / "n.features", "bank")
