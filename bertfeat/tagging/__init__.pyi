from .result_lock import hold_result_folder as hold_result_folder
from .datasets import (
    Prepared as Prepared,
    features_beside as features_beside,
    is_feature_set as is_feature_set,
    prepared as prepared,
    stored_features as stored_features,
)
from .epochs import Epoch as Epoch, TrainingReport as TrainingReport
from .prediction_files import TagPredictions as TagPredictions, read_predictions as read_predictions
from .schemes import (
    Scheme as Scheme,
    TagSpan as TagSpan,
    detect_scheme as detect_scheme,
    read_spans as read_spans,
    to_bio as to_bio,
    to_iobes as to_iobes,
)
from .scores import LabelScores as LabelScores, Scores as Scores, score_tagger as score_tagger, score_tags as score_tags
from .settings import TaggerSettings as TaggerSettings, TrainingSettings as TrainingSettings
from .table7.verification import Table7VerifyReport as Table7VerifyReport, verify_table7 as verify_table7
from .table7.estimate import (
    Table7Estimate as Table7Estimate,
    estimate_table as estimate_table,
    lower_cases as lower_cases,
    share_of_capitals as share_of_capitals,
)
from .table7.finetune import FineTuningReport as FineTuningReport, fine_tune as fine_tune
from .table7.grid import PAPER_GRID as PAPER_GRID, GridPoint as GridPoint
from .table7.report import (
    RowResult as RowResult,
    Table7 as Table7,
    format_markdown as format_markdown,
    mean_and_deviation as mean_and_deviation,
)
from .table7.rows import PAPER_ROWS as PAPER_ROWS, TableRow as TableRow, parse_rows as parse_rows
from .table7.runs import TableRun as TableRun
from .table7.table import TableTraining as TableTraining, train_table as train_table
from .tagger import TaggedText as TaggedText, Tagger as Tagger, TextSpan as TextSpan
from .verification import TaggerVerifyReport as TaggerVerifyReport, verify_tagger as verify_tagger
from .training_loop import Training as Training, train as train
