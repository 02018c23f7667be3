"""The columns of an index's documents, without the documents that were removed."""

from collections.abc import Iterator

import pyarrow as pa

from bertfeat.search.index import Index


def living_values(index: Index, name: str) -> Iterator[pa.Array]:
    """A column, block by block, without documents that were removed (of which an index of words still has words)."""
    removed = index.vectors.removed if index.settings.per_document else None
    start = 0
    for batch in index.vectors.documents.batches([name]):
        values = batch.column(0)
        yield values if removed is None else values.filter(pa.array(~removed[start : start + len(values)]))
        start += len(values)
