"""The stack of blocks in one call.

In bfloat16, on AMX (emulated where there is none) and AVX512-BF16, and in float32, on AVX-512 and AVX2, against
float64; of integers against the blocks one by one, which test_int8.py holds against exact integers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from bertfeat.core.encoder import Precision
from bertfeat.core.encoder.kernels import Kernels
from bertfeat.core.encoder.packed import PackedEncoder
from bertfeat.core.encoder.stack import EmbeddingTables, FloatBlocks, Stack, TokenRows, float_stack
from bertfeat.core.encoder.weights import Affine, BlockWeights
from bertfeat.core.models import find_model
from bertfeat.core.recipe import outputs_of
from bertfeat.core.tokens import TokenBatch
from tests.encoder.support import (
    ACTIVATIONS,
    BF16,
    FP32,
    HALF_STEP,
    KINDS,
    block_weights,
    held_to,
    post_attention_in_float64,
    random,
)
from tests.support.tiny_models import CPU

BLOCKS = 3


class Form(NamedTuple):
    """Kernels, and the values that they are tried with."""

    kernels: Kernels
    dtype: torch.dtype


@pytest.fixture(params=KINDS)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Form:
    return Form(held_to(request.param, monkeypatch), BF16 if request.param in ("amx", "bf16") else FP32)


def reference(
    embedded: Tensor, lengths: Sequence[int], weights: BlockWeights, heads: int, activation: str = "gelu"
) -> list[Tensor]:
    """Every layer in float64, text by text."""
    joined = weights.query_key_value
    states = [embedded.double()]
    for _ in range(BLOCKS):
        contexts = []
        for text in torch.split(states[-1], list(lengths)):
            query, key, value = (text @ joined.weight.double().T + joined.bias.double()).chunk(3, 1)
            parts = [part.reshape(len(text), heads, -1).transpose(0, 1) for part in (query, key, value)]
            shares = torch.softmax(parts[0] @ parts[1].transpose(1, 2) * parts[0].shape[-1] ** -0.5, -1)
            contexts.append((shares @ parts[2]).transpose(0, 1).flatten(1))
        states.append(post_attention_in_float64(weights, torch.cat(contexts), states[-1], activation))
    return states


def make(form: Form, weights: BlockWeights, heads: int, activation: str = "gelu") -> Stack:
    kernels, dtype = form
    blocks = FloatBlocks([weights] * BLOCKS, 1e-12, kernels, dtype)
    return Stack(blocks, heads, activation, kernels, f"stack_{kernels.stack_form(dtype, blocks.hidden // heads)}")


def computed(
    made: Stack, inputs: Tensor | TokenRows, lengths: Sequence[int], layers: Sequence[int], *, first: bool = False
) -> list[Tensor]:
    states = list(made(inputs, np.array(lengths, np.int64), outputs_of(layers), first_token_only=first))
    assert [state.place.layer for state in states] == sorted(layers)
    assert [state.first_token_only for state in states] == [first and layer == max(layers) for layer in sorted(layers)]
    return [state.values for state in states]


def assert_near(found: Tensor, wanted: Tensor) -> None:
    """Each block rounds to bfloat16 five times: queries with keys and values, contexts, both norms, what is raised."""
    error = (found.double() - wanted).abs()
    if found.dtype is FP32:
        assert error.mean() < 5e-7
        assert error.max() < 1e-5
        return
    assert error.mean() < 2 * HALF_STEP
    assert error.max() < 24 * HALF_STEP


@pytest.mark.parametrize(
    ("hidden", "inner", "heads"), [(64, 96, 2), (96, 416, 3), (128, 800, 2), (384, 1536, 12)], ids=str
)
def test_every_layer(form: Form, hidden: int, inner: int, heads: int) -> None:
    lengths = [1, 17, 2, 33, 150, 100, 5]  # two panels
    embedded = random(sum(lengths), hidden, dtype=form.dtype, seed=1)
    weights = block_weights(hidden, inner)
    made = make(form, weights, heads)
    found = computed(made, embedded, lengths, range(BLOCKS + 1))
    for state, wanted in zip(found, reference(embedded, lengths, weights, heads), strict=True):
        assert_near(state, wanted)
    chosen = computed(made, embedded, lengths, [0, 2])
    assert torch.equal(chosen[1], found[2])
    firsts = torch.tensor(lengths).cumsum(0) - torch.tensor(lengths)
    *before, alone = computed(made, embedded, lengths, [1, 3], first=True)
    assert torch.equal(before[0], found[1])
    assert torch.equal(alone, found[3][firsts])


@pytest.mark.parametrize("length", [256, 257, 600])
def test_a_text_longer_than_a_panel(form: Form, length: int) -> None:
    lengths = [3, length, 40]
    embedded = random(sum(lengths), 64, dtype=form.dtype, seed=1)
    weights = block_weights(64, 96)
    (found,) = computed(make(form, weights, 2), embedded, lengths, [BLOCKS])
    assert_near(found, reference(embedded, lengths, weights, 2)[-1])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation(form: Form, activation: str) -> None:
    """Of values as they are, and of values far from zero."""
    lengths, weights, far = [1, 17, 31], block_weights(64, 96), block_weights(64, 96)
    embedded = random(sum(lengths), 64, dtype=form.dtype, seed=1)
    far.up.weight.zero_()
    far.up.bias.copy_(torch.linspace(-60, 60, 96))
    for given in (weights, far):
        (found,) = computed(make(form, given, 2, activation), embedded, lengths, [BLOCKS])
        assert_near(found, reference(embedded, lengths, given, 2, activation)[-1])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_text_has_the_same_bytes_alone_and_in_company(form: Form, threads: int) -> None:
    lengths = [1, 17, 2, 33, 150, 100, 5, 300, 31, 32]
    embedded = random(sum(lengths), 96, dtype=form.dtype, seed=1)
    made = make(form, block_weights(96, 160), 3, "relu")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        (together,) = computed(made, embedded, lengths, [BLOCKS])
        for length, text, found in zip(
            lengths, torch.split(embedded, lengths), torch.split(together, lengths), strict=True
        ):
            assert torch.equal(computed(made, text.contiguous(), [length], [BLOCKS])[0], found)
    finally:
        torch.set_num_threads(before)


# ── embeddings ──────────────────────────────────────────────────────────────────────────────────────────────


def embedded_in_float64(tokens: TokenRows, tables: Sequence[Tensor], norm: Affine) -> Tensor:
    numbers = (tokens.ids, tokens.positions, tokens.types)
    summed = sum(table.double()[torch.from_numpy(each).long()] for table, each in zip(tables, numbers, strict=False))
    assert isinstance(summed, Tensor)
    return torch.nn.functional.layer_norm(summed, summed.shape[1:], norm.weight.double(), norm.bias.double(), 1e-5)


def token_rows(tables: EmbeddingTables, lengths: Sequence[int]) -> TokenRows:
    draw, positions = np.random.default_rng(3), np.concatenate([np.arange(length) for length in lengths])
    ids, types = draw.integers(0, 500, len(positions)), draw.integers(0, 2, len(positions))
    return TokenRows(tables, ids.astype(np.int32), positions.astype(np.int64), types.astype(np.int8))


@pytest.mark.parametrize("types", [True, False])
@pytest.mark.parametrize("hidden", [64, 96, 384])
def test_embeddings(form: Form, types: bool, hidden: int) -> None:
    lengths = [1, 17, 2, 33, 150, 100, 5]
    tables = [random(rows, hidden, dtype=form.dtype, seed=rows) for rows in (500, 160, *([2] if types else []))]
    norm = Affine(1 + random(hidden, seed=5) / 4, random(hidden, seed=6) / 4)
    tokens = token_rows(EmbeddingTables(tables[0], tables[1], tables[2] if types else None, norm, 1e-5), lengths)
    made = make(form, block_weights(hidden, 96), hidden // 32)
    (found,) = computed(made, tokens, lengths, [0])
    wanted = embedded_in_float64(tokens, tables, norm)
    error = (found.double() - wanted).abs()
    assert (error <= (HALF_STEP if form.dtype is BF16 else 0) * wanted.abs() + 1e-6).all()
    embedded, *states = computed(made, tokens, lengths, range(BLOCKS + 1))
    assert torch.equal(embedded, found)
    for state, given in zip(states, computed(made, found, lengths, range(1, BLOCKS + 1)), strict=True):
        assert torch.equal(state, given)


@pytest.mark.parametrize("number", [500, -1])
def test_rows_that_a_table_does_not_have(form: Form, number: int) -> None:
    norm = Affine(torch.ones(64), torch.zeros(64))
    tables = EmbeddingTables(random(500, 64, dtype=form.dtype), random(160, 64, dtype=form.dtype), None, norm, 1e-5)
    tokens = token_rows(tables, [5])
    tokens.ids[3] = number
    with pytest.raises(IndexError, match="a table of 500 embeddings has no row"):
        computed(make(form, block_weights(64, 96), 2), tokens, [5], [1])


def test_no_texts(form: Form) -> None:
    made = make(form, block_weights(64, 96), 2)
    assert [state.shape for state in computed(made, random(0, 64, dtype=form.dtype), [], [0, 2])] == [(0, 64), (0, 64)]


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_nan_stays_in_its_text(form: Form, bad: float) -> None:
    lengths = [5, 40, 7]
    embedded = random(sum(lengths), 64, dtype=form.dtype, seed=1)
    made = make(form, block_weights(64, 96), 2)
    (clean,) = computed(made, embedded, lengths, [BLOCKS])
    embedded[20, 3] = bad
    (found,) = computed(made, embedded, lengths, [BLOCKS])
    assert found[5:45].isnan().all()
    assert torch.equal(found[:5], clean[:5])
    assert torch.equal(found[45:], clean[45:])


def test_which_widths_and_formats_it_serves(form: Form) -> None:
    def serves(hidden: int, inner: int, heads: int, dtype: torch.dtype = form.dtype, device: str = "cpu") -> bool:
        made = float_stack([block_weights(hidden, inner)], 1e-12, heads, "gelu", torch.device(device), dtype)
        return made is not None

    assert all((serves(64, 96, 2), serves(128, 96, 2), serves(768, 3072, 12)))
    assert serves(96, 96, 6) == (form.dtype is FP32)  # heads 16 wide
    assert not any((serves(64, 96, 8), serves(64, 80, 2), serves(48, 96, 1)))
    assert not any((serves(64, 96, 2, torch.float16), serves(64, 96, 2, device="cuda")))


# ── integers ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(1)
@pytest.mark.parametrize("instructions", ["vnni", "avx2_vnni", "avx2", pytest.param("amx", marks=pytest.mark.slow)])
def test_integers_have_the_bytes_of_the_blocks_one_by_one(instructions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held_to(instructions, monkeypatch)
    lengths = np.array([3, 40, 17] if instructions == "amx" else [3, 150, 40, 1, 17, 300, 31, 90, 90, 5, 5, 62])
    ids = np.random.default_rng(1).integers(1000, 20000, lengths.sum())
    batch = TokenBatch(np.arange(len(lengths)), ids.astype(np.int32), np.zeros(len(ids), np.int8), lengths)
    found, before = [], torch.get_num_threads()
    try:
        encoder = PackedEncoder(find_model(), Precision.INT8, CPU)
        encoder._tables = None  # embeddings are torch's in all
        for stack, numbers in ((None, [1]), (encoder._stack, [1, 2])):
            monkeypatch.setattr(encoder, "_stack", stack)
            for threads in numbers:
                torch.set_num_threads(threads)
                whole = encoder.hidden_states(batch, outputs_of(range(encoder.num_layers + 1)))
                first = encoder.hidden_states(batch, outputs_of([3, 6]), first_token_only=True)
                found.append([state.values for state in (*whole, *first)])
    finally:
        torch.set_num_threads(before)
    one_by_one, *together = found
    for states in together:
        assert [values.shape for values in states] == [values.shape for values in one_by_one]
        assert all(torch.equal(one, other) for one, other in zip(one_by_one, states, strict=True))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("instructions", ["vnni", "avx2_vnni", "avx2"])
def test_embeddings_of_blocks_of_integers(instructions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float32, as torch computes them but for the order of sums."""
    held_to(instructions, monkeypatch)
    lengths = np.array([3, 150, 40, 1, 17, 300])
    ids = np.random.default_rng(1).integers(1000, 20000, lengths.sum())
    batch = TokenBatch(np.arange(len(lengths)), ids.astype(np.int32), np.zeros(len(ids), np.int8), lengths)
    encoder = PackedEncoder(find_model(), Precision.INT8, CPU)
    (found,) = encoder.hidden_states(batch, outputs_of([0]))
    encoder._tables = None
    (wanted,) = encoder.hidden_states(batch, outputs_of([0]))
    torch.testing.assert_close(found.values, wanted.values, rtol=0, atol=2e-6)
