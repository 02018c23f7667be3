"""Whether a network fits the memory of this machine, checked before it is made."""

import numpy as np
import torch
from numpy.typing import NDArray

from bertfeat.errors import UsageError, parameter
from bertfeat.tagging.network import NetworkSettings
from bertfeat.training import COPIES, TensorForm, available_memory, gibibytes

_STEP_COPIES = 2  # what the gradient of a CRF's step keeps for each word


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
    available = available_memory(device)
    weights = COPIES * sum(form.bytes for form in forms.values())
    if weights > available:
        raise UsageError(
            f"a network of {labels:,} labels with {parameter('hidden', shape.hidden)} takes {gibibytes(weights)}, and "
            f"there are {gibibytes(available)}",
            remedy=f"give a smaller {parameter('hidden')}",
        )
    if not shape.crf:
        return
    words = int(np.sort(lengths)[-batch_size:].sum())
    steps = _STEP_COPIES * words * labels**2 * 4
    if steps > available:
        raise UsageError(
            f"a CRF over {labels:,} labels and {words:,} words in a batch takes {gibibytes(steps)}, and there are "
            f"{gibibytes(available)}",
            remedy=f"give {parameter('crf', False)}, or a smaller {parameter('batch_size')}",
        )
