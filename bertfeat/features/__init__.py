"""Feature sets on disk: parts that describe themselves, the manifest, the reader, exports.

Nothing here needs torch or transformers, so that reading features is light.
"""

from bertfeat.features.columns import FoundColumn, find_column
from bertfeat.features.document import DocumentFeatures, DocumentPieces, batch_documents, content_documents
from bertfeat.features.exports import FORMS, Exported, export
from bertfeat.features.folder import PartEntry, check_accounting, list_parts, remove_leftovers
from bertfeat.features.header import FORMAT_VERSION, Counts, ModelIdentity, PartHeader
from bertfeat.features.manifest import FAILURES_NAME, Manifest, read_manifest, remove_manifest, write_manifest
from bertfeat.features.part import check_part, part_path, read_header, write_part
from bertfeat.features.reader import FeatureSet
from bertfeat.features.schema import KEPT_TYPES, PartContent, Pieces, check_kept
from bertfeat.features.settings import FeatureSettings, SettingDifference, describe_column
from bertfeat.features.vectors import VectorBatch, piece_offsets, stored_matrices

__all__ = [
    "FAILURES_NAME",
    "FORMAT_VERSION",
    "FORMS",
    "KEPT_TYPES",
    "Counts",
    "DocumentFeatures",
    "DocumentPieces",
    "Exported",
    "FeatureSet",
    "FeatureSettings",
    "FoundColumn",
    "Manifest",
    "ModelIdentity",
    "PartContent",
    "PartEntry",
    "PartHeader",
    "Pieces",
    "SettingDifference",
    "VectorBatch",
    "batch_documents",
    "check_accounting",
    "check_kept",
    "check_part",
    "content_documents",
    "describe_column",
    "export",
    "find_column",
    "list_parts",
    "part_path",
    "piece_offsets",
    "read_header",
    "read_manifest",
    "remove_leftovers",
    "remove_manifest",
    "stored_matrices",
    "write_manifest",
    "write_part",
]
