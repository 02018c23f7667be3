"""The losses of heads against the same written with loops, an example at a time."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from bertfeat.learning import ExampleBatch, PackedExamples, gather_batch
from bertfeat.learning.example_store import pack_examples
from bertfeat.learning.tasks import TASKS

CPU = torch.device("cpu")


def packed_batch(lengths: list[int], width: int = 1) -> tuple[ExampleBatch, PackedExamples, np.ndarray]:
    """Examples of these lengths, packed, and where the vectors of each begin."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    packed = pack_examples(offsets, np.arange(len(lengths)))
    features = np.zeros((int(offsets[-1]), width), np.float32)
    return gather_batch(features, packed, CPU), packed, offsets


def giving(scores: Tensor) -> Any:
    """A network that gives these scores for any batch."""
    return lambda _: scores


@pytest.mark.parametrize("seed", range(6))
def test_span_loss(seed: int) -> None:
    draw = np.random.default_rng(seed)
    lengths = draw.integers(1, 9, 1 + 3 * seed).tolist()
    batch, packed, offsets = packed_batch(lengths)
    flat = draw.standard_normal((int(offsets[-1]), 2)) * (1 if seed else 200)  # so far apart that exp overflows
    allowed = draw.random(int(offsets[-1])) < 0.6
    allowed[offsets[:-1]] = True
    targets = [[draw.choice(np.flatnonzero(allowed[a:b])) for _ in range(2)] for a, b in pairwise(offsets)]
    expected = []
    for number, (begin, end) in enumerate(pairwise(offsets)):
        for side in range(2):
            kept = [flat[at, side] for at in range(begin, end) if allowed[at]]
            right = flat[begin + targets[number][side], side]
            expected.append(np.log(sum(np.exp(np.array(kept) - max(kept)))) + max(kept) - right)
    scores = torch.tensor(flat[packed.vectors], dtype=torch.float64, requires_grad=True)
    chosen = torch.tensor(np.array(targets)[packed.examples])
    loss = TASKS["answers"].batch_loss(giving(scores), batch, chosen, torch.from_numpy(allowed[packed.vectors]))
    assert loss.item() == pytest.approx(np.mean(expected), rel=1e-9)
    loss.backward()  # type: ignore[no-untyped-call]
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad[~torch.from_numpy(allowed[packed.vectors])] == 0).all(), "what is not allowed learns nothing"


@pytest.mark.parametrize("questions", [1, 2, 7])
@pytest.mark.parametrize("choices", [2, 5])
def test_choice_loss(questions: int, choices: int) -> None:
    draw = np.random.default_rng(questions)
    batch, packed, offsets = packed_batch([choices] * questions)
    flat = draw.standard_normal(int(offsets[-1]))
    right = draw.integers(0, choices, questions)
    table = flat.reshape(questions, choices)
    expected = np.mean([np.log(np.exp(row).sum()) - row[number] for row, number in zip(table, right, strict=True)])
    scores = torch.tensor(flat[packed.vectors, None], requires_grad=True)
    loss = TASKS["choices"].batch_loss(giving(scores), batch, torch.from_numpy(right[packed.examples]), None)
    assert loss.item() == pytest.approx(expected, rel=1e-9)
    loss.backward()  # type: ignore[no-untyped-call]
    shares = np.exp(table) / np.exp(table).sum(1, keepdims=True)
    shares[np.arange(questions), right] -= 1
    assert scores.grad is not None
    np.testing.assert_allclose(scores.grad[:, 0], (shares / questions).ravel()[packed.vectors], atol=1e-12)


def test_losses_of_classes_and_numbers() -> None:
    scores = np.random.default_rng(1).standard_normal((5, 3))
    labels, numbers = np.array([0, 2, 1, 1, 0]), np.arange(5.0)
    logs = np.log(np.exp(scores).sum(1)) - scores[np.arange(5), labels]
    assert TASKS["labels"].mean_loss(torch.tensor(scores), torch.tensor(labels)).item() == pytest.approx(logs.mean())
    squares = (scores[:, 0] - numbers) ** 2
    assert TASKS["numbers"].mean_loss(torch.tensor(scores[:, :1]), torch.tensor(numbers)).item() == pytest.approx(
        squares.mean()
    )
