"""Heads without a hidden layer, solved: ridge regression, logistic regression, and the same of choices.

Shapes: E examples; V inputs, the first of which are read; K outputs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor

_STEPS = 500  # at most
_REMEMBERED = 20  # gradients that the curvature is estimated from
_LEAST_GRADIENT = 1e-4  # as scikit-learn's
SOLVER_COPIES = 2 * _REMEMBERED + 8
"""Arrays of the weights' size that solving takes."""

Blocks = Callable[[], Iterable[tuple[Tensor, Tensor]]]
"""All examples once, in blocks: standardised inputs (``[n, V]``; of C choices ``[n·C, V]``) and targets ``[n]``."""


@dataclass(frozen=True, slots=True)
class LinearWeights:
    """The weights of a linear head."""

    weight: Tensor  # [K, V]
    bias: Tensor  # [K]


def solve_linear(
    blocks: Blocks, loss: Callable[[Tensor, Tensor], Tensor], examples: int, decay: float, start: LinearWeights
) -> LinearWeights:
    """The weights that minimize the mean ``loss`` plus half the ``decay`` times their squares, by L-BFGS.

    ``loss`` gives the mean over a block from its scores. The minimum is unique: ``start``, the solution of another
    decay, only shortens the way. With cross entropy the decay is scikit-learn's 1/(C·E) (of two labels 2/(C·E)), with
    squared errors 2·alpha/E.
    """
    # the bias bears no penalty: in units in which it is as steep as the weights, far fewer steps are needed
    unit = sqrt(1.0 + decay * len(start.bias))
    weight, bias = start.weight.clone().requires_grad_(), (start.bias / unit).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [weight, bias],
        max_iter=_STEPS,
        history_size=_REMEMBERED,
        tolerance_grad=_LEAST_GRADIENT,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def objective() -> float:
        optimizer.zero_grad()
        penalty = weight.square().sum() * (decay / 2)
        torch.autograd.backward(penalty)
        total = penalty.item()
        for inputs, targets in blocks():
            share = loss(torch.addmm(bias * unit, inputs, weight.T), targets) * (len(targets) / examples)
            torch.autograd.backward(share)
            total += share.item()
        return total

    optimizer.step(objective)  # type: ignore[no-untyped-call]
    return LinearWeights(weight.detach(), bias.detach() * unit)
