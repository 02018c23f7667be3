"""Prompts, neighboring sentences, cuts, pairs and given words: what is read, kept and counted."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from transformers import AutoTokenizer

from bertfeat.core.corpus import Document
from bertfeat.core.recipe import Pooling
from bertfeat.core.tokens import LongTextPolicy, TokenizedDocuments, tokenize
from tests.support.slow_features import slow_text, slow_words
from tests.support.tiny_models import (
    LONG_TEXT,
    TEXTS,
    Tiny,
    documents,
    given,
    reference_ids,
    reference_states,
    text_states,
)

PROMPT = "query: "
LEFT = LongTextPolicy.TRUNCATE_LEFT
EVERY = (Pooling.MEAN, Pooling.CLS, Pooling.MAX, Pooling.TOKEN, Pooling.WORD)


def tokens_of(tokenized: TokenizedDocuments, at: int = 0) -> list[str]:
    assert tokenized.tokens is not None
    return tokenized.tokens.strings[tokenized.tokens.offsets[at] : tokenized.tokens.offsets[at + 1]]


def tokenized_by(tiny: Tiny, *rows: Document, **settings: object) -> TokenizedDocuments:
    return tokenize(rows, tiny.tokenizer, tiny.settings(tiny.columns("last", *EVERY), **settings))


# ── plain texts, which are laid out all at once ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize("long", list(LongTextPolicy))
@pytest.mark.parametrize("max_length", [16, 64])
def test_plain_texts_are_laid_out_as_one_by_one(any_tiny: Tiny, long: LongTextPolicy, max_length: int) -> None:
    """A text after another one, as its neighbor, has them laid out one by one."""
    rows = documents([LONG_TEXT, "", *TEXTS, LONG_TEXT[:90], " ", LONG_TEXT])
    rows[2] = replace(given("the", "", "river  bank", "."), row=2, id="2")
    together = tokenized_by(any_tiny, *rows, max_length=max_length, long=long)
    last = Document(len(rows), "last", "river", before="The bank.")
    alone = tokenized_by(any_tiny, *rows, last, max_length=max_length, long=long)
    assert together.rejected == alone.rejected
    for name in ("n_tokens", "n_unknown", "n_truncated"):
        np.testing.assert_array_equal(getattr(together, name), getattr(alone, name)[:-1], err_msg=name)
    for name in ("ids", "types", "window_offsets"):
        own, other = getattr(together.layout, name), getattr(alone.layout, name)
        np.testing.assert_array_equal(own, other[: len(own)], err_msg=name)
    for name in ("first_tokens", "last_tokens", "pooled", "tokens", "words"):
        own, other = getattr(together.layout, name), getattr(alone.layout, name)
        size = own.size if name in ("tokens", "words") else len(rows)
        assert own.size == size < other.size
        np.testing.assert_array_equal(own.tokens, other.tokens[other.targets < size], err_msg=name)
        np.testing.assert_array_equal(own.targets, other.targets[other.targets < size], err_msg=name)
    for name in ("tokens", "words"):
        own, other = getattr(together, name), getattr(alone, name)
        np.testing.assert_array_equal(own.offsets, other.offsets[:-1], err_msg=name)
        for values in ("strings", "start", "end", "segment", *(["aligned"] if name == "words" else [])):
            np.testing.assert_array_equal(
                getattr(own, values), getattr(other, values)[: len(own)], err_msg=f"{values} of {name}"
            )


@pytest.mark.parametrize("poolings", [(Pooling.MEAN,), (Pooling.MEAN, Pooling.TOKEN)])
def test_no_documents_at_all(bert: Tiny, poolings: tuple[Pooling, ...]) -> None:
    found = tokenize((), bert.tokenizer, bert.settings(bert.columns("last", *poolings)))
    assert (len(found.layout.ids), found.layout.window_offsets.tolist(), found.rejected) == (0, [0], {})


# ── prompts ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_prompt_counts_for_documents_and_not_for_tokens_and_words(any_tiny: Tiny) -> None:
    rows = documents([text for text in TEXTS if text])
    found = any_tiny.features(rows, "last", *EVERY, prompt=PROMPT)
    for at, row in enumerate(rows):
        slow = slow_text(any_tiny, PROMPT + row.text)
        mix = slow.hidden[-1]
        lead = len(PROMPT)
        own = [special or span[1] > lead for special, span in zip(slow.special, slow.spans, strict=True)]
        np.testing.assert_allclose(found["last_mean"][at], mix.mean(axis=0), rtol=0, atol=3e-5)
        np.testing.assert_allclose(found["last_max"][at], mix.max(axis=0), rtol=0, atol=3e-5)
        np.testing.assert_allclose(found["last_cls"][at], mix[0], rtol=0, atol=3e-5)
        np.testing.assert_allclose(found.tokens("last_token", at), mix[own], rtol=0, atol=3e-5)
        words = [slow.word(mix, (a + lead, b + lead), "first") for a, b in slow_words(row.text)]
        np.testing.assert_allclose(found.words("last_word", at), words, rtol=0, atol=3e-5)
        assert found.tokenized.n_tokens[at] == len(mix)
    listing = found.tokenized.tokens
    assert listing is not None
    assert (listing.start >= 0).all()


def test_a_prompt_of_a_long_text_stands_in_the_first_window(bert: Tiny) -> None:
    found = bert.features(documents([LONG_TEXT]), "last", *EVERY, prompt=PROMPT)
    slow = slow_text(bert, PROMPT + LONG_TEXT)
    np.testing.assert_allclose(found["last_mean"][0], slow.hidden[-1].mean(axis=0), rtol=0, atol=3e-5)


def test_offsets_of_a_piece_that_reaches_from_the_prompt_into_the_text(tiny: Callable[[str], Tiny]) -> None:
    roberta = tiny("roberta")
    found = tokenized_by(roberta, Document(0, "0", "river"), prompt="the b")  # "briver": pieces may straddle
    assert found.tokens is not None
    assert (found.tokens.start >= 0).all()
    assert (found.tokens.end <= 5).all()
    assert found.words is not None
    assert found.words.strings == ["river"]


# ── neighboring sentences ──────────────────────────────────────────────────────────────────────────────────


def test_neighboring_sentences_are_read_and_count_nowhere(any_tiny: Tiny) -> None:
    before, text, after = "He went to the bank.", "They didn't lend him any.", "The water ran fast."
    row = Document(0, "0", text, before=before, after=after)
    found = any_tiny.features([row], "last", *EVERY)
    slow = slow_text(any_tiny, f"{before} {text} {after}")
    mix, lead = slow.hidden[-1], len(before) + 1
    own = [
        special or (span[1] > lead and span[0] < lead + len(text))
        for special, span in zip(slow.special, slow.spans, strict=True)
    ]
    np.testing.assert_allclose(found["last_token"], mix[own], rtol=0, atol=3e-5)
    np.testing.assert_allclose(found["last_mean"][0], mix[own].mean(axis=0), rtol=0, atol=3e-5)
    np.testing.assert_allclose(found["last_max"][0], mix[own].max(axis=0), rtol=0, atol=3e-5)
    words = [slow.word(mix, (a + lead, b + lead), "first") for a, b in slow_words(text)]
    np.testing.assert_allclose(found["last_word"], words, rtol=0, atol=3e-5)
    assert found.tokenized.n_tokens.tolist() == [sum(own)]
    assert found.tokenized.n_truncated.tolist() == [0]


def test_a_prompt_counts_beside_neighbors_that_do_not(bert: Tiny) -> None:
    before, text, after = "He went to the bank.", "They went.", "The water ran fast."
    row = Document(0, "0", text, before=before, after=after)
    found = bert.features([row], "last", *EVERY, prompt=PROMPT)
    slow = slow_text(bert, f"{PROMPT}{before} {text} {after}")
    lead = len(PROMPT) + len(before) + 1
    counted = [
        special or b <= len(PROMPT) or (b > lead and a < lead + len(text))
        for special, (a, b) in zip(slow.special, slow.spans, strict=True)
    ]
    assert 0 < sum(counted) < len(counted)
    np.testing.assert_allclose(found["last_mean"][0], slow.hidden[-1][counted].mean(axis=0), rtol=0, atol=3e-5)
    assert found.tokenized.n_tokens.tolist() == [sum(counted)]


def test_as_much_of_the_neighbors_is_read_as_there_is_room_for(bert: Tiny) -> None:
    row = Document(0, "0", "The bank.", before=LONG_TEXT, after=LONG_TEXT)
    layout = tokenized_by(bert, row).layout
    assert np.diff(layout.window_offsets).tolist() == [bert.model.max_tokens]
    (own,) = bert.tokenizer.pieces(["The bank."], offsets=False)
    at = [i for i in range(len(layout.ids)) if layout.ids[i : i + len(own.ids)].tolist() == own.ids.tolist()]
    assert any(abs(len(layout.ids) // 2 - i) <= len(own.ids) for i in at)  # in the middle


def test_a_text_that_fills_the_model_alone_drops_its_neighbors(bert: Tiny) -> None:
    alone, beside = Document(0, "0", LONG_TEXT), Document(0, "0", LONG_TEXT, before="a b", after="c")
    one, other = tokenized_by(bert, alone).layout, tokenized_by(bert, beside).layout
    np.testing.assert_array_equal(one.ids, other.ids)
    np.testing.assert_array_equal(one.window_offsets, other.window_offsets)


# ── cuts ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("length", [3, 8, 20, 64])
def test_truncation_is_counted(any_tiny: Tiny, length: int) -> None:
    if length < any_tiny.tokenizer.pair.size + 1:
        pytest.skip("no room for a pair's special tokens")
    rows = [*documents(TEXTS), *documents([("The bank of the river.", LONG_TEXT), (LONG_TEXT, "The bank.")])]
    found = tokenized_by(any_tiny, *rows, max_length=length, long=LongTextPolicy.TRUNCATE)
    lengths = np.diff(found.layout.window_offsets)
    for at, row in enumerate(rows):
        ids, _ = reference_ids(any_tiny.folder, row.text, row.pair)
        assert lengths[at] == found.n_tokens[at] == min(length, len(ids))
        assert found.n_truncated[at] == max(0, len(ids) - length)


def test_a_truncated_text_is_its_first_tokens(bert: Tiny) -> None:
    found = bert.features(documents([LONG_TEXT]), "last", Pooling.TOKEN, max_length=20, long=LongTextPolicy.TRUNCATE)
    ids, types = reference_ids(bert.folder, LONG_TEXT)
    assert found.tokenized.layout.ids.tolist() == [*ids[:19], ids[-1]]
    assert types[0] == 0


def test_words_cut_off_keep_their_place_as_zeros(bert: Tiny) -> None:
    found = bert.features(documents([LONG_TEXT]), "last", Pooling.WORD, max_length=20, long=LongTextPolicy.TRUNCATE)
    words = found.tokenized.words
    assert words is not None
    assert words.aligned is not None
    assert len(words) == len(slow_words(LONG_TEXT))
    number = int(words.aligned.sum())
    assert words.aligned.tolist() == [True] * number + [False] * (len(words) - number)
    assert (np.abs(found["last_word"]).sum(axis=1) > 0).tolist() == words.aligned.tolist()


def test_a_word_of_which_a_piece_is_cut_off_is_not_aligned(bert: Tiny) -> None:
    (pieces,) = bert.tokenizer.pieces(["unbelievablewalking"], offsets=False)
    assert len(pieces.ids) > 2
    found = tokenized_by(bert, Document(0, "0", "unbelievablewalking"), max_length=4, long=LongTextPolicy.TRUNCATE)
    assert found.words is not None
    assert found.words.aligned is not None
    assert found.words.aligned.tolist() == [False]


def left_cut(tiny: Tiny, length: int, text: str, pair: str | None = None) -> list[int]:
    """The ids that Hugging Face's own tokenizer gives when it cuts the beginning of the last text."""
    tokenizer = AutoTokenizer.from_pretrained(tiny.folder, truncation_side="left")
    ids = tokenizer(text, pair, max_length=length, truncation="only_second" if pair else True)["input_ids"]
    return list(ids)


