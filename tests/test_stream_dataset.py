"""A stream as a Hugging Face dataset: the same vectors, shared out by ``datasets`` itself."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets.distributed import split_dataset_by_node

from bertfeat.adapters.hugging_face import stream_dataset
from bertfeat.core.features import FeatureSet, VectorStream
from bertfeat.errors import UsageError
from tests.support.features_toy import toy_parts, toy_set


@pytest.fixture
def stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VectorStream:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = toy_set(tmp_path / "toy.features", *toy_parts(poolings=("token", "mean")))
    return FeatureSet(folder).vectors("last", "token", batch=16, memory=1, origins=True)


def test_examples_are_the_vectors_with_their_origins(stream: VectorStream) -> None:
    found = {(each["row"], each["position"]): each for each in stream_dataset(stream, shards=3)}
    assert len(found) == stream.vectors
    for batch in stream:
        assert batch.rows is not None
        assert batch.positions is not None
        assert batch.strings is not None
        for vector, row, position, string in zip(batch.matrix, batch.rows, batch.positions, batch.strings, strict=True):
            np.testing.assert_array_equal(np.array(found[row, position]["vector"], "f2"), vector)
            assert found[row, position]["string"] == string


def test_nodes_share_the_shards(stream: VectorStream) -> None:
    dataset = stream_dataset(stream, shards=4)
    nodes = [split_dataset_by_node(dataset, rank=rank, world_size=2) for rank in range(2)]
    found = Counter((each["row"], each["position"]) for node in nodes for each in node)
    assert found == Counter((each["row"], each["position"]) for each in dataset)
    assert found.total() == stream.vectors


def test_without_origins_there_are_vectors_alone(stream: VectorStream) -> None:
    plain = replace(stream, settings=replace(stream.settings, origins=False))
    batch = next(iter(stream_dataset(plain, shards=1).with_format("numpy").batch(8)))
    assert list(batch) == ["vector"]
    assert tuple(batch["vector"].shape) == (8, stream.width)


def test_several_columns_are_vectors_of_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = toy_set(tmp_path / "toy.features", *toy_parts(poolings=("token",)))
    stream = FeatureSet(folder).vectors(["layer1", "layer3"], "token", origins=True)
    (batch, *_), (example, *_) = stream, stream_dataset(stream, shards=1)
    assert list(example) == ["layer1_token", "layer3_token", "row", "position", "string"]
    np.testing.assert_array_equal(example["layer3_token"], batch["layer3_token"][0])


def test_a_vector_is_an_array(stream: VectorStream) -> None:
    """And not a list, of whose numbers torch would make a tensor each."""
    plain, (example, *_) = next(iter(stream_dataset(stream))), stream_dataset(stream).with_format("torch")
    assert (type(plain["vector"]), plain["vector"].shape) == (np.ndarray, (stream.width,))
    assert (type(example["vector"]), tuple(example["vector"].shape)) == (torch.Tensor, (stream.width,))
    np.testing.assert_array_equal(example["vector"].numpy(), plain["vector"].astype("f4"))


def test_what_cannot_be_is_refused(stream: VectorStream) -> None:
    with pytest.raises(UsageError, match="shards=0; give 1 or more"):
        stream_dataset(stream, shards=0)
    with pytest.raises(UsageError, match="start=1 counts batches"):
        stream_dataset(stream.at_epoch(0, 1))
