"""Hardware, versions, load and commit that a result was measured with."""

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

LIBRARIES = ("bertfeat", "numpy", "pyarrow", "tokenizers", "torch", "transformers")
ROOT = Path(__file__).resolve().parent.parent


def machine(*others: str) -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    memory = Path("/proc/meminfo").read_text().split()[1]
    return {
        "processor": next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown"),
        "microarchitecture": microarchitecture(),
        "extensions": [flag for flag in ("avx512f", "avx512_bf16", "amx_bf16") if flag in flags],
        "cores": os.cpu_count(),
        "memory_gib": round(int(memory) / 2**20, 1),
        "load_before": [round(load, 1) for load in os.getloadavg()],
        "python": platform.python_version(),
        "versions": {name: version(name) for name in (*LIBRARIES, *others)},
        "commit": commit(),
    }


def microarchitecture() -> str:
    """The generation of the processor, which its name often hides: zen4, or the vendor's numbers of it."""
    told: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        told.setdefault(name.strip(), value.strip())
    vendor, family, model = (told.get(name, "0") for name in ("vendor_id", "cpu family", "model"))
    zen = {"25": "zen4" if "avx512f" in told.get("flags", "").split() else "zen3", "26": "zen5"}
    if vendor == "AuthenticAMD" and family in zen:
        return zen[family]
    return f"{vendor.removeprefix('Genuine').lower()}-{family}-{model}"


def commit() -> str:
    """The commit that is checked out; with a ``+`` where files differ from it."""
    told = subprocess.run(
        ["git", "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty=+"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return told.stdout.strip() or "unknown"
