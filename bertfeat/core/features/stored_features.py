"""Features that parts hold, by their texts: found by digest, and taken out cell by cell, as they are stored."""

import logging
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bertfeat.core.features.manifest import kept_columns
from bertfeat.core.features.open_parts import PartReader
from bertfeat.core.features.part import read_footer, sound_header
from bertfeat.core.features.record_batches import Table
from bertfeat.core.features.stored_texts import StoredTexts
from bertfeat.errors import DamagedError
from bertfeat.io import Location

_log = logging.getLogger("bertfeat")


class StoredFeatures:
    """The features of all texts of some parts, which have one schema.

    A part that is damaged is told and left out.

    Raises:
        FeatureSetError: a part holds no digests of its texts.
    """

    def __init__(self, parts: Sequence[Location]) -> None:
        self._parts, self._sound = parts, dict[int, bool]()
        self._open = lru_cache(maxsize=64)(lambda number: PartReader(read_footer(parts[number])))
        self._texts = StoredTexts.of_parts(parts)

    def find(self, digests: Sequence[bytes]) -> NDArray[np.int64]:
        """The number of a stored text for each digest, ``[n]``; -1 where there is none."""
        numbers = self._texts.find(digests)
        owners = self._texts.owners[numbers] if len(self._texts) else numbers
        for owner in np.unique(owners[numbers >= 0]).tolist():
            if not self._is_sound(owner):
                numbers[owners == owner] = -1
        return numbers

    def take(self, numbers: NDArray[np.int64], identity: Table) -> Table:
        """The features of stored texts, ``[n]`` rows, under the ``identity`` of others: row, id, text, kept columns."""
        owners, rows = self._texts.owners[numbers], self._texts.rows[numbers].astype(np.int64)
        order = np.lexsort((rows, owners))
        tables = []
        for owner in np.unique(owners).tolist():
            part = self._open(owner)
            names = _made_by_the_model(part)
            tables.append(part.take(rows[order][owners[order] == owner], ["row", *names]).select(names))
        cells = _in_order(pa.concat_tables(tables), np.argsort(order))
        fields = [pa.field(field.name, field.type, field.nullable) for field in (*identity.schema, *cells.schema)]
        return pa.table([*identity.columns, *cells.columns], schema=pa.schema(fields))

    def _is_sound(self, owner: int) -> bool:
        """Whether a part agrees with its checksums."""
        if owner not in self._sound:
            try:
                sound_header(self._parts[owner])
                self._sound[owner] = True
            except DamagedError as error:
                self._sound[owner] = False
                _log.warning("not copied from: %s", error)
        return self._sound[owner]


def _made_by_the_model(part: PartReader) -> list[str]:
    """The columns of a part that hold its features, tokens, words and tags."""
    kept = (column.name for column in kept_columns(part.footer))
    others = {"row", "id", "text", "pair", "text_digest", *kept}
    return [name for name in part.footer.schema.names if name not in others]


def merge_rows(tables: Sequence[Table]) -> Table:
    """Tables of a part's documents as one, in the order of their rows."""
    table = pa.concat_tables([each.cast(tables[0].schema) for each in tables])
    return _in_order(table, np.argsort(table.column("row").to_numpy(), kind="stable")).combine_chunks()


def _in_order(table: Table, order: NDArray[np.int64]) -> Table:
    """The rows of a table in an order; nothing is copied where that is theirs."""
    return table if np.array_equal(order, np.arange(len(order))) else table.take(order)
