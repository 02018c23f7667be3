"""What no list knows: modules that let padding or company into a text, draw numbers, remember, or do not attend."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertfeat.core.encoder import BatchForm, Precision, load as loading, load_encoder, padded, path as paths
from bertfeat.core.encoder.forward import TransformersForward
from bertfeat.core.encoder.module import load_module
from bertfeat.core.encoder.padded import TransformersEncoder
from bertfeat.core.models import Model, families
from bertfeat.core.recipe import Pooling, outputs_of
from bertfeat.core.tokens import TokenBatch, cut_batches, tokenize
from bertfeat.errors import ModelError
from tests.support.tiny_architectures import ARCHITECTURES
from tests.support.tiny_models import (
    CPU,
    LONG_TEXT,
    TEXTS,
    Tiny,
    build,
    documents,
    reference_module,
    reference_states,
    rewrite,
)

LEAKY = ("convbert", "fnet", "mobilebert", "nystromformer", "yoso")
Hook = Callable[[Tensor], Tensor]


@pytest.fixture(autouse=True)
def warnings_anew() -> None:
    loading._warn.cache_clear()


def made(name: str, folder: Path) -> Model:
    return Model(name, ARCHITECTURES[name].build(folder / name))


def silu(folder: Path) -> Model:
    """A BERT that runs through transformers."""
    return made("bert, silu", folder)


def tampered(
    model: Model, change: Hook, monkeypatch: pytest.MonkeyPatch, precision: str = "fp32"
) -> TransformersEncoder:
    """Load a model whose third block's result is changed."""

    def load(model: Model, precision: Precision) -> nn.Module:
        module = load_module(model, precision)
        block: Any = module.get_submodule("encoder.layer.2")
        block.register_forward_hook(lambda _m, _i, output: change(output))
        return module

    monkeypatch.setattr(padded, "load_module", load)
    return TransformersEncoder(model, Precision(precision), CPU)


# ── padding ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", LEAKY)
def test_padding_that_leaks_is_found_without_a_list(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(paths, "PADDING_HOLDS", {kind})
    with caplog.at_level(logging.WARNING):
        encoder = load_encoder(made(kind, tmp_path), Precision.FP32, CPU)
    assert encoder.path.form is BatchForm.EQUAL
    assert not encoder.padded
    assert "padding changes its vectors, which was not expected" in caplog.text


@pytest.mark.sampled(2)
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("kind", ["convbert", "mobilebert"])
def test_leaks_are_found_in_half_precision(
    kind: str, precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "PADDING_HOLDS", {kind})
    assert load_encoder(made(kind, tmp_path), Precision(precision), CPU).path.form is BatchForm.EQUAL


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", LEAKY)
def test_a_vector_does_not_depend_on_its_batch_mates(kind: str, tmp_path: Path) -> None:
    tiny = Tiny.load(ARCHITECTURES[kind].build(tmp_path / kind))
    rows = documents([*TEXTS, LONG_TEXT])
    together = tiny.features(rows, "all", Pooling.MEAN)
    for at, row in enumerate(rows):
        alone = tiny.features([row], "all", Pooling.MEAN)
        for column in together.columns:
            np.testing.assert_allclose(alone[column.name][0], together[column.name][at], rtol=0, atol=1e-5)


def test_batches_of_equal_lengths_are_of_equal_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = Tiny.load(ARCHITECTURES["fnet"].build(tmp_path / "fnet"))
    layout = tokenize(documents([*TEXTS, *TEXTS, LONG_TEXT]), tiny.tokenizer, tiny.settings()).layout
    (batch,) = cut_batches(layout, 100_000, padded=tiny.encoder.padded)
    run, seen = TransformersForward.__call__, []

    def spy(forward: TransformersForward, given: TokenBatch, layers: Any) -> Any:
        seen.append(given.lengths.tolist())
        return run(forward, given, layers)

    monkeypatch.setattr(TransformersForward, "__call__", spy)
    (state,) = tiny.encoder.hidden_states(batch, outputs_of([5]))
    assert all(len(set(lengths)) == 1 for lengths in seen)
    assert [length for lengths in seen for length in lengths] == batch.lengths.tolist()
    assert len(seen) == len(set(batch.lengths.tolist()))
    for start, length in zip(batch.starts, batch.lengths, strict=True):
        rows = slice(int(start), int(start + length))
        wanted = reference_states(tiny.folder, batch.ids[rows].tolist(), batch.types[rows].tolist())
        np.testing.assert_allclose(state.values[rows].numpy(), wanted[5], rtol=0, atol=3e-5)


def test_texts_without_tokens_are_left_out(tmp_path: Path) -> None:
    for kind in ("fnet", "albert"):
        tiny = Tiny.load(ARCHITECTURES[kind].build(tmp_path / kind))
        ids = tiny.tokenizer.pieces(["the river"], offsets=False).ids
        types = np.zeros(len(ids), np.int8)
        (alone,) = tiny.encoder.hidden_states(
            TokenBatch(np.array([0]), ids, types, np.array([len(ids)])), outputs_of([3])
        )
        (beside,) = tiny.encoder.hidden_states(
            TokenBatch(np.array([0, 1]), ids, types, np.array([len(ids), 0])), outputs_of([3])
        )
        torch.testing.assert_close(alone.values, beside.values, rtol=0, atol=1e-5)
        (none,) = tiny.encoder.hidden_states(
            TokenBatch(np.array([0]), ids[:0], types[:0], np.array([0])), outputs_of([3])
        )
        assert none.values.shape == (0, 32)


# ── company, chance, memory ─────────────────────────────────────────────────────────────────────────────────


def test_texts_that_a_batch_mixes_run_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = silu(tmp_path)
    encoder = tampered(model, lambda x: x + x.mean(dim=(0, 1), keepdim=True), monkeypatch)
    assert encoder.path.form is BatchForm.SINGLE
    assert "the company of other texts changes its vectors" in encoder.path.notes[-1]
    tiny = Tiny.load(model.folder)
    layout = tokenize(documents(TEXTS), tiny.tokenizer, tiny.settings()).layout
    (batch,) = cut_batches(layout, 100_000, padded=encoder.padded)
    (together,) = encoder.hidden_states(batch, outputs_of([5]))
    alone = [
        next(iter(encoder.hidden_states(each, outputs_of([5])))).values for each in cut_batches(layout, 1, padded=False)
    ]
    assert torch.equal(together.values, torch.cat(alone))


def test_random_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="other vectors the second time"):
        tampered(silu(tmp_path), lambda x: x + 0.01 * torch.randn_like(x), monkeypatch)


