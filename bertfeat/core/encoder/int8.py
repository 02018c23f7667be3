"""A transformer block with matrix products of 8-bit integers; everything else in it is in floating-point numbers.

Weights are signed, with one scale per output. Activations are unsigned: each group of a token's values has its own
scale and minimum (Yao et al. 2022), so that a vector does not depend on its batch. Before that, inputs that can become
large are scaled down, and their weights up (SmoothQuant; Xiao et al. 2023, eq. 4).

How large inputs become is measured on a text that ships with bertfeat, in float64, and the factors are rounded to
quarters of an octave, so that they are the same on every processor.

Shapes: ``T`` tokens, ``S`` sequences, ``H`` hidden width, ``I`` intermediate width.
"""

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import layer_norm, linear

from bertfeat.core.corpus import Document
from bertfeat.core.encoder.attention import GroupedAttention
from bertfeat.core.encoder.blocks import PostAttention, TorchPostAttention
from bertfeat.core.encoder.kernels import (
    ACTIVATIONS,
    TYPES,
    Int8BlockStruct,
    Int8PostAttentionStruct,
    Int8ProductStruct,
    Int8ProjectionStruct,
    Kernels,
    NormStruct,
    find_kernels,
)
from bertfeat.core.encoder.linear import ACTIVATION_FUNCTIONS
from bertfeat.core.encoder.precision import Precision
from bertfeat.core.encoder.weights import Affine, BlockWeights
from bertfeat.core.models import Model
from bertfeat.core.tokens import LongTextPolicy, TokenBatch, Tokenizer, TokenSettings, cut_batches, tokenize

_LARGEST_WEIGHT = 127
_STEPS = {"amx": 64, "vnni": 16, "avx2_vnni": 16, "avx2": 16}  # a kernel takes widths that are multiples of its number
_STEPS_PER_OCTAVE = 4  # factors are powers of the fourth root of two
_LEAST_DIVISOR = 1e-5


class ByteForm(NamedTuple):
    """The form in which values become bytes; ``csrc/int8_*.c`` have the same numbers.

    float32 holds a sum of the products of a group exactly: 384 · 255 · 127 < 2²⁴.
    """

    group: int  # inputs of a product that share a scale
    largest: int  # value of a byte


WHOLE_BYTES = ByteForm(384, 255)
"""The form for AMX and both kinds of VNNI, which give the same results, and for torch, where there is no kernel."""
SEVEN_BITS = ByteForm(128, 127)
"""The form for AVX2, which adds two products in 16 bits."""


class Int8Kernels(NamedTuple):
    """The kernels for 8-bit products, and the instructions that they use."""

    kernels: Kernels
    instructions: str

    @property
    def form(self) -> ByteForm:
        """The form in which these kernels turn values into bytes."""
        return SEVEN_BITS if self.instructions == "avx2" else WHOLE_BYTES

    def call(self, name: str, job: ctypes.Structure) -> None:
        """Call the version of a kernel that is for these instructions."""
        self.kernels.call(f"bertfeat_int8_{name}_{self.instructions}", job)

    def attention_dtype(self, width: int) -> torch.dtype:
        """The dtype of queries, keys, values and the outputs of attention, for heads of this width."""
        in_bf16 = self.instructions in ("amx", "vnni") and self.kernels.attends_in_bf16(width)
        return torch.bfloat16 if in_bf16 else torch.float32


def find_int8_kernels(*widths: int) -> Int8Kernels | None:
    """Find the fastest kernels of this processor for 8-bit products of these widths; None where there are none."""
    if (kernels := find_kernels()) is None:
        return None
    fitting = [name for name in kernels.int8_instructions if not any(width % _STEPS[name] for width in widths)]
    return Int8Kernels(kernels, fitting[0]) if fitting else None


@dataclass(frozen=True, slots=True)
class QuantizedProduct:
    """A weight ``[out, in]`` in 8 bits, and the numbers that turn sums of its products into outputs."""

    weight: Tensor  # [out, in] int8
    factor: Tensor  # [in] what inputs are multiplied by first
    scale: Tensor  # [out]
    sums: Tensor  # [groups, out] of the weight's integers, over each group of inputs
    bias: Tensor  # [out]
    form: ByteForm


