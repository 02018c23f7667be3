"""What a result was measured on: hardware, versions, and how busy the machine was."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIBRARIES = ("bertfeat", "numpy", "pyarrow", "tokenizers", "torch", "transformers")


def machine(*others: str) -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    memory = Path("/proc/meminfo").read_text().split()[1]
    return {
        "processor": next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown"),
        "extensions": [flag for flag in ("avx512f", "avx512_bf16", "amx_bf16") if flag in flags],
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory) / 2**20, 1),
        "load_before": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in (*LIBRARIES, *others)},
    }
