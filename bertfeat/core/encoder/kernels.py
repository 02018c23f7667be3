"""The interface to bertfeat's own C kernels (``csrc/``) for AVX2, AVX-512, AMX and aarch64.

They are built at installation where a C compiler is found. With torch's CPU operators attention takes 1.2 to 9 times as
long, the most with short sequences (benchmarks/attention.py). The kernels run on torch's own threads, so that no other
threads contend with them. A kernel takes its arguments as a struct that ``csrc/kernels.h`` declares.
"""

import ctypes
import importlib.util
import logging
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from bertfeat.core.encoder.precision import Precision
from bertfeat.errors import UsageError
from bertfeat.io import use_huge_pages

_log = logging.getLogger(__name__)
_ABI = 14  # BERTFEAT_ABI of csrc/kernels.h; raise both with every change of a struct or a function
_AVX512, _AMX, _VNNI, _VECTOR, _BF16, _AVX2_VNNI = 1, 2, 4, 8, 16, 32  # HAS_… of csrc/support.c
_FORMS = ("", "avx512", "bf16", "amx")  # forms of attention, by their instructions; the first uses plain vectors
_VECTOR_FORM, _AVX512_FORM, _BF16_FORM, _AMX_FORM = range(4)
_AVX2_ALL = _VECTOR | _AVX2_VNNI
_AVX512_ALL = _AVX2_ALL | _AVX512 | _VNNI | _BF16
_LEVELS = {"none": 0, "avx2": _VECTOR, "avx2_vnni": _AVX2_ALL, "avx512": _AVX512_ALL, "amx": _AVX512_ALL | _AMX}
TYPES = {torch.float32: 0, torch.bfloat16: 1}
ACTIVATIONS = {"gelu": 0, "gelu_new": 1, "gelu_pytorch_tanh": 1, "relu": 2}
ATTENTION_STEP = 16  # widths of heads are multiples of this
_AMX_HEADS = (32, 64)  # widths of heads that AMX takes
_BF16_HEADS = 32  # widths of heads that AVX512-BF16 takes are multiples of this
_ALIGNMENT = 64  # bytes
_HUGE_PAGE = 1 << 21  # bytes


