"""Words and offsets: the original text is sliced with them."""

import sys
import unicodedata
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from bertfeat.core.corpus import Document
from bertfeat.core.recipe import Pooling
from bertfeat.core.tokens import tokenize
from bertfeat.core.words import (
    CharSpans,
    WordList,
    WordQuery,
    align_each,
    align_words,
    cut_into_blocks,
    locate_words,
    split_each,
    split_words,
)
from tests.support.slow_features import is_space, slow_words
from tests.support.tiny_models import ALL, Tiny

PIECES = (
    "은행에서",
    unicodedata.normalize("NFD", "은행에서 돈"),
    "👩‍👩‍👧",
    "❤️",
    "\ufe0f",
    "🙂🙃",
    "🇰🇷",
    "e\u0301\u0327",
    "\u0301",
    "ﬁ ½ ① Ⅷ",
    "銀行でお金を。",
    "שלום",
    "مَرْحَبًا،",
    "don't",
    "naïve-café",
    "„Straße“",
    "\u0000",
    "\u200b\u200d",
    "\u00ad",
    "\u3000",
    "\u2028",
    "\x1c\x85\xa0",
    " ",
    "\t\n",
    "...",
    "x" * 120,
    "_a_",
    "$5.00",
    "[SEP]",
    "<pad>",
    "</s>",
    "ǅ İ ẞ",
    "क्षि",
    "\ufffd",
    "ᄒ",
    "한ᆫ",
)
MIXED = st.lists(st.sampled_from(PIECES) | st.text(max_size=4) | st.just(" "), max_size=12).map("".join)
TEXTS = MIXED.filter(lambda text: not any(0xD800 <= ord(c) <= 0xDFFF for c in text))


@given(TEXTS)
@settings(max_examples=300)
def test_words_are_runs_between_white_space_and_punctuation(text: str) -> None:
    found = split_words(text)
    assert list(zip(found.start.tolist(), found.end.tolist(), strict=True)) == slow_words(text)


@given(st.lists(TEXTS | st.just("a " * 20_000), max_size=6))
@settings(max_examples=100, deadline=None)
def test_words_of_texts_are_those_of_each(texts: list[str]) -> None:
    found, counts = split_each(texts)
    own = [list(zip(each.start.tolist(), each.end.tolist(), strict=True)) for each in found.cut(counts)]
    assert own == list(map(slow_words, texts))


@pytest.mark.slow
def test_every_character() -> None:
    """Between letters it stays with them, stands alone, or parts them."""
    every = map(chr, range(sys.maxunicode + 1))
    characters = [character for character in every if unicodedata.category(character) not in ("Cs", "Cn")]
    texts = [f"a{character}a" for character in characters]
    found, counts = split_each(texts)
    own = [list(zip(each.start.tolist(), each.end.tolist(), strict=True)) for each in found.cut(counts)]
    assert own == list(map(slow_words, texts))


def test_blocks_hold_every_text_once() -> None:
    texts = ["a" * number for number in (0, 3, 5, 90, 1, 0, 4, 6, 200, 0)]
    blocks = [list(block) for block in cut_into_blocks(texts, 10, 50)]
    assert [text for block in blocks for text in block] == texts
    assert [block for block in blocks if max(map(len, block)) > 50] == [["a" * 90], ["a" * 200]]
    assert max(sum(map(len, block)) for block in blocks if len(block) > 1) <= 20
    assert list(cut_into_blocks([], 10, 50)) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", []),
        ("don't", ["don", "'", "t"]),
        ("7.30 p.m.", ["7", ".", "30", "p", ".", "m", "."]),
        ("은행에서 돈을", ["은행에서", "돈을"]),
        ("$5 a+b", ["$5", "a+b"]),  # symbols are no punctuation
        ("a\u3000b\u00a0c\nd", ["a", "b", "c", "d"]),
        ("snake_case", ["snake", "_", "case"]),
        ("„Straße“…", ["„", "Straße", "“", "…"]),
        ("👩‍👩‍👧 ❤️", ["👩‍👩‍👧", "❤️"]),
        ("銀行。", ["銀行", "。"]),
    ],
)
def test_words_of(text: str, words: list[str]) -> None:
    found = split_words(text)
    assert [text[a:b] for a, b in zip(found.start, found.end, strict=True)] == words


@given(st.lists(st.sampled_from(["", "a", "은행", "\ufe0f", "don't", "two words"]), max_size=8))
def test_given_words_are_found_in_their_text(words: list[str]) -> None:
    found, text = locate_words(words), " ".join(words)
    assert [text[a:b] for a, b in zip(found.start, found.end, strict=True)] == words
    assert all(b == a + 1 for a, b in zip(found.end[:-1], found.start[1:], strict=True))


def test_align() -> None:
    words = CharSpans(np.array([0, 5, 5, 9], np.int32), np.array([4, 5, 8, 10], np.int32))
    pieces = CharSpans(np.array([0, 2, 3, 5, 8], np.int32), np.array([2, 3, 6, 8, 8], np.int32))
    first, stop = align_words(words, pieces)
    assert [list(range(a, b)) for a, b in zip(first, stop, strict=True)] == [[0, 1, 2], [], [2, 3], []]


SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 6)), max_size=8).map(
    lambda spans: CharSpans(*np.array([(at, at + size) for at, size in sorted(spans)], np.int32).reshape(-1, 2).T)
)


