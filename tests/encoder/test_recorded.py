"""Recorded forward passes against those that are not, by a recorder that overwrites its states as a CUDA graph does."""

import gc
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.encoder import HiddenState
from bertfeat.encoder.packed import PackedEncoder
from bertfeat.encoder.precision import Precision
from bertfeat.encoder.recorded import Compute, ForwardSize, RecordedForward, Recording
from bertfeat.recipe import Pooling
from bertfeat.tokens import TokenBatch
from tests.support.tiny_models import CPU, LONG_TEXT, TEXTS, Tiny, documents

BOUND = 3e-5
SIZE = ForwardSize(8, 8, 64, (1,), first_token_only=False)


class Recorder:
    """Runs what it recorded anew, into the states that it gave before."""

    def __init__(self) -> None:
        self.recorded = self.replayed = 0

    def __call__(self, run: Callable[[], Sequence[HiddenState]]) -> Recording:
        self.recorded += 1
        states = run()
        for state in states:
            state.values.fill_(torch.nan)  # while it is recorded, nothing is computed

        def replay() -> None:
            self.replayed += 1
            for state, again in zip(states, run(), strict=True):
                state.values.copy_(again.values)

        return Recording(states, replay)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_bounds: Tensor,
    key_bounds: Tensor,
    longest_query: int,
    longest: int,
) -> Tensor:
    """Attention sequence by sequence; rows of none are not numbers. Shape: ``[T, A, d]``."""
    out = torch.full_like(query, torch.nan)
    for (a, b), (c, d) in zip(*(bounds.unfold(0, 2, 1).tolist() for bounds in (query_bounds, key_bounds)), strict=True):
        assert b - a <= longest_query
        assert d - c <= longest
        if c < d:
            scores = torch.einsum("qad,kad->aqk", query[a:b], key[c:d]) / query.shape[-1] ** 0.5
            out[a:b] = torch.einsum("aqk,kad->qad", scores.softmax(-1), value[c:d])
    return out


def recording_encoder(tiny: Tiny) -> tuple[PackedEncoder, Recorder]:
    encoder, recorder = PackedEncoder(tiny.model, Precision.FP32, CPU), Recorder()
    encoder.record(recorder, attend)
    return encoder, recorder


def random_batch(tiny: Tiny, lengths: Sequence[int], seed: int) -> TokenBatch:
    ids = np.random.default_rng(seed).integers(5, tiny.model.sizes.vocab_size, sum(lengths), dtype=np.int32)
    return TokenBatch(np.arange(len(lengths)), ids, np.zeros(len(ids), np.int8), np.array(lengths))


def values(
    encoder: PackedEncoder, batch: TokenBatch, layers: Sequence[int], *, first: bool
) -> list[tuple[int, NDArray[np.float32]]]:
    states = encoder.hidden_states(batch, layers, first_token_only=first)
    return [(state.layer, state.values.numpy().copy()) for state in states]


@pytest.mark.parametrize("first", [False, True], ids=["all tokens", "first tokens"])
def test_replays_give_what_the_forward_pass_gives(packed_tiny: Tiny, first: bool) -> None:
    if packed_tiny.model.config.model_type == "mpnet":
        pytest.skip("what is recorded attends by varlen_attn, which has no bias")
    encoder, recorder = recording_encoder(packed_tiny)
    plain = packed_tiny.encoder
    assert isinstance(plain, PackedEncoder)
    layers = (0, 2, packed_tiny.model.num_layers)
    shapes = [(20, 9, 3), (19, 10, 2), (25, 2, 2), (13, 13, 6), (32,), (30, 1), (2,) * 16]
    for seed, lengths in enumerate(shapes * 2):
        batch = random_batch(packed_tiny, lengths, seed)
        found, wanted = (values(each, batch, layers, first=first) for each in (encoder, plain))
        for (layer, one), (same, other) in zip(found, wanted, strict=True):
            assert layer == same
            np.testing.assert_allclose(one, other, rtol=0, atol=BOUND, err_msg=f"{lengths}, layer {layer}")
    assert recorder.recorded == 1  # up to 32 tokens and 16 sequences
    assert recorder.replayed == 1 + len(shapes) * 2 - 2


