"""Usages and collocates within spans: found by going through every span of every text."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import pytest

from bertfeat.core.corpus import CorpusSettings, memory_corpus
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from bertfeat.core.spans import SpanRule
from bertfeat.core.words import is_word, split_words
from bertfeat.errors import FeatureSetError, UsageError
from bertfeat.usages import Usage, find_collocates, find_senses, find_usages, find_usages_by
from bertfeat.where.collation import dictionary_key
from tests.support.tiny_models import Tiny

VOCABULARY = ("bank", "Bank.", "river", "rivers.", "the", "of", "of course", "!", ",", "old\n\n")
RULES = ("sentences", "paragraphs", "words:4", "words:5:3", "column:places")
ALL = 10**9


def random_texts() -> list[dict[str, Any]]:
    """Pairs of texts with sentences and paragraphs of some words, and places that may lie one in another."""
    random = Random(8)
    records = []
    for number in range(60):
        text, pair = (" ".join(random.choices(VOCABULARY, k=random.randrange(1, 15))) for _ in range(2))
        ends = [sorted(random.sample(range(len(text) + 1), 2)) for _ in range(random.randrange(3))]
        records.append({"text": text, "pair": pair, "year": 1850 + number % 3, "places": json.dumps(ends)})
    return records


@pytest.fixture(scope="module")
def features(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    folder = tmp_path_factory.mktemp("within") / "c.features"
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="word", precision="fp32", device="cpu")
    settings = CorpusSettings(pair_column="pair", keep=("year", "places"))
    extractor.extract(memory_corpus(random_texts(), settings), folder, part_rows=25)
    return FeatureSet(folder)


Range = tuple[int, int]


def spans_of(rule: str) -> Iterator[tuple[int, bool, str, list[Range]]]:
    """The spans of every text, with its row, and whether it is the second one of its pair."""
    for row, record in enumerate(random_texts()):
        for in_pair, text in enumerate((record["text"], record["pair"])):
            listed = None if in_pair else record["places"]
            spans = SpanRule.parse(rule).split(text, listed=listed)
            yield row, bool(in_pair), text, list(zip(spans.start.tolist(), spans.end.tolist(), strict=True))


def words_of(text: str) -> list[tuple[int, int, str]]:
    """The words of a text, without punctuation marks, and where they begin and end."""
    spans = split_words(text)
    words = [(start, end, text[start:end].lower()) for start, end in zip(spans.start.tolist(), spans.end.tolist())]  # noqa: B905
    return [word for word in words if is_word(word[2])]


def ranges(words: Sequence[tuple[int, int, str]], pattern: str) -> list[Range]:
    """The numbers of the words where a pattern stands; a star at its end takes words that begin so."""
    parts = pattern.rstrip("*").split()
    found = []
    for at in range(len(words) - len(parts) + 1):
        strings = [string for _, _, string in words[at : at + len(parts)]]
        fits = strings[-1].startswith(parts[-1]) if pattern.endswith("*") else strings[-1] == parts[-1]
        if fits and strings[:-1] == parts[:-1]:
            found.append((at, at + len(parts)))
    return found


def by_hand(
    rule: str, word: str, near: str | None = None, left: int = ALL, right: int = ALL
) -> dict[tuple[int, bool, int], list[str]]:
    """The row, text and first character of every usage in a span, with all spans that may be its context."""
    found: dict[tuple[int, bool, int], list[str]] = {}
    for row, in_pair, text, spans in spans_of(rule):
        words = words_of(text)
        for begin, end in ranges(words, word):
            others = [(begin, end)] if near is None else ranges(words, near)
            others = [
                (start, stop)
                for start, stop in others
                if near is None or 0 <= begin - stop < left or 0 <= start - end < right
            ]
            held = [
                text[first:last]
                for first, last in spans
                for start, stop in others
                if first <= words[min(begin, start)][0] and words[max(end, stop) - 1][1] <= last
            ]
            if held:
                found[row, in_pair, words[begin][0]] = held
    return found


def check_usages(usages: Sequence[Usage], expected: dict[tuple[int, bool, int], list[str]]) -> None:
    assert [(usage.row, usage.in_pair, usage.start) for usage in usages] == list(expected)
    for usage, contexts in zip(usages, expected.values(), strict=True):
        assert usage.left + usage.word + usage.right in contexts


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("word", ["bank", "ban*", "of course"])
def test_they_are_those_that_a_span_holds_whole(word: str, rule: str, features: FeatureSet) -> None:
    expected = by_hand(rule, word)
    found = find_usages(features, word, spans=rule, k=1000)
    check_usages(found.usages, expected)
    assert (found.found, found.spans, found.documents) == (len(expected), rule, 60)
    for usage, contexts in zip(found.usages, expected.values(), strict=True):
        assert usage.left + usage.word + usage.right == contexts[0]  # of overlapping spans, the first


@pytest.mark.sampled(20)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("left", "right"), [(None, None), (1, 2), (0, 3), (4, 0), (2, None)])
@pytest.mark.parametrize(
    ("word", "near"), [("bank", "river"), ("bank", "riv*"), ("bank", "bank"), ("the", "of course")]
)
def test_the_word_near_them_is_in_the_same_span(
    word: str, near: str, left: int | None, right: int | None, rule: str, features: FeatureSet
) -> None:
    reach = [ALL if words is None else words for words in (left, right)]
    expected = by_hand(rule, word, near, *reach)
    found = find_usages(features, word, spans=rule, near=near, left=left, right=right, k=1000)
    check_usages(found.usages, expected)
    assert found.found == len(expected)


def test_it_finds_fewer_than_texts_and_more_than_five_words(features: FeatureSet) -> None:
    """So the tests above are about something."""
    counts = [
        find_usages(features, "bank", near="river", k=0, **options).found
        for options in ({"spans": "sentences", "left": 5, "right": 5}, {"spans": "paragraphs"}, {"left": ALL})
    ]
    assert 0 < counts[0] < counts[1] < counts[2]


def test_likeness_slices_senses_and_pages_go_with_it(features: FeatureSet) -> None:
    expected = {at: held for at, held in by_hand("sentences", "bank", "river").items() if at[0] % 3 == 1}
    options: dict[str, Any] = {"near": "river", "spans": "sentences", "where": "year = 1851", "k": 1000}
    nearest = find_usages(features, "bank", like="The *bank* of the river.", device="cpu", **options).usages
    check_usages(sorted(nearest, key=lambda usage: (usage.row, usage.in_pair, usage.start)), expected)
    assert sorted((usage.score or 0 for usage in nearest), reverse=True) == [usage.score for usage in nearest]
    one = find_usages_by(features, "bank", "year", "1851,1852", **options).slices[0]
    check_usages(one.usages, expected)
    senses = find_senses(features, "bank", 2, **options)
    grouped = [usage for sense in senses.senses for usage in sense.usages]
    check_usages(sorted(grouped, key=lambda usage: (usage.row, usage.in_pair, usage.start)), expected)
    assert (senses.found, senses.spans) == (len(expected), "sentences")
    pages = [find_usages(features, "bank", **options | {"k": 2, "page": page}).usages for page in (1, 2)]
    check_usages([usage for page in pages for usage in page], dict(list(expected.items())[:4]))


@pytest.mark.parametrize("side", ["left", "right"])
def test_words_beyond_the_span_do_not_sort(side: str, features: FeatureSet) -> None:
    found = find_usages(features, "bank", spans="sentences", sort=side, k=1000).usages

    def beside(usage: Usage) -> list[str]:
        spans = split_words(text := usage.left if side == "left" else usage.right)
        words = [text[start:end].lower() for start, end in zip(spans.start, spans.end, strict=True)]
        return (words[::-1] if side == "left" else words)[:3]

    words = [[dictionary_key(word) for word in beside(usage)] for usage in found]
    assert words == sorted(words)


def test_context_cuts_a_span(features: FeatureSet) -> None:
    whole = find_usages(features, "bank", spans="paragraphs", k=1000).usages
    cut = find_usages(features, "bank", spans="paragraphs", context=7, k=1000).usages
    assert [(usage.left, usage.right) for usage in cut] == [(usage.left[-7:], usage.right[:7]) for usage in whole]
    assert any(len(usage.left) > 7 for usage in whole)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("left", "right"), [(5, 5), (1, 3), (0, 100)])
def test_collocates_stand_in_one_span_with_a_usage(left: int, right: int, rule: str, features: FeatureSet) -> None:
    near: Counter[tuple[str, str]] = Counter()
    free: Counter[str] = Counter()
    usages = 0
    for _, _, text, spans in spans_of(rule):
        words = words_of(text)
        held = [
            (begin, end, first, last)
            for begin, end in ranges(words, "of course")
            for first, last in spans
            if first <= words[begin][0] and words[end - 1][1] <= last
        ]
        usages += len({begin for begin, *_ in held})
        inside = {at for begin, end, *_ in held for at in range(begin, end)}
        for at, (start, stop, word) in enumerate(words):
            ways = [
                min((begin - at, "left") if at < begin else (at - end + 1, "right") for _ in "1")
                for begin, end, first, last in held
                if first <= start and stop <= last and (0 < begin - at <= left or 0 < at - end + 1 <= right)
            ]
            if at not in inside and any(first <= start and stop <= last for first, last in spans):
                free[word] += 1
                if ways:
                    near[word, min(ways)[1]] += 1
    found = find_collocates(features, "of course", left=left, right=right, least=1, k=99, spans=rule)
    assert (found.found, found.near, found.spans) == (usages, sum(near.values()), rule)
    assert found.collocates
    for one in found.collocates:
        assert (one.left, one.right) == (near[one.word, "left"], near[one.word, "right"])
        assert one.expected == pytest.approx(sum(near.values()) * free[one.word] / sum(free.values()), abs=0.006)


def test_every_word_is_compared_in_its_span(features: FeatureSet) -> None:
    options: dict[str, Any] = {"like": "The *bank* of the river.", "k": 10_000, "device": "cpu"}
    found = find_usages(features, "*", spans="words:4", **options)
    every = [
        (row, in_pair, start, {text[first:last] for first, last in spans if first <= start and end <= last})
        for row, in_pair, text, spans in spans_of("words:4")
        for start, end, _ in words_of(text)
    ]
    usages = sorted(found.usages, key=lambda usage: (usage.row, usage.in_pair, usage.start))
    assert found.found == len(every)
    for usage, (row, in_pair, start, contexts) in zip(usages, every, strict=True):
        assert (usage.row, usage.in_pair, usage.start) == (row, in_pair, start)
        assert {usage.left + usage.word + usage.right} == contexts


def test_words_of_a_corpus_in_which_a_sentence_ends(
    tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """They are in no sentence; also where the hit before them makes it look as if all were."""
    folder = tmp_path_factory.mktemp("own") / "c.features"
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="word", precision="fp32", device="cpu")
    words = [["the", "bank", "of York. The", "river"], ["the", "bank"]]
    settings = CorpusSettings(pretokenized=True)
    extractor.extract(memory_corpus(words, settings), folder)
    assert find_usages(folder, "of York. The").found == 1
    assert find_usages(folder, "of York. The", spans="sentences").found == 0
    assert find_usages(folder, "of York. The", spans="paragraphs").found == 1
    near = find_usages(folder, "bank", near="river", spans="sentences")
    assert (near.found, find_usages(folder, "bank", near="river", spans="paragraphs").found) == (0, 1)
    texts = [usage.left + usage.word + usage.right for usage in find_usages(folder, "bank", spans="sentences").usages]
    assert texts == ["the bank of York.", "the bank"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"spans": "sentence"}, "spans='sentence': these spans are unknown; there are: sentences"),
        ({"spans": "words:0"}, "a span needs a word"),
        ({"spans": "column:place"}, "no column 'place' of texts was kept.*did you mean places?"),
        ({"spans": "column:year"}, "no column 'year' of texts was kept"),
        ({"spans": "sentences", "context": -1}, "a context of -1 characters cannot be"),
        ({"spans": "sentences", "left": 2}, "left=2 says how near a word must stand"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str, features: FeatureSet) -> None:
    with pytest.raises(UsageError, match=message):
        find_usages(features, "bank", **options)
    with pytest.raises(UsageError, match=message):
        find_senses(features, "bank", 2, **options)
    if not options.keys() - {"spans"}:
        with pytest.raises(UsageError, match=message):
            find_collocates(features, "bank", **options)


def test_places_outside_a_text_are_named(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("outside") / "c.features"
    extractor = Extractor(tiny("bert").folder, layers="last", pooling="word", precision="fp32", device="cpu")
    records = [{"text": "the bank", "places": "[[4, 8]]"}, {"text": "the bank", "places": "[[4, 9]]"}, {"text": "a"}]
    extractor.extract(memory_corpus(records, CorpusSettings(keep=("places",))), folder)
    with pytest.raises(FeatureSetError, match=r"row 1, column places.*\[4, 9\) is outside the text of 8 characters"):
        find_usages(folder, "bank", spans="column:places")
    assert not find_usages(folder, "a", spans="column:places").usages
