"""Feature sets on disk: parts that describe themselves, the manifest, the reader, exports.

Nothing here needs torch or transformers, so that reading features is light.
"""

from bertfeat.features.columns import ReadableColumn, find_column
from bertfeat.features.document import DocumentFeatures, batch_documents, content_documents
from bertfeat.features.exports import EXPORT_FORMATS, ExportReport, export_features
from bertfeat.features.header import FORMAT_VERSION, Counts, ModelIdentity, PartHeader
from bertfeat.features.manifest import (
    FAILURES_NAME,
    Manifest,
    check_derived,
    read_manifest,
    remove_manifest,
    write_manifest,
)
from bertfeat.features.part import check_part, part_path, read_header, write_part
from bertfeat.features.parts import (
    SPOOL_NAME,
    PartEntry,
    check_accounting,
    list_parts,
    refuse_foreign_parts,
    remove_leftovers,
)
from bertfeat.features.pieces import (
    DocumentPieces,
    PiecePositions,
    Pieces,
    list_offsets,
    position_columns,
    read_positions,
)
from bertfeat.features.reader import FeatureSet
from bertfeat.features.schema import CELL_LIMIT, KEPT_TYPES, PartContent, check_kept
from bertfeat.features.settings import FeatureSettings, SettingDifference, describe_column
from bertfeat.features.vectors import VectorBatch, piece_offsets, stored_matrices, unit_vectors

__all__ = [
    "CELL_LIMIT",
    "EXPORT_FORMATS",
    "FAILURES_NAME",
    "FORMAT_VERSION",
    "KEPT_TYPES",
    "SPOOL_NAME",
    "Counts",
    "DocumentFeatures",
    "DocumentPieces",
    "ExportReport",
    "FeatureSet",
    "FeatureSettings",
    "Manifest",
    "ModelIdentity",
    "PartContent",
    "PartEntry",
    "PartHeader",
    "PiecePositions",
    "Pieces",
    "ReadableColumn",
    "SettingDifference",
    "VectorBatch",
    "batch_documents",
    "check_accounting",
    "check_derived",
    "check_kept",
    "check_part",
    "content_documents",
    "describe_column",
    "export_features",
    "find_column",
    "list_offsets",
    "list_parts",
    "part_path",
    "piece_offsets",
    "position_columns",
    "read_header",
    "read_manifest",
    "read_positions",
    "refuse_foreign_parts",
    "remove_leftovers",
    "remove_manifest",
    "stored_matrices",
    "unit_vectors",
    "write_manifest",
    "write_part",
]
