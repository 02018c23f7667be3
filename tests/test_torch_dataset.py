"""VectorDataset in torch's own DataLoader and process groups: every vector once, and again from any batch on."""

from collections import Counter
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from bertfeat.adapters.pytorch import TensorBatch, VectorDataset
from bertfeat.core.features import FeatureSet, StreamBatch, VectorStream, part as part_module
from bertfeat.errors import FeatureSetError, UsageError
from tests.support.features_toy import toy_parts, toy_set

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> VectorStream:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(part_module, "ROW_GROUP_BYTES", 1500)
        folder = toy_set(tmp_path_factory.mktemp("sets") / "toy.features", *toy_parts(poolings=("token",)))
    return FeatureSet(folder).vectors("last", "token", batch=4, memory=1, origins=True)


def origins(batch: TensorBatch | StreamBatch) -> list[tuple[int, int]]:
    assert batch.rows is not None
    assert batch.positions is not None
    return list(zip(batch.rows.tolist(), batch.positions.tolist(), strict=True))


def loaded(dataset: VectorDataset, workers: int) -> list[list[tuple[int, int]]]:
    return [origins(batch) for batch in DataLoader(dataset, batch_size=None, num_workers=workers)]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_gives_each_vector_once_and_goes_on_anywhere(stream: VectorStream, workers: int) -> None:
    dataset = VectorDataset(stream)
    batches = loaded(dataset, workers)
    assert batches == [origins(batch) for batch in stream]
    for start in (1, len(batches) - 1, len(batches)):
        dataset.set_epoch(0, start)
        assert loaded(dataset, workers) == batches[start:]
    dataset.set_epoch(1)
    assert loaded(dataset, workers) != batches


@pytest.mark.sampled(3)
@pytest.mark.parametrize("count", range(1, 8))
@pytest.mark.parametrize("drop_last", [False, True])
def test_any_start_with_any_number_of_workers(
    stream: VectorStream, count: int, drop_last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oracle: workers asked in turn, those that have no more passed over; and the stream itself."""
    stream = replace(stream, settings=replace(stream.settings, drop_last=drop_last))

    def in_turn(start: int) -> list[list[tuple[int, int]]]:
        workers = []
        for number in range(count):
            info = SimpleNamespace(id=number, num_workers=count)
            monkeypatch.setattr("bertfeat.adapters.pytorch.get_worker_info", lambda info=info: info)
            dataset = VectorDataset(stream)
            dataset.set_epoch(0, start)
            workers.append(iter(dataset))
        rounds = zip_longest(*workers)
        return [origins(batch) for batches in rounds for batch in batches if batch is not None]

    whole = in_turn(0)
    assert whole == [origins(batch) for batch in stream]
    for start in (1, count, len(whole) // 2, len(whole) - 1):
        assert in_turn(start) == whole[start:]


def test_batches_are_tensors(stream: VectorStream) -> None:
    (given, *_), (batch, *_) = stream, VectorDataset(stream)
    assert batch.matrix.dtype == torch.float16
    np.testing.assert_array_equal(batch.matrix.numpy(), given.matrix)
    assert given.strings is not None
    assert batch.strings == given.strings.tolist()
    plain = next(iter(VectorDataset(replace(stream, settings=replace(stream.settings, origins=False)))))
    assert (plain.rows, plain.positions, plain.strings) == (None, None, None)


def test_matrices_in_another_type_and_on_a_device(stream: VectorStream, monkeypatch: pytest.MonkeyPatch) -> None:
    for given, batch in zip(stream, VectorDataset(stream, dtype=torch.bfloat16, device="cpu"), strict=True):
        assert torch.equal(batch.matrix, torch.from_numpy(given.matrix).bfloat16())
    with pytest.raises(UsageError, match="gpu"):
        VectorDataset(stream, device="gpu")
    with pytest.raises(UsageError, match=r"dtype: torch\.int64 holds no vectors; give a floating-point type"):
        VectorDataset(stream, dtype=torch.int64)
    monkeypatch.setattr("bertfeat.adapters.pytorch.get_worker_info", lambda: SimpleNamespace(id=0, num_workers=2))
    dataset = VectorDataset(stream)
    dataset.device = torch.device("cuda")
    with pytest.raises(UsageError, match="workers of a DataLoader do not give batches on cuda"):
        iter(dataset)


def test_a_value_that_the_type_does_not_hold_is_refused() -> None:
    batch = StreamBatch(np.array([[1.0, 1e6]], np.float32))
    assert TensorBatch.of(batch, dtype=torch.bfloat16).matrix.isfinite().all()
    with pytest.raises(FeatureSetError, match=r"a value is too large for torch\.float16; give dtype torch\.float32"):
        TensorBatch.of(batch, dtype=torch.float16)


def test_columns_are_named(tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "toy.features", *toy_parts(poolings=("token",)))
    (batch, *_) = DataLoader(VectorDataset(FeatureSet(folder).vectors(["layer1", "layer3"], "token")), batch_size=None)
    (alone, *_) = FeatureSet(folder).vectors(["layer1", "layer3"], "token")
    assert list(batch.columns) == ["layer1_token", "layer3_token"]
    for name in batch.columns:
        np.testing.assert_array_equal(batch.column(name).numpy(), alone[name])
    with pytest.raises(UsageError, match="the stream has no column 'last'; there are layer1_token, layer3_token"):
        batch.column("last")


def test_a_start_of_the_stream_is_that_of_the_dataset(stream: VectorStream) -> None:
    assert loaded(VectorDataset(stream.at_epoch(0, 3)), 0) == loaded(VectorDataset(stream), 0)[3:]
    dataset = VectorDataset(stream)
    dataset.set_epoch(0, 19)
    with pytest.raises(UsageError, match="start=19; there are 18 batches"):
        iter(dataset)


@pytest.mark.parametrize("shard", [(0, 1), [0, 1]], ids=str)
def test_ranks_share_a_stream(stream: VectorStream, monkeypatch: pytest.MonkeyPatch, shard: tuple[int, int]) -> None:
    stream = replace(stream, settings=replace(stream.settings, shard=shard))
    seen: Counter[tuple[int, int]] = Counter()
    monkeypatch.setattr("torch.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("torch.distributed.get_world_size", lambda: 3)
    for rank in range(3):
        monkeypatch.setattr("torch.distributed.get_rank", lambda rank=rank: rank)
        seen += Counter(chain(*loaded(VectorDataset(stream), 0)))
    assert seen == Counter(chain.from_iterable(map(origins, stream)))
    quarter = stream.divide(1, 4)
    assert loaded(VectorDataset(quarter), 0) == [origins(batch) for batch in quarter]


def test_a_process_group_of_one(stream: VectorStream, tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        assert loaded(VectorDataset(stream), 0) == [origins(batch) for batch in stream]
    finally:
        torch.distributed.destroy_process_group()
