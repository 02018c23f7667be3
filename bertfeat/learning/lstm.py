"""A bidirectional LSTM over packed sentences (Hochreiter and Schmidhuber 1997), quick on CPUs.

It computes what ``torch.nn.LSTM`` does, on CUDA by the same library. On a CPU, torch computes one direction after the
other, in small matrix products. Here, one batched product per step serves both directions, one large product takes the
inputs of all words, products are in bfloat16 where the hardware has it, and the derivatives of the gates are computed
for all words at once.

Preparing a matrix product of a new shape takes some 10 ms, so the number of words is rounded up with unused rows.

Shapes: B sentences of a batch; N words of all, packed time by time (``sizes [T]`` words each); W inputs, H outputs of
each direction. The two directions of a word lie side by side, ``[N, 2, …]``; the second one reads sentences backwards,
so that its n-th time is a sentence's n-th word from behind. Gates are in torch's order: input, forget, cell, output.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor, nn

from bertfeat.core import has_native_bf16

_ROWS = 128  # the number of words is rounded up to a multiple of this


def reversed_order(sizes: Sequence[int]) -> Tensor:
    """The order of packed words in which each sentence is read backwards: ``[N]``.

    At the place of a sentence's n-th word it has the place of its n-th word from the end; applied twice, it restores
    the words.
    """
    starts = torch.tensor(_step_starts(sizes))
    counts = torch.tensor(sizes)
    time = torch.repeat_interleave(torch.arange(len(sizes)), counts)
    sentence = torch.cat([torch.arange(size) for size in sizes])
    lengths = (counts[:, None] > torch.arange(sizes[0])).sum(0)
    return starts[lengths[sentence] - 1 - time] + sentence


class BiLstm(nn.Module):
    """Layers of LSTMs in both directions; their weights are ``w_ih [2, 4H, W]``, ``w_hh [2, 4H, H]``, ``bias [2, 4H]``.

    Initially, the recurrent weights of each gate are orthogonal, and the bias of the forget gate is 1, so that cells
    remember.
    """

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_LstmWeights(inputs if at == 0 else 2 * hidden, hidden) for at in range(layers))

    def forward(self, inputs: Tensor, sizes: Sequence[int], masks: Sequence[Tensor] = ()) -> Tensor:
        """Run over packed inputs; ``masks`` (``[N, 2H]`` each, if any) multiply the outputs of all layers but the last.

        Shape: ``[N, W]`` → ``[N, 2H]`` float32.
        """
        order = reversed_order(sizes)
        for number, layer in enumerate(self.layers):
            run_layer = RUN_LAYER[inputs.device.type]
            inputs = run_layer(inputs, layer.w_ih, layer.w_hh, layer.bias, tuple(sizes), order)
            if masks and number + 1 < len(self.layers):
                inputs = inputs * masks[number]
        return inputs


class _LstmWeights(nn.Module):
    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.w_ih = nn.Parameter(torch.empty(2, 4 * hidden, inputs))
        self.w_hh = nn.Parameter(torch.empty(2, 4 * hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(2, 4 * hidden))
        for way in (0, 1):
            nn.init.xavier_uniform_(self.w_ih.data[way])
            for gate in torch.split(self.w_hh.data[way], hidden):
                nn.init.orthogonal_(gate)
        self.bias.data[:, hidden : 2 * hidden] = 1.0  # the forget gate's


def run_by_torch(
    inputs: Tensor, w_ih: Tensor, w_hh: Tensor, bias: Tensor, sizes: tuple[int, ...], _order: Tensor
) -> Tensor:
    """One layer as ``torch.nn.LSTM`` computes it, on any device."""
    flat = [weight[way] for way in (0, 1) for weight in (w_ih, w_hh, bias, torch.zeros_like(bias))]
    start = inputs.new_zeros(2, sizes[0], w_hh.shape[2])
    with torch.autocast(inputs.device.type, torch.bfloat16, enabled=has_native_bf16(inputs.device)):
        out: Tensor = torch.lstm(
            inputs, torch.tensor(sizes), (start, start), flat, True, 1, 0.0, torch.is_grad_enabled(), True
        )[0]
    return out.float()


def run_on_cpu(
    inputs: Tensor, w_ih: Tensor, w_hh: Tensor, bias: Tensor, sizes: tuple[int, ...], order: Tensor
) -> Tensor:
    """One layer as described at the top of this module, on a CPU."""
    low = torch.bfloat16 if has_native_bf16(inputs.device) else torch.float32
    words = len(inputs)
    padding = -words % _ROWS
    inputs = nn.functional.pad(inputs, (0, 0, 0, padding))
    order = torch.cat([order, torch.arange(words, words + padding)])
    out: Tensor = _LstmFunction.apply(inputs, w_ih, w_hh, bias, sizes, order, low)  # type: ignore[no-untyped-call]
    return out[:words]


RUN_LAYER: dict[str, Callable[..., Tensor]] = {"cpu": run_on_cpu, "cuda": run_by_torch}
"""The computation of a layer on each kind of device; ``benchmarks/lstm.py`` measures both ways on a CPU."""


class _Context(Protocol):
    """The values that a layer keeps for its gradient."""

    sizes: tuple[int, ...]
    low: torch.dtype
    saved_tensors: tuple[Tensor, ...]
    needs_input_grad: tuple[bool, ...]

    def save_for_backward(self, *tensors: Tensor) -> None: ...


class _LstmFunction(torch.autograd.Function):
    """One layer: inputs ``[N, W]``, ``w_ih [2, 4H, W]``, ``w_hh [2, 4H, H]``, bias ``[2, 4H]`` → ``[N, 2H]``."""

    @staticmethod
    def forward(
        ctx: "_Context",
        inputs: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        bias: Tensor,
        sizes: tuple[int, ...],
        order: Tensor,
        low: torch.dtype,
    ) -> Tensor:
        inputs, w_ih = inputs.to(low), w_ih.to(low)
        products = nn.functional.linear(inputs, w_ih.flatten(0, 1), bias.flatten().to(low))
        gates = _reordered(products.view(len(products), 2, -1), order).float()
        cells, hidden = _forward_steps(gates, w_hh.to(low), sizes)
        ctx.save_for_backward(inputs, w_ih, w_hh, order, gates, cells, hidden)
        ctx.sizes, ctx.low = sizes, low
        return _reordered(hidden, order).flatten(1).float()

    @staticmethod
    def backward(ctx: "_Context", grad: Tensor) -> tuple[Tensor | None, ...]:
        inputs, w_ih, w_hh, order, gates, cells, hidden = ctx.saved_tensors
        grads = _reordered(grad.reshape(len(grad), 2, -1), order)
        gate_grads = _backward_steps(grads, w_hh.to(ctx.low), ctx.sizes, gates, cells)
        earlier = _previous_words(hidden, ctx.sizes)
        recurrent = torch.stack([torch.mm(gate_grads[:, way].t(), earlier[:, way]) for way in (0, 1)])
        products = _reordered(gate_grads, order).flatten(1)
        outer = torch.mm(products.t(), inputs).float().view(w_ih.shape)
        inner = torch.mm(products, w_ih.flatten(0, 1)).float() if ctx.needs_input_grad[0] else None
        return inner, outer, recurrent.float(), gate_grads.sum(0, dtype=torch.float32), None, None, None


def _reordered(values: Tensor, order: Tensor) -> Tensor:
    """Put the values of the second direction into its order, or back: ``[N, 2, …]``."""
    changed = torch.empty_like(values)
    changed[:, 0] = values[:, 0]
    changed[:, 1] = values[order, 1]
    return changed


def _forward_steps(gates: Tensor, w_hh: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Cells (float32) and outputs (of ``w_hh``'s type) ``[N, 2, H]``; ``gates [N, 2, 4H]`` become the gates' values."""
    words, width = len(gates), w_hh.shape[2]
    cells, hidden = gates.new_zeros(words, 2, width), w_hh.new_zeros(words, 2, width)
    recurrent = w_hh.transpose(1, 2)
    before = 0
    for start, size in zip(_step_starts(sizes), sizes, strict=True):
        here, last = slice(start, start + size), slice(before, before + size)
        gate = gates[here]
        if start:
            gate += torch.bmm(hidden[last].transpose(0, 1), recurrent).transpose(0, 1)
        gate[..., : 2 * width].sigmoid_()
        gate[..., 2 * width : 3 * width].tanh_()
        gate[..., 3 * width :].sigmoid_()
        inward, forget, new, out = gate.chunk(4, 2)
        cell = torch.mul(inward, new, out=cells[here])
        if start:
            cell.addcmul_(forget, cells[last])
        torch.mul(out, cell.tanh(), out=hidden[here])
        before = start
    return cells, hidden