class Kernels:
    """The built library and the OpenMP runtime on whose threads it works."""

    def __init__(self, library: ctypes.CDLL, openmp: ctypes.CDLL, features: int) -> None:
        self._library, self._parallel = library, ctypes.cast(openmp.GOMP_parallel, ctypes.c_void_p)
        self.has_amx, self.has_vnni = bool(features & _AMX), bool(features & _VNNI)
        self.has_avx512, self.has_bf16 = bool(features & _AVX512), bool(features & _BF16)
        self.has_avx2 = bool(features & _VECTOR) and platform.machine() != "aarch64"
        self.has_avx2_vnni = bool(features & _AVX2_VNNI)

    @property
    def int8_instructions(self) -> list[str]:
        """The instructions that multiply 8-bit integers here, the fastest first; empty where there are none."""
        has = {
            "amx": self.has_amx,
            "vnni": self.has_vnni,
            "avx2_vnni": self.has_avx2_vnni,
            "avx2": self.has_avx2,
        }
        return [name for name, there in has.items() if there]

    def attends(self, dtype: torch.dtype, width: int) -> bool:
        """Whether a kernel computes attention of values of this dtype with heads of this width."""
        return width % ATTENTION_STEP == 0 and (dtype is torch.float32 or (dtype is torch.bfloat16 and self.has_avx512))

    def attends_in_bf16(self, width: int) -> bool:
        """Whether attention of bfloat16 values with heads of this width is faster than that of float32 ones."""
        return (self.has_bf16 and width % _BF16_HEADS == 0) or (self.has_amx and width in _AMX_HEADS)

    def call(self, name: str, job: ctypes.Structure) -> None:
        """Call a kernel on torch's number of threads.

        Raises:
            NotImplementedError: the kernel does not compute such values, or this processor lacks its instructions.
            RuntimeError: memory ran out.
        """
        kernel = self._function(name, _needed_instructions(name, job))
        if kernel(ctypes.byref(job), self._parallel, torch.get_num_threads()):
            raise RuntimeError("not enough memory for a kernel's buffers")

    def multiply_in_registers(self, instructions: str, operations: int) -> None:
        """Run a loop of ``csrc/peak.c``, which multiplies and adds in registers with the named instructions.

        Each of torch's threads does this number of operations.
        """
        loop = self._function(f"bertfeat_peak_{instructions}", [_own_instructions(instructions)])
        loop(ctypes.c_int64(operations), self._parallel, torch.get_num_threads())

    def _function(self, name: str, needed: Iterable[str]) -> Callable[..., int]:
        """A function of the library, if all instructions that it executes are available."""
        if missing := [instructions for instructions in needed if not getattr(self, f"has_{instructions}")]:
            raise NotImplementedError(
                f"{name} needs {' and '.join(missing)}, which this processor lacks or BERTFEAT_CPU does not allow"
            )
        function: Callable[..., int] = getattr(self._library, name)
        return function

    def stack_form(self, dtype: torch.dtype, width: int) -> str:
        """The instructions of the kernel for a stack of blocks of this dtype and width of heads; empty without one."""
        if dtype is torch.bfloat16:
            form = self.attention_form(dtype, width) if self.attends(dtype, width) else _VECTOR_FORM
            return {_AMX_FORM: "amx", _BF16_FORM: "bf16"}.get(form, "")
        if dtype is not torch.float32 or width % ATTENTION_STEP or not self.has_avx2:
            return ""
        return "avx512" if self.has_avx512 else "avx2"

    def attention_form(self, dtype: torch.dtype, width: int) -> int:
        """The form of attention of such values with heads of this width, as ``csrc/kernels.h`` counts them."""
        if not self.attends(dtype, width):
            raise NotImplementedError(f"no kernel here computes attention of {dtype} values with heads of {width}")
        if dtype is torch.bfloat16 and self.has_amx and width in _AMX_HEADS:
            return _AMX_FORM
        if dtype is torch.bfloat16 and self.has_bf16 and width % _BF16_HEADS == 0:
            return _BF16_FORM
        return _AVX512_FORM if self.has_avx512 else _VECTOR_FORM

    def huge_room(self, values: int, dtype: torch.dtype) -> Tensor:
        """Memory for values, in huge pages where the system gives them."""
        size = dtype.itemsize
        room = torch.empty(values + _HUGE_PAGE // size, dtype=dtype)
        begin = -room.data_ptr() % _HUGE_PAGE // size
        aligned = room[begin : begin + values]
        use_huge_pages(aligned.data_ptr(), size * values)
        return aligned

    def pack(self, weight: Tensor, room: Tensor | None = None) -> Tensor:
        """Repack a bfloat16 weight ``[out, in]`` as the tiles that products read, in room if given."""
        return self._packed(self._function("bertfeat_pack", ["avx512"]), weight, room)

    def pack_int8(self, weight: Tensor) -> Tensor:
        """Repack an int8 weight ``[out, in]`` as the strips that products read; ``[out · in]``, aligned."""
        return self._packed(self._function("bertfeat_pack_int8", []), weight)

    @staticmethod
    def _packed(function: Callable[..., int], weight: Tensor, packed: Tensor | None = None) -> Tensor:
        if packed is None:
            room = torch.empty(weight.numel() + _ALIGNMENT, dtype=weight.dtype)
            begin = -room.data_ptr() % _ALIGNMENT // room.element_size()
            packed = room[begin : begin + weight.numel()]
        sizes = (ctypes.c_int64(weight.shape[1]), ctypes.c_int64(weight.shape[0]))
        function(*map(ctypes.c_void_p, (weight.data_ptr(), packed.data_ptr())), *sizes)
        return packed


def _needed_instructions(name: str, job: ctypes.Structure) -> Iterator[str]:
    """The instructions that a kernel executes for a job; ``csrc/kernels.h`` has the rules.

    Raises:
        NotImplementedError: the kernel, or its form of attention, does not take values of the job's type.
    """
    own = _own_instructions(name)
    form = _FORMS[job.form] if hasattr(job, "form") else None
    fp32, bf16 = TYPES[torch.float32], TYPES[torch.bfloat16]
    taken = {fp32, bf16}
    if form is not None:
        taken &= {"": {fp32}, "avx512": {fp32, bf16}, "bf16": {bf16}, "amx": {bf16}}[form]
    if name.startswith("bertfeat_stack"):
        taken &= {bf16} if own in ("amx", "bf16") else {fp32}
    if name.startswith("bertfeat_int8"):
        taken &= {fp32, bf16} if own in ("amx", "vnni") else {fp32}
    if hasattr(job, "type") and job.type not in taken:
        attention = f" with attention by {form or 'plain vectors'}" if form is not None else ""
        given = next(dtype for dtype, number in TYPES.items() if number == job.type)
        raise NotImplementedError(f"{name}{attention} takes no {given} values")
    yield from filter(None, {own, form})
    if name.startswith("bertfeat_int8") and job.type == bf16:
        yield "bf16"


def _own_instructions(name: str) -> str:
    """The instructions that a name ends with; empty if none."""
    return next(filter(name.endswith, ("amx", "avx2_vnni", "vnni", "bf16", "avx512", "avx2")), "")


def find_kernels() -> Kernels | None:
    """Find the kernels; None if they were not built, or do not fit this processor or torch's OpenMP runtime."""
    loaded = _load_kernels()
    return loaded if isinstance(loaded, Kernels) else None


def kernels_problem() -> str:
    """Why kernels that were built cannot be used; empty where they can, or where nothing is wrong."""
    loaded = _load_kernels()
    return loaded if isinstance(loaded, str) else ""


@cache
def _load_kernels() -> Kernels | str:
    """Load the built library, or return the reason why it cannot be used, empty where there is nothing to repair."""
    built = importlib.util.find_spec("bertfeat.core.encoder._kernels")
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
    """Return the CPU features that ``BERTFEAT_CPU`` allows: those of its level, and of the levels before it."""
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
    """Name the instructions of the kernels that compute on a device, as ``BERTFEAT_CPU`` does; ``none`` without them.

    Besides the levels of ``BERTFEAT_CPU``, the names are ``avx512_bf16`` and, for int8, ``vnni``, which are both parts
    of ``avx512``, and ``neon``.
    """
    kernels = find_kernels() if device.type == "cpu" and precision.dtype in TYPES else None
    if kernels is None:
        return "none"
    if precision is Precision.INT8 and (instructions := kernels.int8_instructions):
        return instructions[0]
    if precision is Precision.BF16:
        has = {"amx": kernels.has_amx, "avx512_bf16": kernels.has_bf16, "avx512": kernels.has_avx512}
        return next((name for name, there in has.items() if there), "none")
    if kernels.has_avx512:
        return "avx512"
    return "neon" if platform.machine() == "aarch64" else "avx2"


def find_attention_kernels(device: torch.device, dtype: torch.dtype, width: int) -> Kernels | None:
    """Find the kernels if they compute attention with heads of this width on this device."""
    kernels = find_kernels() if device.type == "cpu" else None
    return kernels if kernels and kernels.attends(dtype, width) else None


# ── the structs of csrc/kernels.h ───────────────────────────────────────────────────────────────────────────


def _pointers(*names: str) -> list[tuple[str, type[ctypes.c_void_p]]]:
    return [(name, ctypes.c_void_p) for name in names]


def _integers(*names: str) -> list[tuple[str, type[ctypes.c_int64]]]:
    return [(name, ctypes.c_int64) for name in names]


class AttentionStruct(ctypes.Structure):
    """The attention of a batch."""

    _fields_ = [
        *_pointers("query", "key", "value", "out", "bias", "query_bounds", "key_bounds"),
        *_integers("sequences", "heads", "width"),
        *_integers("query_stride", "key_stride", "value_stride", "out_stride"),
        *_integers("query_step", "key_step", "value_step", "group", "before", "after", "farthest"),
        *_integers("out_tile", "out_column"),
        *_integers("longest", "type", "form"),
        ("scale", ctypes.c_float),
    ]


class ProductStruct(ctypes.Structure):
    """A weight, of bfloat16 as tiles or of float32 as strips, and its bias."""

    _fields_ = [*_pointers("weight", "bias"), *_integers("in", "out")]


class NormStruct(ctypes.Structure):
    """A layer norm."""

    _fields_ = [*_pointers("weight", "bias"), ("eps", ctypes.c_float)]


class StackBlockStruct(ctypes.Structure):
    """A block with its attention, in bfloat16 or float32."""

    _fields_ = [
        *((name, ProductStruct) for name in ("query_key_value", "output", "up", "down")),
        *((name, NormStruct) for name in ("attention_norm", "out_norm")),
    ]


class EmbeddingsStruct(ctypes.Structure):
    """The tables whose rows make up a token's embedding."""

    _fields_ = [*_pointers("words", "positions", "types"), ("norm", NormStruct)]


class StackStruct(ctypes.Structure):
    """All blocks of a batch."""

    _fields_ = [
        *_pointers("rows", "tables", "ids", "positions", "types", "bounds", "blocks", "out", "bias", "cycles"),
        *_integers("sequences", "layers", "heads", "activation", "first_only", "type", "form", "farthest"),
        ("scale", ctypes.c_float),
    ]


class Int8ProductStruct(ctypes.Structure):
    """A weight of 8-bit integers as strips, with the numbers that turn its sums into outputs."""

    _fields_ = [*_pointers("weight", "factor", "scale", "sums", "bias"), *_integers("in", "out")]


class Int8ProjectionStruct(ctypes.Structure):
    """A range of the outputs of a product of 8-bit integers."""

    _fields_ = [*_pointers("rows", "out"), *_integers("count", "begin", "end", "type"), ("product", Int8ProductStruct)]


class Int8BlockStruct(ctypes.Structure):
    """A block with its attention, its products of 8-bit integers."""

    _fields_ = [
        *((name, Int8ProductStruct) for name in ("query_key_value", "output", "up", "down")),
        *((name, NormStruct) for name in ("attention_norm", "out_norm")),
    ]


class Int8PostAttentionStruct(ctypes.Structure):
    """The part of a block after attention, its products of 8-bit integers."""

    _fields_ = [*_pointers("context", "residual", "out", "block"), *_integers("rows", "activation", "type")]


JOBS: tuple[type[ctypes.Structure], ...] = (
    AttentionStruct,
    StackStruct,
    Int8ProjectionStruct,
    Int8PostAttentionStruct,
)
