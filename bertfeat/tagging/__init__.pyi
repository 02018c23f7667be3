from .claims import claimed as claimed
from .datasets import (
    Prepared as Prepared,
    features_beside as features_beside,
    is_feature_set as is_feature_set,
    prepared as prepared,
    stored_features as stored_features,
)
from .epochs import Epoch as Epoch, Trained as Trained
from .predictions import Predictions as Predictions, read_predictions as read_predictions
from .schemes import (
    Scheme as Scheme,
    Span as Span,
    detect_scheme as detect_scheme,
    read_spans as read_spans,
    to_bio as to_bio,
    to_iobes as to_iobes,
)
from .scores import LabelScores as LabelScores, Scores as Scores, score as score, score_tagger as score_tagger
from .settings import TaggerSettings as TaggerSettings, TrainingSettings as TrainingSettings
from .table7.check import TableReport as TableReport, check_table as check_table
from .table7.estimate import (
    TableEstimate as TableEstimate,
    estimate_table as estimate_table,
    lower_cases as lower_cases,
    share_of_capitals as share_of_capitals,
)
from .table7.finetune import FineTuned as FineTuned, fine_tune as fine_tune
from .table7.grid import PAPER_GRID as PAPER_GRID, Grid as Grid
from .table7.report import (
    RowResult as RowResult,
    Table as Table,
    markdown as markdown,
    mean_and_spread as mean_and_spread,
)
from .table7.rows import PAPER_ROWS as PAPER_ROWS, Row as Row, table_rows as table_rows
from .table7.runs import Run as Run
from .table7.table import TableTraining as TableTraining, train_table as train_table
from .tagger import TaggedText as TaggedText, Tagger as Tagger, TextSpan as TextSpan
from .tagger_check import TaggerReport as TaggerReport, check_tagger as check_tagger
from .training import Training as Training, train as train
