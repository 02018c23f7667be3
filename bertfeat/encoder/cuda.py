"""In which form a CUDA device runs the packed forward pass, by ``BERTFEAT_CUDA``."""

import os
from enum import IntEnum

import torch

from bertfeat.errors import UsageError


class CudaForm(IntEnum):
    """A form, which has what those before it have."""

    EAGER = 0
    """torch's operators, one after the other."""
    COMPILED = 1
    """What follows attention is compiled, its norms, activation and sums fused (:mod:`bertfeat.encoder.compiled`)."""
    GRAPHS = 2
    """Batches of one size are recorded once and replayed (:mod:`bertfeat.encoder.recorded`)."""


def cuda_form(device: torch.device) -> CudaForm:
    """Read the form from ``BERTFEAT_CUDA``; eager where it is not set, and on other devices.

    Raises:
        UsageError: it names no form.
    """
    if device.type != "cuda":
        return CudaForm.EAGER
    wanted = os.environ.get("BERTFEAT_CUDA", "eager")
    try:
        return CudaForm[wanted.upper()]
    except KeyError:
        known = ", ".join(form.name.lower() for form in CudaForm)
        raise UsageError(f"BERTFEAT_CUDA is {wanted!r}", remedy=f"known are {known}") from None