def test_what_is_kept_from_one_text_to_the_next_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def remember(x: Tensor) -> Tensor:
        calls.append(1)
        return x * (1 + 0.01 * len(calls))

    with pytest.raises(ModelError, match="keeps something from one text to the next"):
        tampered(silu(tmp_path), remember, monkeypatch)


def test_attention_that_is_not_at_work_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "_REFUSED", {})  # without its CUDA kernel transformers' MRA gives zeros
    with pytest.raises(ModelError, match="no token's vectors depend on another token"):
        load_encoder(made("mra", tmp_path), Precision.FP32, CPU)


def test_layers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    model = silu(tmp_path)
    rewrite(model.folder, lambda tensors: {name: t * (1e30 if "layer.3" in name else 1) for name, t in tensors.items()})
    with pytest.raises(ModelError, match="layer 4 is not finite in fp32"):
        load_encoder(model, Precision.FP32, CPU)


def test_tokens_that_see_only_those_before_them_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for precision in (Precision.FP32, Precision.BF16):
        encoder = load_encoder(made("clip_text_model", tmp_path / precision), precision, CPU)
        assert any("each token sees only those before it" in note for note in encoder.path.notes)
    told = [record.getMessage() for record in caplog.records]
    assert sum("sees only those before it" in line for line in told) == 1  # once a process


def test_layers_that_cannot_be_caught_are_those_that_are_listed(tmp_path: Path) -> None:
    for kind in ("clip_text_model", "squeezebert"):
        model = made(kind, tmp_path)
        encoder = TransformersEncoder(model, Precision.FP32, CPU)
        assert not encoder._forward.stops_early
        ids = np.arange(5, 15, dtype=np.int32)
        (found,) = encoder.hidden_states(
            TokenBatch(np.array([0]), ids, np.zeros(10, np.int8), np.array([10])), outputs_of([5])
        )
        wanted = reference_states(model.folder, ids.tolist(), [0] * 10)[-1]
        np.testing.assert_allclose(found.values.numpy(), wanted, rtol=0, atol=1e-6)
    last = reference_module(tmp_path / "clip_text_model")(torch.arange(5, 15)[None]).last_hidden_state[0]
    wanted = reference_states(tmp_path / "clip_text_model", list(range(5, 15)), [0] * 10)[-1]
    assert np.abs(last.detach().numpy() - wanted).max() > 0.1  # the final norm comes in between


