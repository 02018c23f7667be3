"""Our own C kernels (``csrc/``), where a C compiler was found at installation and the CPU has AVX-512, better AMX.

Attention takes torch's CPU operators 1.2 to 9 times as long, most so among short sequences (benchmarks/attention.py),
and on AMX what follows attention takes them 1.2 to 2.4 times as long, because each product goes through memory
(benchmarks/block.py). torch's own threads do the work, so that no others contend with them.
"""

import ctypes
import importlib.util
import logging
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.encoder.weights import BlockWeights

_log = logging.getLogger(__name__)
_ABI = 1  # BERTFEAT_ABI of csrc/kernels.h; raise both with every change of a struct or a function
_AVX512, _AMX = 1, 2
_TYPES = {torch.float32: 0, torch.bfloat16: 1}
_ACTIVATIONS = {"gelu": 0, "gelu_new": 1, "gelu_pytorch_tanh": 1, "relu": 2}
_ATTENTION_STEP = 16  # widths of heads are multiples of this
_AMX_HEADS = (32, 64)
_PRODUCT_STEP = 32  # and those of products of this
_ALIGNMENT = 64


class Kernels:
    """The built library and the OpenMP runtime on whose threads it works."""

    def __init__(self, library: ctypes.CDLL, openmp: ctypes.CDLL, features: int) -> None:
        self._library, self._parallel = library, ctypes.cast(openmp.GOMP_parallel, ctypes.c_void_p)
        self.has_amx = bool(features & _AMX)

    def call(self, name: str, job: ctypes.Structure) -> None:
        """Call a kernel on torch's number of threads.

        Raises:
            RuntimeError: memory ran out.
        """
        if getattr(self._library, name)(ctypes.byref(job), self._parallel, torch.get_num_threads()):
            raise RuntimeError("not enough memory for a kernel's buffers")

    def pack(self, weight: Tensor) -> Tensor:
        """Repack a bfloat16 weight ``[out, in]`` as the tiles that products read; ``[out · in]``, aligned."""
        room = torch.empty(weight.numel() + _ALIGNMENT, dtype=torch.bfloat16)
        begin = -room.data_ptr() % _ALIGNMENT // room.element_size()
        tiles = room[begin : begin + weight.numel()]
        sizes = (ctypes.c_int64(weight.shape[1]), ctypes.c_int64(weight.shape[0]))
        self._library.bertfeat_pack(*map(ctypes.c_void_p, (weight.data_ptr(), tiles.data_ptr())), *sizes)
        return tiles


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
        features = int(library.bertfeat_features())
        return Kernels(library, openmp, features) if features & _AVX512 else ""
    except (OSError, AttributeError) as error:
        return f"{built.origin} cannot be loaded: {error}"


def _interface_problem(library: ctypes.CDLL) -> str:
    """Why the library was not built from the sources beside this file; empty if it was."""
    function = getattr(library, "bertfeat_abi", None)
    sizes = (ctypes.c_int64 * 2)()
    version = 0
    if function is not None:
        function.restype = ctypes.c_int64
        version = function(sizes)
    expected = (_ABI, ctypes.sizeof(_AttentionStruct), ctypes.sizeof(_PostAttentionStruct))
    if (version, *sizes) == expected:
        return ""
    return (
        f"these kernels were built from other sources (interface {version}, structs of {sizes[0]} and {sizes[1]} "
        f"bytes; {expected[0]}, {expected[1]} and {expected[2]} are needed), so torch's operators are used instead"
    )


def kernels_in_use(device: torch.device, dtype: torch.dtype) -> str:
    """Name the kernels that compute on a device in a format, for records: ``amx``, ``avx512`` or ``none``."""
    kernels = find_kernels() if device.type == "cpu" and dtype in _TYPES else None
    if kernels is None:
        return "none"
    return "amx" if kernels.has_amx and dtype is torch.bfloat16 else "avx512"


def _pointers(*names: str) -> list[tuple[str, type[ctypes.c_void_p]]]:
    return [(name, ctypes.c_void_p) for name in names]


