"""Recipes and poolings of whole documents against slow sums over Hugging Face's hidden states."""

from collections.abc import Callable, Collection, Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bertfeat.core.corpus import Document
from bertfeat.core.derivation import derive
from bertfeat.core.encoder import HiddenState, Precision
from bertfeat.core.extraction.compute import compute_features
from bertfeat.core.grammar import parse_recipes
from bertfeat.core.recipe import Place, Pooling
from bertfeat.core.tokens import LongTextPolicy, Subword, TokenBatch, tokenize
from bertfeat.errors import BertfeatError
from tests.support.slow_features import SlowText, slow_text, slow_words
from tests.support.tiny_models import CPU, LONG_TEXT, PAIRS, TEXTS, Tiny, documents, given

Floats = NDArray[np.floating]
LAYERS = "all,sum4,mean4,concat4,sum-all,mean=0+3,concat=0+2+5,-2"
EVERY = (Pooling.MEAN, Pooling.CLS, Pooling.LAST, Pooling.MAX, Pooling.TOKEN, Pooling.WORD)
SLOW: dict[Pooling, Callable[[Floats], Floats]] = {
    Pooling.MEAN: lambda mix: mix.mean(axis=0),
    Pooling.CLS: lambda mix: mix[0],
    Pooling.LAST: lambda mix: mix[-1],
    Pooling.MAX: lambda mix: mix.max(axis=0),
    Pooling.TOKEN: lambda mix: mix,
}
BOUND = 3e-5
SUMMED = 1e-4  # up to five layers added


def check(tiny: Tiny, rows: list[Document], max_length: int | None = None, subword: Subword = Subword.FIRST) -> None:
    """Every recipe under every pooling against the slow way."""
    length = max_length or tiny.model.max_tokens
    found = tiny.features(rows, LAYERS, *EVERY, batch_tokens=100, subword=subword, max_length=length)
    for at, row in enumerate(rows):
        slow = slow_text(tiny, row.text, row.pair, max_length)
        for column in found.columns:
            mix = slow.layer_mix(column.recipe)
            bound = SUMMED if column.recipe.operation == "sum" else BOUND
            got = found.of(column, at)
            wanted = words_of(row, slow, mix, subword) if column.pooling is Pooling.WORD else SLOW[column.pooling](mix)
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=0, atol=bound, err_msg=f"{column.name} of {row.text!r}")


def words_of(row: Document, slow: SlowText, mix: Floats, subword: Subword) -> Floats:
    texts = [row.text] if row.pair is None else [row.text, row.pair]
    vectors = [
        slow.word(mix, span, subword, segment) for segment, text in enumerate(texts) for span in slow_words(text)
    ]
    return np.array(vectors, np.float32).reshape(-1, mix.shape[1])


def test_texts(any_tiny: Tiny) -> None:
    check(any_tiny, documents(TEXTS))


@pytest.mark.parametrize("subword", list(Subword))
def test_subwords(bert: Tiny, subword: Subword) -> None:
    check(bert, documents(TEXTS), subword=subword)


@pytest.mark.sampled(4)
def test_pairs(any_tiny: Tiny) -> None:
    check(any_tiny, documents(PAIRS))


@pytest.mark.sampled(2)
def test_windows_each_fed_alone(packed_tiny: Tiny) -> None:
    check(packed_tiny, documents([LONG_TEXT, "short"]), subword=Subword.MEAN)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("subword", list(Subword))
def test_words_that_span_windows(bert: Tiny, subword: Subword) -> None:
    check(bert, documents([LONG_TEXT[::-1]]), 9, subword)


def test_windows_on_padded_batches(tiny: Callable[[str], Tiny]) -> None:
    check(tiny("modernbert"), documents([LONG_TEXT, "short"]), 33)
    check(tiny("albert"), documents([LONG_TEXT, "short"]), 20)


@pytest.mark.sampled(3)
def test_pairs_window_their_second_text(any_tiny: Tiny) -> None:
    check(any_tiny, documents([("The bank.", LONG_TEXT), ("a", "b")]), subword=Subword.MEAN)


def test_windows_of_few_tokens(bert: Tiny) -> None:
    check(bert, documents(["The river and the bank and the mill", *TEXTS]), 3, Subword.MEAN)


def test_one_word_over_many_windows(bert: Tiny) -> None:
    text = "x" * 100 + "은" * 150  # longer than a word of WordPiece may be: one unknown token
    check(bert, documents([text, "_".join("ab" * 90)]), subword=Subword.MEAN)
    columns = bert.features(documents([text]), "last", Pooling.WORD)
    assert columns.tokenized.words is not None
    assert len(columns.tokenized.words) == 1