@pytest.mark.parametrize("poolings", [(Pooling.MEAN,), EVERY])
def test_the_beginning_is_cut_off_as_by_hugging_face(any_tiny: Tiny, poolings: tuple[Pooling, ...]) -> None:
    texts = [LONG_TEXT, "The bank.", LONG_TEXT[40:300]]
    settings = any_tiny.settings(any_tiny.columns("last", *poolings), max_length=20, long=LEFT)
    found = tokenize(documents(texts), any_tiny.tokenizer, settings)
    expected = [left_cut(any_tiny, 20, text) for text in texts]
    assert found.layout.ids.tolist() == [id_ for ids in expected for id_ in ids]
    whole = [len(reference_ids(any_tiny.folder, text)[0]) for text in texts]
    assert found.n_truncated.tolist() == [count - len(ids) for count, ids in zip(whole, expected, strict=True)]


def test_the_beginning_of_a_pairs_second_text_is_cut_off(any_tiny: Tiny) -> None:
    (row,) = documents([("The bank of the river.", LONG_TEXT)])
    found = tokenized_by(any_tiny, row, max_length=30, long=LEFT)
    assert found.layout.ids.tolist() == left_cut(any_tiny, 30, row.text, row.pair)
    (row,) = documents([(LONG_TEXT, "The bank.")])
    only_first = tokenized_by(any_tiny, row, max_length=12, long=LEFT)
    template, (pieces,) = any_tiny.tokenizer.pair, any_tiny.tokenizer.pieces([LONG_TEXT], offsets=False)
    expected = [*template.before, *pieces.ids[template.size - 12 :].tolist(), *template.between, *template.after]
    assert only_first.layout.ids.tolist() == expected


