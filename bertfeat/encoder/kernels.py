"""Our own C kernels (``csrc/``), where a C compiler was found at installation: for AVX2, AVX-512, AMX and aarch64.

Attention takes torch's CPU operators 1.2 to 9 times as long, most so among short sequences (benchmarks/attention.py),
and on AMX what follows attention takes them 1.2 to 2.4 times as long, because each product goes through memory
(benchmarks/block.py). torch's own threads do the work, so that no others contend with them.
"""

import ctypes
import importlib.util
import logging
import os
import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.encoder.native import JOBS, AttentionStruct, NormStruct, PostAttentionStruct, ProductStruct
from bertfeat.encoder.precision import Precision
from bertfeat.encoder.weights import BlockWeights
from bertfeat.errors import UsageError

_log = logging.getLogger(__name__)
_ABI = 4  # BERTFEAT_ABI of csrc/kernels.h; raise both with every change of a struct or a function
_AVX512, _AMX, _VNNI, _VECTOR = 1, 2, 4, 8  # HAS_… of csrc/support.c
_VECTOR_FORM, _AVX512_FORM, _AMX_FORM = range(3)  # of attention
_LEVELS = {"none": 0, "avx2": _VECTOR, "avx512": _VECTOR | _AVX512 | _VNNI, "amx": _VECTOR | _AVX512 | _VNNI | _AMX}
_TYPES = {torch.float32: 0, torch.bfloat16: 1}
ACTIVATIONS = {"gelu": 0, "gelu_new": 1, "gelu_pytorch_tanh": 1, "relu": 2}
_ATTENTION_STEP = 16  # widths of heads are multiples of this
_AMX_HEADS = (32, 64)
_PRODUCT_STEP = 32  # and those of products of this
_ALIGNMENT = 64


class Kernels:
    """The built library and the OpenMP runtime on whose threads it works."""

    def __init__(self, library: ctypes.CDLL, openmp: ctypes.CDLL, features: int) -> None:
        self._library, self._parallel = library, ctypes.cast(openmp.GOMP_parallel, ctypes.c_void_p)
        self.has_amx, self.has_vnni = bool(features & _AMX), bool(features & _VNNI)
        self.has_avx512 = bool(features & _AVX512)
        self.has_avx2 = bool(features & _VECTOR) and platform.machine() != "aarch64"

    def call(self, name: str, job: ctypes.Structure) -> None:
        """Call a kernel on torch's number of threads.

        Raises:
            RuntimeError: memory ran out.
        """
        if getattr(self._library, name)(ctypes.byref(job), self._parallel, torch.get_num_threads()):
            raise RuntimeError("not enough memory for a kernel's buffers")

    def pack(self, weight: Tensor) -> Tensor:
        """Repack a bfloat16 weight ``[out, in]`` as the tiles that products read; ``[out · in]``, aligned."""
        return self._packed("bertfeat_pack", weight)

    def pack_int8(self, weight: Tensor) -> Tensor:
        """Repack an int8 weight ``[out, in]`` as the strips that products read; ``[out · in]``, aligned."""
        return self._packed("bertfeat_pack_int8", weight)

    def _packed(self, name: str, weight: Tensor) -> Tensor:
        room = torch.empty(weight.numel() + _ALIGNMENT, dtype=weight.dtype)
        begin = -room.data_ptr() % _ALIGNMENT // room.element_size()
        packed = room[begin : begin + weight.numel()]
        sizes = (ctypes.c_int64(weight.shape[1]), ctypes.c_int64(weight.shape[0]))
        getattr(self._library, name)(*map(ctypes.c_void_p, (weight.data_ptr(), packed.data_ptr())), *sizes)
        return packed


def find_kernels() -> Kernels | None:
    """Find the kernels; None where they were not built, or this processor or torch's threads are other ones."""
    loaded = _load_kernels()
    return loaded if isinstance(loaded, Kernels) else None


def kernels_problem() -> str:
    """Why kernels that were built cannot be used; empty where they can, or where nothing is wrong."""
    loaded = _load_kernels()
    return loaded if isinstance(loaded, str) else ""


