"""Asynchronous copies between processor and device: through pinned memory on CUDA; on a CPU nothing is copied."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def move_to_device(numbers: NDArray[np.generic], device: torch.device) -> Tensor:
    """Copy numbers to the device, asynchronously; work that is queued there afterwards sees them."""
    tensor = torch.from_numpy(numbers)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class PendingCopy:
    """Values that are being copied from the device."""

    def __init__(self, values: Tensor) -> None:
        self._values, self._event = values, None
        if values.device.type == "cuda":
            self._values = _pinned_like(values).copy_(values, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record(torch.cuda.current_stream(values.device))

    def values(self) -> Tensor:
        """Wait for the copy and return it, on the processor."""
        if self._event is not None:
            self._event.synchronize()
        return self._values.cpu()


def _pinned_like(values: Tensor) -> Tensor:
    try:
        return torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    except RuntimeError:  # no more memory can be pinned; other memory is slower
        return torch.empty(values.shape, dtype=values.dtype)


def usual_size(rows: int) -> int:
    """Round a number of rows up, by a sixteenth or 15 at most, to one of few sizes.

    oneDNN generates new machine code for each size that it meets, which in bf16 takes longer than running the code.
    """
    step = max(16, 1 << max(0, rows.bit_length() - 5))
    return -(-rows // step) * step
