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
from .guesses import HeadScores as HeadScores
from .head import Head as Head, HeadPrediction as HeadPrediction, HeadPredictions as HeadPredictions
from .kinds import HeadKind as HeadKind, PairForm as PairForm
from .prediction import (
    HeadEvaluation as HeadEvaluation,
    evaluate_head as evaluate_head,
    write_predictions as write_predictions,
)
from .scores import (
    ClassScores as ClassScores,
    NumberScores as NumberScores,
    score_classes as score_classes,
    score_numbers as score_numbers,
)
from .settings import HeadRecord as HeadRecord, HeadSettings as HeadSettings
from .table7 import (
    HeadRow as HeadRow,
    HeadRun as HeadRun,
    HeadTable as HeadTable,
    HeadTableEstimate as HeadTableEstimate,
    HeadTableReport as HeadTableReport,
    estimate_head_table7 as estimate_head_table7,
    format_head_table as format_head_table,
    is_head_table as is_head_table,
    train_head_table7 as train_head_table7,
    verify_head_table7 as verify_head_table7,
)
from .training import HeadReport as HeadReport, train_head as train_head
from .verification import HeadVerifyReport as HeadVerifyReport, verify_head as verify_head