def quantize_product(product: Affine, largest: Tensor, form: ByteForm = WHOLE_BYTES) -> QuantizedProduct:
    """Quantize a weight for inputs whose absolute values are at most ``largest [in]``."""
    weight = product.weight.double()
    strongest = weight.abs().amax(0).clamp_min(_LEAST_DIVISOR)
    smoothing = torch.log2(strongest / largest.clamp_min(_LEAST_DIVISOR)) / 2
    factor = torch.exp2((smoothing * _STEPS_PER_OCTAVE).round() / _STEPS_PER_OCTAVE).float()
    smoothed = weight / factor
    scale = smoothed.abs().amax(1).clamp_min(torch.finfo(torch.float32).tiny) / _LARGEST_WEIGHT
    integers = (smoothed / scale[:, None]).round().clamp(-_LARGEST_WEIGHT, _LARGEST_WEIGHT)
    sums = torch.stack([group.sum(1) for group in _input_groups(integers, form)])
    return QuantizedProduct(
        integers.to(torch.int8).contiguous(), factor, scale.float(), sums.float(), product.bias.contiguous(), form
    )


def _input_groups(x: Tensor, form: ByteForm) -> list[Tensor]:
    return [x[:, begin : begin + form.group] for begin in range(0, x.shape[1], form.group)]


