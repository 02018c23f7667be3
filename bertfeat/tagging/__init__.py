"""Tags of words: schemes and scores, and the models that learn them from stored features.

What a name needs is imported when the name is first asked for, so that schemes and scores need no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertfeat.tagging.finetune import PAPER_GRID, FineTuned, Grid, fine_tune
    from bertfeat.tagging.outlook import TableEstimate, estimate_table, lower_cases, share_of_capitals
    from bertfeat.tagging.predictions import Predictions, read_predictions
    from bertfeat.tagging.prepare import Prepared, features_beside, is_feature_set, prepared
    from bertfeat.tagging.schemes import Scheme, Span, detect_scheme, read_spans, to_bio, to_iobes
    from bertfeat.tagging.scores import LabelScores, Scores, score
    from bertfeat.tagging.settings import TaggerSettings, TrainingSettings
    from bertfeat.tagging.table import (
        PAPER_ROWS,
        Row,
        RowResult,
        Run,
        Table,
        markdown,
        mean_and_spread,
        table_rows,
        train_table,
    )
    from bertfeat.tagging.tagger import TaggedText, Tagger, TextSpan
    from bertfeat.tagging.training import Epoch, Trained, train

_HOMES = {
    "Epoch": "bertfeat.tagging.training",
    "FineTuned": "bertfeat.tagging.finetune",
    "Grid": "bertfeat.tagging.finetune",
    "LabelScores": "bertfeat.tagging.scores",
    "PAPER_GRID": "bertfeat.tagging.finetune",
    "PAPER_ROWS": "bertfeat.tagging.table",
    "Predictions": "bertfeat.tagging.predictions",
    "Prepared": "bertfeat.tagging.prepare",
    "Row": "bertfeat.tagging.table",
    "RowResult": "bertfeat.tagging.table",
    "Run": "bertfeat.tagging.table",
    "Scheme": "bertfeat.tagging.schemes",
    "Scores": "bertfeat.tagging.scores",
    "Span": "bertfeat.tagging.schemes",
    "Table": "bertfeat.tagging.table",
    "TableEstimate": "bertfeat.tagging.outlook",
    "TaggedText": "bertfeat.tagging.tagger",
    "Tagger": "bertfeat.tagging.tagger",
    "TaggerSettings": "bertfeat.tagging.settings",
    "TextSpan": "bertfeat.tagging.tagger",
    "Trained": "bertfeat.tagging.training",
    "TrainingSettings": "bertfeat.tagging.settings",
    "detect_scheme": "bertfeat.tagging.schemes",
    "estimate_table": "bertfeat.tagging.outlook",
    "features_beside": "bertfeat.tagging.prepare",
    "fine_tune": "bertfeat.tagging.finetune",
    "is_feature_set": "bertfeat.tagging.prepare",
    "lower_cases": "bertfeat.tagging.outlook",
    "markdown": "bertfeat.tagging.table",
    "mean_and_spread": "bertfeat.tagging.table",
    "prepared": "bertfeat.tagging.prepare",
    "read_predictions": "bertfeat.tagging.predictions",
    "read_spans": "bertfeat.tagging.schemes",
    "score": "bertfeat.tagging.scores",
    "share_of_capitals": "bertfeat.tagging.outlook",
    "table_rows": "bertfeat.tagging.table",
    "to_bio": "bertfeat.tagging.schemes",
    "to_iobes": "bertfeat.tagging.schemes",
    "train": "bertfeat.tagging.training",
    "train_table": "bertfeat.tagging.table",
}

__all__ = [
    "PAPER_GRID",
    "PAPER_ROWS",
    "Epoch",
    "FineTuned",
    "Grid",
    "LabelScores",
    "Predictions",
    "Prepared",
    "Row",
    "RowResult",
    "Run",
    "Scheme",
    "Scores",
    "Span",
    "Table",
    "TableEstimate",
    "TaggedText",
    "Tagger",
    "TaggerSettings",
    "TextSpan",
    "Trained",
    "TrainingSettings",
    "detect_scheme",
    "estimate_table",
    "features_beside",
    "fine_tune",
    "is_feature_set",
    "lower_cases",
    "markdown",
    "mean_and_spread",
    "prepared",
    "read_predictions",
    "read_spans",
    "score",
    "share_of_capitals",
    "table_rows",
    "to_bio",
    "to_iobes",
    "train",
    "train_table",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bertfeat.tagging' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