@cache
def _load_kernels() -> Kernels | str:
    """Load the built library; where it cannot be used, the reason, empty where there is nothing to repair."""
    built = importlib.util.find_spec("bertfeat.encoder._kernels")
    torch_folder = Path(torch.__file__).parent
    runtimes = [file for folder in ("lib", "../torch.libs") for file in (torch_folder / folder).glob("libgomp*")]
    if built is None or built.origin is None or not runtimes:
        return ""
    try:
        library, openmp = ctypes.CDLL(built.origin), ctypes.CDLL(str(runtimes[0]))
        if problem := _interface_problem(library):
            _log.warning("%s: %s", built.origin, problem)
            return f"{built.origin}: {problem}"
        features = int(library.bertfeat_features()) & _allowed()
        return Kernels(library, openmp, features) if features else ""
    except (OSError, AttributeError) as error:
        return f"{built.origin} cannot be loaded: {error}"


def _allowed() -> int:
    """What ``BERTFEAT_CPU`` lets be used: ``none``, ``avx2``, ``avx512`` or ``amx``, each with those before it."""
    wanted = os.environ.get("BERTFEAT_CPU", "amx")
    if wanted not in _LEVELS:
        raise UsageError(f"BERTFEAT_CPU is {wanted!r}", remedy=f"known are {', '.join(_LEVELS)}")
    return _LEVELS[wanted]


def _interface_problem(library: ctypes.CDLL) -> str:
    """Why the library was not built from the sources beside this file; empty if it was."""
    function = getattr(library, "bertfeat_abi", None)
    sizes = (ctypes.c_int64 * len(JOBS))()
    version = 0
    if function is not None:
        function.restype = ctypes.c_int64
        version = function(sizes)
    expected = [ctypes.sizeof(job) for job in JOBS]
    if version == _ABI and [*sizes] == expected:
        return ""
    return (
        f"these kernels were built from other sources (interface {version}, structs of {_listing(sizes)} bytes; {_ABI} "
        f"and {_listing(expected)} are needed), so torch's operators are used instead"
    )


def _listing(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


def kernels_in_use(device: torch.device, precision: Precision) -> str:
    """Name the kernels that compute on a device: ``amx``, ``vnni``, ``avx512``, ``avx2``, ``neon`` or ``none``."""
    kernels = find_kernels() if device.type == "cpu" and precision.dtype in _TYPES else None
    if kernels is None:
        return "none"
    if precision is Precision.INT8 and (kernels.has_vnni or kernels.has_avx2):
        return "vnni" if kernels.has_vnni else "avx2"
    if kernels.has_avx512:
        return "amx" if kernels.has_amx and precision is Precision.BF16 else "avx512"
    if precision.dtype is not torch.float32:
        return "none"
    return "neon" if platform.machine() == "aarch64" else "avx2"


# ── attention ───────────────────────────────────────────────────────────────────────────────────────────────


class KernelAttention:
    """Attention over sequences of any length side by side, without padding; batch mates change nothing.

    Shapes: ``T`` tokens of a batch, ``S`` sequences, ``A`` heads, ``d`` head width, ``H = A·d``.
    """

    def __init__(self, lengths: NDArray[np.int64], kernels: Kernels) -> None:
        self._kernels = kernels
        self._bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._singles = np.arange(len(lengths) + 1, dtype=np.int64)
        self._longest = int(lengths.max(initial=0))

    def __call__(self, qkv: Tensor, heads: int) -> Tensor:
        """Attend. Shape: ``qkv [T, 3H]`` → ``[T, H]``."""
        query, key, value = qkv.chunk(3, dim=1)
        return self._attend(query, key, value, self._bounds, heads)

    def for_first_tokens(self, query: Tensor, key_value: Tensor, heads: int) -> Tensor:
        """Attend for the first token of each sequence only. Shape: ``[S, H]``, ``[T, 2H]`` → ``[S, H]``."""
        key, value = key_value.chunk(2, dim=1)
        return self._attend(query, key, value, self._singles, heads)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, bounds: NDArray[np.int64], heads: int) -> Tensor:
        out = torch.empty(query.shape, dtype=query.dtype)
        out[bounds[-1] :] = 0  # rows after the last sequence, which fill a batch up to a usual size
        width = query.shape[1] // heads
        job = AttentionStruct(
            query=query.data_ptr(),
            key=key.data_ptr(),
            value=value.data_ptr(),
            out=out.data_ptr(),
            query_bounds=bounds.ctypes.data,
            key_bounds=self._bounds.ctypes.data,
            sequences=len(bounds) - 1,
            heads=heads,
            width=width,
            query_stride=query.stride(0),
            key_stride=key.stride(0),
            out_stride=out.stride(0),
            longest=self._longest,
            type=_TYPES[query.dtype],
            form=self._form(query.dtype, width),
            scale=width**-0.5,
        )
        self._kernels.call("bertfeat_attend", job)
        return out

    def _form(self, dtype: torch.dtype, width: int) -> int:
        if dtype is torch.bfloat16 and self._kernels.has_amx and width in _AMX_HEADS:
            return _AMX_FORM
        return _AVX512_FORM if self._kernels.has_avx512 else _VECTOR_FORM


