"""A description of the installation: library versions, kernels, hardware, and the default model."""

import importlib.util
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError

import bertfeat
from bertfeat.core.encoder import (
    device_name,
    has_native_bf16,
    kernels_in_use,
    kernels_problem,
    processor_flags,
    resolve_device,
    resolve_precision,
)
from bertfeat.core.models import DEFAULT_MODEL, find_model
from bertfeat.errors import BertfeatError
from bertfeat.io import installed_version

LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "pyarrow", "numpy", "msgspec")
OPTIONAL = (
    *("faiss-cpu", "faiss-gpu", "matplotlib", "scikit-learn", "ir_measures", "accelerate", "umap-learn"),
    *("obstore", "ray", "pylance", "qdrant-client", "fastapi", "uvicorn"),
)


@dataclass(frozen=True, slots=True)
class Installation:
    """The hardware and the installed libraries of this machine."""

    bertfeat: str
    python: str
    system: str
    processor: str
    processors: int  # that this process may use
    device: str  # the default
    precision: str  # what "auto" means on it
    bf16: bool  # whether the device multiplies bfloat16 in hardware
    kernels: str  # instructions of bertfeat's own kernels in use, such as amx, avx512, avx2 or neon; none without them
    kernels_note: str  # what kernels_note() returns
    versions: Mapping[str, str]  # of the libraries that are installed
    missing: tuple[str, ...]  # optional libraries that are not installed
    default_model: str  # its folder, or why it cannot be found


def installation() -> Installation:
    """Describe this machine and what is installed on it; loads torch, but no model."""
    device = resolve_device(None)
    precision = resolve_precision("auto", device)
    versions = {name: installed for name in (*LIBRARIES, *OPTIONAL) if (installed := _version(name))}
    faiss = ("faiss-cpu", "faiss-gpu")  # one of them is enough
    needless = faiss if any(name in versions for name in faiss) else ()
    return Installation(
        bertfeat=bertfeat.__version__,
        python=platform.python_version(),
        system=platform.platform(),
        processor=device_name(resolve_device("cpu")),
        processors=len(os.sched_getaffinity(0)),
        device=str(device),
        precision=precision.value,
        bf16=has_native_bf16(device),
        kernels=kernels_in_use(device, precision),
        kernels_note=kernels_note(),
        versions=versions,
        missing=tuple(name for name in OPTIONAL if name not in versions and name not in needless),
        default_model=_default_model(),
    )


def kernels_note() -> str:
    """Why bertfeat's own kernels cannot run on this processor, and the remedy; empty if they can, or would not help."""
    again = "pip install --force-reinstall --no-deps --no-cache-dir bertfeat"
    if "avx2" not in processor_flags() and platform.machine() != "aarch64":
        return ""
    if importlib.util.find_spec("bertfeat.core.encoder._kernels") is None:
        return (
            "bertfeat's own kernels, which this processor could use, were not built: there was no C compiler at "
            f"installation, or this is a clone that is not installed. Install a compiler (gcc) and then: {again}"
        )
    problem = kernels_problem()
    return f"{problem}. Build them anew: {again}" if problem else ""


def _version(name: str) -> str | None:
    try:
        return installed_version(name)
    except PackageNotFoundError:
        return None


def _default_model() -> str:
    try:
        return str(find_model().folder)
    except BertfeatError as error:
        return f"{DEFAULT_MODEL}: {error}"
