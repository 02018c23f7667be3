"""The WordPiece kernel: ids and offsets of ``tokenizers``, whatever the text and the configuration."""

import importlib.util
import logging
import random
import threading
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies
from tokenizers import AddedToken, Tokenizer as FastTokenizer, models, normalizers, pre_tokenizers

from bertfeat.core.tokens import wordpiece
from bertfeat.core.tokens.wordpiece import WordPiece
from tests.support.tiny_tokenizers import SENTENCES

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnoprstuvwé中国.-!#가힣ㄱ", "ᄒ", "ᅡ", "ᆫ"]
PIECES += ["##" + each for each in [*"abcdefghijklmnoprstuvw가ᅡᆫ", "ᄒ", "ing", "ed", "\u0301"]]
PIECES += [
    "the",
    "river",
    "##iver",
    "bank",
    "ban",
    "##k",
    "walk",
    "##",
    "caf",
    "café",
    "Bank",
    "ß",
    "i\u0307",
    "\ufffd",
]
CONFIGURATIONS = list(product([True, False], [None, True, False], [True, False], [5, 100]))
TRICKY = [
    "",
    " ",
    "The river bank. Walking! walked?walk",
    "café cafe\u0301 CAFÉ naïve İstanbul ǅ ΟΔΟΣ ß ﬁ Å \u212b",
    "a\u0301\u0327b a\u0327\u0301 \u0301 \u0301\u0301 x\u0301",
    "ri\x00ver r\x07 \x07r a\u200bb a\u00adb \ufffd \ufeffa \x85 a\x7fb",
    "tab\tline\nreturn\r\u00a0\u2003\u3000end",
    "中国the中 国river 가나다 한국어 힣ㄱ\u1112\u1161\u11ab",
    "a" * 100 + " " + "a" * 101 + " " + "é" * 6 + " 가가가가 " + "\u0301" * 300,
    "[CLS] the [sep] [UNK] [ MASK ] [MASK]s #hash ## ##ing [",
    "🙂 the 👩‍👩‍👧 𝔘 \U0010ffff \ue000 \U000e0041",
    "\u302e\u302f a\u302e\u0301 \u0f71\u0f72 \u1d165",
]


def tokenizer(
    *, lowercase: bool = True, strip_accents: bool | None = None, chinese: bool = True, most: int = 100
) -> FastTokenizer:
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(PIECES))}
    made = FastTokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=most))
    made.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=chinese, strip_accents=strip_accents, lowercase=lowercase
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.add_special_tokens([AddedToken(name, normalized=False) for name in PIECES[:5]])
    return made


def kernel(made: FastTokenizer) -> WordPiece:
    found = WordPiece.of(made)
    if found is None:
        pytest.skip("the kernel was not built: there is no C compiler")
    return found


def assert_same(made: FastTokenizer, texts: Sequence[str], *, of: WordPiece | None = None) -> int:
    """Compare with tokenizers; returns the number of texts that were left to it."""
    own = of or kernel(made)
    (split, left), (plain, left_of_plain) = own.split(texts, offsets=True), own.split(texts, offsets=False)
    assert plain.spans is None
    assert np.array_equal(plain.ids, split.ids)
    assert np.array_equal(plain.counts, split.counts)
    assert np.array_equal(left, left_of_plain)
    encodings = made.encode_batch(list(texts), add_special_tokens=False)
    for at, (text, pieces, encoding) in enumerate(zip(texts, split, encodings, strict=True)):
        if at in left:
            assert len(pieces.ids) == 0
            continue
        assert pieces.spans is not None
        assert pieces.ids.tolist() == encoding.ids, repr(text)
        spans = list(zip(pieces.spans.start.tolist(), pieces.spans.end.tolist(), strict=True))
        assert spans == encoding.offsets, repr(text)
    assert split.counts.sum() == len(split.ids)
    return len(left)


@pytest.mark.parametrize(("lowercase", "strip_accents", "chinese", "most"), CONFIGURATIONS)
def test_tricky_texts_of_each_configuration(
    lowercase: bool, strip_accents: bool | None, chinese: bool, most: int
) -> None:
    made = tokenizer(lowercase=lowercase, strip_accents=strip_accents, chinese=chinese, most=most)
    assert assert_same(made, [*TRICKY, *SENTENCES]) < 6
    assert assert_same(made, TRICKY[2:3]) == 0


RANGES = {
    "ascii": [(0, 0x7F)],
    "latin": [(0x20, 0x7E), (0x80, 0x24F)],
    "marks": [(0x61, 0x7A), (0x300, 0x36F), (0x20, 0x20), (0x1AB0, 0x1AFF), (0xE000, 0xE010)],
    "low": [(0x250, 0x2FFF)],
    "hangul": [(0xAC00, 0xD7A3), (0x1100, 0x11FF), (0x20, 0x20)],
    "chinese": [(0x3000, 0x9FFF), (0xF900, 0xFAFF), (0x20, 0x20), (0x61, 0x7A)],
    "all": [(0, 0xD7FF), (0xE000, 0x10FFFF)],
}


