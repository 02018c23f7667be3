"""The hardware by its names: the processor, its flags, a GPU."""

import platform
import re
from functools import cache
from pathlib import Path

import torch


def device_name(device: torch.device) -> str:
    """The name of a GPU, or of this machine's processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    named = re.search(r"model name\s*:\s*(.+)", _cpuinfo())
    return named[1].strip() if named else platform.processor() or platform.machine()


def processor_flags() -> set[str]:
    """The instruction sets of this machine's processor, as Linux names them."""
    flags = re.search(r"flags\s*:\s*(.+)", _cpuinfo())
    return set(flags[1].split()) if flags else set()


@cache
def _cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return ""
