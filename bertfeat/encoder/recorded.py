"""Forward passes that are recorded once for each size of batch and replayed: on CUDA as graphs, which the device runs
without waiting for Python.

A packed batch is described by few numbers, which are rounded up, so that the same ones come again.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from bertfeat.encoder.forward import is_out_of_memory
from bertfeat.encoder.states import HiddenState
from bertfeat.io import stage, unrecorded_stages
from bertfeat.models import one_line_message

_log = logging.getLogger(__name__)
_MOST = 32  # recordings; each keeps the layers that it computes


class ForwardSize(NamedTuple):
    """What a recording holds for: the size of a batch, and what is computed of it."""

    rows: int
    sequences: int
    longest: int  # tokens of a sequence
    layers: tuple[int, ...]
    first_token_only: bool


@dataclass(frozen=True, slots=True)
class Recording:
    """States, and how they are computed again from what the recorded inputs hold now."""

    states: Sequence[HiddenState]
    replay: Callable[[], object]


Compute = Callable[[Sequence[Tensor], ForwardSize], Iterator[HiddenState]]
Recorder = Callable[[Callable[[], Sequence[HiddenState]]], Recording]


class RecordedForward:
    """A forward pass: computed the first time that a size comes, recorded the second time, replayed from then on.

    A recording that does not give the very numbers of the pass it recorded is not used, and after the first failure
    nothing more is recorded. The states of a replay are valid until the next one, which waits until the iterator is at
    its end.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder: Recorder | None = recorder
        self._recordings: dict[ForwardSize, tuple[Sequence[Tensor], Recording]] = {}
        self._met: set[ForwardSize] = set()
        self._lock = threading.Lock()  # one set of inputs and states for all threads

    def __call__(
        self, compute: Compute, inputs: Sequence[Tensor], size: ForwardSize, tokens: int, sequences: int
    ) -> Iterator[HiddenState]:
        """Yield the states of a batch of so many tokens and sequences, filled up to a size."""
        with self._lock:
            try:
                yield from self._states(compute, inputs, size, tokens, sequences)
            except RuntimeError as error:
                if is_out_of_memory(error):
                    self._end(one_line_message(error), drop=True)
                raise

    def _states(
        self, compute: Compute, inputs: Sequence[Tensor], size: ForwardSize, tokens: int, sequences: int
    ) -> Iterator[HiddenState]:
        if known := self._recordings.get(size):
            recorded_inputs, recording = known
            with stage("forward"):
                for recorded, given in zip(recorded_inputs, inputs, strict=True):
                    recorded.copy_(given)
                recording.replay()
            yield from recording.states
        elif self._recorder and size in self._met and len(self._recordings) < _MOST:
            computed = list(compute(inputs, size))
            try:
                recording = self._recorder(lambda: list(compute(inputs, size)))
                pairs = zip(_replay_anew(recording), computed, strict=True)
                cut = ([state.cut(tokens, sequences).values for state in pair] for pair in pairs)
                if all(torch.equal(*values) for values in cut):
                    self._recordings[size] = inputs, recording
                else:
                    self._end("a replay gives other numbers")
            except RuntimeError as error:
                self._end(one_line_message(error), drop=is_out_of_memory(error))
            yield from computed
        else:
            self._met.add(size)
            yield from compute(inputs, size)

    def _end(self, reason: str, *, drop: bool = False) -> None:
        """Record no more, and ``drop`` what is recorded, which holds memory."""
        _log.warning("batches are not recorded any more: %s", reason)
        self._recorder = None
        if drop:
            self._recordings.clear()


def _replay_anew(recording: Recording) -> Sequence[HiddenState]:
    """Replay a recording over states that hold nothing, so that one that does nothing is found out."""
    for state in recording.states:
        state.values.fill_(torch.nan)
    recording.replay()
    return recording.states


class CudaRecorder:
    """Records what is launched on a CUDA device as a graph; all graphs share their memory, but for their states."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._pool = device, torch.cuda.graph_pool_handle()
        # of its own: graphs of one stream share the products' workspace
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def __call__(self, run: Callable[[], Sequence[HiddenState]]) -> Recording:
        """Record one run."""
        graph = torch.cuda.CUDAGraph()
        before = torch.cuda.current_stream(self._device)
        # other threads may go on allocating; the outer stream comes back where the recording fails
        with torch.cuda.device(self._device), torch.cuda.stream(before), unrecorded_stages():  # noqa: SIM117
            with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                states = run()
        return Recording(states, graph.replay)
