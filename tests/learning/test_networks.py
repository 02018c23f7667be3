"""The networks of heads against the same by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from bertfeat.errors import UsageError
from bertfeat.learning import gather_batch
from bertfeat.learning.example_store import pack_examples
from bertfeat.learning.networks import HeadNetwork, HeadShape, refuse_large_network

CPU = torch.device("cpu")
SINGLE = HeadShape(width=4, texts=1, layers=1, mixed=False, hidden=0, recurrent=False, outputs=3, dropout=0.0)


def made(shape: HeadShape, features: np.ndarray) -> HeadNetwork:
    """A network of random weights that brings these features to one scale."""
    torch.manual_seed(3)
    network = HeadNetwork(shape).eval()
    values = network.combine(features)
    network.standardise(values.mean(0, dtype=np.float32), values.std(0, dtype=np.float32))
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


def test_two_texts_are_cosines_their_distance_their_product_and_both_of_unit_layers_on_one_scale() -> None:
    features = random_features(8)
    network = made(replace(SINGLE, width=8, texts=2, layers=2), features)
    layers = features.astype(np.float64).reshape(-1, 2, 2, 2)
    layers /= np.linalg.norm(layers, axis=3, keepdims=True)
    u, v = layers[:, 0], layers[:, 1]
    parts = ((u * v).sum(2), np.abs(u - v), u * v, u, v)
    values = np.concatenate([part.reshape(9, -1) for part in parts], 1)
    values = (values - values.mean(0)) / values.std(0)
    np.testing.assert_allclose(scores_of(network, features), linear(network, "out", values), atol=1e-4)
    same = network.combine(np.concatenate([features[:, :4], features[:, :4]], 1))
    np.testing.assert_allclose(same[:, :2], 1.0, atol=1e-6, err_msg="equal texts have cosines of 1")
    assert not same[:, 2:6].any(), "and no distance"
    assert network.shape.input_groups == {"cosines": 2, "differences": 10, "texts": 18}


@pytest.mark.parametrize("texts", [1, 2])
def test_mixed_layers(texts: int) -> None:
    features = random_features(6 * texts)
    network = made(replace(SINGLE, width=6 * texts, texts=texts, layers=3, mixed=True), features)
    values = network.combine(features)
    assert network.mix is not None
    with torch.no_grad():
        network.mix.weights.copy_(torch.tensor([0.0, 1.0, -1.0]))
        network.mix.gamma.fill_(1.5)
    shares = np.exp([0.0, 1.0, -1.0]) / np.exp([0.0, 1.0, -1.0]).sum()
    assert network.mix_shares == pytest.approx(shares.tolist())
    mean, spread = values.mean(0, dtype=np.float64), values.std(0, dtype=np.float64)
    if texts == 1:
        inputs = 1.5 * np.einsum("nkh,k->nh", ((features - mean) / spread).reshape(9, 3, 2), shares)
    else:
        layers = features.astype(np.float64).reshape(9, 2, 3, 2)
        layers /= np.linalg.norm(layers, axis=3, keepdims=True)
        mixed = np.einsum("ntkh,k->nth", layers, shares)
        u, v = np.moveaxis(mixed / np.linalg.norm(mixed, axis=2, keepdims=True), 1, 0) * np.sqrt(2)
        inputs = np.concatenate([(u * v).mean(1, keepdims=True), np.abs(u - v), u * v, u, v], 1)
        inputs = (inputs - mean) / spread
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
    shape = HeadShape(1536, 1, 4, False, 2**16, True, 2, 0.5)
    with pytest.raises(UsageError, match=r"to learn this network takes [\d.]+ TB, .* give a smaller hidden"):
        refuse_large_network(lambda: HeadNetwork(shape), CPU)
    refuse_large_network(lambda: HeadNetwork(replace(shape, hidden=8)), CPU)
