"""The CRF against brute force: every path of every sentence is enumerated."""

from collections.abc import Sequence
from itertools import product
from math import exp, fsum, log

import pytest
import torch
from torch import Tensor

from bertfeat.learning import to_bio, to_iobes
from bertfeat.learning.crf import Crf, allowed_transitions

BIO = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
IOBES = ("O", "B-PER", "E-PER", "I-PER", "S-PER")
SIZES = [(1,), (3,), (1, 1, 1), (4, 3, 3, 1), (5, 2, 1, 1)]


def made(labels: Sequence[str], constrained: bool) -> Crf:
    torch.manual_seed(len(labels))
    crf = Crf(len(labels), allowed_transitions(labels) if constrained else None).double()
    torch.nn.init.normal_(crf.transitions, std=2.0)
    return crf


def sentences(packed: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """What is packed time by time, sentence by sentence."""
    steps = torch.split(packed, list(sizes))
    return [torch.stack([step[at] for step in steps if len(step) > at]) for at in range(sizes[0])]


def path_score(crf: Crf, emissions: Tensor, path: Sequence[int]) -> Tensor:
    """The score of one path, added up arc by arc."""
    scores = crf.transitions + crf.penalty
    begin, end = len(scores) - 2, len(scores) - 1
    arcs = zip([begin, *path], [*path, end], strict=True)
    emitted = [emissions[at, label] for at, label in enumerate(path)]
    return torch.stack([*[scores[a, b] for a, b in arcs], *emitted]).sum()


def is_legal(names: Sequence[str], labels: Sequence[str]) -> bool:
    """Whether the tags are what the scheme itself writes for the spans that they stand for."""
    writer = to_iobes if any(label[:2] == "S-" for label in labels) else to_bio
    return list(writer(names)) == list(names)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("constrained", [False, True])
@pytest.mark.parametrize("labels", [BIO, IOBES], ids=["BIO", "IOBES"])
def test_likelihood_gradient_and_best_path(labels: Sequence[str], constrained: bool, sizes: tuple[int, ...]) -> None:
    crf = made(labels, constrained)
    emissions = torch.randn(sum(sizes), len(labels), dtype=torch.float64, requires_grad=True)
    best = crf.decode(emissions, sizes)
    found = crf.log_likelihood(emissions, best, sizes)
    enumerated = []
    for each, tags in zip(sentences(emissions, sizes), sentences(best, sizes), strict=True):
        paths = list(product(range(len(labels)), repeat=len(each)))
        scores = torch.stack([path_score(crf, each, path) for path in paths])
        assert list(paths[int(scores.argmax())]) == tags.tolist()
        enumerated.append(path_score(crf, each, tags.tolist()) - torch.logsumexp(scores, 0))
    right = torch.stack(enumerated)
    torch.testing.assert_close(found, right)
    for ours, theirs in zip(
        torch.autograd.grad(found.sum(), [emissions, crf.transitions]),
        torch.autograd.grad(right.sum(), [emissions, crf.transitions]),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("labels", [BIO, IOBES], ids=["BIO", "IOBES"])
def test_exactly_the_legal_sequences_are_possible(labels: Sequence[str]) -> None:
    crf = made(labels, True)
    emissions = torch.zeros(3, len(labels), dtype=torch.float64)
    probabilities = []
    for path in product(range(len(labels)), repeat=3):
        likelihood = crf.log_likelihood(emissions, torch.tensor(path), (1, 1, 1)).item()
        names = [labels[label] for label in path]
        assert (likelihood > -1000) == is_legal(names, labels), names
        probabilities.append(exp(likelihood))
    assert log(fsum(probabilities)) == pytest.approx(0.0, abs=1e-9)


def test_gradients_match_finite_differences() -> None:
    crf = made(BIO, True)
    emissions = torch.randn(7, len(BIO), dtype=torch.float64, requires_grad=True)
    tags = torch.tensor([0, 1, 0, 2, 3, 2, 4])
    assert torch.autograd.gradcheck(lambda given: crf.log_likelihood(given, tags, (3, 2, 2)), (emissions,))


@pytest.mark.parametrize("labels", [BIO, IOBES], ids=["BIO", "IOBES"])
def test_tags_that_are_found_are_legal(labels: Sequence[str]) -> None:
    crf = made(labels, True)
    sizes = (40, 40, 31, 20, 9, 1)
    found = crf.decode(torch.randn(sum(sizes), len(labels), dtype=torch.float64) * 3, sizes)
    for sentence in sentences(found, sizes):
        names = [labels[label] for label in sentence.tolist()]
        assert is_legal(names, labels), names