@given(st.lists(st.tuples(SPANS, SPANS, st.integers(0, 9)), max_size=6))
def test_texts_are_aligned_as_each_of_them(texts: list[tuple[CharSpans, CharSpans, int]]) -> None:
    """Offsets of pieces in a prompt or a neighbor lie outside of the text."""
    words = [each for each, _, _ in texts]
    pieces = [CharSpans(each.start - np.int32(before), each.end - np.int32(before)) for _, each, before in texts]
    counts = [np.array([len(each) for each in spans], np.int64) for spans in (words, pieces)]
    first, stop = align_each(CharSpans.join(words), counts[0], CharSpans.join(pieces), counts[1])
    shifts = np.cumsum(counts[1]) - counts[1]
    alone = [align_words(*pair) for pair in zip(words, pieces, strict=True)]
    for found, which in ((first, 0), (stop, 1)):
        own = [each[which] + shift for each, shift in zip(alone, shifts, strict=True)]
        assert found.tolist() == [number for numbers in own for number in numbers.tolist()]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("family", ALL)
@given(text=TEXTS)
@example(text="은행에서 돈을 👩‍👩‍👧❤️!")
@example(text=unicodedata.normalize("NFD", "은행에서 찾았다, café"))
@example(text="x" * 500 + " 은행" * 100)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_offsets_slice_the_original_text(family: str, text: str, tiny: Callable[[str], Tiny]) -> None:
    model = tiny(family)
    columns = model.columns("last", Pooling.TOKEN, Pooling.WORD)
    tokenized = tokenize([Document(0, "0", text)], model.tokenizer, model.settings(columns))
    tokens, words = tokenized.tokens, tokenized.words
    assert tokens is not None
    assert words is not None
    assert words.aligned is not None
    spans = list(zip(words.start.tolist(), words.end.tolist(), strict=True))
    assert spans == slow_words(text)
    assert words.strings == [text[a:b] for a, b in spans]
    assert ((tokens.start >= 0) & (tokens.start <= tokens.end) & (tokens.end <= len(text))).all()
    # special tokens have no width and stand at the ends
    assert (tokens.start[0], tokens.end[0], tokens.start[-1], tokens.end[-1]) == (0, 0, len(text), len(text))
    pieces = list(zip(tokens.start[1:-1].tolist(), tokens.end[1:-1].tolist(), strict=True))
    for a, b in pieces:
        if text[a:b] and not all(is_space(c) for c in text[a:b]):  # it lies in a word, or reaches over several
            assert any(a < end and b > start for start, end in spans)
    for (start, end), aligned in zip(spans, words.aligned.tolist(), strict=True):
        assert aligned == any(a < end and b > start for a, b in pieces)


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "modernbert"])
@given(text=TEXTS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_word_is_made_of_the_pieces_of_its_characters(family: str, text: str, tiny: Callable[[str], Tiny]) -> None:
    model = tiny(family)
    (pieces,) = model.tokenizer.pieces([text], offsets=True)
    assert pieces.spans is not None
    words = split_words(text)
    first, stop = align_words(words, pieces.spans)
    for start, end, a, b in zip(words.start, words.end, first, stop, strict=True):
        overlapping = [
            at
            for at, (left, right) in enumerate(zip(pieces.spans.start, pieces.spans.end, strict=True))
            if left < end and right > start
        ]
        # every piece with one of the word's characters, and at most pieces of no width between them
        assert set(overlapping) <= set(range(a, b))
        assert all(
            pieces.spans.start[at] >= start and pieces.spans.end[at] <= end for at in {*range(a, b)} - {*overlapping}
        )
    starts = first[stop > first]
    assert (np.diff(starts) >= 0).all()


def brute_force(entries: list[str], text: str) -> set[int]:
    """The words of the text that an entry chooses: all ranges of words are compared with each entry."""
    spans = split_words(text)
    bounds = list(zip(spans.start.tolist(), spans.end.tolist(), strict=True))
    found = set[int]()
    for entry in entries:
        folded, begins = entry.rstrip("*").casefold(), entry.endswith("*")
        for first in range(len(bounds)):
            for stop in range(first + 1, len(bounds) + 1):
                words = " ".join(text[bounds[first][0] : bounds[stop - 1][1]].casefold().split())
                if words == folded or (begins and words.startswith(folded)):
                    found.update(range(first, stop))
                    break
    return found


@given(
    st.lists(st.sampled_from(["a", "ab", "a*", "b*", "a'b", "a b", "a b*", "'", "ab'a*", "B"]), min_size=1, max_size=4),
    st.text(" abB'", max_size=14),
)
@settings(deadline=None, max_examples=300)
def test_a_list_chooses_what_its_entries_find(entries: list[str], text: str) -> None:
    words = WordList.parse(entries)
    spans = split_words(text)
    assert set(words.places(text, spans).tolist()) == brute_force(entries, text)
    assert WordList(words.entries) == words == WordList.parse([*reversed(words.entries), *words.entries])
    for query in map(WordQuery.parse, entries):
        assert words.covers(query)


@pytest.mark.parametrize(
    ("entries", "word", "covered"),
    [
        (["train*"], "train", True),
        (["train*"], "Trains", True),
        (["train*"], "trainer*", True),
        (["train*"], "tra*", False),
        (["train"], "train*", False),
        (["new", "york"], "New York", True),
        (["new york"], "york", False),
        (["new york"], "New  York", True),
        (["don't"], "don", False),
        (["don", "t"], "don't", False),
        (["don", "'", "t"], "don't", True),
        (["f***"], "f***", True),
        (["f***"], "fort", False),
    ],
)
def test_queries_that_a_list_covers(entries: list[str], word: str, covered: bool) -> None:
    assert WordList.parse(entries).covers(WordQuery.parse(word)) is covered
