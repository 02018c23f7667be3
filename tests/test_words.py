"""Words and offsets: the original text is sliced with them."""

import unicodedata
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from bertfeat.core.corpus import Document
from bertfeat.core.recipe import Pooling
from bertfeat.core.tokens import tokenize
from bertfeat.core.words import CharSpans, WordList, WordQuery, align_words, locate_words, split_words
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