def test_the_check_costs_few_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens: list[int] = []
    run = TransformersForward.__call__

    def spy(forward: TransformersForward, given: TokenBatch, layers: Any) -> Any:
        tokens.append(len(given.ids))
        return run(forward, given, layers)

    monkeypatch.setattr(TransformersForward, "__call__", spy)
    load_encoder(made("megatron-bert", tmp_path), Precision.FP32, CPU)
    assert tokens == [8, 24 + 8 + 8, 8]
    tokens.clear()
    load_encoder(silu(tmp_path), Precision.FP32, CPU)  # packed: alone by the family's own attention first
    assert tokens == [24, 8, 24 + 8 + 8, 8, 8]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("precision", [each for each in Precision if each is not Precision.INT8])
def test_sound_models_keep_their_form_in_every_precision(precision: Precision, tmp_path: Path) -> None:
    forms = {"albert": BatchForm.PACKED, "deberta-v2": BatchForm.PADDED, "modernbert": BatchForm.PACKED}
    for kind, form in forms.items():
        path = load_encoder(Model(kind, build(kind, tmp_path / kind)), precision, CPU).path
        assert path.form is form
        assert path.notes == ()
        assert path.difference is not None
        assert path.difference < 0.03
        assert f"tried in {precision} on all 6 layers" in path.sentence


# ── failures ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["flaubert, pre_norm", "xmod, no language", "yoso, hashing"])
def test_a_first_pass_that_fails_is_the_models_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = made(name, tmp_path)
    monkeypatch.setattr("bertfeat.core.models.config.refusal_reason", lambda config: None)
    with pytest.raises(ModelError, match="transformers cannot run this model in fp32: "):
        load_encoder(model, Precision.FP32, CPU)


def test_a_precision_that_a_model_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot run this model in bf16: .*; precision='fp32' may help"):
        load_encoder(made("fnet", tmp_path), Precision.BF16, CPU)  # torch has no such Fourier transform


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (torch.OutOfMemoryError("CUDA out of memory"), torch.OutOfMemoryError),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."), RuntimeError),
        (RuntimeError("shapes do not match"), ModelError),
        (IndexError("index out of range in self"), ModelError),
    ],
    ids=["cuda", "cpu", "shapes", "index"],
)
def test_later_passes_that_fail(error: Exception, expected: type[Exception], tmp_path: Path) -> None:
    encoder = TransformersEncoder(silu(tmp_path), Precision.FP32, CPU)

    def fail(*_: Any) -> None:
        raise error

    encoder._forward._module.register_forward_pre_hook(fail)
    ids = np.arange(5, 9, dtype=np.int32)
    with pytest.raises(expected):
        list(
            encoder.hidden_states(TokenBatch(np.array([0]), ids, np.zeros(4, np.int8), np.array([4])), outputs_of([5]))
        )


# ── BigBird ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_big_bird_does_not_depend_on_what_was_computed_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = build_big_bird(tmp_path / "bird")
    texts = documents([LONG_TEXT, "The bank."])
    first = Tiny.load(folder).features(texts, "all", Pooling.MEAN)
    other = Tiny.load(folder)
    other.features(documents(["a"]), "all", Pooling.MEAN)  # here the library used to switch to full attention for good
    again = other.features(texts, "all", Pooling.MEAN)
    for column in first.columns:
        np.testing.assert_array_equal(first[column.name], again[column.name])
    assert "full attention is used instead, which differs from it for more than 28 tokens at once" in caplog.text
    module = reference_module(folder)
    module.set_attention_type("original_full")
    tiny = Tiny.load(folder)
    ids = tiny.tokenizer.pieces([LONG_TEXT], offsets=False).ids[:60]
    (state,) = tiny.encoder.hidden_states(
        TokenBatch(np.array([0]), ids, np.zeros(60, np.int8), np.array([60])), outputs_of([5])
    )
    np.testing.assert_allclose(state.values.numpy(), reference_states(folder, ids.tolist(), [0] * 60)[5], atol=3e-5)


def build_big_bird(folder: Path) -> Path:
    """A BigBird whose attention is sparse beyond 28 tokens."""
    bird = ARCHITECTURES["big_bird"]
    sparse = {"attention_type": "block_sparse", "block_size": 4, "num_random_blocks": 1}
    return type(bird)(bird.kind, bird.form, sparse, bird.tokenizer).build(folder)
