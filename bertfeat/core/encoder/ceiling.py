"""Measured multiplication rates of this hardware: the ceiling and the peak to compare an encoder's speed with."""

import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch

from bertfeat.core.encoder.int8 import make_int8_product
from bertfeat.core.encoder.kernels import find_kernels, kernels_in_use
from bertfeat.core.encoder.linear import make_linear_product
from bertfeat.core.encoder.precision import Precision
from bertfeat.core.encoder.weights import Affine
from bertfeat.io import keep_freed_memory

_PROBED = 500_000_000  # operations of a first loop, to estimate how many the measured loop needs
_PEAK_SECONDS = 0.1  # of the measured loop


def block_flop(hidden: int, inner: int) -> int:
    """Floating-point operations of a block's four products for one token: ``2·(4H² + 2HI)``, ``24H²`` for ``I = 4H``.

    Attention among tokens is not counted.
    """
    return 2 * (4 * hidden * hidden + 2 * hidden * inner)


def product_rate(
    hidden: int, inner: int, precision: Precision, device: torch.device, *, rows: int, repeats: int = 5
) -> float:
    """Measure the rate of a block's four products (QKV, output, up, down) one by one, weighted by their operations.

    Returns operations per second, the median of ``repeats`` runs after a warm-up; each has ``rows`` tokens at once. In
    int8 the products are our own, and their inputs are quantized first.
    """
    if device.type == "cpu":
        keep_freed_memory()  # fresh pages are no part of a product
    shapes = ((hidden, 3 * hidden), (hidden, hidden), (hidden, inner), (inner, hidden))
    draw = partial(torch.randn, device=device, dtype=precision.dtype)

    def make_product(k: int, n: int) -> Callable[[torch.Tensor], torch.Tensor]:
        if precision is Precision.INT8:
            return make_int8_product(Affine(draw(n, k), draw(n)), torch.ones(k))
        return make_linear_product(draw(n, k), draw(n))

    products = [(make_product(k, n), k) for k, n in shapes]
    inputs = {k: draw(rows, k) for k in (hidden, inner)}
    seconds = []
    with torch.inference_mode():
        for _ in range(repeats + 1):
            synchronize(device)
            begin = time.perf_counter()
            for product, k in products:
                product(inputs[k])
            synchronize(device)
            seconds.append(time.perf_counter() - begin)
    return rows * block_flop(hidden, inner) / median(seconds[1:])


def peak_rate(precision: Precision, device: torch.device) -> float | None:
    """Measure the rate of multiply-adds in registers, on all threads at once, which no product can pass.

    Returns operations per second, with the instructions that kernels use in this precision; None on a GPU, and where
    there are no kernels for x86-64.
    """
    kernels, instructions = find_kernels(), kernels_in_use(device, precision)
    if kernels is None or instructions in ("none", "neon"):
        return None
    # the loops of csrc/peak.c are bertfeat_peak_avx2, _bf16, _int8_avx512_vnni, …
    loop = f"int8_{instructions}" if precision is Precision.INT8 else instructions.removeprefix("avx512_")

    def rate(operations: int) -> float:
        begin = time.perf_counter()
        kernels.multiply_in_registers(loop, operations)
        return (
            operations
            * torch.get_num_threads()
            / (  # each thread does them all
                time.perf_counter() - begin
            )
        )

    return rate(int(rate(_PROBED) / torch.get_num_threads() * _PEAK_SECONDS))


def synchronize(device: torch.device) -> None:
    """Wait until a device has finished its queued work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