def test_one_word_of_bytes_over_many_windows(tiny: Callable[[str], Tiny]) -> None:
    found = tiny("roberta").features(documents(["é" * 300]), "last", Pooling.TOKEN, Pooling.WORD, subword=Subword.MEAN)
    assert len(found.tokenized.layout.window_offsets) > 4
    np.testing.assert_allclose(found["last_word"][0], found["last_token"][1:-1].mean(axis=0), rtol=0, atol=BOUND)


@pytest.mark.sampled(4)
def test_without_special_tokens(any_tiny: Tiny) -> None:
    rows = documents([*TEXTS, LONG_TEXT])
    found = any_tiny.features(rows, "last", *EVERY, special_tokens=False)
    for at, row in enumerate(rows):
        slow = slow_text(any_tiny, row.text)
        mix = slow.hidden[-1][~np.array(slow.special)]
        np.testing.assert_allclose(found.tokens("last_token", at), mix, rtol=0, atol=BOUND)
        np.testing.assert_allclose(found["last_cls"][at], slow.hidden[-1][0], rtol=0, atol=BOUND)
        if len(mix):
            np.testing.assert_allclose(found["last_mean"][at], mix.mean(axis=0), rtol=0, atol=BOUND)
            np.testing.assert_allclose(found["last_max"][at], mix.max(axis=0), rtol=0, atol=BOUND)
        else:
            assert not found["last_mean"][at].any()
            assert not found["last_max"][at].any()


def test_nothing_but_an_empty_text_without_special_tokens(bert: Tiny) -> None:
    found = bert.features(documents([""]), "last,sum4", *EVERY, special_tokens=False)
    assert not found["last_mean"].any()
    assert not found["sum4_max"].any()
    assert found["last_token"].shape == found["sum4_word"].shape == (0, 32)


def test_no_documents(bert: Tiny) -> None:
    found = bert.features([], LAYERS, *EVERY)
    assert found["layer5_cls"].shape == (0, 32)
    assert found["concat4_word"].shape == (0, 128)


def test_all_documents_rejected(bert: Tiny) -> None:
    found = bert.features(documents([LONG_TEXT, LONG_TEXT]), "last", *EVERY, long=LongTextPolicy.ERROR)
    assert sorted(found.tokenized.rejected) == [0, 1]
    assert found["last_mean"].shape == (2, 32)
    assert found["last_word"].shape == (0, 32)


def test_a_maximum_of_a_sum_is_taken_over_summed_tokens(bert: Tiny) -> None:
    rows = documents([LONG_TEXT])
    found = bert.features(rows, "sum4,all", Pooling.MAX)
    singles = sum(found[f"layer{layer}_max"] for layer in range(2, 6))
    assert np.abs(found["sum4_max"] - singles).max() > 0.1
    wanted = slow_text(bert, LONG_TEXT).hidden[2:].sum(axis=0).max(axis=0)
    np.testing.assert_allclose(found["sum4_max"][0], wanted, rtol=0, atol=SUMMED)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("layers", ["last", "concat4", "sum=1+5", "mean4", "cls"])
def test_cls_of_the_deepest_layer_costs_one_token(packed_tiny: Tiny, layers: str) -> None:
    rows = documents([*TEXTS, *PAIRS, LONG_TEXT])
    poolings = () if layers == "cls" else (Pooling.CLS,)
    quick = packed_tiny.features(rows, layers, *poolings)
    full = packed_tiny.features(rows, f"{layers},last", *poolings, Pooling.MEAN)
    for column in quick.columns:
        np.testing.assert_allclose(quick[column.name], full[column.name], rtol=0, atol=1e-5)


def test_cls_of_the_deepest_layer_beside_means_of_others(packed_tiny: Tiny) -> None:
    rows = documents([*TEXTS, LONG_TEXT])
    mixed = packed_tiny.columns("cls", Pooling.MEAN) + packed_tiny.columns("2,sum=1+4", Pooling.MEAN, Pooling.MAX)
    tokenized = tokenize(rows, packed_tiny.tokenizer, packed_tiny.settings())
    quick = compute_features(packed_tiny.encoder, tokenized, mixed, batch_tokens=80).matrices
    full = packed_tiny.features(rows, "last,2,sum=1+4", Pooling.CLS, Pooling.MEAN, Pooling.MAX)
    for name, matrix in quick.items():
        np.testing.assert_allclose(matrix, full[name], rtol=0, atol=1e-5)


@pytest.mark.sampled(3)
def test_batches_change_nothing(any_tiny: Tiny) -> None:
    rows = documents([*TEXTS, *PAIRS, LONG_TEXT, ("a bank", LONG_TEXT)])
    one = any_tiny.features(rows, "last,sum4", *EVERY)
    for batch_tokens in (1, 70, 100_000):
        other = any_tiny.features(rows, "last,sum4", *EVERY, batch_tokens=batch_tokens)
        for column in one.columns:
            bound = 1e-5 if column.pooling.per_document and column.recipe.name == "last" else SUMMED
            np.testing.assert_allclose(one[column.name], other[column.name], rtol=0, atol=bound, err_msg=column.name)


