"""The kernels of AMX on processors that lack it: built over tiles in plain C (``tiles.h``)."""

import ctypes
import shutil
import subprocess
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path

import torch

from bertfeat.core.encoder import kernels
from bertfeat.core.encoder.kernels import Kernels, find_kernels

_ALL = 0xFF


_OPTIONS = ("-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
_TILES = Path(__file__).with_name("tiles.h")
_BUILT = Path(__file__).parents[2] / "build" / "emulated-amx"


@cache
def emulated_amx() -> Kernels | None:
    """Build the kernels over emulated tiles; None without a compiler or AVX512-BF16, which they need as well.

    What was built is kept, since it takes as long as all the tests of it.
    """
    found, compiler = find_kernels(), shutil.which("gcc")
    if found is None or not found.has_bf16 or compiler is None:
        return None
    folder = Path(kernels.__file__).parent / "csrc"
    sources = sorted(folder.glob("*.c"))
    texts = (path.read_bytes() for path in (*sources, *sorted(folder.glob("*.h")), _TILES))
    library = _BUILT / f"{sha256(b''.join(texts)).hexdigest()[:16]}.so"
    if not library.exists():
        _BUILT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_BUILT) as scratch:
            made = Path(scratch, "made.so")
            subprocess.run([compiler, *_OPTIONS, "-include", _TILES, *sources, "-o", made], check=True)
            made.rename(library)
    runtime = next(file for part in ("lib", "../torch.libs") for file in _torch_folder().glob(f"{part}/libgomp*"))
    return Kernels(ctypes.CDLL(str(library)), ctypes.CDLL(str(runtime)), _ALL)


def _torch_folder() -> Path:
    return Path(torch.__file__).parent