def draw_text(draw: random.Random, ranges: Sequence[tuple[int, int]]) -> str:
    return "".join(chr(draw.randint(*draw.choice(ranges))) for _ in range(draw.randrange(24)))


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize(("lowercase", "strip_accents"), [(True, None), (False, None), (False, True), (True, False)])
def test_random_strings(name: str, lowercase: bool, strip_accents: bool | None) -> None:
    draw = random.Random(name)
    made = tokenizer(lowercase=lowercase, strip_accents=strip_accents)
    texts = [draw_text(draw, RANGES[name]) for _ in range(300)]
    left = assert_same(made, texts)
    assert left == 0 or name in ("low", "all", "marks", "hangul", "chinese")


@pytest.mark.hostile
@pytest.mark.parametrize("name", RANGES)
def test_very_many_random_strings(name: str) -> None:
    draw, made = random.Random(name), tokenizer()
    own = kernel(made)
    for _ in range(30):
        assert_same(made, [draw_text(draw, RANGES[name]) for _ in range(5000)], of=own)


@settings(max_examples=150, deadline=None)
@given(strategies.lists(strategies.text(strategies.characters(exclude_categories=["Cs"]))))
def test_any_texts(texts: list[str]) -> None:
    assert_same(tokenizer(), texts)


def test_a_word_of_a_million_characters() -> None:
    assert assert_same(tokenizer(), ["a" * 1_000_000, "가" * 100_000, "\u0301" * 100_000]) == 0


def test_halves_of_pairs_are_left_to_the_tokenizer() -> None:
    split, left = kernel(tokenizer()).split(["the", "a\ud800", "river"], offsets=False)
    assert (split.counts.tolist(), left.tolist()) == ([1, 0, 1], [1])


def test_no_texts() -> None:
    split, left = kernel(tokenizer()).split([], offsets=True)
    assert (len(split.ids), len(split), len(left)) == (0, 0, 0)


@pytest.mark.parametrize(
    "flags",
    [{}, {"lstrip": True}, {"rstrip": True}, {"single_word": True}, {"normalized": True}, {"normalized": False}],
    ids=str,
)
def test_added_tokens(flags: dict[str, bool]) -> None:
    made = tokenizer()
    made.add_tokens([AddedToken(name, **flags) for name in ("RiverBank", "Émile", "the mill")])
    texts = [
        "riverbank",
        "RiverBank",
        "the RiverBanks",
        "émile",
        "Emile Émile",
        "e mile",
        "the mill",
        "the m",
        "x  the mill y",
    ]
    left = assert_same(made, texts)
    assert left > 0
    assert kernel(made).split(["a walk", "b"], offsets=False)[0].counts.tolist() == [2, 1]


def test_threads_at_once() -> None:
    """Each meets characters that are not known yet, while others read what is known."""
    made, problems = tokenizer(), list[BaseException]()
    own = kernel(made)

    def work(seed: int) -> None:
        draw = random.Random(seed)
        try:
            for _ in range(20):
                assert_same(made, [draw_text(draw, RANGES["hangul"]) for _ in range(50)], of=own)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert problems == []


def _without_clean_text(made: FastTokenizer) -> None:
    made.normalizer = normalizers.BertNormalizer(clean_text=False)


def _with_a_step_before(made: FastTokenizer) -> None:
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.BertNormalizer()])


def _with_another_splitter(made: FastTokenizer) -> None:
    made.pre_tokenizer = pre_tokenizers.Whitespace()


def _with_another_prefix(made: FastTokenizer) -> None:
    made.model = models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]", continuing_subword_prefix="@@")


def _without_an_unknown_piece(made: FastTokenizer) -> None:
    made.model = models.WordPiece({"a": 1}, unk_token="[UNK]")


def _of_another_kind(made: FastTokenizer) -> None:
    made.model = models.WordLevel({"[UNK]": 0}, unk_token="[UNK]")


@pytest.mark.parametrize(
    "change",
    [
        _without_clean_text,
        _with_a_step_before,
        _with_another_splitter,
        _with_another_prefix,
        _without_an_unknown_piece,
        _of_another_kind,
    ],
)
def test_what_it_does_not_know_it_declines(change: Callable[[FastTokenizer], None]) -> None:
    made = tokenizer()
    change(made)
    assert WordPiece.of(made) is None


def test_without_the_library_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert wordpiece._load_library.__wrapped__() is None
    monkeypatch.setattr(wordpiece, "_load_library", lambda: None)
    assert WordPiece.of(tokenizer()) is None


def test_a_library_that_is_damaged_or_of_other_sources(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kernel(tokenizer())
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(wordpiece, "_VERSION", 999)
        assert wordpiece._load_library.__wrapped__() is None
    assert "was built from other sources, so tokenizers is used instead" in caplog.text
    damaged = tmp_path / "_wordpiece.so"
    damaged.write_bytes(b"no library")
    spec: Any = importlib.util.spec_from_file_location("_wordpiece", damaged)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with caplog.at_level(logging.WARNING):
        assert wordpiece._load_library.__wrapped__() is None
    assert "_wordpiece.so cannot be loaded" in caplog.text