def test_the_order_of_documents_changes_nothing(bert: Tiny) -> None:
    rows = documents([*TEXTS, LONG_TEXT])
    forth, back = bert.features(rows, "last", Pooling.MEAN), bert.features(rows[::-1], "last", Pooling.MEAN)
    np.testing.assert_allclose(forth["last_mean"], back["last_mean"][::-1], rtol=0, atol=1e-5)


def test_float16_is_float32_rounded(bert: Tiny) -> None:
    rows = documents(TEXTS)
    exact = bert.features(rows, "last,concat4,sum4", *EVERY)
    rounded = bert.features(rows, "last,concat4,sum4", *EVERY, dtype="float16")
    for column in rounded.columns:
        matrix = rounded[column.name]
        assert matrix.dtype == np.dtype("float32" if column.pooling.per_document else "float16")
        np.testing.assert_array_equal(matrix, exact[column.name].astype(matrix.dtype), err_msg=column.name)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_bf16_alone_and_in_company(family: str, tiny: Callable[[str], Tiny]) -> None:
    half = Tiny.load(tiny(family).folder, Precision.BF16)
    rows = documents([*TEXTS, *PAIRS])
    together = half.features(rows, "last", Pooling.MEAN, Pooling.CLS, Pooling.MAX)
    for at, row in enumerate(rows):
        alone = half.features([row], "last", Pooling.MEAN, Pooling.CLS, Pooling.MAX)
        for column in alone.columns:
            a, b = alone[column.name][0], together[column.name][at]
            assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) >= 0.9999


def test_given_words_have_their_pieces_vectors(bert: Tiny) -> None:
    row = given("The", "", "bank's", "\ufe0f", "walks")
    found = bert.features([row], "last", Pooling.TOKEN, Pooling.WORD)
    assert found.tokenized.words is not None
    assert found.tokenized.words.aligned is not None
    assert found.tokenized.words.aligned.tolist() == [True, False, True, False, True]
    slow = slow_text(bert, row.text)
    spans = [(0, 3), (4, 4), (5, 11), (12, 13), (14, 19)]
    for vector, span in zip(found["last_word"], spans, strict=True):
        np.testing.assert_allclose(vector, slow.word(slow.hidden[-1], span, "first"), rtol=0, atol=BOUND)


# ── derived from what is stored ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pooling", [pooling for pooling in Pooling if pooling.linear])
@pytest.mark.parametrize("stored", ["concat-all,embeddings", "all", "concat=0..2,concat=2..5"])
def test_derived_equals_computed(bert: Tiny, pooling: Pooling, stored: str) -> None:
    rows = documents([*TEXTS, LONG_TEXT])
    wanted = bert.features(rows, LAYERS, pooling)
    found = bert.features(rows, stored, pooling)
    for column in wanted.columns:
        derivation = derive(column.recipe, pooling, found.columns)
        derived = derivation.apply({name: found[name] for name in derivation.columns})
        np.testing.assert_allclose(derived, wanted[column.name], rtol=0, atol=SUMMED, err_msg=column.name)


def test_under_max_single_layers_and_concatenations_are_derived(bert: Tiny) -> None:
    rows = documents([*TEXTS, LONG_TEXT])
    wanted = bert.features(rows, "all,concat=1+3,concat4", Pooling.MAX)
    found = bert.features(rows, "concat-all,embeddings", Pooling.MAX)
    for column in wanted.columns:
        derivation = derive(column.recipe, Pooling.MAX, found.columns)
        derived = derivation.apply({name: found[name] for name in derivation.columns})
        np.testing.assert_allclose(derived, wanted[column.name], rtol=0, atol=1e-6)


def test_learned_weights(bert: Tiny) -> None:
    rows = documents(TEXTS)
    found = bert.features(rows, "concat4", Pooling.MEAN)
    (recipe,) = parse_recipes("sum4", 5)
    derivation = derive(recipe, Pooling.MEAN, found.columns, weights=[0.5, -1.0, 2.0, 0.25])
    singles = bert.features(rows, "2,3,4,5", Pooling.MEAN)
    wanted = sum(w * singles[f"layer{layer}_mean"] for layer, w in zip(range(2, 6), [0.5, -1, 2, 0.25], strict=True))
    np.testing.assert_allclose(derivation.apply({"concat4_mean": found["concat4_mean"]}), wanted, rtol=0, atol=SUMMED)


# ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────


