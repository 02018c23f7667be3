"""Tags of words: schemes and scores, and the models that learn them from stored features.

What a name needs is imported when the name is first asked for, so that schemes and scores need no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertfeat.tagging.finetune import PAPER_GRID, FineTuned, fine_tune
    from bertfeat.tagging.predictions import Predictions, read_predictions
    from bertfeat.tagging.prepare import Prepared, features_beside, is_feature_set, prepared
    from bertfeat.tagging.schemes import Scheme, Span, detect_scheme, read_spans, to_bio, to_iobes
    from bertfeat.tagging.scores import LabelScores, Scores, score
    from bertfeat.tagging.settings import TaggerSettings, TrainingSettings
    from bertfeat.tagging.tagger import TaggedText, Tagger, TextSpan
    from bertfeat.tagging.training import Epoch, Trained, train

_HOMES = {
    "Epoch": "bertfeat.tagging.training",
    "FineTuned": "bertfeat.tagging.finetune",
    "LabelScores": "bertfeat.tagging.scores",
    "PAPER_GRID": "bertfeat.tagging.finetune",
    "Predictions": "bertfeat.tagging.predictions",
    "Prepared": "bertfeat.tagging.prepare",
    "Scheme": "bertfeat.tagging.schemes",
    "Scores": "bertfeat.tagging.scores",
    "Span": "bertfeat.tagging.schemes",
    "TaggedText": "bertfeat.tagging.tagger",
    "Tagger": "bertfeat.tagging.tagger",
    "TaggerSettings": "bertfeat.tagging.settings",
    "TextSpan": "bertfeat.tagging.tagger",
    "Trained": "bertfeat.tagging.training",
    "TrainingSettings": "bertfeat.tagging.settings",
    "detect_scheme": "bertfeat.tagging.schemes",
    "features_beside": "bertfeat.tagging.prepare",
    "fine_tune": "bertfeat.tagging.finetune",
    "is_feature_set": "bertfeat.tagging.prepare",
    "prepared": "bertfeat.tagging.prepare",
    "read_predictions": "bertfeat.tagging.predictions",
    "read_spans": "bertfeat.tagging.schemes",
    "score": "bertfeat.tagging.scores",
    "to_bio": "bertfeat.tagging.schemes",
    "to_iobes": "bertfeat.tagging.schemes",
    "train": "bertfeat.tagging.training",
}

__all__ = [
    "PAPER_GRID",
    "Epoch",
    "FineTuned",
    "LabelScores",
    "Predictions",
    "Prepared",
    "Scheme",
    "Scores",
    "Span",
    "TaggedText",
    "Tagger",
    "TaggerSettings",
    "TextSpan",
    "Trained",
    "TrainingSettings",
    "detect_scheme",
    "features_beside",
    "fine_tune",
    "is_feature_set",
    "prepared",
    "read_predictions",
    "read_spans",
    "score",
    "to_bio",
    "to_iobes",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bertfeat.tagging' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
