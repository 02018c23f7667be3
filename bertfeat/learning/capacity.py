"""Whether what is learnt fits the memory of this machine, checked before it is made."""

from collections.abc import Callable

import torch
from torch import nn

from bertfeat.errors import UsageError, parameter
from bertfeat.io import physical_memory

COPIES = 8  # weights, gradient, two moments, the best weights, and what writing a checkpoint takes
_GIB = 2**30


def refuse_large_network(make_network: Callable[[], nn.Module], device: torch.device, copies: int = COPIES) -> None:
    """Refuse a network whose training cannot fit; it is made without memory to count its weights."""
    with torch.device("meta"):
        size = copies * sum(tensor.nbytes for tensor in make_network().state_dict().values())
    available = available_memory(device)
    if size > available:
        problem = f"to learn this network takes {gibibytes(size)}, and there are {gibibytes(available)}"
        raise UsageError(problem, remedy=f"give a smaller {parameter('hidden')}, or fewer labels or layers")


def available_memory(device: torch.device) -> int:
    """Bytes of memory of the machine, or of the GPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return physical_memory()


def gibibytes(size: int) -> str:
    """A size for messages: ``1.5 GiB``."""
    return f"{size / _GIB:,.1f} GiB"
