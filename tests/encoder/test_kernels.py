"""Our C kernels against float64, torch's operators beside them, and what serves when."""

import ctypes
import importlib.util
import logging
import platform
import re
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.core.encoder import Precision, kernels
from bertfeat.core.encoder.attention import Attention, GroupedAttention, KernelAttention, make_attention
from bertfeat.core.encoder.kernels import (
    JOBS,
    AttentionStruct,
    Int8PostAttentionStruct,
    Int8ProjectionStruct,
    Kernels,
    StackStruct,
    find_attention_kernels,
    find_kernels,
    kernels_in_use,
    kernels_problem,
)
from bertfeat.core.encoder.packed import PackedEncoder
from bertfeat.core.encoder.transfer import usual_size
from bertfeat.core.environment import kernels_note
from bertfeat.core.recipe import outputs_of
from bertfeat.core.tokens import TokenBatch, cut_batches, tokenize
from bertfeat.errors import UsageError
from tests.encoder.support import BF16, FP32, HALF_STEP, held_to, random
from tests.support.tiny_models import CPU, Tiny, build, documents, text_states

STRUCTS = ", ".join(str(ctypes.sizeof(job)) for job in JOBS)
AGAIN = "pip install --force-reinstall --no-deps --no-cache-dir bertfeat"
INT8_INSTRUCTIONS = ("amx", "vnni", "avx2_vnni", "avx2")
FINE = 1e-5
RAGGED = np.array([33, 1, 7, 64, 16, 2, 31])
DESCENDING = np.sort(RAGGED)[::-1].copy()

Float64s = NDArray[np.float64]
Int64s = NDArray[np.int64]


# ── attention ───────────────────────────────────────────────────────────────────────────────────────────────


def starts(lengths: Int64s) -> Int64s:
    begins: Int64s = np.cumsum(lengths) - lengths
    return begins


def attention_in_float64(qkv: Tensor, lengths: Int64s, heads: int) -> Float64s:
    """Vaswani et al. 2017, eq. 1, of each sequence by itself. Shape: ``[T, 3H]`` → ``[T, H]``."""
    values = qkv.double().numpy().reshape(len(qkv), 3, heads, -1)
    given = []
    for begin, length in zip(starts(lengths), lengths, strict=True):
        query, key, value = values[begin : begin + length].transpose(1, 2, 0, 3)  # [heads, length, width]
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = weights / weights.sum(-1, keepdims=True) @ value
        given.append(mixed.transpose(1, 0, 2).reshape(length, -1))
    return np.concatenate(given)


def assert_attends(attention: Attention, qkv: Tensor, lengths: Int64s, heads: int) -> None:
    found = attention(qkv, heads).double().numpy()
    wanted = attention_in_float64(qkv, lengths, heads)
    if qkv.dtype is FP32:
        np.testing.assert_allclose(found, wanted, rtol=0, atol=FINE)
    else:  # the result is rounded, and so may the weights be, each by itself
        largest = qkv[:, -wanted.shape[1] :].abs().max().item()
        np.testing.assert_allclose(found, wanted, rtol=HALF_STEP, atol=HALF_STEP * largest)
        assert np.abs(found - wanted).mean() < HALF_STEP * np.abs(wanted).mean()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
@pytest.mark.parametrize("width", [16, 32, 48, 64, 80])
def test_attention_of_every_length(each: Kernels, width: int, dtype: torch.dtype) -> None:
    lengths = np.array([*range(1, 71), 600, 128, 257, 511])
    qkv = random(int(lengths.sum()), 3 * 2 * width, dtype=dtype)
    assert_attends(KernelAttention(lengths, each), qkv, lengths, 2)


