from .capacity import COPIES as COPIES, available_memory as available_memory, gibibytes as gibibytes
from .checkpoint import (
    STATE_NAME as STATE_NAME,
    FileDigest as FileDigest,
    TensorForm as TensorForm,
    TensorsError as TensorsError,
    check_recorded_files as check_recorded_files,
    digest_file as digest_file,
    read_tensors as read_tensors,
    remove_checkpoint as remove_checkpoint,
    write_tensors as write_tensors,
)
from .datasets import (
    DatasetReport as DatasetReport,
    ExtractorArguments as ExtractorArguments,
    OnDataset as OnDataset,
    is_feature_set as is_feature_set,
)
from .example_store import (
    ExampleBatch as ExampleBatch,
    ExampleChunk as ExampleChunk,
    ExampleRows as ExampleRows,
    ExampleStore as ExampleStore,
    PackedExamples as PackedExamples,
    batches_by_length as batches_by_length,
    describe_source as describe_source,
    gather_batch as gather_batch,
    parts_digest as parts_digest,
    shuffled_batches as shuffled_batches,
)
from .folders import draw_if_possible as draw_if_possible, hold_result_folder as hold_result_folder
from .head import Head as Head, HeadPredictions as HeadPredictions, Tagger as Tagger
from .inputs import (
    FOLDER_REFUSALS as FOLDER_REFUSALS,
    Extraction as Extraction,
    FeaturesState as FeaturesState,
    LayerInput as LayerInput,
    check_same_features as check_same_features,
    choose_input as choose_input,
    count_failed_rows as count_failed_rows,
    derive_input as derive_input,
    extraction_of as extraction_of,
    features_state as features_state,
    find_place as find_place,
    join_digests as join_digests,
    origin_problem as origin_problem,
    parse_input as parse_input,
    record_place as record_place,
    training_problem as training_problem,
)
from .kinds import (
    HeadKind as HeadKind,
    PairForm as PairForm,
    Use as Use,
    Work as Work,
    refuse_unread_options as refuse_unread_options,
)
from .loop import EpochLoop as EpochLoop
from .lstm import BiLstm as BiLstm
from .networks import FeatureNetwork as FeatureNetwork, ScalarMix as ScalarMix, feature_scale as feature_scale
from .prediction import (
    HeadEvaluation as HeadEvaluation,
    PredictionReport as PredictionReport,
    evaluate_head as evaluate_head,
    write_predictions as write_predictions,
)
from .record import HeadRecord as HeadRecord, Outputs as Outputs
from .schedule import (
    Epoch as Epoch,
    EpochRecord as EpochRecord,
    OnEpoch as OnEpoch,
    OnPace as OnPace,
    Pace as Pace,
    best_epoch as best_epoch,
    history_problem as history_problem,
    is_over as is_over,
)
from .scores import (
    BestThreshold as BestThreshold,
    ClassScores as ClassScores,
    MultiLabelScores as MultiLabelScores,
    NumberScores as NumberScores,
    SpanScores as SpanScores,
    best_threshold as best_threshold,
    score_answers as score_answers,
    score_classes as score_classes,
    score_multi_labels as score_multi_labels,
    score_numbers as score_numbers,
)
from .settings import (
    MEMORY as MEMORY,
    PAPER_GRID as PAPER_GRID,
    GridPoint as GridPoint,
    HeadSettings as HeadSettings,
    LoopSettings as LoopSettings,
    Schedule as Schedule,
    with_patience as with_patience,
)
from .spans import (
    LabelScores as LabelScores,
    LabelSet as LabelSet,
    Scheme as Scheme,
    TagScores as TagScores,
    TagSpan as TagSpan,
    detect_scheme as detect_scheme,
    list_labels as list_labels,
    read_spans as read_spans,
    score_tagger as score_tagger,
    score_tags as score_tags,
    to_bio as to_bio,
    to_iobes as to_iobes,
)
from .table7.estimate import HeadTableEstimate as HeadTableEstimate, estimate_head_table7 as estimate_head_table7
from .table7.results import (
    HeadRow as HeadRow,
    HeadRun as HeadRun,
    HeadTable as HeadTable,
    TableRow as TableRow,
    format_head_table as format_head_table,
    parse_rows as parse_rows,
)
from .table7.training import HeadTableReport as HeadTableReport, train_head_table7 as train_head_table7
from .table7.verification import Table7VerifyReport as Table7VerifyReport, verify_head_table7 as verify_head_table7
from .tag_files import (
    MarkSpan as MarkSpan,
    PredictionForm as PredictionForm,
    TagEvaluation as TagEvaluation,
    TaggedText as TaggedText,
    TagPredictions as TagPredictions,
    TextSpan as TextSpan,
    bracket_span as bracket_span,
    choose_writer as choose_writer,
    evaluate_predictions as evaluate_predictions,
    read_predictions as read_predictions,
    stdin_copy as stdin_copy,
)
from .task import (
    Guess as Guess,
    HeadPrediction as HeadPrediction,
    HeadScores as HeadScores,
    Prediction as Prediction,
    Task as Task,
)
from .tasks.answers import (
    Answers as Answers,
    AnswerTokens as AnswerTokens,
    NoAnswerTokens as NoAnswerTokens,
    ScoredAnswer as ScoredAnswer,
    answer_text as answer_text,
    best_answers as best_answers,
    find_answer_tokens as find_answer_tokens,
)
from .tasks.choices import Choices as Choices
from .tasks.labels import Labels as Labels
from .tasks.multi_labels import MultiLabels as MultiLabels
from .tasks.numbers import Numbers as Numbers
from .tasks.tags import Tags as Tags
from .trainer import (
    UNLABELLED as UNLABELLED,
    Example as Example,
    FineTuned as FineTuned,
    check_tuning as check_tuning,
    find_tuned_model as find_tuned_model,
    fine_tuned as fine_tuned,
    keep_random_state as keep_random_state,
    library_disk_errors as library_disk_errors,
    load_fine_tuned as load_fine_tuned,
    make_collator as make_collator,
    model_outputs as model_outputs,
    require_accelerate as require_accelerate,
    single_device as single_device,
    tuning_precision as tuning_precision,
)
from .training import HeadReport as HeadReport, train_head as train_head
from .vector_dataset import TensorBatch as TensorBatch, VectorDataset as VectorDataset
from .verification import HeadVerifyReport as HeadVerifyReport, verify_head as verify_head
