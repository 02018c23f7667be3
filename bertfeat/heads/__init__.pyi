from .answer_scores import (
    BestThreshold as BestThreshold,
    SpanScores as SpanScores,
    best_threshold as best_threshold,
    score_answers as score_answers,
)
from .scores import (
    ClassScores as ClassScores,
    NumberScores as NumberScores,
    score_classes as score_classes,
    score_numbers as score_numbers,
)