def _integers(*names: str) -> list[tuple[str, type[ctypes.c_int64]]]:
    return [(name, ctypes.c_int64) for name in names]


# ── attention ───────────────────────────────────────────────────────────────────────────────────────────────


class _AttentionStruct(ctypes.Structure):
    _fields_ = [
        *_pointers("query", "key", "value", "out", "query_bounds", "key_bounds"),
        *_integers("sequences", "heads", "width", "query_stride", "key_stride", "out_stride"),
        *_integers("longest", "type", "amx"),
        ("scale", ctypes.c_float),
    ]


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
        job = _AttentionStruct(
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
            amx=query.dtype is torch.bfloat16 and self._kernels.has_amx and width in _AMX_HEADS,
            scale=width**-0.5,
        )
        self._kernels.call("bertfeat_attend", job)
        return out


def find_attention_kernels(device: torch.device, dtype: torch.dtype, width: int) -> Kernels | None:
    """Find the kernels if they compute attention with heads of this width on this device."""
    serves = device.type == "cpu" and dtype in _TYPES and width % _ATTENTION_STEP == 0
    return find_kernels() if serves else None


# ── what follows attention ───────────────────────────────────────────────────────────────────────────────────


class _ProductStruct(ctypes.Structure):
    _fields_ = [*_pointers("weight", "bias"), *_integers("in", "out")]


class _NormStruct(ctypes.Structure):
    _fields_ = [*_pointers("weight", "bias"), ("eps", ctypes.c_float)]


class _PostAttentionStruct(ctypes.Structure):
    _fields_ = [
        *_pointers("context", "residual", "out"),
        *_integers("rows", "activation"),
        *((name, _ProductStruct) for name in ("output", "up", "down")),
        *((name, _NormStruct) for name in ("attention_norm", "out_norm")),
    ]


class _TiledProduct(NamedTuple):
    """A weight ``[out, in]`` as tiles, and its bias ``[out]``, float32."""

    weight: Tensor
    bias: Tensor

    def native(self) -> _ProductStruct:
        outputs = len(self.bias)
        return _ProductStruct(self.weight.data_ptr(), self.bias.data_ptr(), len(self.weight) // outputs, outputs)


class KernelPostAttention:
    """What follows attention in a block (Vaswani et al. 2017; post-layer-norm), in bfloat16 on AMX.

    Output product, residual, norm, feed-forward, residual, norm. Products are of bfloat16, all sums, biases,
    residuals and norms of float32.
    """

    def __init__(self, weights: BlockWeights, eps: float, activation: str, kernels: Kernels) -> None:
        self._kernels, self._activation = kernels, _ACTIVATIONS[activation]
        products = (weights.attention_out, weights.up, weights.down)
        self._products = [
            _TiledProduct(kernels.pack(product.weight.bfloat16().contiguous()), product.bias) for product in products
        ]
        self._norms = [weights.attention_norm, weights.out_norm]
        self._natives = [
            *(product.native() for product in self._products),
            *(_NormStruct(norm.weight.data_ptr(), norm.bias.data_ptr(), eps) for norm in self._norms),
        ]

    def __call__(self, context: Tensor, residual: Tensor) -> Tensor:
        """Compute. Shape: ``[T, H]``, ``[T, H]`` → ``[T, H]``."""
        out = torch.empty_like(residual)
        pointers = (context.data_ptr(), residual.data_ptr(), out.data_ptr())
        self._kernels.call(
            "bertfeat_post_attention", _PostAttentionStruct(*pointers, len(residual), self._activation, *self._natives)
        )
        return out


def find_post_attention_kernels(device: torch.device, dtype: torch.dtype, hidden: int, inner: int) -> Kernels | None:
    """Find the kernels if they compute what follows attention in these widths on this device."""
    serves = device.type == "cpu" and dtype is torch.bfloat16 and not (hidden % _PRODUCT_STEP or inner % _PRODUCT_STEP)
    kernels = find_kernels() if serves else None
    return kernels if kernels and kernels.has_amx else None
