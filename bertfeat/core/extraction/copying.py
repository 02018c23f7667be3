"""Copies of features: what parts of earlier runs hold of a text is taken from there, cell by cell, and not computed.

A vector depends on its text and the settings alone, so that a part with copies has the bytes of one that is computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from bertfeat.core.corpus import Document, KeptColumn, Row, text_digest
from bertfeat.core.extraction.part_content import identity_content
from bertfeat.core.features import StoredFeatures, Table, identity_table


@dataclass(frozen=True, slots=True)
class CopiedRows:
    """Documents of a part whose features were copied, and the columns of the part for them."""

    documents: tuple[Document, ...]
    table: Table


def split_copied(
    rows: Sequence[Row], stored: StoredFeatures, kept: Sequence[KeptColumn], *, pairs: bool
) -> tuple[Sequence[Row], CopiedRows | None]:
    """Divide rows into those that are left to compute, and copies of the others; None where there are none."""
    documents = [row for row in rows if isinstance(row, Document)]
    numbers = stored.find([text_digest(document) for document in documents])
    copied = [document for document, number in zip(documents, numbers.tolist(), strict=True) if number >= 0]
    if not copied:
        return rows, None
    identity = identity_table(identity_content(copied, kept, keep_text=True, pairs=pairs))
    places = {document.row for document in copied}
    left = [row for row in rows if row.row not in places]
    return left, CopiedRows(tuple(copied), stored.take(numbers[numbers >= 0], identity))