class TorchInt8Product:
    """A product of 8-bit integers in torch's float32, which holds their sums exactly; no faster than float32."""

    def __init__(self, quantized: QuantizedProduct) -> None:
        self._quantized = quantized
        self._weights = [group.float() for group in _input_groups(quantized.weight, quantized.form)]

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        quantized = self._quantized
        summed = x.new_zeros(len(x), len(quantized.bias))
        groups = _input_groups(x * quantized.factor, quantized.form)
        for group, weight, weight_sums in zip(groups, self._weights, quantized.sums, strict=True):
            least = group.amin(1, keepdim=True)
            scale = ((group.amax(1, keepdim=True) - least) / quantized.form.largest).clamp_min(1e-30)  # equal values
            whole = ((group - least) / scale).round()
            summed += linear(whole, weight) * scale + least * weight_sums
        return summed * quantized.scale + quantized.bias

    def with_activation(self, x: Tensor, activation: str) -> Tensor:
        """Multiply, then apply an activation."""
        return ACTIVATION_FUNCTIONS[activation](self(x))

    def plus_residual(self, x: Tensor, residual: Tensor) -> Tensor:
        """Multiply, then add a residual."""
        return self(x) + residual

    def some(self, x: Tensor, begin: int, end: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Multiply, for the outputs from ``begin`` to ``end``."""
        return self(x)[:, begin:end].to(dtype)


class KernelInt8Product:
    """A product of 8-bit integers by our own kernel."""

    def __init__(self, quantized: QuantizedProduct, kernels: Int8Kernels) -> None:
        self._kernels = kernels
        self._outputs, inputs = quantized.weight.shape
        strips = kernels.kernels.pack_int8(quantized.weight)
        self._tensors = (strips, quantized.factor, quantized.scale, quantized.sums, quantized.bias)  # kept alive
        self.native = Int8ProductStruct(*(each.data_ptr() for each in self._tensors), inputs, self._outputs)

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        return self.some(x, 0, self._outputs)

    def some(self, x: Tensor, begin: int, end: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Multiply, for the outputs from ``begin`` to ``end``, both multiples of 16."""
        out = x.new_empty(len(x), end - begin, dtype=dtype)
        job = Int8ProjectionStruct(x.data_ptr(), out.data_ptr(), len(x), begin, end, TYPES[dtype], self.native)
        self._kernels.call("project", job)
        return out


Int8Product = KernelInt8Product | TorchInt8Product


def make_int8_product(product: Affine, largest: Tensor) -> Int8Product:
    """Quantize a product for inputs of at most ``largest``, and choose what computes it fastest on this processor."""
    kernels = find_int8_kernels(*product.weight.shape)
    quantized = quantize_product(product, largest, kernels.form if kernels else WHOLE_BYTES)
    return KernelInt8Product(quantized, kernels) if kernels else TorchInt8Product(quantized)


class KernelInt8Block:
    """A block's products of 8-bit integers and its norms, as structures that kernels read."""

    def __init__(self, products: list[QuantizedProduct], norms: list[Affine], eps: float, kernels: Int8Kernels) -> None:
        self.kernels = kernels
        self._products, self._norms = [KernelInt8Product(product, kernels) for product in products], norms
        self.projection, self.hidden = self._products[0], products[0].weight.shape[1]
        self.native = Int8BlockStruct(
            *(product.native for product in self._products),
            *(NormStruct(norm.weight.data_ptr(), norm.bias.data_ptr(), eps) for norm in norms),
        )


class KernelInt8PostAttention:
    """The part of a block after attention, its products of 8-bit integers, in one kernel."""

    def __init__(self, block: KernelInt8Block, activation: str) -> None:
        self._block, self._activation = block, ACTIVATIONS[activation]

    def __call__(self, context: Tensor, residual: Tensor) -> Tensor:
        """Compute. Shape: ``[T, H]``, ``[T, H]`` → ``[T, H]``."""
        out = torch.empty_like(residual)
        pointers = (context.data_ptr(), residual.data_ptr(), out.data_ptr(), ctypes.addressof(self._block.native))
        job = Int8PostAttentionStruct(*pointers, len(residual), self._activation, TYPES[context.dtype])
        self._block.kernels.call("post_attention", job)
        return out


class BlockInputs(NamedTuple):
    """The largest absolute value of each input of a block's products."""

    query_key_value: Tensor  # [H]
    attention_out: Tensor  # [H]
    up: Tensor  # [H]
    down: Tensor  # [I]


class Int8Block:
    """A transformer block but for its attention, on the CPU."""

    def __init__(self, weights: BlockWeights, inputs: BlockInputs, heads: int, eps: float, activation: str) -> None:
        kernels = find_int8_kernels(*weights.up.weight.shape)
        form = kernels.form if kernels else WHOLE_BYTES
        products = [quantize_product(*each, form) for each in zip(weights.products, inputs, strict=True)]
        norms = [weights.attention_norm, weights.out_norm]
        self._width = len(weights.query.bias)
        self.attention_dtype = kernels.attention_dtype(self._width // heads) if kernels else torch.float32
        self.by_kernels = KernelInt8Block(products, norms, eps, kernels) if kernels else None
        self._project: Int8Product = self.by_kernels.projection if self.by_kernels else TorchInt8Product(products[0])
        self.post_attention: PostAttention = (
            KernelInt8PostAttention(self.by_kernels, activation)
            if self.by_kernels
            else TorchPostAttention(map(TorchInt8Product, products[1:]), norms, eps, activation)
        )

    def project(self, hidden: Tensor) -> Tensor:
        """Compute queries, keys and values. Shape: ``[T, H]`` → ``[T, 3H]``."""
        return self._project.some(hidden, 0, 3 * self._width, self.attention_dtype)

    def project_first_tokens(self, hidden: Tensor, first_rows: Tensor) -> tuple[Tensor, Tensor]:
        """Compute queries of first tokens alone. Shape: ``[T, H]``, ``[S, H]`` → ``[S, H]``, ``[T, 2H]``."""
        query = self._project.some(first_rows, 0, self._width, self.attention_dtype)
        return query, self._project.some(hidden, self._width, 3 * self._width, self.attention_dtype)


def int8_note(precision: Precision, hidden: int, inner: int) -> tuple[str, ...]:
    """Return a note for the user that int8 is slow here; nothing where it is not."""
    if precision is not Precision.INT8 or find_int8_kernels(hidden, inner):
        return ()
    step = min(_STEPS.values())
    wanted = "a CPU with AVX512-VNNI or AVX2"
    if hidden % step or inner % step:
        wanted = f"widths that are multiples of {step}, and not {hidden} and {inner}"
    return (
        f"the kernels of int8 are for {wanted}: it is computed by float32 products, with the same vectors up to "
        f"rounding and no faster than fp32",
    )


# ── calibration: the largest inputs of the products, from which factors follow ──────────────────────────────


def calibration_batch(model: Model) -> TokenBatch:
    """Tokenize the text that ships with bertfeat, one sequence per line, as one batch."""
    lines = files(__package__).joinpath("calibration.txt").read_text("utf-8").splitlines()
    documents = [Document(row, str(row), line) for row, line in enumerate(lines)]
    settings = TokenSettings(model.max_tokens, LongTextPolicy.TRUNCATE)
    layout = tokenize(documents, Tokenizer(model), settings).layout
    return next(cut_batches(layout, len(layout.ids), padded=False))


@torch.inference_mode()
def largest_inputs(
    blocks: Sequence[BlockWeights],
    embedded: Tensor,
    lengths: NDArray[np.int64],
    heads: int,
    eps: float,
    activation: str,
    bias: Tensor | None = None,
) -> Iterator[BlockInputs]:
    """Compute a batch in float64 and yield the largest inputs of each block's products. Shape: ``embedded [T, H]``."""
    hidden = embedded.double()
    attention = GroupedAttention(lengths, embedded.device, bias)
    for block in blocks:
        context = attention(_product(hidden, block.query_key_value), heads)
        attended = _norm(_product(context, block.attention_out) + hidden, block.attention_norm, eps)
        raised = ACTIVATION_FUNCTIONS[activation](_product(attended, block.up))
        yield BlockInputs(*(values.abs().amax(0) for values in (hidden, context, attended, raised)))
        hidden = _norm(_product(raised, block.down) + attended, block.out_norm, eps)


def _product(x: Tensor, affine: Affine) -> Tensor:
    return linear(x, affine.weight.double(), affine.bias.double())


def _norm(x: Tensor, affine: Affine, eps: float) -> Tensor:
    return layer_norm(x, x.shape[-1:], affine.weight.double(), affine.bias.double(), eps)
