"""What the heads minimise.

Shapes: B examples of a batch, longest first; N vectors of all, packed time by time; K outputs.
"""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, mse_loss

from bertfeat.training import ExampleBatch


def class_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean negative log probability of the labels: ``[B, K]``, numbers ``[B]``."""
    return cross_entropy(scores, targets)


def number_loss(scores: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error: ``[B, 1]``, ``[B]``."""
    return mse_loss(scores[:, 0], targets)


def choice_loss(scores: Tensor, targets: Tensor, batch: ExampleBatch) -> Tensor:
    """Mean negative log probability of the right choices, a softmax over each question's (section 4.4 of the paper).

    Shape: ``[N, 1]`` where each of B questions has as many choices, numbers of the right ones ``[B]``.
    """
    return cross_entropy(scores.view(-1, batch.count).T, targets)


def span_loss(scores: Tensor, targets: Tensor, allowed: Tensor, batch: ExampleBatch) -> Tensor:
    """Mean negative log probability of the first and of the last token of the answer (section 4.2 of the paper).

    Softmax goes over the tokens of each example that are ``allowed [N]``: those of the passage, and [CLS], which stands
    for no answer. Shape: ``[N, 2]``, numbers of tokens in their examples ``[B, 2]``.
    """
    scores = scores.masked_fill(~allowed[:, None], float("-inf"))
    whose = batch.example[:, None].expand(-1, 2)
    highest = scores.new_full((batch.count, 2), float("-inf")).scatter_reduce(0, whose, scores.detach(), "amax")
    total = scores.new_zeros(batch.count, 2).scatter_add(0, whose, torch.exp(scores - highest[batch.example]))
    sizes = torch.tensor(batch.sizes, device=scores.device)
    begins = torch.cumsum(sizes, 0) - sizes  # where the vectors of each time begin
    places = begins[targets] + torch.arange(batch.count, device=scores.device)[:, None]
    return (highest + torch.log(total) - scores.gather(0, places)).mean()
