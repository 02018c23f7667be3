"""What follows attention, compiled by torch, against float64; it is made for CUDA, and compiled here for the CPU."""

import logging
import shutil

import pytest
import torch

from bertfeat.encoder import compiled
from bertfeat.encoder.blocks import FloatBlock, TorchPostAttention
from bertfeat.encoder.compiled import CompiledPostAttention, find_compiled
from bertfeat.encoder.cuda import CudaForm, cuda_form
from bertfeat.errors import UsageError
from tests.encoder.support import (
    BF16,
    FP32,
    HALF_STEP,
    block_weights,
    post_attention_in_float64,
    random,
)
from tests.support.tiny_models import CPU

CUDA = torch.device("cuda")
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++ on a CPU")


@pytest.mark.slow
@needs_compiler
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own calls
def test_any_number_of_rows_of_any_block() -> None:
    from torch._dynamo.utils import counters

    before = counters["stats"]["unique_graphs"]
    for seed in range(2):
        weights = block_weights(96, 416)
        weights.up.bias.add_(seed)
        post_attention = CompiledPostAttention(weights, 1e-12, "gelu", CPU, BF16)
        assert post_attention.problem() == ""
        for rows in (48, 2, 33, 300, 1, 0):
            with torch.inference_mode():  # as an encoder makes them
                context, residual = random(rows, 96, dtype=BF16, seed=1), random(rows, 96, dtype=BF16, seed=2)
                found = post_attention(context, residual)
            assert found.shape == (rows, 96)
            if rows:
                error = (found - post_attention_in_float64(weights, context, residual, "gelu")).abs()
                assert error.max() < 16 * HALF_STEP  # products and sums are rounded, too
                assert error.mean() < 2 * HALF_STEP
    assert counters["stats"]["unique_graphs"] == before + 1


@pytest.mark.slow
@needs_compiler
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("activation", ["gelu_new", "relu"])
def test_in_fp32(activation: str) -> None:
    weights = block_weights(64, 256)
    post_attention = CompiledPostAttention(weights, 1e-12, activation, CPU, FP32)
    assert post_attention.problem() == ""
    context, residual = random(33, 64, seed=1), random(33, 64, seed=2)
    wanted = post_attention_in_float64(weights, context, residual, activation)
    torch.testing.assert_close(post_attention(context, residual).double(), wanted, rtol=0, atol=1e-5)


# ── what is used when it is asked for ────────────────────────────────────────────────────────────────────────


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for the compiled form, as on CUDA."""
    monkeypatch.setattr(compiled, "cuda_form", lambda _: CudaForm.COMPILED)
    monkeypatch.setattr(compiled, "_problems", {})


@pytest.mark.usefixtures("asked")
@pytest.mark.parametrize(
    ("does", "said"),
    [
        (lambda *_: 1 / 0, "cannot compile them here: division by zero"),
        (lambda context, residual, *_: context + residual, "other numbers"),
        (lambda context, *_: context * torch.nan, "other numbers"),
    ],
)
def test_what_fails_is_not_used(
    does: object, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(compiled, "_compiled", lambda *_: does)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):  # it is told once for all blocks of a shape
            block = FloatBlock(block_weights(32, 64), 1e-12, "gelu", CPU, FP32)
            assert type(block.post_attention) is TorchPostAttention
    (told,) = caplog.messages
    assert said in told


@pytest.mark.usefixtures("asked")
def test_what_works_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_compiled", compiled._formula)
    assert type(FloatBlock(block_weights(32, 64), 1e-12, "gelu", CPU, FP32).post_attention) is CompiledPostAttention


def test_what_cannot_be_compiled_later_is_computed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    post_attention = CompiledPostAttention(block_weights(32, 64), 1e-12, "gelu", CPU, FP32)
    context, residual = random(9, 32, seed=1), random(9, 32, seed=2)
    wanted = compiled._formula(1e-12, "gelu")(context, residual, *post_attention._weights)

    def refuse(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(compiled, "_compiled", lambda *_: refuse)
    with pytest.raises(torch.OutOfMemoryError):  # the batch is halved
        post_attention(context, residual)
    monkeypatch.setattr(compiled, "_compiled", lambda *_: lambda *_: 1 / 0)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert torch.equal(post_attention(context, residual), wanted)
    (told,) = caplog.messages
    assert "not compiled any more: division by zero" in told


def test_a_cpu_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTFEAT_CUDA", "graphs")
    assert cuda_form(CPU) is CudaForm.EAGER
    assert find_compiled(block_weights(32, 64), 1e-12, "gelu", CPU, FP32) is None


@pytest.mark.parametrize(("wanted", "form"), [(form.name.lower(), form) for form in CudaForm])
def test_the_environment_names_a_form(wanted: str, form: CudaForm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BERTFEAT_CUDA", raising=False)
    assert cuda_form(CUDA) is CudaForm.EAGER
    monkeypatch.setenv("BERTFEAT_CUDA", wanted)
    assert cuda_form(CUDA) is form


def test_an_unknown_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTFEAT_CUDA", "fast")
    with pytest.raises(UsageError, match="BERTFEAT_CUDA is 'fast'; known are eager, compiled, graphs"):
        cuda_form(CUDA)
