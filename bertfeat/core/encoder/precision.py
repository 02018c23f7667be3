"""The number format and the device of the computation: their names, their defaults, and what the hardware supports."""

import functools
import logging
from enum import StrEnum

import torch

from bertfeat.errors import UsageError, parameter

_log = logging.getLogger(__name__)


class Precision(StrEnum):
    """The format of the computation; sums over tokens and layers are always float32."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    INT8 = "int8"  # the products of blocks in 8-bit integers, all else in float32; only on CPUs

    @property
    def dtype(self) -> torch.dtype:
        """The torch dtype of hidden states in this precision."""
        return _DTYPES.get(self, torch.float32)


_DTYPES = {Precision.BF16: torch.bfloat16, Precision.FP16: torch.float16}


def resolve_precision(name: str, device: torch.device) -> Precision:
    """Resolve ``auto`` to bf16 where the hardware multiplies it natively, else to fp32.

    Raises:
        UsageError: a name that is no precision, or int8 on a device other than the CPU.
    """
    if name != "auto":
        try:
            precision = Precision(name)
        except ValueError:
            known = ", ".join(["auto", *Precision])
            raise UsageError(f"unknown precision {name!r}", remedy=f"known are {known}") from None
        if precision is Precision.INT8 and device.type != "cpu":
            remedy = f"give {parameter('device', 'cpu')}, or {parameter('precision', 'bf16')}"
            raise UsageError(f"int8 is computed on CPUs, not on {device}", remedy=remedy)
        if precision is Precision.INT8 and _cpu_has("amx_tile"):
            _tell_of_amx()
        return precision
    return Precision.BF16 if has_native_bf16(device) else Precision.FP32


def has_native_bf16(device: torch.device) -> bool:
    """Whether a device multiplies bfloat16 in hardware: CUDA from sm_80, CPUs with AMX or AVX512-BF16."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    if device.type != "cpu":
        return False
    return _cpu_has("amx_tile") or _cpu_has("avx512_bf16")


def _cpu_has(extension: str) -> bool:
    """Whether the CPU has an extension that multiplies bfloat16, and torch knows it."""
    check = getattr(torch.cpu, f"_is_{extension}_supported", None)
    return check is not None and bool(check())


@functools.cache
def _tell_of_amx() -> None:
    """Warn, once per process, that bf16 is faster than int8 on this processor."""
    _log.warning("this processor has AMX, where bf16 is faster than int8 and deviates less (docs/speed.md)")


def resolve_device(name: str | None) -> torch.device:
    """Resolve a device name; the default is the first CUDA device where there is one, else the CPU.

    Raises:
        UsageError: a name that torch does not know, or a device that is not there.
    """
    if name is None or name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UsageError(f"unknown device {name!r}", remedy="write cpu, cuda or cuda:0") from None
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(
            f"device {name} is not there: torch sees {torch.cuda.device_count()} CUDA devices", remedy="use cpu"
        )
    if device.type not in ("cpu", "cuda"):
        raise UsageError(f"device {name!r} is not supported", remedy="write cpu, cuda or cuda:0")
    return device
