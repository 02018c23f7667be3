"""Whether a network fits the memory of this machine, checked before it is made."""

import os

import numpy as np
import torch
from numpy.typing import NDArray

from bertfeat.errors import UsageError, parameter
from bertfeat.tagging.network import NetworkSettings
from bertfeat.training import TensorForm

_COPIES = 8  # weights, gradient, two moments, the best weights, and what writing a checkpoint takes
_STEP_COPIES = 2  # what the gradient of a CRF's step keeps for each word
_GIB = 2**30


def refuse_too_large(
    forms: dict[str, TensorForm],
    shape: NetworkSettings,
    labels: int,
    lengths: NDArray[np.int32],
    batch_size: int,
    device: torch.device,
) -> None:
    """Refuse a network whose weights, or whose CRF over a batch of sentences of those ``lengths [S]``, cannot fit.

    Raises:
        UsageError: says what it takes, and what to give instead.
    """
    available = _available_memory(device)
    weights = _COPIES * sum(form.bytes for form in forms.values())
    if weights > available:
        raise UsageError(
            f"a network of {labels:,} labels with {parameter('hidden', shape.hidden)} takes {_gib(weights)}, and there "
            f"are {_gib(available)}",
            remedy=f"give a smaller {parameter('hidden')}",
        )
    if not shape.crf:
        return
    words = int(np.sort(lengths)[-batch_size:].sum())
    steps = _STEP_COPIES * words * labels**2 * 4
    if steps > available:
        raise UsageError(
            f"a CRF over {labels:,} labels and {words:,} words in a batch takes {_gib(steps)}, and there are "
            f"{_gib(available)}",
            remedy=f"give {parameter('crf', False)}, or a smaller {parameter('batch_size')}",
        )


def _available_memory(device: torch.device) -> int:
    """Bytes of memory of the machine, or of the GPU."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _gib(size: int) -> str:
    return f"{size / _GIB:,.1f} GiB"
