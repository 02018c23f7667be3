"""Attention by our own kernel, ``_attention.c``, where a C compiler was found at installation and the CPU has AVX-512.

torch's CPU attention takes two to eight times as long for the short sequences that texts are (benchmarks/attention.py).
"""

import ctypes
import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_AVX512, _AMX = 1, 2
_TYPES = {torch.float32: 0, torch.bfloat16: 1}
_AMX_WIDTHS = (32, 64)
_STEP = 16  # values of a vector


class _Call(ctypes.Structure):
    """``Attention`` of the C file."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("query", "key", "value", "out", "query_bounds", "key_bounds")),
        *((name, ctypes.c_int64) for name in ("sequences", "heads", "width", "query_stride", "key_stride")),
        *((name, ctypes.c_int64) for name in ("out_stride", "longest", "type", "amx")),
        ("scale", ctypes.c_float),
    ]


class KernelAttention:
    """Attention over sequences of any length side by side, without padding; batch mates change nothing.

    Shapes: ``T`` tokens of a batch, ``S`` sequences, ``A`` heads, ``d`` head width, ``H = A·d``.
    """

    def __init__(self, lengths: NDArray[np.int64]) -> None:
        self._bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._singles = np.arange(len(lengths) + 1, dtype=np.int64)
        self._longest = int(lengths.max())

    def __call__(self, qkv: Tensor, heads: int) -> Tensor:
        """Attend. Shape: ``qkv [T, 3H]`` → ``[T, H]``."""
        query, key, value = qkv.chunk(3, dim=1)
        return self._attend(query, key, value, self._bounds, heads)

    def first(self, query: Tensor, key_value: Tensor, heads: int) -> Tensor:
        """Attend for the first token of each sequence only. Shape: ``[S, H]``, ``[T, 2H]`` → ``[S, H]``."""
        key, value = key_value.chunk(2, dim=1)
        return self._attend(query, key, value, self._singles, heads)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, bounds: NDArray[np.int64], heads: int) -> Tensor:
        found = find_kernel()
        assert found is not None  # serves() was asked
        out = torch.empty(query.shape, dtype=query.dtype)
        width = query.shape[1] // heads
        call = _Call(
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
            amx=query.dtype is torch.bfloat16 and found.has_amx and width in _AMX_WIDTHS,
            scale=width**-0.5,
        )
        if found.attend(ctypes.byref(call), found.parallel, torch.get_num_threads()):
            raise RuntimeError("not enough memory for attention")
        return out


def serves(device: torch.device, dtype: torch.dtype, width: int) -> bool:
    """Whether the kernel computes heads of this width on this device."""
    return device.type == "cpu" and dtype in _TYPES and width % _STEP == 0 and find_kernel() is not None


class Kernel:
    """The built kernel and the OpenMP runtime whose threads it works on: torch's own, so that no others contend."""

    def __init__(self, library: ctypes.CDLL, openmp: ctypes.CDLL, features: int) -> None:
        self._libraries = library, openmp  # functions below are theirs
        self.attend = library.bertfeat_attend
        self.parallel = ctypes.cast(openmp.GOMP_parallel, ctypes.c_void_p)
        self.has_amx = bool(features & _AMX)


@cache
def find_kernel() -> Kernel | None:
    """Find the kernel; None where it was not built, or this processor or torch's threads are other ones."""
    built = importlib.util.find_spec("bertfeat.encoder._attention")
    runtimes = [file for folder in ("lib", "../torch.libs") for file in _torch_folder(folder).glob("libgomp*")]
    if built is None or built.origin is None or not runtimes:
        return None
    try:
        library, openmp = ctypes.CDLL(built.origin), ctypes.CDLL(str(runtimes[0]))
        features = int(library.bertfeat_features())
        return Kernel(library, openmp, features) if features & _AVX512 else None
    except (OSError, AttributeError):
        return None


def _torch_folder(name: str) -> Path:
    return Path(torch.__file__).parent / name
