"""The kernels of AMX on processors that lack it: built over tiles in plain C (``tiles.h``)."""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import torch

from bertfeat.encoder import kernels
from bertfeat.encoder.kernels import Kernels, find_kernels

_ALL = 0xFF


@cache
def emulated_amx() -> Kernels | None:
    """Build the kernels over emulated tiles; None without a compiler or AVX512-BF16, which they need as well."""
    found, compiler = find_kernels(), shutil.which("gcc")
    if found is None or not found.has_bf16 or compiler is None:
        return None
    sources = map(str, Path(kernels.__file__).parent.glob("csrc/*.c"))
    runtime = next(file for part in ("lib", "../torch.libs") for file in _torch_folder().glob(f"{part}/libgomp*"))
    with tempfile.TemporaryDirectory() as folder:
        built = f"{folder}/_kernels.so"
        options = ["-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
        subprocess.run(
            [compiler, *options, "-include", str(Path(__file__).with_name("tiles.h")), *sources, "-o", built],
            check=True,
        )
        return Kernels(ctypes.CDLL(built), ctypes.CDLL(str(runtime)), _ALL)


def _torch_folder() -> Path:
    return Path(torch.__file__).parent
