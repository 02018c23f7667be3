"""Both encoders against Hugging Face's hidden states, one text at a time and without padding."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from bertfeat.core.corpus import Document
from bertfeat.core.encoder.packed import PackedEncoder
from bertfeat.core.encoder.padded import TransformersEncoder
from bertfeat.core.recipe import Pooling, outputs_of
from bertfeat.core.tokens import TokenBatch, cut_batches, tokenize
from tests.support.tiny_models import FAMILIES, PAIRS, TEXTS, Tiny, documents, reference_states, text_states

BOUND = 3e-5


def states(tiny: Tiny, rows: Sequence[Document], layers: Sequence[int]) -> list[NDArray[np.float32]]:
    """The wanted layers of each document: ``[layers, T, H]``."""
    layout = tokenize(rows, tiny.tokenizer, tiny.settings()).layout
    found: dict[int, NDArray[np.float32]] = {}
    for batch in cut_batches(layout, 64, padded=tiny.encoder.padded):
        given = [
            (s.place.layer, s.values.float().numpy().copy())
            for s in tiny.encoder.hidden_states(batch, outputs_of(layers))
        ]
        assert [layer for layer, _ in given] == sorted(layers)
        stacked = np.stack([values for _, values in given])
        for window, start, length in zip(batch.windows, batch.starts, batch.lengths, strict=True):
            found[int(window)] = stacked[:, start : start + length]
    return [found[window] for window in range(len(found))]


@pytest.mark.parametrize("family", FAMILIES)
def test_family_runs_on_the_encoder_meant_for_it(family: str, tiny: Callable[[str], Tiny]) -> None:
    wanted = PackedEncoder if FAMILIES[family].packed else TransformersEncoder
    assert type(tiny(family).encoder) is wanted


def test_every_layer_of_ragged_texts(any_tiny: Tiny) -> None:
    every = range(any_tiny.model.num_layers + 1)
    for text, found in zip(TEXTS, states(any_tiny, documents(TEXTS), every), strict=True):
        wanted = text_states(any_tiny.folder, text)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=0, atol=BOUND, err_msg=text)


def test_every_layer_of_pairs(any_tiny: Tiny) -> None:
    every = range(any_tiny.model.num_layers + 1)
    for pair, found in zip(PAIRS, states(any_tiny, documents(PAIRS), every), strict=True):
        wanted = text_states(any_tiny.folder, *pair)
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=0, atol=BOUND, err_msg=str(pair))


@pytest.mark.sampled(10)
@pytest.mark.parametrize("layers", [(0,), (3,), (1, 4), (2, 5)], ids=str)
def test_stopping_at_the_deepest_layer_changes_nothing(any_tiny: Tiny, layers: tuple[int, ...]) -> None:
    rows = documents(TEXTS[:4])
    every = states(any_tiny, rows, range(any_tiny.model.num_layers + 1))
    for found, full in zip(states(any_tiny, rows, layers), every, strict=True):
        np.testing.assert_allclose(found, full[list(layers)], rtol=0, atol=1e-6)


def test_special_tokens_that_a_text_spells_out(any_tiny: Tiny) -> None:
    names = FAMILIES[any_tiny.model.config.model_type].names
    text = f"the river {names['sep_token']} he {names['pad_token']}{names['pad_token']} went {names['mask_token']} x"
    (found,) = states(any_tiny, documents([text]), range(any_tiny.model.num_layers + 1))
    np.testing.assert_allclose(found, text_states(any_tiny.folder, text), rtol=0, atol=BOUND)


def test_padding_tokens_of_neighbors_do_not_shift_positions(tiny: Callable[[str], Tiny]) -> None:
    roberta = tiny("roberta")
    texts = ["<pad>", "x <pad> y <pad> z", "the river", "<pad><pad> bank"]
    for text, found in zip(texts, states(roberta, documents(texts), range(6)), strict=True):
        np.testing.assert_allclose(found, text_states(roberta.folder, text), rtol=0, atol=BOUND)


def test_the_longest_sequence_that_the_positions_allow(any_tiny: Tiny) -> None:
    piece = int(any_tiny.tokenizer.pieces(["river"], offsets=False).ids[0])
    ids = np.full(any_tiny.model.max_tokens, piece, np.int32)
    types = np.zeros(len(ids), np.int8)
    batch = TokenBatch(np.array([0]), ids, types, np.array([len(ids)]))
    (found,) = any_tiny.encoder.hidden_states(batch, outputs_of([any_tiny.model.num_layers]))
    wanted = reference_states(any_tiny.folder, ids.tolist(), types.tolist())[-1]
    np.testing.assert_allclose(found.values.numpy(), wanted, rtol=0, atol=BOUND)


@pytest.mark.parametrize("layers", [(5,), (2, 5), (1,), (0, 3)], ids=str)
def test_first_token_only_equals_the_first_tokens_of_the_full_pass(packed_tiny: Tiny, layers: tuple[int, ...]) -> None:
    layout = tokenize(documents(TEXTS), packed_tiny.tokenizer, packed_tiny.settings()).layout
    for batch in cut_batches(layout, 10_000, padded=False):
        short = list(packed_tiny.encoder.hidden_states(batch, outputs_of(layers), first_token_only=True))
        full = [s.values for s in packed_tiny.encoder.hidden_states(batch, outputs_of(layers))]
        assert [s.first_token_only for s in short] == [False] * (len(layers) - 1) + [True]
        np.testing.assert_allclose(short[-1].values, full[-1][batch.starts], rtol=0, atol=1e-5)


@pytest.mark.sampled(4)
def test_batch_mates_change_little(any_tiny: Tiny) -> None:
    rows = documents([*TEXTS, *PAIRS])
    together = any_tiny.features(rows, "all", Pooling.MEAN, Pooling.CLS, Pooling.MAX, Pooling.TOKEN)
    for at, row in enumerate(rows):
        alone = any_tiny.features([row], "all", Pooling.MEAN, Pooling.CLS, Pooling.MAX, Pooling.TOKEN)
        for column in together.columns:
            if column.pooling is Pooling.TOKEN:
                np.testing.assert_allclose(
                    alone[column.name], together.tokens(column.name, at), rtol=0, atol=3e-5, err_msg=column.name
                )
            else:
                np.testing.assert_allclose(
                    alone[column.name][0], together[column.name][at], rtol=0, atol=1e-5, err_msg=column.name
                )
