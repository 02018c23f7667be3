"""Hugging Face's hidden states in a precision of choice, and distances from the exact ones."""

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel

Float64s = NDArray[np.float64]


def library_states(folder: Path, dtype: torch.dtype, ids: list[list[int]]) -> list[Float64s]:
    """Every layer of each sequence alone, its attention in plain products. Shape: ``[L+1, T, H]`` each."""
    module = AutoModel.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    with torch.no_grad():
        given = [module(torch.tensor([each]), output_hidden_states=True).hidden_states for each in ids]
    return [torch.stack([state[0].double() for state in states]).numpy() for states in given]


def distance(found: list[Float64s], exact: list[Float64s]) -> Float64s:
    """Root mean square over the values of each layer. Shape: ``[L+1]``."""
    squares = [np.square(one - other) for one, other in zip(found, exact, strict=True)]
    return np.array(np.sqrt(np.concatenate(squares, axis=1).mean(axis=(1, 2))))
