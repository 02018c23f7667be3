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
from bertfeat.io import stage
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

    A recording that does not give the very numbers of the pass it recorded is not used. The states of a replay are
    valid until the next one, which waits until the iterator is at its end.
    """

    def __init__(self, compute: Compute, recorder: Recorder) -> None:
        self._compute, self._recorder = compute, recorder
        self._recordings: dict[ForwardSize, tuple[Sequence[Tensor], Recording]] = {}
        self._met: set[ForwardSize] = set()
        self._refused: set[ForwardSize] = set()
        self._lock = threading.Lock()  # one set of inputs and states for all threads

    def __call__(
        self, inputs: Sequence[Tensor], size: ForwardSize, tokens: int, sequences: int
    ) -> Iterator[HiddenState]:
        """Yield the states of a batch of so many tokens and sequences, filled up to a size."""
        with self._lock:
            if known := self._recordings.get(size):
                recorded_inputs, recording = known
                with stage("forward"):
                    for recorded, given in zip(recorded_inputs, inputs, strict=True):
                        recorded.copy_(given)
                    recording.replay()
                yield from recording.states
            elif size in self._met and size not in self._refused and len(self._recordings) < _MOST:
                yield from self._record(inputs, size, tokens, sequences)
            else:
                self._met.add(size)
                yield from self._compute(inputs, size)

    def _record(
        self, inputs: Sequence[Tensor], size: ForwardSize, tokens: int, sequences: int
    ) -> Iterator[HiddenState]:
        self._refused.add(size)  # until it is found to be right, whatever happens before
        computed = list(self._compute(inputs, size))
        try:
            recording = self._recorder(lambda: list(self._compute(inputs, size)))
            recording.replay()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                _log.warning("a forward pass cannot be recorded: %s", one_line_message(error))
        else:
            replayed = [state.cut(tokens, sequences).values for state in recording.states]
            wanted = [state.cut(tokens, sequences).values for state in computed]
            if all(map(torch.equal, replayed, wanted)):
                self._refused.discard(size)
                self._recordings[size] = inputs, recording
        yield from computed


class CudaRecorder:
    """Records what is launched on a CUDA device as a graph; all graphs share their memory, but for their states."""

    def __init__(self, device: torch.device) -> None:
        self._device, self._pool = device, torch.cuda.graph_pool_handle()

    def __call__(self, run: Callable[[], Sequence[HiddenState]]) -> Recording:
        """Record one run."""
        graph = torch.cuda.CUDAGraph()
        # other threads may go on allocating
        with torch.cuda.device(self._device), torch.cuda.graph(graph, self._pool, capture_error_mode="thread_local"):
            states = run()
        return Recording(states, graph.replay)