@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
def test_attention_of_torch_without_the_kernels(dtype: torch.dtype) -> None:
    lengths = np.array([*range(1, 71), 257])
    qkv = random(int(lengths.sum()), 3 * 2 * 32, dtype=dtype)
    attention = GroupedAttention(lengths, CPU)
    assert_attends(attention, qkv, lengths, 2)
    firsts = torch.from_numpy(starts(lengths))
    found = attention.for_first_tokens(qkv[firsts, :64], qkv[:, 64:].contiguous(), 2)
    tolerance = FINE if dtype is FP32 else 2 * HALF_STEP
    torch.testing.assert_close(found, attention(qkv, 2)[firsts], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
@pytest.mark.parametrize("width", [32, 48])
def test_sharp_and_large_scores(each: Kernels, width: int, dtype: torch.dtype) -> None:
    qkv = random(int(RAGGED.sum()), 3 * width, dtype=dtype)
    qkv[:, : 2 * width] *= 30  # one key takes all
    found = KernelAttention(RAGGED, each)(qkv, 1).double().numpy()
    tolerance = 2e-3 if dtype is FP32 else 0.05  # of scores up to 10⁴, float32 keeps 10⁻³
    np.testing.assert_allclose(found, attention_in_float64(qkv, RAGGED, 1), rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
@pytest.mark.parametrize("width", [16, 32, 48, 64, 80])
def test_first_tokens_are_the_first_rows_of_the_whole(each: Kernels, width: int, dtype: torch.dtype) -> None:
    hidden, firsts = 3 * width, torch.from_numpy(starts(RAGGED))
    qkv = random(int(RAGGED.sum()), 3 * hidden, dtype=dtype)
    attention = KernelAttention(RAGGED, each)
    found = attention.for_first_tokens(qkv[firsts, :hidden], qkv[:, hidden:].contiguous(), 3)
    assert torch.equal(found, attention(qkv, 3)[firsts])


@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
@pytest.mark.parametrize("width", [32, 48, 64])
def test_batch_mates_change_no_bit(each: Kernels, width: int, dtype: torch.dtype) -> None:
    qkv = random(int(RAGGED.sum()), 3 * 2 * width, dtype=dtype)
    together = KernelAttention(RAGGED, each)(qkv, 2)
    for begin, length in zip(starts(RAGGED), RAGGED, strict=True):
        rows = slice(int(begin), int(begin + length))
        assert torch.equal(KernelAttention(np.array([length]), each)(qkv[rows], 2), together[rows])


@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
def test_rows_after_the_last_sequence_are_zeros(each: Kernels, dtype: torch.dtype) -> None:
    assert_zeros_after_the_last_sequence(KernelAttention(DESCENDING, each), dtype)


@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
def test_rows_after_the_last_sequence_are_zeros_without_the_kernels(dtype: torch.dtype) -> None:
    assert_zeros_after_the_last_sequence(GroupedAttention(DESCENDING, CPU), dtype)


def assert_zeros_after_the_last_sequence(attention: Attention, dtype: torch.dtype) -> None:
    lengths, total = DESCENDING, int(DESCENDING.sum())
    qkv = random(total + 9, 3 * 64, dtype=dtype)
    qkv[total:] = torch.nan  # nobody looks at them
    found = attention(qkv, 2)
    assert found.shape == (total + 9, 64)
    assert found[:total].isfinite().all()
    assert not found[total:].any()
    queries = random(len(lengths) + 3, 64, dtype=dtype)
    firsts = attention.for_first_tokens(queries, qkv[:, 64:].contiguous(), 2)
    assert firsts.shape == queries.shape
    assert firsts[: len(lengths)].isfinite().all()
    assert not firsts[len(lengths) :].any()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("part", [0, 1, 2], ids=["query", "key", "value"])
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
def test_nan_and_infinity_stay_in_their_sequence(each: Kernels, dtype: torch.dtype, part: int, bad: float) -> None:
    qkv = random(int(RAGGED.sum()), 3 * 64, dtype=dtype)
    clean = KernelAttention(RAGGED, each)(qkv, 2)
    begin, length = int(starts(RAGGED)[2]), int(RAGGED[2])
    qkv[begin + 3, 64 * part + 5] = bad
    found = KernelAttention(RAGGED, each)(qkv, 2)
    own = torch.zeros(len(qkv), dtype=torch.bool)
    own[begin : begin + length] = True
    assert torch.equal(found[~own], clean[~own])
    assert torch.equal(found[own][:, 32:], clean[own][:, 32:])  # the other head
    if bad is torch.nan:
        met = [3] if part == 0 else list(range(length))  # a query's own row, a key's or value's all
        columns = [5] if part == 2 else list(range(32))
        assert found[own][met][:, columns].isnan().all()


@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
def test_no_sequences_and_no_rows(each: Kernels, dtype: torch.dtype) -> None:
    none = np.zeros(0, np.int64)
    assert KernelAttention(none, each)(random(0, 192, dtype=dtype), 2).shape == (0, 64)
    assert not KernelAttention(none, each)(random(3, 192, dtype=dtype), 2).any()
    lengths = np.array([4, 0, 3])
    qkv = random(7, 192, dtype=dtype)
    assert_attends(KernelAttention(lengths, each), qkv, lengths[[0, 2]], 2)


def test_many_threads_at_once(each: Kernels) -> None:
    lengths = np.array([90, 40, 40, 3] * 4)
    dtype = BF16 if each.has_avx512 else FP32
    qkv = [random(int(lengths.sum()), 3 * 128, dtype=dtype, seed=seed) for seed in range(6)]
    wanted = [KernelAttention(lengths, each)(given, 2) for given in qkv]
    equal = [False] * len(qkv)

    def run(at: int) -> None:
        attention = KernelAttention(lengths, each)
        equal[at] = all(torch.equal(attention(qkv[at], 2), wanted[at]) for _ in range(10))

    threads = [threading.Thread(target=run, args=(at,)) for at in range(len(qkv))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(equal)


# ── what kernels refuse ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("dtype", "width"), [(FP32, 24), (BF16, 24), (torch.float16, 32), (torch.float64, 32)])
def test_attention_that_no_kernel_computes_is_refused(built: Kernels, dtype: torch.dtype, width: int) -> None:
    attention = KernelAttention(RAGGED, built)
    with pytest.raises(NotImplementedError, match=f"attention of {dtype} values with heads of {width}"):
        attention(random(int(RAGGED.sum()), 3 * width).to(dtype), 1)


def test_bfloat16_is_refused_without_avx512(built: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("amx", "bf16", "avx512"):
        monkeypatch.setattr(built, f"has_{name}", False)
    attention = KernelAttention(RAGGED, built)
    with pytest.raises(NotImplementedError, match=r"attention of torch.bfloat16 values with heads of 32"):
        attention(random(int(RAGGED.sum()), 96, dtype=BF16), 1)
    with pytest.raises(NotImplementedError, match="bertfeat_pack needs avx512"):
        built.pack(random(32, 32, dtype=BF16))


@pytest.mark.parametrize(
    ("name", "job", "needed"),
    [
        ("attend", AttentionStruct(type=0, form=1), "avx512"),
        ("attend", AttentionStruct(type=1, form=2), "bf16"),
        ("attend", AttentionStruct(type=1, form=3), "amx"),
        ("stack_amx", StackStruct(type=1, form=3), "amx"),
        ("stack_bf16", StackStruct(type=1, form=2), "bf16"),
        ("stack_avx512", StackStruct(type=0, form=1), "avx512"),
        ("stack_avx2", StackStruct(type=0, form=0), "avx2"),
        *((f"int8_project_{each}", Int8ProjectionStruct(type=0), each) for each in INT8_INSTRUCTIONS),
        *((f"int8_post_attention_{each}", Int8PostAttentionStruct(type=0), each) for each in INT8_INSTRUCTIONS),
        *((f"int8_stack_{each}", StackStruct(type=0, form=0), each) for each in INT8_INSTRUCTIONS),
        ("int8_project_vnni", Int8ProjectionStruct(type=1), "bf16"),
        ("int8_post_attention_vnni", Int8PostAttentionStruct(type=1), "bf16"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_kernel_is_refused_without_its_instructions(
    built: Kernels, monkeypatch: pytest.MonkeyPatch, name: str, job: ctypes.Structure, needed: str
) -> None:
    """No job here has rows, nor any pointer that could be read."""
    for other in ("amx", "bf16", "vnni", "avx512", "avx2_vnni", "avx2"):
        monkeypatch.setattr(built, f"has_{other}", other != needed)
    with pytest.raises(NotImplementedError, match=rf"^bertfeat_{name} needs {needed}, which this processor lacks"):
        built.call(f"bertfeat_{name}", job)


@pytest.mark.parametrize(
    ("name", "job"),
    [
        ("attend", AttentionStruct(type=1, form=0)),
        ("attend", AttentionStruct(type=0, form=2)),
        ("attend", AttentionStruct(type=0, form=3)),
        ("stack_amx", StackStruct(type=0, form=1)),
        ("stack_bf16", StackStruct(type=0, form=0)),
        ("stack_avx512", StackStruct(type=1, form=1)),
        ("stack_avx2", StackStruct(type=1, form=2)),
        *((f"int8_project_{each}", Int8ProjectionStruct(type=1)) for each in ("avx2", "avx2_vnni")),
        *((f"int8_post_attention_{each}", Int8PostAttentionStruct(type=1)) for each in ("avx2", "avx2_vnni")),
        *((f"int8_stack_{each}", StackStruct(type=1, form=2)) for each in ("avx2", "avx2_vnni")),
        ("int8_stack_vnni", StackStruct(type=1, form=0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_values_that_a_kernel_does_not_take_are_refused(built: Kernels, name: str, job: Any) -> None:
    """Whatever processor this is."""
    given = ("float32", "bfloat16")[job.type]
    with pytest.raises(NotImplementedError, match=rf"^bertfeat_{name}.* takes no torch.{given} values"):
        built.call(f"bertfeat_{name}", job)


# ── what serves when ─────────────────────────────────────────────────────────────────────────────────────────


def test_which_attention_serves(built: Kernels) -> None:
    def chosen(dtype: torch.dtype, width: int, device: str = "cpu") -> type:
        return type(make_attention(RAGGED, torch.device(device), dtype, width))

    assert [chosen(FP32, width) for width in (16, 48, 64)] == [KernelAttention] * 3
    of_bf16 = KernelAttention if built.has_avx512 else GroupedAttention
    assert [chosen(BF16, width) for width in (16, 48, 64)] == [of_bf16] * 3
    assert [chosen(FP32, 8), chosen(BF16, 24), chosen(torch.float16, 64)] == [GroupedAttention] * 3
    assert find_attention_kernels(torch.device("cuda"), BF16, 64) is None


PEAK_LOOPS = ("avx2", "avx512", "bf16", "amx", "int8_avx2", "int8_avx2_vnni", "int8_vnni", "int8_amx")


@pytest.mark.parametrize("loop", PEAK_LOOPS)
@pytest.mark.parametrize("operations", [0, 1, 1_000_003])
def test_every_loop_of_the_peak_ends(loop: str, operations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    held_to(loop.removeprefix("int8_"), monkeypatch).multiply_in_registers(loop, operations)


@pytest.mark.parametrize("loop", PEAK_LOOPS)
def test_a_loop_of_the_peak_is_refused_without_its_instructions(
    built: Kernels, monkeypatch: pytest.MonkeyPatch, loop: str
) -> None:
    needed = loop.removeprefix("int8_")
    monkeypatch.setattr(built, f"has_{needed}", False)
    with pytest.raises(NotImplementedError, match=rf"^bertfeat_peak_{loop} needs {needed}, which this processor lacks"):
        built.multiply_in_registers(loop, 1)


def test_names_for_records(each: Kernels) -> None:
    best = "avx512" if each.has_avx512 else "neon" if platform.machine() == "aarch64" else "avx2"
    with_bf16 = "amx" if each.has_amx else "avx512_bf16" if each.has_bf16 else best if each.has_avx512 else "none"
    assert kernels_in_use(CPU, Precision.FP32) == best
    assert kernels_in_use(CPU, Precision.BF16) == with_bf16
    assert kernels_in_use(CPU, Precision.FP16) == kernels_in_use(torch.device("cuda"), Precision.BF16) == "none"
    assert kernels_in_use(CPU, Precision.INT8) == (each.int8_instructions or [best])[0]


@pytest.mark.usefixtures("without")
def test_nothing_serves_without_the_kernels() -> None:
    assert type(make_attention(np.sort(RAGGED), CPU, FP32, 64)) is GroupedAttention
    assert kernels_in_use(CPU, Precision.FP32) == "none"


@pytest.mark.parametrize("level", ["none", "avx2", "avx2_vnni", "avx512", "amx"])
@pytest.mark.usefixtures("built")
def test_the_environment_limits_what_is_used(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    monkeypatch.delenv("BERTFEAT_CPU", raising=False)  # these tests themselves may be held to a level
    built = kernels._load_kernels.__wrapped__()
    assert isinstance(built, Kernels)
    monkeypatch.setenv("BERTFEAT_CPU", level)
    found = kernels._load_kernels.__wrapped__()
    assert isinstance(found, Kernels) == (level != "none")
    if isinstance(found, Kernels):
        large = level in ("avx512", "amx")
        assert found.has_avx512 == (built.has_avx512 and large)
        assert found.has_vnni == (built.has_vnni and large)
        assert found.has_bf16 == (built.has_bf16 and large)
        assert found.has_amx == (built.has_amx and level == "amx")
        assert found.has_avx2_vnni == (built.has_avx2_vnni and level != "avx2")


def test_another_level_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTFEAT_CPU", "sse2")
    with pytest.raises(UsageError, match=r"BERTFEAT_CPU is 'sse2'; known are none, avx2, avx2_vnni, avx512, amx"):
        kernels._load_kernels.__wrapped__()


@pytest.mark.slow
def test_attention_without_torch_keeps_to_its_definition(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc")
    sources = [*Path(kernels.__file__).parent.glob("csrc/*.c"), Path(__file__).with_name("attention_check.c")]
    command = [compiler, "-O2", "-Wall", "-Werror", *map(str, sources), "-o", f"{tmp_path}/check", "-lm", "-lpthread"]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[2])
    subprocess.run([tmp_path / "check"], check=True, stdout=subprocess.DEVNULL)


def test_a_library_that_was_not_built_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    load = kernels._load_kernels.__wrapped__  # past what was found before
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert load() == ""


def test_a_library_that_cannot_be_loaded_is_not_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    damaged = tmp_path_factory.mktemp("built") / "_kernels.so"
    damaged.write_bytes(b"no library")
    spec = importlib.util.spec_from_file_location("_kernels", damaged)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    assert re.search("_kernels.so cannot be loaded", str(kernels._load_kernels.__wrapped__()))


def test_a_library_of_another_interface_is_not_used(
    built: Kernels, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert kernels_problem() == kernels_note() == ""
    monkeypatch.setattr(kernels, "_ABI", 999)
    with caplog.at_level(logging.WARNING):
        problem = kernels._load_kernels.__wrapped__()
    assert re.search(r"_kernels.so: these kernels were built from other sources \(interface \d+, ", str(problem))
    assert f"999 and {STRUCTS} are needed), so torch's operators are used instead" in caplog.text
    monkeypatch.setattr(kernels, "_load_kernels", lambda: problem)
    assert find_kernels() is None
    assert kernels_in_use(CPU, Precision.FP32) == "none"
    assert type(make_attention(np.sort(RAGGED), CPU, FP32, 64)) is GroupedAttention
    assert kernels_note() == f"{problem}. Build them anew: {AGAIN}"


@pytest.mark.parametrize("other", range(len(JOBS)))
def test_structs_of_another_size_are_told(other: int) -> None:
    sizes = [ctypes.sizeof(job) for job in JOBS]
    sizes[other] += 8

    class Library:
        @staticmethod
        def bertfeat_abi(told: Any) -> int:
            told[:] = sizes
            return kernels._ABI

    assert f"structs of {', '.join(map(str, sizes))} bytes" in kernels._interface_problem(Library())  # type: ignore[arg-type]
    assert "interface 0" in kernels._interface_problem(object())  # type: ignore[arg-type]


# ── whole models ─────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = ("The bank of the river was steep.", "a", "He went to the bank to ask for money, and the old mill ran.", "")


@pytest.fixture(scope="session")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """Give a model whose widths the kernels serve."""
    folder = tmp_path_factory.mktemp("wide") / "bert"
    return Tiny.load(build("bert", folder, hidden_size=64, num_attention_heads=2, intermediate_size=416))


def hidden_states(
    tiny: Tiny, precision: Precision, *, first_token_only: bool = False
) -> tuple[list[Tensor], TokenBatch]:
    layout = tokenize(documents(TEXTS), tiny.tokenizer, tiny.settings()).layout
    (batch,) = cut_batches(layout, 10_000, padded=False)
    encoder = PackedEncoder(tiny.model, precision, CPU)
    layers = range(tiny.model.num_layers + 1)
    return [
        state.values.float().clone()
        for state in encoder.hidden_states(batch, outputs_of(layers), first_token_only=first_token_only)
    ], batch


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("each")
@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
def test_models_are_the_same_with_and_without(wide: Tiny, precision: Precision, request: pytest.FixtureRequest) -> None:
    served, batch = hidden_states(wide, precision)
    firsts, _ = hidden_states(wide, precision, first_token_only=True)
    request.getfixturevalue("without")
    plain, _ = hidden_states(wide, precision)
    limit = 3e-5 if precision is Precision.FP32 else 0.15  # five blocks, rounded at other places
    for layer, (one, other) in enumerate(zip(served, plain, strict=True)):
        assert (one - other).abs().max() < limit, layer
        assert (one - other).abs().mean() < limit / 6, layer
    assert (firsts[-1] - served[-1][batch.starts]).abs().max() < limit
    for window, begin, length in zip(batch.windows, batch.starts, batch.lengths, strict=True):
        wanted = torch.from_numpy(text_states(wide.folder, TEXTS[window]))
        for one, exact in zip(served, wanted, strict=True):
            error = (one[begin : begin + length] - exact).abs()
            assert error.max() < (3e-5 if precision is Precision.FP32 else 0.2)


@pytest.mark.parametrize("precision", [Precision.FP32, Precision.BF16])
@pytest.mark.parametrize("kernel", [True, False], ids=["kernels", "torch"])
def test_rows_up_to_a_usual_size_change_nothing(
    wide: Tiny, precision: Precision, kernel: bool, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernel:
        request.getfixturevalue("without")
    usual, batch = hidden_states(wide, precision)
    assert usual_size(len(batch.ids)) > len(batch.ids)
    monkeypatch.setattr("bertfeat.core.encoder.packed.usual_size", lambda rows: rows)
    exact, _ = hidden_states(wide, precision)
    for one, other in zip(usual, exact, strict=True):
        assert one.shape == other.shape == (len(batch.ids), 64)
        torch.testing.assert_close(one, other, rtol=0, atol=3e-5 if precision is Precision.FP32 else 0.15)


def test_usual_sizes_are_few_and_near() -> None:
    rows = np.arange(1, 20_000)
    sizes = np.array([usual_size(int(each)) for each in rows])
    assert (sizes >= rows).all()
    assert (sizes - rows <= np.maximum(15, rows / 16)).all()
    assert (np.diff(sizes) >= 0).all()
    assert len(set(sizes)) < 130
    assert all(usual_size(int(each)) == each for each in set(sizes))
    assert usual_size(0) == 0
