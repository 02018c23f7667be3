"""The networks of heads against the same by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from bertfeat.errors import UsageError
from bertfeat.heads.networks import HeadNetwork, HeadShape
from bertfeat.training import gather_batch
from bertfeat.training.batches import pack_examples
from bertfeat.training.capacity import refuse_large_network

CPU = torch.device("cpu")
SINGLE = HeadShape(width=4, texts=1, mixed_layers=0, hidden=0, recurrent=False, outputs=3, dropout=0.0)


def made(shape: HeadShape, features: np.ndarray) -> HeadNetwork:
    """A network of random weights that brings these features to one scale."""
    torch.manual_seed(3)
    network = HeadNetwork(shape).eval()
    network.standardise(features.mean(0, dtype=np.float32), features.std(0, dtype=np.float32))
    return network


def scores_of(network: HeadNetwork, features: np.ndarray) -> np.ndarray:
    packed = pack_examples(np.arange(len(features) + 1), np.arange(len(features)))
    with torch.no_grad():
        return np.asarray(network(gather_batch(features, packed, CPU)))


def linear(network: HeadNetwork, name: str, values: np.ndarray) -> np.ndarray:
    weights = {key: tensor.double().numpy() for key, tensor in network.state_dict().items()}
    return np.asarray(values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])


def random_features(width: int) -> np.ndarray:
    return (np.random.default_rng(width).standard_normal((9, width)) * 3 + 5).astype(np.float32)


def test_one_text() -> None:
    features = random_features(4)
    network = made(SINGLE, features)
    values = (features - features.mean(0)) / features.std(0)
    np.testing.assert_allclose(scores_of(network, features), linear(network, "out", values), atol=1e-5)


def test_a_hidden_layer() -> None:
    features = random_features(4)
    network = made(replace(SINGLE, hidden=6), features)
    hidden = np.maximum(linear(network, "hidden", (features - features.mean(0)) / features.std(0)), 0)
    np.testing.assert_allclose(scores_of(network, features), linear(network, "out", hidden), atol=1e-5)


def test_two_texts_are_u_v_their_distance_and_their_product_on_one_scale() -> None:
    features = random_features(8)
    network = made(replace(SINGLE, width=8, texts=2), features)
    first, second = features[:, :4], features[:, 4:]
    mean = (first.mean(0) + second.mean(0)) / 2
    spread = np.sqrt((first.var(0) + second.var(0)) / 2)
    u, v = (first - mean) / spread, (second - mean) / spread
    values = np.concatenate([u, v, np.abs(u - v), u * v], 1)
    np.testing.assert_allclose(scores_of(network, features), linear(network, "out", values), atol=1e-5)
    same = np.concatenate([first, first], 1)
    assert not network._combined(torch.from_numpy(same))[:, 8:12].any(), "equal texts have no distance"


@pytest.mark.parametrize("texts", [1, 2])
def test_mixed_layers(texts: int) -> None:
    features = random_features(6 * texts)
    network = made(replace(SINGLE, width=6 * texts, texts=texts, mixed_layers=3), features)
    assert network.mix is not None
    with torch.no_grad():
        network.mix.weights.copy_(torch.tensor([0.0, 1.0, -1.0]))
        network.mix.gamma.fill_(1.5)
    shares = np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum()
    assert network.mix_shares == pytest.approx(shares.tolist())
    sides = features.reshape(9, texts, 6)
    values = (sides - sides.mean(0).mean(0)) / np.sqrt(sides.var(0).mean(0))
    mixed = 1.5 * np.einsum("ntkh,k->nth", values.reshape(9, texts, 3, 2), shares)
    u, v = mixed[:, 0], mixed[:, -1]
    inputs = u if texts == 1 else np.concatenate([u, v, np.abs(u - v), u * v], 1)
    np.testing.assert_allclose(scores_of(network, features), linear(network, "out", inputs), atol=1e-5)


def test_a_recurrent_network_reads_each_example_as_if_alone() -> None:
    lengths = [3, 1, 4]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    features = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    network = made(replace(SINGLE, hidden=5, recurrent=True, outputs=2), features)
    packed = pack_examples(offsets, np.arange(3))
    with torch.no_grad():
        scores = np.empty((8, 2), np.float32)
        scores[packed.vectors] = network(gather_batch(features, packed, CPU)).numpy()
        for begin, end in pairwise(offsets):
            alone = pack_examples(np.array([0, end - begin]), np.array([0]))
            one = network(gather_batch(features[begin:end], alone, CPU)).numpy()
            np.testing.assert_allclose(scores[begin:end], one, atol=1e-3)


def test_a_network_that_the_memory_cannot_hold_is_refused_before_it_is_made() -> None:
    shape = HeadShape(1536, 1, 0, 2**16, True, 2, 0.5)
    with pytest.raises(UsageError, match=r"to learn this network takes 1,\d\d\d\.\d GiB, .* give a smaller hidden"):
        refuse_large_network(lambda: HeadNetwork(shape), CPU)
    refuse_large_network(lambda: HeadNetwork(replace(shape, hidden=8)), CPU)
