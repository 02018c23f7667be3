from .evaluation import (
    TagEvaluation as TagEvaluation,
    evaluate_predictions as evaluate_predictions,
    stdin_copy as stdin_copy,
)
from .labels import LabelSet as LabelSet, list_labels as list_labels
from .prediction_files import TagPredictions as TagPredictions, read_predictions as read_predictions
from .prediction_forms import (
    MarkSpan as MarkSpan,
    PredictionForm as PredictionForm,
    bracket_span as bracket_span,
    choose_writer as choose_writer,
)
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
from .tagged_text import TaggedText as TaggedText, TextSpan as TextSpan
