"""What follows attention, compiled by torch: norms, activation and residuals fused, which its operators write and read
one by one.

It is compiled once for all blocks and numbers of rows, and deterministically: nothing is chosen by timing it.

Shapes: ``T`` tokens, ``H`` hidden width, ``I`` intermediate width.
"""

import logging
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor
from torch.nn.functional import layer_norm, linear

from bertfeat.encoder.cuda import CudaForm, cuda_form
from bertfeat.encoder.forward import is_out_of_memory
from bertfeat.encoder.linear import ACTIVATION_FUNCTIONS
from bertfeat.encoder.weights import BlockWeights
from bertfeat.models import one_line_message

_log = logging.getLogger(__name__)
_TOLERANCE = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 8e-2}  # of a row, relative
_TRIED_ROWS = {"cpu": 48, "cuda": 4096}  # by which torch chooses how the work is cut up
_FEW_ROWS = 1  # torch compiles anew for one row and for none

Pair = tuple[Tensor, Tensor]
Formula = Callable[[Tensor, Tensor, Pair, Pair, Pair, Pair, Pair], Tensor]


class CompiledPostAttention:
    """Output product, residual, norm, feed-forward, residual, norm."""

    def __init__(
        self, weights: BlockWeights, eps: float, activation: str, device: torch.device, dtype: torch.dtype
    ) -> None:
        parts = (weights.attention_out, weights.up, weights.down, weights.attention_norm, weights.out_norm)
        self._weights = [(part.weight.to(device, dtype), part.bias.to(device, dtype)) for part in parts]
        self._kind = eps, activation
        self._formula = _formula(eps, activation)
        self._failed = False

    def __call__(self, context: Tensor, residual: Tensor) -> Tensor:
        """Compute. Shape: ``[T, H]``, ``[T, H]`` → ``[T, H]``."""
        if len(context) <= _FEW_ROWS or self._failed:
            return self._formula(context, residual, *self._weights)
        try:
            return self._compute(context, residual)
        except Exception as error:  # torch compiles so and so many kinds of block in a process
            if isinstance(error, RuntimeError) and is_out_of_memory(error):
                raise
            _log.warning("a block is not compiled any more: %s", one_line_message(error))
            self._failed = True
            return self._formula(context, residual, *self._weights)

    def _compute(self, context: Tensor, residual: Tensor) -> Tensor:
        for rows in (context, residual):
            torch._dynamo.mark_dynamic(rows, 0)
        return _compiled(*self._kind)(context, residual, *self._weights)

    @torch.inference_mode()
    def problem(self) -> str:
        """Why it cannot be used here, tried on some rows; empty if it can."""
        weight = self._weights[0][0]
        shape, draw = (_TRIED_ROWS[weight.device.type], len(weight)), torch.Generator().manual_seed(0)
        context, residual = (torch.randn(shape, generator=draw).to(weight.device, weight.dtype) for _ in range(2))
        try:
            found = self._compute(context, residual).float()
        except Exception as error:  # of torch, a compiler or a driver, whose errors have no common class
            return f"torch cannot compile them here: {one_line_message(error)}"
        wanted = self._formula(context, residual, *self._weights).float()
        apart = torch.linalg.vector_norm(found - wanted, dim=1) / torch.linalg.vector_norm(wanted, dim=1)
        if bool((apart <= _TOLERANCE[weight.dtype]).all()):
            return ""
        return f"compiled, they give other numbers (relative difference {float(apart.max()):.1e})"


@cache
def _formula(eps: float, activation: str) -> Formula:
    function = ACTIVATION_FUNCTIONS[activation]

    def formula(
        context: Tensor, residual: Tensor, out: Pair, up: Pair, down: Pair, attention_norm: Pair, out_norm: Pair
    ) -> Tensor:
        width = residual.shape[-1:]
        attended = layer_norm(linear(context, *out) + residual, width, *attention_norm, eps)
        raised = function(linear(attended, *up))  # [T, I]
        return layer_norm(linear(raised, *down) + attended, width, *out_norm, eps)

    return formula


@cache
def _compiled(eps: float, activation: str) -> Formula:
    return torch.compile(_formula(eps, activation), fullgraph=True, options={"deterministic": True})


_problems: dict[tuple[object, ...], str] = {}  # one block is tried for all of its shape


def find_compiled(
    weights: BlockWeights, eps: float, activation: str, device: torch.device, dtype: torch.dtype
) -> CompiledPostAttention | None:
    """What follows attention, compiled, where ``BERTFEAT_CUDA`` asks for it and it works; a warning if it does not."""
    if cuda_form(device) < CudaForm.COMPILED:
        return None
    compiled = CompiledPostAttention(weights, eps, activation, device, dtype)
    kind = (device, dtype, weights.up.weight.shape, eps, activation)
    if kind not in _problems:
        _problems[kind] = compiled.problem()
        if _problems[kind]:
            _log.warning("blocks are not compiled: %s", _problems[kind])
    return None if _problems[kind] else compiled
