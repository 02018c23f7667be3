"""The reader of token and word positions, against Python lists."""

import numpy as np
import pyarrow as pa
import pytest

from bertfeat.core.features import PiecePositions, list_offsets

DOCUMENTS = [[(0, 3, True), (4, 4, True), (4, 9, False)], [], [(1, 2, True)], [(0, 5, True), (6, 7, True)]]


def record_batch(start: int, stop: int, *, pairs: bool = False) -> pa.RecordBatch:
    columns = {
        "word_start": [[piece[0] for piece in document] for document in DOCUMENTS],
        "word_end": [[piece[1] for piece in document] for document in DOCUMENTS],
        "aligned": [[piece[2] for piece in document] for document in DOCUMENTS],
    }
    if pairs:
        columns["word_segment"] = [[piece[0] % 2 for piece in document] for document in DOCUMENTS]
    return pa.record_batch(columns).slice(start, stop - start)


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (1, 4), (1, 2), (2, 2)])
def test_positions_of_any_stretch_of_a_batch(start: int, stop: int) -> None:
    pieces = PiecePositions.read(record_batch(start, stop, pairs=True), "word")
    flat = [
        (owner, number, *piece)
        for owner, document in enumerate(DOCUMENTS[start:stop])
        for number, piece in enumerate(document)
    ]
    for values, at in (
        (pieces.owners, 0),
        (pieces.numbers, 1),
        (pieces.start, 2),
        (pieces.end, 3),
        (pieces.aligned, 4),
    ):
        assert values is not None
        assert values.tolist() == [piece[at] for piece in flat]
    assert pieces.segment is not None
    assert pieces.segment.tolist() == [piece[2] % 2 for piece in flat]
    assert pieces.usable.tolist() == [piece[3] > piece[2] and piece[4] for piece in flat]
    for number, document in enumerate(DOCUMENTS[start:stop]):
        own = pieces.of_document(number)
        assert list(zip(own.start.tolist(), own.end.tolist(), strict=True)) == [piece[:2] for piece in document]


def test_columns_that_are_not_there_are_not_read() -> None:
    batch = record_batch(0, 4)
    assert PiecePositions.columns("word", batch.schema.names) == ["word_start", "word_end", "aligned"]
    assert PiecePositions.columns("token", batch.schema.names) == []
    assert PiecePositions.read(batch, "word").segment is None
    np.testing.assert_array_equal(list_offsets(batch, "aligned"), [0, 3, 3, 4, 6])