def test_words_before_a_cut_keep_their_place_as_zeros(bert: Tiny) -> None:
    found = bert.features(documents([LONG_TEXT]), "last", Pooling.WORD, max_length=20, long=LEFT)
    words = found.tokenized.words
    assert words is not None
    assert words.aligned is not None
    assert words.strings == [LONG_TEXT[start:end] for start, end in slow_words(LONG_TEXT)]
    number = int(words.aligned.sum())
    assert words.aligned.tolist() == [False] * (len(words) - number) + [True] * number
    ids = left_cut(bert, 20, LONG_TEXT)
    hidden = reference_states(bert.folder, ids, [0] * len(ids))[-1]
    (last,) = bert.tokenizer.pieces([words.strings[-1]], offsets=False)
    np.testing.assert_allclose(found["last_word"][-1], hidden[-1 - len(last.ids)], rtol=0, atol=3e-5)
    assert (np.abs(found["last_word"]).sum(axis=1) > 0).tolist() == words.aligned.tolist()


def test_a_word_whose_beginning_is_cut_off_is_not_aligned(bert: Tiny) -> None:
    found = tokenized_by(bert, Document(0, "0", "unbelievablewalking"), max_length=4, long=LEFT)
    assert found.words is not None
    assert found.words.aligned is not None
    assert found.words.aligned.tolist() == [False]


