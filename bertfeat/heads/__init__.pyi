from .answer_scores import (
    BestThreshold as BestThreshold,
    SpanScores as SpanScores,
    best_threshold as best_threshold,
    score_answers as score_answers,
)
from .answers import (
    AnswerTokens as AnswerTokens,
    NoAnswerTokens as NoAnswerTokens,
    ScoredAnswer as ScoredAnswer,
    answer_text as answer_text,
    best_answers as best_answers,
    find_answer_tokens as find_answer_tokens,
)
from .datasets import (
    DatasetReport as DatasetReport,
    ExtractorArguments as ExtractorArguments,
    OnDataset as OnDataset,
    is_feature_set as is_feature_set,
)
from .guesses import Guess as Guess, HeadScores as HeadScores
from .head import Head as Head, HeadPredictions as HeadPredictions
from .kinds import HeadKind as HeadKind, PairForm as PairForm
from .prediction import (
    HeadEvaluation as HeadEvaluation,
    PredictionReport as PredictionReport,
    evaluate_head as evaluate_head,
    write_predictions as write_predictions,
)
from .scores import (
    ClassScores as ClassScores,
    MultiLabelScores as MultiLabelScores,
    NumberScores as NumberScores,
    score_classes as score_classes,
    score_multi_labels as score_multi_labels,
    score_numbers as score_numbers,
)
from .settings import HeadRecord as HeadRecord, HeadSettings as HeadSettings, Outputs as Outputs
from .table7 import (
    HeadRow as HeadRow,
    HeadRun as HeadRun,
    HeadTable as HeadTable,
    HeadTableEstimate as HeadTableEstimate,
    HeadTableReport as HeadTableReport,
    Table7VerifyReport as Table7VerifyReport,
    TableRow as TableRow,
    estimate_head_table7 as estimate_head_table7,
    format_head_table as format_head_table,
    parse_rows as parse_rows,
    train_head_table7 as train_head_table7,
    verify_head_table7 as verify_head_table7,
)
from .tagger import Tagger as Tagger
from .task import HeadPrediction as HeadPrediction, Prediction as Prediction, Task as Task
from .tasks.answers import Answers as Answers
from .tasks.choices import Choices as Choices
from .tasks.labels import Labels as Labels
from .tasks.multi_labels import MultiLabels as MultiLabels
from .tasks.numbers import Numbers as Numbers
from .tasks.tags import Tags as Tags
from .training import HeadReport as HeadReport, train_head as train_head
from .verification import HeadVerifyReport as HeadVerifyReport, verify_head as verify_head
