from .batches import (
    ExampleBatch as ExampleBatch,
    ExampleChunk as ExampleChunk,
    PackedExamples as PackedExamples,
    batches_by_length as batches_by_length,
    gather_batch as gather_batch,
    shuffled_batches as shuffled_batches,
)
from .capacity import COPIES as COPIES, available_memory as available_memory, gibibytes as gibibytes
from .checkpoint import STATE_NAME as STATE_NAME, remove_checkpoint as remove_checkpoint
from .disk_errors import library_disk_errors as library_disk_errors
from .epochs import Epoch as Epoch, OnEpoch as OnEpoch, OnPace as OnPace, Pace as Pace
from .example_store import (
    ExampleRows as ExampleRows,
    ExampleStore as ExampleStore,
    describe_source as describe_source,
)
from .extraction import (
    FOLDER_REFUSALS as FOLDER_REFUSALS,
    Extraction as Extraction,
    check_same_features as check_same_features,
    count_failed_rows as count_failed_rows,
    extraction_of as extraction_of,
)
from .feature_digests import parts_digest as parts_digest
from .feature_places import find_place as find_place, record_place as record_place
from .fine_tuning import (
    FineTuned as FineTuned,
    check_tuning as check_tuning,
    find_tuned_model as find_tuned_model,
    fine_tuned as fine_tuned,
    tuning_precision as tuning_precision,
)
from .grid import PAPER_GRID as PAPER_GRID, GridPoint as GridPoint
from .layer_input import (
    LayerInput as LayerInput,
    choose_input as choose_input,
    derive_input as derive_input,
    parse_input as parse_input,
)
from .loop import EpochLoop as EpochLoop
from .lstm import BiLstm as BiLstm
from .network import FeatureNetwork as FeatureNetwork, ScalarMix as ScalarMix
from .pictures import draw_if_possible as draw_if_possible
from .result_lock import hold_result_folder as hold_result_folder
from .scaling import feature_scale as feature_scale
from .schedule import (
    EpochRecord as EpochRecord,
    best_epoch as best_epoch,
    history_problem as history_problem,
    is_over as is_over,
)
from .settings import (
    MEMORY as MEMORY,
    HeadSettings as HeadSettings,
    LoopSettings as LoopSettings,
    Schedule as Schedule,
    with_patience as with_patience,
)
from .tensors import (
    FileDigest as FileDigest,
    TensorForm as TensorForm,
    TensorsError as TensorsError,
    check_recorded_files as check_recorded_files,
    digest_file as digest_file,
    read_tensors as read_tensors,
    write_tensors as write_tensors,
)
from .trainer import (
    UNLABELLED as UNLABELLED,
    Example as Example,
    keep_random_state as keep_random_state,
    load_fine_tuned as load_fine_tuned,
    make_collator as make_collator,
    model_outputs as model_outputs,
    require_accelerate as require_accelerate,
    single_device as single_device,
)
from .unread_options import Use as Use, Work as Work, refuse_unread_options as refuse_unread_options
from .vector_dataset import TensorBatch as TensorBatch, VectorDataset as VectorDataset
from .verification import (
    FeaturesState as FeaturesState,
    features_state as features_state,
    join_digests as join_digests,
    origin_problem as origin_problem,
    training_problem as training_problem,
)
