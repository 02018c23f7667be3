"""An adapter for PyTorch: a stream of vectors as a dataset, divided among ranks and the workers of a DataLoader."""

from collections.abc import Iterator
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from bertfeat.arguments import checked
from bertfeat.core import StreamBatch, VectorStream, resolve_device
from bertfeat.errors import FeatureSetError, UsageError, parameter


class TensorBatch(NamedTuple):
    """A :class:`bertfeat.core.features.StreamBatch` as a tuple of tensors, which DataLoaders can share and pin."""

    matrix: Tensor  # [n, width]
    rows: Tensor | None  # [n] row of the document
    positions: Tensor | None  # [n] number of the token or word in it; 0 for document vectors
    strings: list[str] | None  # [n] the token or word
    columns: dict[str, slice]  # where each column stands in the matrix

    def column(self, name: str) -> Tensor:
        """The vectors of one of several columns, in the same memory. Shape: ``[n, its width]``.

        Raises:
            UsageError: the stream does not have it.
        """
        if name not in self.columns:
            raise UsageError(f"the stream has no column {name!r}", remedy=f"there are {', '.join(self.columns)}")
        return self.matrix[:, self.columns[name]]

    @classmethod
    def of(cls, batch: StreamBatch, device: torch.device | None = None, dtype: torch.dtype | None = None) -> Self:
        """The same batch, in the same memory, or its matrix on a device or in another type.

        Raises:
            FeatureSetError: a value is too large for the type.
        """
        rows, positions = (None if each is None else torch.from_numpy(each) for each in (batch.rows, batch.positions))
        strings = None if batch.strings is None else batch.strings.tolist()
        given = torch.from_numpy(batch.matrix)
        matrix = given.to(device=device, dtype=dtype)
        if torch.finfo(matrix.dtype).max < torch.finfo(given.dtype).max and not matrix.isfinite().all():
            remedy = f"give {parameter('dtype')} torch.float32 or torch.bfloat16"
            raise FeatureSetError(f"a value is too large for {matrix.dtype}", remedy=remedy)
        return cls(matrix, rows, positions, strings, dict(batch.columns))


@checked
class VectorDataset(IterableDataset[TensorBatch]):
    """The batches of a stream as a dataset for torch's DataLoader, divided among its workers and among ranks.

    ::

        from bertfeat.adapters.pytorch import VectorDataset
        loader = DataLoader(VectorDataset(features.vectors("last", "token")), batch_size=None, num_workers=4)

    Each vector goes to one rank of ``torch.distributed``, if that is initialized when the dataset is made and the
    stream is not a shard already. The workers of a DataLoader take turns, so that their number changes neither batches
    nor order; each reads all that its batches are drawn from, and uses the stream's ``memory``. ``start`` counts the
    batches of the rank. With ``drop_last`` all ranks have equally many batches. ``device`` and ``dtype`` are those of
    the matrices: on the CPU, and the stream's, unless given.

    Raises:
        UsageError: the device is not there, or the type is none of floating-point numbers.
    """

    def __init__(
        self, stream: VectorStream, *, device: str | torch.device | None = None, dtype: torch.dtype | None = None
    ) -> None:
        self.stream, self.start = stream.at_epoch(stream.settings.epoch), stream.settings.start
        self.device, self.dtype = None if device is None else resolve_device(str(device)), dtype
        if dtype is not None and not dtype.is_floating_point:
            raise UsageError(f"{dtype} holds no vectors", where=parameter("dtype"), remedy="give a floating-point type")
        distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
        if distributed and stream.settings.shard == (0, 1):  # here, since worker processes do not know the rank
            self.stream = self.stream.divide(torch.distributed.get_rank(), torch.distributed.get_world_size())

    def set_epoch(self, epoch: int, start: int = 0) -> None:
        """Choose the epoch, and the batch of it to begin with, before the DataLoader is iterated.

        Workers that persist (``persistent_workers``) keep the epoch that they have.
        """
        self.stream, self.start = self.stream.at_epoch(epoch), start

    def __iter__(self) -> Iterator[TensorBatch]:
        """The batches of this worker.

        Raises:
            UsageError: there are fewer than ``start`` batches, or workers would need a GPU each.
        """
        worker = get_worker_info()
        index, count = (worker.id, worker.num_workers) if worker else (0, 1)
        if worker and self.device is not None and self.device.type != "cpu":
            raise UsageError(
                f"workers of a DataLoader do not give batches on {self.device}",
                where=parameter("device"),
                remedy="iterate over the dataset itself, which reads ahead, or leave the device out",
            )
        stream = self.stream.at_epoch(self.stream.settings.epoch, self.start)  # which refuses a start beyond the end
        return (TensorBatch.of(batch, self.device, self.dtype) for batch in stream.turns(index, count))
