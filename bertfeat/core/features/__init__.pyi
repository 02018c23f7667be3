from .canary import (
    CANARY_TEXTS as CANARY_TEXTS,
    PRECISION_COSINES as PRECISION_COSINES,
    Canary as Canary,
    CanaryGroups as CanaryGroups,
    combine_cosines as combine_cosines,
    cosine_between as cosine_between,
    find_canary_problem as find_canary_problem,
)
from .cells import INT8_COSINE as INT8_COSINE, vector_bytes as vector_bytes
from .columns import ReadableColumn as ReadableColumn, find_column as find_column
from .comparison import (
    FeatureSets as FeatureSets,
    find_incomparability as find_incomparability,
    open_feature_sets as open_feature_sets,
)
from .document import (
    DocumentFeatures as DocumentFeatures,
    MemoryFeatures as MemoryFeatures,
    content_documents as content_documents,
)
from .exports import EXPORT_FORMATS as EXPORT_FORMATS, export_features as export_features
from .manifest import (
    FAILURES_NAME as FAILURES_NAME,
    WORDS_NAME as WORDS_NAME,
    Manifest as Manifest,
    check_derived as check_derived,
    drop_successor as drop_successor,
    finished_parts as finished_parts,
    has_whole_successor as has_whole_successor,
    read_manifest as read_manifest,
    remove_manifest as remove_manifest,
    settle_successor as settle_successor,
    write_manifest as write_manifest,
)
from .part import (
    FORMAT_VERSION as FORMAT_VERSION,
    Counts as Counts,
    ModelIdentity as ModelIdentity,
    PartHeader as PartHeader,
    check_part as check_part,
    count_documents as count_documents,
    part_number as part_number,
    part_path as part_path,
    read_footer as read_footer,
    read_header as read_header,
    sound_header as sound_header,
    write_part as write_part,
)
from .parts import (
    OTHER_MACHINE as OTHER_MACHINE,
    SPOOL_NAME as SPOOL_NAME,
    SUCCESSOR as SUCCESSOR,
    list_part_files as list_part_files,
    list_parts as list_parts,
    part_entry as part_entry,
    refuse_foreign_parts as refuse_foreign_parts,
    remove_leftovers as remove_leftovers,
)
from .reader import FeatureSet as FeatureSet
from .record_batches import (
    DocumentPieces as DocumentPieces,
    PiecePositions as PiecePositions,
    PieceRanges as PieceRanges,
    Pieces as Pieces,
    RecordBatch as RecordBatch,
    Table as Table,
    list_offsets as list_offsets,
    piece_offsets as piece_offsets,
    stored_matrices as stored_matrices,
    unit_vectors as unit_vectors,
)
from .schema import (
    CELL_LIMIT as CELL_LIMIT,
    PartContent as PartContent,
    check_kept as check_kept,
    content_table as content_table,
    identity_table as identity_table,
)
from .settings import FeatureSettings as FeatureSettings
from .span_vectors import (
    SpanBatch as SpanBatch,
    SpanCutter as SpanCutter,
    SpanPositions as SpanPositions,
    SpanReader as SpanReader,
    find_pieces as find_pieces,
)
from .stored_features import StoredFeatures as StoredFeatures, merge_rows as merge_rows
from .stored_texts import (
    DigestBatch as DigestBatch,
    StoredTexts as StoredTexts,
)
from .tables import NpyWriter as NpyWriter
from .vector_reader import StreamBatch as StreamBatch
from .vector_stream import StreamSettings as StreamSettings, VectorStream as VectorStream
