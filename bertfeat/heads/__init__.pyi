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
from .scores import (
    ClassScores as ClassScores,
    NumberScores as NumberScores,
    score_classes as score_classes,
    score_numbers as score_numbers,
)