def test_a_prompt_is_never_cut_off(any_tiny: Tiny) -> None:
    rows = documents([LONG_TEXT, "short", (LONG_TEXT, "short"), ("short", LONG_TEXT)])
    found = tokenized_by(any_tiny, *rows, max_length=24, long=LEFT, prompt=PROMPT)
    assert sorted(found.rejected) == [0, 2]
    assert "to cut off its beginning would cut off its prompt; use --long window" in found.rejected[0]


def test_words_with_left_context_after_a_cut(bert: Tiny) -> None:
    whole = tokenized_by(bert, *documents([LONG_TEXT]), context="left:3", max_length=64, long=LEFT)
    cut = tokenized_by(bert, *documents([LONG_TEXT]), context="left:3", max_length=20, long=LEFT)
    for found in (whole, cut):
        assert found.words is not None
        assert found.words.aligned is not None
    assert cut.layout.words is not None
    aligned = int(cut.words.aligned.sum())  # type: ignore[union-attr]
    windows = np.split(cut.layout.ids, cut.layout.window_offsets[1:-1])
    others = np.split(whole.layout.ids, whole.layout.window_offsets[1:-1])
    assert 3 < aligned < len(slow_words(LONG_TEXT))
    assert [ids.tolist() for ids in windows[-aligned + 4 :]] == [ids.tolist() for ids in others[-aligned + 4 :]]


def test_a_truncated_pair_keeps_its_first_text(bert: Tiny) -> None:
    first, _ = reference_ids(bert.folder, "The bank of the river.")
    second, _ = reference_ids(bert.folder, LONG_TEXT)
    row = documents([("The bank of the river.", LONG_TEXT)])[0]
    found = tokenized_by(bert, row, max_length=30, long=LongTextPolicy.TRUNCATE)
    assert found.layout.ids.tolist() == [*first, *second[1 : 30 - len(first)], second[-1]]
    assert found.layout.types.tolist() == [0] * len(first) + [1] * (30 - len(first))


def test_error_rejects_what_is_too_long(any_tiny: Tiny) -> None:
    rows = documents(["short", LONG_TEXT, ("short", "short"), ("short", LONG_TEXT)])
    found = tokenized_by(any_tiny, *rows, long=LongTextPolicy.ERROR)
    assert sorted(found.rejected) == [1, 3]
    count = len(reference_ids(any_tiny.folder, LONG_TEXT)[0])
    assert f"{count} tokens and the model reads {any_tiny.model.max_tokens}" in found.rejected[1]
    assert "--long window" in found.rejected[1]
    assert found.n_tokens[1] == found.n_tokens[3] == 0
    assert len(found.layout.window_offsets) == 3
    assert tokens_of(found, 1) == []


