from .dataset_extractors import ExtractorArguments as ExtractorArguments
from .datasets import (
    DatasetReport as DatasetReport,
    OnDataset as OnDataset,
    features_beside as features_beside,
    is_feature_set as is_feature_set,
    open_source as open_source,
    refuse_corpus_settings as refuse_corpus_settings,
)
from .evaluation import (
    EvaluationReport as EvaluationReport,
    evaluate_predictions as evaluate_predictions,
    evaluate_tagger as evaluate_tagger,
    stdin_copy as stdin_copy,
)
from .prediction import (
    PredictionReport as PredictionReport,
    predict_tags as predict_tags,
    tag_corpus as tag_corpus,
)
from .prediction_files import TagPredictions as TagPredictions, read_predictions as read_predictions
from .prediction_forms import PredictionForm as PredictionForm
from .report import TrainingReport as TrainingReport
from .schemes import (
    Scheme as Scheme,
    TagSpan as TagSpan,
    detect_scheme as detect_scheme,
    read_spans as read_spans,
    to_bio as to_bio,
    to_iobes as to_iobes,
)
from .scores import (
    LabelScores as LabelScores,
    Scores as Scores,
    score_tagger as score_tagger,
    score_tags as score_tags,
)
from .settings import TaggerSettings as TaggerSettings, TrainingSettings as TrainingSettings
from .table7 import (
    FINE_TUNED_ROW as FINE_TUNED_ROW,
    FINE_TUNING as FINE_TUNING,
    PAPER_ROWS as PAPER_ROWS,
    FineTuningReport as FineTuningReport,
    RowResult as RowResult,
    Table7 as Table7,
    Table7Estimate as Table7Estimate,
    Table7Report as Table7Report,
    Table7VerifyReport as Table7VerifyReport,
    TableRow as TableRow,
    TableRun as TableRun,
    estimate_table7 as estimate_table7,
    fine_tune_model as fine_tune_model,
    format_markdown as format_markdown,
    format_scores as format_scores,
    markdown_line as markdown_line,
    parse_rows as parse_rows,
    train_table7 as train_table7,
    verify_table7 as verify_table7,
)
from .tagger import TaggedText as TaggedText, Tagger as Tagger, TextSpan as TextSpan
from .training import train_tagger as train_tagger
from .verification import TaggerVerifyReport as TaggerVerifyReport, verify_tagger as verify_tagger
