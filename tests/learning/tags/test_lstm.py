"""Our bidirectional LSTM against torch's: outputs and gradients, over packed sentences of all shapes."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence

from bertfeat.learning import lstm
from bertfeat.learning.lstm import BiLstm, reversed_order

SIZES = [
    pytest.param((1,), id="one word"),
    pytest.param((4,), id="one word each"),
    pytest.param((1, 1, 1, 1), id="one sentence"),
    pytest.param((3, 3, 3), id="equal lengths"),
    pytest.param((5, 4, 4, 2, 1, 1), id="ragged"),
]


def own_and_torchs(inputs: int, hidden: int, layers: int) -> tuple[BiLstm, nn.LSTM]:
    """Give one network twice."""
    torch.manual_seed(3)
    made, other = BiLstm(inputs, hidden, layers), nn.LSTM(inputs, hidden, layers, bidirectional=True)
    for number, weights in enumerate(made.layers):
        weights.get_parameter("bias").data.normal_()
        for way, ending in ((0, ""), (1, "_reverse")):
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                own_name = {"weight_ih": "w_ih", "weight_hh": "w_hh", "bias_ih": "bias"}.get(name)
                value = getattr(weights, own_name)[way] if own_name else torch.zeros(4 * hidden)
                getattr(other, f"{name}_l{number}{ending}").data.copy_(value)
    return made, other


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("low", [torch.float32, torch.bfloat16], ids=str)
def test_like_torchs_own(sizes: tuple[int, ...], low: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lstm, "has_native_bf16", lambda _device: low is torch.bfloat16)
    made, other = own_and_torchs(6, 5, 2)
    inputs = torch.randn(sum(sizes), 6, requires_grad=True)
    direction = torch.randn(sum(sizes), 10)

    ours = made(inputs, sizes)
    theirs = other(PackedSequence(inputs, torch.tensor(sizes)))[0].data
    found, *grads = [ours, *torch.autograd.grad((ours * direction).sum(), [inputs, *made.parameters()])]
    right, *others = [theirs, *torch.autograd.grad((theirs * direction).sum(), [inputs, *other.parameters()])]
    pairs = [(found, right), (grads[0], others[0])]
    for number in range(2):  # parameters of a layer: ours three, theirs four of each direction
        for at in range(3):
            stacked = torch.stack([others[1 + 8 * number + at], others[1 + 8 * number + 4 + at]])
            pairs.append((grads[1 + 3 * number + at], stacked))
    for one, two in pairs:
        bound = two.detach().abs().max().item() * (1e-5 if low is torch.float32 else 3e-2) + 1e-7
        torch.testing.assert_close(one, two, rtol=0, atol=bound)


def test_masks_lie_between_layers() -> None:
    made, _ = own_and_torchs(3, 2, 2)
    inputs, sizes, mask = torch.randn(5, 3), (2, 2, 1), torch.randn(5, 4)
    first, second = BiLstm(3, 2, 1), BiLstm(4, 2, 1)
    for alone, layer in ((first, 0), (second, 1)):
        alone.layers[0].load_state_dict(made.layers[layer].state_dict())
    right = second(first(inputs, sizes) * mask, sizes)
    torch.testing.assert_close(made(inputs, sizes, [mask]), right)


def test_mirrored_twice_is_as_before() -> None:
    order = reversed_order((3, 2, 1, 1))
    assert order.tolist() == [6, 4, 2, 5, 1, 3, 0]
    assert order[order].tolist() == list(range(7))
