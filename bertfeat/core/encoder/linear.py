"""Linear products fused with an activation or a residual: by oneDNN, prepacked, on CPU, else by plain torch.

oneDNN's operators are the ones torch.compile itself calls, but private; this module alone knows them, and falls back
on plain torch where they are missing or the hardware has no such kernel.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - torch's own name

Activation = Callable[[Tensor], Tensor]

ACTIVATION_FUNCTIONS: dict[str, Activation] = {
    "gelu": F.gelu,
    "gelu_new": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_pytorch_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu": F.relu,
}
_FUSED = {
    "gelu": ("gelu", "none"),
    "gelu_new": ("gelu", "tanh"),
    "gelu_pytorch_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
}
_ROWS = 8192  # rows that weights are packed for; other numbers work too


class LinearProduct(Protocol):
    """``x @ weight.T + bias``. Shape: ``[T, in]`` → ``[T, out]``."""

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""

    def with_activation(self, x: Tensor, activation: str) -> Tensor:
        """Multiply, then apply an activation of :data:`ACTIVATION_FUNCTIONS`."""

    def plus_residual(self, x: Tensor, residual: Tensor) -> Tensor:
        """Multiply, then add a residual of the result's shape."""


def make_linear_product(weight: Tensor, bias: Tensor) -> LinearProduct:
    """Choose the fastest form of a product for the weight's device and dtype."""
    return OneDnnLinear(weight, bias) if onednn_serves(weight) else TorchLinear(weight, bias)


class TorchLinear:
    """A product by plain torch."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight, self._bias = weight, bias

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        return F.linear(x, self._weight, self._bias)

    def with_activation(self, x: Tensor, activation: str) -> Tensor:
        """Multiply, then apply an activation."""
        return ACTIVATION_FUNCTIONS[activation](self(x))

    def plus_residual(self, x: Tensor, residual: Tensor) -> Tensor:
        """Multiply, then add a residual."""
        return self(x) + residual


class OneDnnLinear:
    """A product by oneDNN, its weights packed once and its epilogue part of the kernel."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _ROWS)
        self._bias = bias.contiguous()

    def __call__(self, x: Tensor) -> Tensor:
        """Multiply."""
        return self._pointwise(x, "none", "")

    def with_activation(self, x: Tensor, activation: str) -> Tensor:
        """Multiply, then apply an activation."""
        return self._pointwise(x, *_FUSED[activation])

    def plus_residual(self, x: Tensor, residual: Tensor) -> Tensor:
        """Multiply, then add a residual."""
        result: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, residual, self._weight, self._bias, "add")
        return result

    def _pointwise(self, x: Tensor, epilogue: str, algorithm: str) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self._bias, epilogue, [], algorithm)
        return result


class PrepackedLinear(nn.Module):
    """A substitute for ``nn.Linear`` that multiplies by oneDNN; its weight keeps only dtype and shape."""

    def __init__(self, plain: nn.Linear) -> None:
        super().__init__()
        self.in_features, self.out_features = plain.in_features, plain.out_features
        own: Tensor | None = getattr(plain, "bias", None)
        bias = plain.weight.new_zeros(plain.out_features) if own is None else own.detach()
        self._product = OneDnnLinear(plain.weight.detach(), bias)
        self.weight = nn.Parameter(torch.empty_like(plain.weight, device="meta"), requires_grad=False)
        self.bias = None if own is None else nn.Parameter(bias, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Multiply. Shape: ``[.., in]`` → ``[.., out]``."""
        return self._product(x.reshape(-1, self.in_features)).view(*x.shape[:-1], self.out_features)


class PrepackedLinears:
    """The linear modules inside a module, replaced by prepacked ones where oneDNN has a kernel for them."""

    def __init__(self, module: nn.Module) -> None:
        self._places = [
            (parent, name, child)
            for parent in module.modules()
            for name, child in parent.named_children()
            if type(child) is nn.Linear and onednn_serves(child.weight)
        ]
        plain = {id(child): child for _, _, child in self._places}
        packed = {number: PrepackedLinear(child) for number, child in plain.items()}
        for parent, name, child in self._places:
            setattr(parent, name, packed[id(child)])

    def undo(self) -> None:
        """Put the modules back as they were."""
        for parent, name, child in self._places:
            setattr(parent, name, child)


def onednn_serves(weight: Tensor) -> bool:
    """Whether oneDNN has a kernel for this device and dtype, and torch still has its private operators."""
    if weight.device.type != "cpu" or not torch._C._has_mkldnn:
        return False
    operators = ("_reorder_linear_weight", "_linear_pointwise")
    if not all(hasattr(torch.ops.mkldnn, name) for name in operators):
        return False
    if weight.dtype is torch.float32:
        return True
    check = {torch.bfloat16: "_is_mkldnn_bf16_supported", torch.float16: "_is_mkldnn_fp16_supported"}[weight.dtype]
    return hasattr(torch.ops.mkldnn, check) and bool(getattr(torch.ops.mkldnn, check)())