def _backward_steps(grad: Tensor, w_hh: Tensor, sizes: tuple[int, ...], gates: Tensor, cells: Tensor) -> Tensor:
    """Gradient with respect to the gates' pre-activations ``[N, 2, 4H]``; ``grad [N, 2, H]`` is overwritten."""
    slopes, through = _local_gradients(gates, cells, sizes)
    forget = gates.chunk(4, 2)[1]
    gate_grads = torch.zeros_like(slopes, dtype=w_hh.dtype)
    carried, later = grad[:0], 0  # cell gradient from the next time, and the number of sentences that have one
    for start, size in zip(reversed(_step_starts(sizes)), reversed(sizes), strict=True):
        here, after = slice(start, start + size), slice(start + size, start + size + later)
        output = grad[here]
        if later:
            output[:later] += torch.bmm(gate_grads[after].flatten(2).transpose(0, 1), w_hh).transpose(0, 1)
        cell = output * through[here]
        cell[:later] += carried
        torch.mul(cell[:, :, None], slopes[here, :, :3], out=gate_grads[here, :, :3])
        torch.mul(output, slopes[here, :, 3], out=gate_grads[here, :, 3])
        carried, later = cell * forget[here], size
    return gate_grads.flatten(2)


def _local_gradients(gates: Tensor, cells: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The derivatives of the cell with respect to the gates' pre-activations (for the output gate: of the output):
    ``[N, 2, 4, H]``; and of the output with respect to the cell: ``[N, 2, H]``.
    """
    inward, forget, new, out = gates.chunk(4, 2)
    squashed = cells.tanh()
    slopes = gates.new_empty(len(gates), 2, 4, cells.shape[2])
    torch.mul(inward * (1 - inward), new, out=slopes[:, :, 0])
    torch.mul(forget * (1 - forget), _previous_words(cells, sizes), out=slopes[:, :, 1])
    torch.mul(inward, 1 - new * new, out=slopes[:, :, 2])
    torch.mul(out * (1 - out), squashed, out=slopes[:, :, 3])
    return slopes, out * (1 - squashed * squashed)


def _step_starts(sizes: Sequence[int]) -> list[int]:
    return [0, *accumulate(sizes)][:-1]


def _previous_words(values: Tensor, sizes: Sequence[int]) -> Tensor:
    """The values of each word's predecessor in its sentence, zeros for the first word: ``[N, 2, H]``."""
    earlier = torch.zeros_like(values)
    for before, start, size in zip(_step_starts(sizes), _step_starts(sizes)[1:], sizes[1:], strict=False):
        earlier[start : start + size] = values[before : before + size]
    return earlier
