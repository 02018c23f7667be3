"""An adapter for PyTorch: a stream of vectors as a dataset, divided among ranks and the workers of a DataLoader."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from bertfeat.arguments import checked
from bertfeat.core import StreamBatch, VectorStream
from bertfeat.errors import UsageError, parameter


class TensorBatch(NamedTuple):
    """A :class:`bertfeat.core.features.StreamBatch` as a tuple of tensors, which DataLoaders can share and pin."""

    matrix: Tensor  # [n, width]
    rows: Tensor | None  # [n] row of the document
    positions: Tensor | None  # [n] number of the token or word in it; 0 for document vectors
    strings: list[str] | None  # [n] the token or word

    @classmethod
    def of(cls, batch: StreamBatch) -> Self:
        """The same batch, in the same memory."""
        rows, positions = (None if each is None else torch.from_numpy(each) for each in (batch.rows, batch.positions))
        strings = None if batch.strings is None else batch.strings.tolist()
        return cls(torch.from_numpy(batch.matrix), rows, positions, strings)


@checked
class VectorDataset(IterableDataset[TensorBatch]):
    """The batches of a stream as a dataset for torch's DataLoader, divided among its workers and among ranks.

    ::

        from bertfeat.adapters.pytorch import VectorDataset
        loader = DataLoader(VectorDataset(features.vectors("last", "token")), batch_size=None, num_workers=4)

    Each vector goes to one rank of ``torch.distributed``, if that is initialized when the dataset is made and the
    stream is not a shard already, and within the rank to one worker; each worker uses the stream's ``memory``.
    ``start`` counts the batches that the rank has received from its DataLoader: with as many workers as before, the
    following batches are the same as without an interruption. With ``drop_last`` all ranks have equally many batches.
    """

    def __init__(self, stream: VectorStream) -> None:
        self.stream, self.start = stream.at_epoch(stream.settings.epoch), stream.settings.start
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        if distributed and stream.settings.shard == (0, 1):  # here, since worker processes do not know the rank
            self.stream = self.stream.divide(torch.distributed.get_rank(), torch.distributed.get_world_size())

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Choose the epoch, and the batch of it to begin with, before the DataLoader is iterated.

        Workers that persist (``persistent_workers``) keep the epoch that they have.
        """
        self.stream, self.start = self.stream.at_epoch(epoch), start

    def __iter__(self) -> Iterator[TensorBatch]:
        """The batches of this worker."""
        worker = get_worker_info()
        index, count = (worker.id, worker.num_workers) if worker else (0, 1)
        shards = [self.stream.divide(number, count) for number in range(count)]
        # a DataLoader takes a batch of each worker in turn, and passes over those that have no more
        turns = sorted((batch, number) for number, shard in enumerate(shards) for batch in range(len(shard)))
        if self.start > len(turns):
            raise UsageError(parameter("start", self.start), remedy=f"there are {len(turns)} batches")
        received = Counter(number for _, number in turns[: self.start])
        # the DataLoader begins with worker 0, which therefore takes the shard whose turn it is
        turn = turns[self.start][1] if self.start < len(turns) else 0
        own = (index + turn) % count
        return map(TensorBatch.of, self.stream.divide(own, count, start=received[own]))
