"""Long texts, read a section at a time, become the very pieces that a tokenizer makes of them as a whole."""

from collections.abc import Sequence
from copy import copy

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from bertfeat.core.corpus import Document
from bertfeat.core.models import find_model
from bertfeat.core.tokens import TokenSettings, tokenize
from bertfeat.core.tokens.long_texts import SECTION, split_texts
from bertfeat.core.tokens.pieces import TextPieces
from bertfeat.core.tokens.tokenizer import Tokenizer
from tests.support.tiny_models import Tiny

WORDS = (
    "river",
    "bank",
    "unbelievably",
    "don't",
    "e-mail",
    "은행에서",
    "銀行的",
    "Straße",
    "naïve",
    "👩‍👩‍👧",
    "U.S.A.",
    "—",
    "…",
    "x" * 150,
)
SPACES = (" ", "  ", "\t", "\u3000", "", ", ")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(find_model())


class Watched:
    """A tokenizer that notes the longest text that it is given."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer, self.longest, self.characters = tokenizer, 0, 0

    def pieces(self, texts: Sequence[str], *, offsets: bool) -> TextPieces:
        self.longest = max([self.longest, *map(len, texts)])
        self.characters += sum(map(len, texts))
        return self._tokenizer.pieces(texts, offsets=offsets)


def same(one: TextPieces, other: TextPieces) -> bool:
    if one.spans is None or other.spans is None:
        return np.array_equal(one.ids, other.ids) and one.spans is other.spans
    pairs = ((one.ids, other.ids), (one.spans.start, other.spans.start), (one.spans.end, other.spans.end))
    return all(np.array_equal(a, b) for a, b in pairs)


def running_text(draw: np.random.Generator, words: int) -> str:
    return "".join(
        f"{draw.choice(WORDS)}{draw.choice(SPACES, p=(0.8, 0.04, 0.04, 0.04, 0.04, 0.04))}" for _ in range(words)
    )


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), words=st.integers(1, 400), size=st.integers(64, 1500), offsets=st.booleans())
def test_sections_join_to_the_whole(tokenizer: Tokenizer, seed: int, words: int, size: int, offsets: bool) -> None:
    text = running_text(np.random.default_rng(seed), words)
    (whole,) = tokenizer.pieces([text], offsets=offsets)
    (joined,) = split_texts(tokenizer, [text], offsets=offsets, section=size)
    assert same(joined, whole)


@pytest.mark.sampled(5)
def test_every_kind_of_tokenizer(any_tiny: Tiny) -> None:
    tokenizer = Tokenizer(find_model(any_tiny.folder))
    for seed in range(8):
        text = running_text(np.random.default_rng(seed), 300)
        (whole,) = tokenizer.pieces([text], offsets=True)
        (joined,) = split_texts(tokenizer, [text], offsets=True, section=200)
        assert same(joined, whole)


def test_long_and_short_texts_keep_their_order(tokenizer: Tokenizer) -> None:
    texts = ["short", "a river bank " * 50, "", "two words", "은행에서 " * 80]
    for joined, whole in zip(
        split_texts(tokenizer, texts, offsets=True, section=100), tokenizer.pieces(texts, offsets=True), strict=True
    ):
        assert same(joined, whole)


def test_a_long_text_is_given_in_small_pieces(tokenizer: Tokenizer) -> None:
    watched = Watched(tokenizer)
    text = "the river bank, " * 20_000
    (joined,) = split_texts(watched, [text], offsets=False)
    assert same(joined, tokenizer.pieces([text], offsets=False))
    assert watched.longest < 70_000
    assert watched.characters < 1.1 * len(text)


@pytest.mark.parametrize(
    "text", ["x" * 9_000, "bank " * 500 + "x" * 5_000 + " bank" * 500, "\u0301" * 5_000], ids=str.__len__
)
def test_a_word_without_end_is_read_whole(tokenizer: Tokenizer, text: str) -> None:
    watched = Watched(tokenizer)
    (joined,) = split_texts(watched, [text], offsets=True, section=128)
    assert same(joined, tokenizer.pieces([text], offsets=True))
    assert watched.characters < 8 * len(text)  # and not once for each of its sections


ENDLESS = {
    "a": "a",
    "mark": "\u0301",
    "emoji": "\U0001f600",
    "hangul": "한",
    "thai": "ภ",
    "Kanji": "漢",
    "space": " ",
    "!": "!",
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("unit", ENDLESS.values(), ids=ENDLESS.keys())
@pytest.mark.parametrize("around", ["", "the river bank, " * 300], ids=["alone", "within prose"])
def test_an_endless_run_is_read_twice_at_most(tokenizer: Tokenizer, unit: str, around: str) -> None:
    watched = Watched(tokenizer)
    text = around + unit * 60_000 + around
    (joined,) = split_texts(watched, [text], offsets=True, section=1 << 10)
    assert same(joined, tokenizer.pieces([text], offsets=True))
    assert watched.characters < 4.1 * len(text)  # in sections, half of whose characters are shared, and once as a whole


def test_many_texts_are_given_some_at_a_time(tokenizer: Tokenizer) -> None:
    calls: list[int] = []

    class Counting(Watched):
        def pieces(self, texts: Sequence[str], *, offsets: bool) -> TextPieces:
            calls.append(sum(map(len, texts)))
            return super().pieces(texts, offsets=offsets)

    texts = [running_text(np.random.default_rng(seed), seed % 40) for seed in range(120)]
    for joined, whole in zip(
        split_texts(Counting(tokenizer), texts, offsets=True, section=100),
        tokenizer.pieces(texts, offsets=True),
        strict=True,
    ):
        assert same(joined, whole)
    assert len(split_texts(tokenizer, [], offsets=True)) == 0
    assert max(calls) < 16 * 100 + 100 * 16 + 200


@pytest.mark.parametrize("paired", [False, True], ids=["a text", "a pair's second text"])
def test_documents_are_given_in_small_pieces(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, paired: bool
) -> None:
    watched, spied = Watched(tokenizer), copy(tokenizer)
    monkeypatch.setattr(spied, "pieces", watched.pieces)
    long = "the river bank, " * 20_000
    document = Document(0, "1", "a bank", pair=long) if paired else Document(0, "1", long)
    tokenize([document], spied, TokenSettings(max_length=512))
    assert watched.characters > len(long)
    assert watched.longest < 1.1 * SECTION
