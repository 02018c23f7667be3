"""Copies of features: what parts of earlier runs hold of a text is taken from there, cell by cell, and not computed.

A vector depends on its text and the settings alone, so that a part with copies has the bytes of one that is computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from bertfeat.core.corpus import Document, KeptColumn, Row, text_digest
from bertfeat.core.extraction.part_content import identity_content
from bertfeat.core.features import FeatureSet, FeatureSettings, StoredFeatures, Table, identity_table
from bertfeat.core.recipe import FeatureColumn
from bertfeat.errors import FeatureSetError, parameter
from bertfeat.io import Location, as_location

if TYPE_CHECKING:
    from bertfeat.core.extraction.sentence_transformers.extractor import Extractor

_OF_ROWS = ("keep", "part_rows", "batch_tokens")  # settings that decide nothing of what a text is made to


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
    digests = [text_digest(document) for document in documents]
    numbers = stored.find(digests)
    found = np.flatnonzero(numbers >= 0).tolist()
    if not found:
        return rows, None
    copied = [documents[at] for at in found]
    content = identity_content(copied, kept, keep_text=True, pairs=pairs)
    identity = identity_table(replace(content, digests=[digests[at].hex() for at in found]))
    places = {document.row for document in copied}
    left = [row for row in rows if row.row not in places]
    return left, CopiedRows(tuple(copied), stored.take(numbers[found], identity))


def reused_parts(
    sets: Sequence[str], settings: FeatureSettings, columns: Sequence[FeatureColumn], extractor: "Extractor"
) -> tuple[Location, ...]:
    """The parts of other feature sets, whose features are those that the settings and columns would give.

    Raises:
        FeatureSetError: a set has other settings, another model's vectors, or no texts.
    """
    parts: list[Location] = []
    for name in sets:
        features = FeatureSet(as_location(name))
        header = features.header
        alike = replace(header.settings, **{field: getattr(settings, field) for field in _OF_ROWS})
        differ = [each.name for each in alike.differences(settings)]
        if not differ and header.columns != tuple(columns):
            differ = ["components"]
        problem = f"it was made with other settings ({', '.join(differ)})" if differ else ""
        if "text_digest" not in features.names:
            problem = "it holds no texts"
        if problem:
            raise FeatureSetError(
                f"its features cannot be reused: {problem}",
                where=features.folder,
                remedy=f"leave {parameter('reuse')} out",
            )
        extractor.check_against(header.model, features.folder)
        parts += (features.folder / entry.name for entry in features.entries)
    return tuple(parts)
