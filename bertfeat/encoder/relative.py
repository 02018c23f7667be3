"""A bias of attention by the distance between query and key (MPNet; Raffel et al. 2020, section 2.1).

Distances fall into buckets: near ones have one each, farther ones share them, the wider the farther; all beyond the
last have one. Keys before and after a query have half of the buckets each.
"""

import math

import torch
from torch import Tensor

BUCKETS = 32
_FARTHEST = 128  # distance, from which on all are one bucket


def bias_by_distance(table: Tensor, farthest: int) -> Tensor:
    """Look up the bias of each distance, from the key that stands ``farthest`` before the query on.

    Shape: ``table [32, A]`` → ``[A, 2·farthest + 1]``, in float32.
    """
    distances = torch.arange(-farthest, farthest + 1)
    half, near = BUCKETS // 2, BUCKETS // 4
    apart = distances.abs()
    # in float32, as the library computes it: a distance at the edge of a bucket falls where it does there
    logarithm = torch.log(apart.clamp_min(1).float() / near) / math.log(_FARTHEST / near) * (half - near)
    far = (near + logarithm.to(torch.long)).clamp_max(half - 1)
    buckets = torch.where(apart < near, apart, far) + half * (distances > 0)
    return table.float()[buckets].T.contiguous()
