from .datasets import DatasetReport as DatasetReport
from .example_store import ExampleBatch as ExampleBatch, PackedExamples as PackedExamples, gather_batch as gather_batch
from .head import Head as Head, HeadPredictions as HeadPredictions, Tagger as Tagger
from .head_files import (
    HeadReport as HeadReport,
    HeadVerifyReport as HeadVerifyReport,
    read_head_record as read_head_record,
    verify_head as verify_head,
)
from .inputs import parse_input as parse_input
from .kinds import HeadKind as HeadKind, PairForm as PairForm
from .prediction import (
    HeadEvaluation as HeadEvaluation,
    PredictionReport as PredictionReport,
    evaluate_head as evaluate_head,
    write_predictions as write_predictions,
)
from .record import HeadRecord as HeadRecord, Outputs as Outputs
from .schedule import Epoch as Epoch, Pace as Pace
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
    PAPER_GRID as PAPER_GRID,
    GridPoint as GridPoint,
    HeadSettings as HeadSettings,
    LearningSettings as LearningSettings,
    Schedule as Schedule,
)
from .spans import (
    LabelScores as LabelScores,
    LabelSet as LabelSet,
    Scheme as Scheme,
    TagScores as TagScores,
    TagSpan as TagSpan,
    detect_scheme as detect_scheme,
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
    Table7VerifyReport as Table7VerifyReport,
    TableRow as TableRow,
    TableRun as TableRun,
    format_head_table as format_head_table,
    parse_rows as parse_rows,
    verify_head_table7 as verify_head_table7,
)
from .table7.training import HeadTableReport as HeadTableReport, train_head_table7 as train_head_table7
from .tag_files import (
    PredictionForm as PredictionForm,
    TagEvaluation as TagEvaluation,
    TaggedText as TaggedText,
    TagPredictions as TagPredictions,
    TextSpan as TextSpan,
    evaluate_predictions as evaluate_predictions,
    read_predictions as read_predictions,
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
    UNLABELED as UNLABELED,
    Example as Example,
    keep_random_state as keep_random_state,
    library_disk_errors as library_disk_errors,
    make_collator as make_collator,
    require_accelerate as require_accelerate,
    single_device as single_device,
    tuning_precision as tuning_precision,
)
from .training import train_head as train_head
