from .block_reader import StreamBatch as StreamBatch
from .columns import (
    ReadableColumn as ReadableColumn,
    column_names as column_names,
    find_column as find_column,
    single_layer_columns as single_layer_columns,
)
from .document import (
    DocumentFeatures as DocumentFeatures,
    batch_documents as batch_documents,
    content_documents as content_documents,
)
from .exports import EXPORT_FORMATS as EXPORT_FORMATS, ExportReport as ExportReport, export_features as export_features
from .header import (
    FORMAT_VERSION as FORMAT_VERSION,
    Counts as Counts,
    ModelIdentity as ModelIdentity,
    PartHeader as PartHeader,
)
from .manifest import (
    FAILURES_NAME as FAILURES_NAME,
    Manifest as Manifest,
    check_derived as check_derived,
    finished_parts as finished_parts,
    read_manifest as read_manifest,
    remove_manifest as remove_manifest,
    write_manifest as write_manifest,
)
from .memory import MemoryFeatures as MemoryFeatures
from .npy import NpyWriter as NpyWriter
from .open_parts import OpenParts as OpenParts
from .part import (
    check_part as check_part,
    part_number as part_number,
    part_path as part_path,
    read_footer as read_footer,
    read_header as read_header,
    write_part as write_part,
)
from .parts import (
    SPOOL_NAME as SPOOL_NAME,
    PartEntry as PartEntry,
    check_accounting as check_accounting,
    list_part_files as list_part_files,
    list_parts as list_parts,
    part_entry as part_entry,
    part_footers as part_footers,
    refuse_foreign_parts as refuse_foreign_parts,
    remove_leftovers as remove_leftovers,
)
from .pieces import (
    DocumentPieces as DocumentPieces,
    PiecePositions as PiecePositions,
    Pieces as Pieces,
    list_offsets as list_offsets,
    position_columns as position_columns,
    read_positions as read_positions,
)
from .principal_plane import PrincipalPlane as PrincipalPlane, find_principal_plane as find_principal_plane
from .reader import FeatureSet as FeatureSet
from .running_mean import RunningMean as RunningMean
from .schema import (
    CELL_LIMIT as CELL_LIMIT,
    KEPT_TYPES as KEPT_TYPES,
    PartContent as PartContent,
    check_kept as check_kept,
)
from .settings import (
    FeatureSettings as FeatureSettings,
    SettingDifference as SettingDifference,
    describe_column as describe_column,
)
from .shard_record import ShardRecord as ShardRecord, read_shard as read_shard, write_shard as write_shard
from .stream_settings import StreamSettings as StreamSettings
from .vector_stream import VectorStream as VectorStream
from .vectors import (
    RecordBatch as RecordBatch,
    VectorBatch as VectorBatch,
    derived_dtype as derived_dtype,
    piece_offsets as piece_offsets,
    stored_matrices as stored_matrices,
    unit_vectors as unit_vectors,
)