def test_every_column_of_texts(bert: Tiny) -> None:
    encoder, recorder = recording_encoder(bert)
    recording = Tiny(bert.folder, bert.model, bert.tokenizer, encoder)
    texts = documents([*TEXTS, LONG_TEXT] * 4)
    found, wanted = (
        tiny.features(texts, "0,concat4,sum4", *Pooling, batch_tokens=64).computed.matrices
        for tiny in (recording, bert)
    )
    assert recorder.replayed > recorder.recorded > 0
    for name, matrix in wanted.items():
        np.testing.assert_allclose(found[name], matrix, rtol=0, atol=BOUND, err_msg=name)


# ── recordings that are not used ─────────────────────────────────────────────────────────────────────────────


def double(inputs: Sequence[Tensor], size: ForwardSize) -> Iterator[HiddenState]:
    """Twice the input, with what is not a number in rows that nobody asked for."""
    doubled = inputs[0] * 2
    doubled[4:] = torch.nan
    yield HiddenState(1, doubled, size.first_token_only)


def run(forward: RecordedForward, seed: int, size: ForwardSize = SIZE, compute: Compute = double) -> None:
    given = torch.randn(8, 2, generator=torch.Generator().manual_seed(seed))
    for state in forward(compute, [given], size, 4, 4):  # used while it is valid
        assert torch.equal(state.values[:4], given[:4] * 2)


class Wrong(Recorder):
    """Gives recordings that are a little off, or do nothing."""

    def __init__(self, off: float) -> None:
        super().__init__()
        self.off = off

    def __call__(self, run: Callable[[], Sequence[HiddenState]]) -> Recording:
        right = super().__call__(run)
        right.replay()
        values = [state.values.clone() for state in right.states]

        def replay() -> None:
            for state, value in zip(right.states, values, strict=True):
                state.values.copy_(value + self.off)

        return Recording(right.states, replay if self.off else list)


@pytest.mark.parametrize("off", [0.0, 1e-6], ids=["nothing", "a little off"])
def test_a_recording_of_other_numbers_is_not_used(off: float, caplog: pytest.LogCaptureFixture) -> None:
    recorder = Wrong(off)
    forward = RecordedForward(recorder)
    for seed in range(5):
        for longest in (64, 128):
            run(forward, seed, SIZE._replace(longest=longest))
    assert recorder.recorded == 1  # after the first failure no other size is tried
    (told,) = caplog.messages
    assert "not recorded any more: a replay gives other numbers" in told


@pytest.mark.parametrize(
    "error",
    [RuntimeError("CUDA error: operation not permitted\nmore of it"), torch.OutOfMemoryError("CUDA out of memory")],
    ids=["failure", "memory"],
)
def test_what_cannot_be_recorded_is_computed(error: RuntimeError, caplog: pytest.LogCaptureFixture) -> None:
    asked = []

    def recorder(run: Callable[[], Sequence[HiddenState]]) -> Recording:
        asked.append(run)
        raise error

    forward = RecordedForward(recorder)
    for seed in range(4):
        run(forward, seed)
    assert len(asked) == 1
    (told,) = caplog.messages
    assert str(error).splitlines()[0] in told


def test_where_memory_runs_out_recordings_give_theirs_back() -> None:
    recorder = Recorder()
    forward = RecordedForward(recorder)
    for seed in range(3):
        run(forward, seed)
    assert recorder.replayed == 2

    def too_large(inputs: Sequence[Tensor], size: ForwardSize) -> Iterator[HiddenState]:
        yield next(double(inputs, size))
        raise torch.OutOfMemoryError

    with pytest.raises(torch.OutOfMemoryError):
        run(forward, 3, SIZE._replace(rows=16), too_large)
    for seed in range(4):  # nothing is locked, and nothing recorded again
        run(forward, seed)
    assert (recorder.recorded, recorder.replayed) == (1, 2)


def test_an_encoder_goes_when_nobody_holds_it(bert: Tiny) -> None:
    encoder, _ = recording_encoder(bert)
    batch = random_batch(bert, (5, 3), 0)
    values(encoder, batch, (1,), first=False)
    gone = weakref.ref(encoder)
    gc.disable()
    try:
        del encoder
        assert gone() is None  # and with it the device's memory
    finally:
        gc.enable()


def test_few_are_recorded() -> None:
    recorder = Recorder()
    forward = RecordedForward(recorder)
    for seed in range(3):
        for longest in range(64, 64 * 50, 64):
            run(forward, seed, SIZE._replace(longest=longest))
    assert recorder.recorded == 32
    assert recorder.replayed == 64


def test_two_threads_at_once() -> None:
    forward = RecordedForward(Recorder())
    failed = []

    def work(seed: int) -> None:
        try:
            for at in range(200):
                run(forward, seed * 1000 + at)
        except AssertionError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
