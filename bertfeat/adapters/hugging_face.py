"""An adapter for Hugging Face's datasets library: a stream of vectors as an ``IterableDataset``."""

# mypy: disable-error-code="misc"

from collections.abc import Iterator, Sequence

import numpy as np

from bertfeat.arguments import checked
from bertfeat.core import StreamBatch, VectorStream
from bertfeat.errors import UsageError, needed_library, parameter

with needed_library("this adapter is for datasets", "datasets"):
    from datasets import IterableDataset


@checked
def stream_dataset(stream: VectorStream, shards: int = 8) -> IterableDataset:
    """Return the vectors of a stream as examples: ``vector`` and, with origins, ``row``, ``position`` and ``string``.

    Of several columns an example has the vector of each, under the column's name.

    ::

        from bertfeat.adapters.hugging_face import stream_dataset
        dataset = stream_dataset(features.vectors("last", "token")).with_format("torch")

    The stream is cut into ``shards`` pieces, which ``datasets`` reads one after the other, or distributes among nodes
    (``split_dataset_by_node``) and the workers of a DataLoader. A vector is an array ``[W]``; the dataset declares no
    ``features``, by which ``datasets`` would make each of its numbers an object. Each vector becomes a Python dict
    still, which takes longer than reading it; :class:`bertfeat.VectorDataset` yields whole batches.

    Raises:
        UsageError: ``shards`` is less than 1, or the stream does not begin with its first batch.
    """
    if shards < 1:
        raise UsageError(parameter("shards", shards), remedy="give 1 or more")
    if stream.settings.start:
        remedy = "leave it out, and use the dataset's own skip or load_state_dict"
        raise UsageError(f"{parameter('start', stream.settings.start)} counts batches, not examples", remedy=remedy)
    pieces = [stream.divide(number, shards) for number in range(shards)]
    return IterableDataset.from_generator(_stream_examples, gen_kwargs={"streams": pieces})  # a list is its shards


def _stream_examples(streams: Sequence[VectorStream]) -> Iterator[dict[str, object]]:
    for stream in streams:
        for batch in stream:
            yield from _batch_examples(batch)


def _batch_examples(batch: StreamBatch) -> Iterator[dict[str, object]]:
    named = {"vector": batch.matrix} if len(batch.columns) == 1 else {name: batch[name] for name in batch.columns}
    vectors = (dict(zip(named, each, strict=True)) for each in zip(*named.values(), strict=True))
    if batch.rows is None or batch.positions is None:
        yield from vectors
        return
    strings = np.full(len(batch), None) if batch.strings is None else batch.strings
    for each, row, position, string in zip(vectors, batch.rows, batch.positions, strings, strict=True):
        yield {**each, "row": row, "position": position, "string": string}
