"""Pure segment reductions over packed arrays: tokens of many documents side by side, no padding.

Shapes: ``T`` tokens of a batch, ``H`` hidden width, ``P`` picked rows, ``S`` segments (documents, windows or words).
"""

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, pad


def segment_sum(hidden: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
    """Sum the picked rows of each segment; an empty segment gives zeros.

    Shape: ``hidden [T, H]`` float32, ``picked [P]`` row numbers, ``offsets [S]`` where each segment begins in
    ``picked`` → ``[S, H]``. A row's place in the sum depends on its own segment alone, so batch mates change nothing.
    """
    return embedding_bag(picked, hidden, offsets, mode="sum")


def segment_max(hidden: Tensor, picked: Tensor, offsets: Tensor) -> Tensor:
    """Take the largest value of each dimension over the picked rows of each segment; no segment may be empty.

    Shape: as :func:`segment_sum`.
    """
    if not len(offsets):  # segment_reduce refuses to reduce nothing
        return hidden.new_empty(0, hidden.shape[1])
    lengths = torch.diff(pad(offsets, (0, 1), value=len(picked)))
    # embedding_bag knows max too, but takes four times as long; "unsafe" leaves out checks that a GPU would wait for
    return torch.segment_reduce(pick(hidden, picked), "max", lengths=lengths, unsafe=True)


def pick(hidden: Tensor, picked: Tensor) -> Tensor:
    """Take rows as they are: the first token of each document, or tokens without special ones.

    Shape: ``hidden [T, H]``, ``picked [P]`` → ``[P, H]``.
    """
    return torch.index_select(hidden, 0, picked)