class Tight:
    """An encoder whose memory holds only so many tokens; it fails in the middle of its layers."""

    def __init__(self, tiny: Tiny, most: int, error: Exception) -> None:
        self._encoder, self._most, self._error = tiny.encoder, most, error
        self.num_layers, self.hidden_size = tiny.encoder.num_layers, tiny.encoder.hidden_size
        self.precision, self.device, self.padded = tiny.encoder.precision, CPU, tiny.encoder.padded
        self.path = tiny.encoder.path

    def hidden_states(
        self, batch: TokenBatch, places: Collection[Place], *, first_token_only: bool = False
    ) -> Iterator[HiddenState]:
        for number, state in enumerate(self._encoder.hidden_states(batch, places, first_token_only=first_token_only)):
            if number == 1 and len(batch.ids) > self._most:
                raise self._error
            yield state


OUT_OF_MEMORY = (
    torch.OutOfMemoryError("CUDA out of memory"),
    RuntimeError(
        "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: not enough memory: you tried to allocate 9 bytes."
    ),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes. Error code 12"),
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=["cuda", "cpu", "cpu-linux"])
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_batches_are_split_where_memory_runs_out(family: str, error: Exception, tiny: Callable[[str], Tiny]) -> None:
    model = tiny(family)
    rows = documents([*TEXTS, LONG_TEXT])
    columns = model.columns("0,3,sum4", *EVERY)
    tokenized = tokenize(rows, model.tokenizer, model.settings(columns))
    full = compute_features(model.encoder, tokenized, columns, batch_tokens=300)
    told: list[int] = []
    tight = Tight(model, 130, error)
    split = compute_features(
        tight, tokenized, columns, batch_tokens=300, on_batch=lambda tokens, _: told.append(tokens)
    )
    assert full.split_batches == 0
    assert split.split_batches > 0
    assert sum(told) == len(tokenized.layout.ids)
    for column in columns:
        bound = SUMMED if column.recipe.operation == "sum" else BOUND
        np.testing.assert_allclose(
            split.matrices[column.name], full.matrices[column.name], rtol=0, atol=bound, err_msg=column.name
        )


@pytest.mark.parametrize("tight", [False, True], ids=["", "split"])
def test_results_that_land_after_the_next_batch_are_the_same(
    bert: Tiny, tight: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU; windows of one document lie in several batches."""
    columns = bert.columns("0,3,sum4", *EVERY)
    tokenized = tokenize(documents([*TEXTS, LONG_TEXT] * 3), bert.tokenizer, bert.settings(columns))
    model = Tight(bert, 130, OUT_OF_MEMORY[0]) if tight else bert.encoder
    at_once = compute_features(model, tokenized, columns, batch_tokens=200)
    monkeypatch.setattr("bertfeat.core.extraction.compute.BATCHES_BEHIND", {"cpu": 1})
    behind = compute_features(model, tokenized, columns, batch_tokens=200)
    assert (at_once.split_batches > 0) is tight
    for column in columns:
        assert np.array_equal(behind.matrices[column.name], at_once.matrices[column.name]), column.name


def test_one_window_that_memory_cannot_hold(bert: Tiny) -> None:
    columns = bert.columns("all", Pooling.MEAN)
    tokenized = tokenize(documents(TEXTS), bert.tokenizer, bert.settings(columns))
    with pytest.raises(BertfeatError, match=r"one window of \d+ tokens; lower max_length"):
        compute_features(Tight(bert, 4, OUT_OF_MEMORY[0]), tokenized, columns, batch_tokens=300)


def test_other_errors_are_not_taken_for_a_lack_of_memory(bert: Tiny) -> None:
    columns = bert.columns("all", Pooling.MEAN)
    tokenized = tokenize(documents(TEXTS), bert.tokenizer, bert.settings(columns))
    with pytest.raises(RuntimeError, match="shape mismatch"):
        compute_features(Tight(bert, 4, RuntimeError("shape mismatch")), tokenized, columns, batch_tokens=300)


def test_padding_is_counted(tiny: Callable[[str], Tiny]) -> None:
    rows = documents(["a", "The bank of the river."])

    def padding(model: Tiny) -> tuple[int, int]:
        """The padding that is told, and that of a batch of both."""
        told: list[int] = []
        tokenized, columns = tokenize(rows, model.tokenizer, model.settings()), model.columns("last", Pooling.MEAN)
        compute_features(
            model.encoder, tokenized, columns, batch_tokens=300, on_batch=lambda _, padding: told.append(padding)
        )
        first, second = np.diff(tokenized.layout.window_offsets).tolist()
        return sum(told), abs(second - first)

    told, expected = padding(tiny("deberta-v2"))
    assert told == expected > 0
    assert padding(tiny("bert"))[0] == 0