def find_attention_kernels(device: torch.device, dtype: torch.dtype, width: int) -> Kernels | None:
    """Find the kernels if they compute attention with heads of this width on this device."""
    serves = device.type == "cpu" and dtype in _TYPES and width % _ATTENTION_STEP == 0
    kernels = find_kernels() if serves else None
    return kernels if kernels and (kernels.has_avx512 or dtype is torch.float32) else None


# ── what follows attention ───────────────────────────────────────────────────────────────────────────────────


class _TiledProduct(NamedTuple):
    """A weight ``[out, in]`` as tiles, and its bias ``[out]``, float32."""

    weight: Tensor
    bias: Tensor

    def native(self) -> ProductStruct:
        outputs = len(self.bias)
        return ProductStruct(self.weight.data_ptr(), self.bias.data_ptr(), len(self.weight) // outputs, outputs)


class KernelPostAttention:
    """What follows attention in a block (Vaswani et al. 2017; post-layer-norm), in bfloat16 on AMX.

    Output product, residual, norm, feed-forward, residual, norm. Products are of bfloat16, all sums, biases,
    residuals and norms of float32.
    """

    def __init__(self, weights: BlockWeights, eps: float, activation: str, kernels: Kernels) -> None:
        self._kernels, self._activation = kernels, ACTIVATIONS[activation]
        products = (weights.attention_out, weights.up, weights.down)
        self._products = [
            _TiledProduct(kernels.pack(product.weight.bfloat16().contiguous()), product.bias) for product in products
        ]
        self._norms = [weights.attention_norm, weights.out_norm]
        self._natives = [
            *(product.native() for product in self._products),
            *(NormStruct(norm.weight.data_ptr(), norm.bias.data_ptr(), eps) for norm in self._norms),
        ]

    def __call__(self, context: Tensor, residual: Tensor) -> Tensor:
        """Compute. Shape: ``[T, H]``, ``[T, H]`` → ``[T, H]``."""
        out = torch.empty_like(residual)
        pointers = (context.data_ptr(), residual.data_ptr(), out.data_ptr())
        self._kernels.call(
            "bertfeat_post_attention", PostAttentionStruct(*pointers, len(residual), self._activation, *self._natives)
        )
        return out


def find_post_attention_kernels(device: torch.device, dtype: torch.dtype, hidden: int, inner: int) -> Kernels | None:
    """Find the kernels if they compute what follows attention in these widths on this device."""
    serves = device.type == "cpu" and dtype is torch.bfloat16 and not (hidden % _PRODUCT_STEP or inner % _PRODUCT_STEP)
    kernels = find_kernels() if serves else None
    return kernels if kernels and kernels.has_amx else None