def test_a_pair_whose_first_text_leaves_no_room(bert: Tiny) -> None:
    rows = documents([(LONG_TEXT, "The bank."), ("The bank.", LONG_TEXT), (LONG_TEXT, LONG_TEXT)])
    found = bert.features(rows, "last", *EVERY)
    assert sorted(found.tokenized.rejected) == [0, 2]
    assert "leaves no room" in found.tokenized.rejected[0]
    assert "swap the two" in found.tokenized.rejected[0]
    assert not found["last_mean"][0].any()
    np.testing.assert_allclose(
        found["last_mean"][1], slow_text(bert, "The bank.", LONG_TEXT).hidden[-1].mean(axis=0), rtol=0, atol=3e-5
    )


def test_rejected_documents_leave_their_neighbors_alone(bert: Tiny) -> None:
    rows = documents([LONG_TEXT, "The bank.", LONG_TEXT, "A river."])
    found = bert.features(rows, "last", *EVERY, long=LongTextPolicy.ERROR)
    for at in (1, 3):
        wanted = text_states(bert.folder, rows[at].text)[-1]
        np.testing.assert_allclose(found.tokens("last_token", at), wanted, rtol=0, atol=3e-5)
        np.testing.assert_allclose(found["last_cls"][at], wanted[0], rtol=0, atol=3e-5)
    assert found.words("last_word", 0).shape == (0, 32)


# ── counts and listings ─────────────────────────────────────────────────────────────────────────────────────


def test_tokens_are_listed_as_the_tokenizer_names_them(any_tiny: Tiny) -> None:
    rows = documents([*TEXTS, ("The bank", "a river"), LONG_TEXT])
    found = tokenized_by(any_tiny, *rows)
    for at, row in enumerate(rows):
        ids, _ = reference_ids(any_tiny.folder, row.text, row.pair)
        assert [any_tiny.tokenizer.strings(np.array(ids, np.int32))] == [tokens_of(found, at)]
        assert found.n_tokens[at] == len(ids)


def test_unknown_tokens_are_counted(bert: Tiny) -> None:
    found = tokenized_by(bert, *documents(["the ※ river ☃ ☃", "the river", "[UNK]"]))
    assert found.n_unknown.tolist() == [3, 0, 1]


def test_segments_of_pairs(any_tiny: Tiny) -> None:
    found = tokenized_by(any_tiny, *documents([("The bank.", "a river, a mill"), ("", "x"), ("x", "")]))
    assert found.words is not None
    assert found.tokens is not None
    assert found.words.strings[:8] == ["The", "bank", ".", "a", "river", ",", "a", "mill"]
    assert found.words.segment.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 1, 0]
    assert found.tokens.segment[0] == 0
    assert found.tokens.segment[found.tokens.offsets[1] - 1] == 1
    assert (np.diff(found.tokens.segment[: found.tokens.offsets[1]].astype(int)) >= 0).all()


def test_given_words_of_every_family(any_tiny: Tiny) -> None:
    row = given("The", "", "banks", "don't", "은행", "")
    found = tokenized_by(any_tiny, row)
    assert found.words is not None
    assert found.words.aligned is not None
    assert found.words.strings == list(row.words or ())
    assert found.words.aligned.tolist() == [True, False, True, True, True, False]
    assert [row.text[a:b] for a, b in zip(found.words.start, found.words.end, strict=True)] == list(row.words or ())


def test_no_given_words_at_all(bert: Tiny) -> None:
    found = bert.features([given(), given("")], "last", *EVERY)
    assert found.tokenized.words is not None
    assert found.tokenized.words.offsets.tolist() == [0, 0, 1]
    assert found["last_word"].tolist() == [[0.0] * 32]


@pytest.mark.parametrize("text", ["river ", " river", "  river  ", " ", "\n"])
def test_white_space_at_the_edges_stays_with_its_text(text: str, any_tiny: Tiny) -> None:
    plain, prompted = (
        tokenized_by(any_tiny, Document(0, "0", text)),
        tokenized_by(any_tiny, Document(0, "0", text), prompt="query:"),
    )
    lead = len(any_tiny.tokenizer.pieces(["query:"], offsets=False).ids)
    ids, _ = reference_ids(any_tiny.folder, "query:" + text)
    assert prompted.n_tokens.tolist() == [len(ids)]
    assert len(tokens_of(prompted)) == len(ids) - lead
    assert plain.tokens is not None
