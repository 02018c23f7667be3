"""Tags of words: schemes and scores, and the models that learn them from stored features.

What a name needs is imported when the name is first asked for, so that schemes and scores need no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertfeat.tagging.claims import claimed
    from bertfeat.tagging.datasets import Prepared, features_beside, is_feature_set, prepared, stored_features
    from bertfeat.tagging.epochs import Epoch, Trained
    from bertfeat.tagging.predictions import Predictions, read_predictions
    from bertfeat.tagging.schemes import Scheme, Span, detect_scheme, read_spans, to_bio, to_iobes
    from bertfeat.tagging.scores import LabelScores, Scores, score, score_tagger
    from bertfeat.tagging.settings import TaggerSettings, TrainingSettings
    from bertfeat.tagging.table7.check import TableReport, check_table
    from bertfeat.tagging.table7.estimate import TableEstimate, estimate_table, lower_cases, share_of_capitals
    from bertfeat.tagging.table7.finetune import FineTuned, fine_tune
    from bertfeat.tagging.table7.grid import PAPER_GRID, Grid
    from bertfeat.tagging.table7.report import RowResult, Table, markdown, mean_and_spread
    from bertfeat.tagging.table7.rows import PAPER_ROWS, Row, table_rows
    from bertfeat.tagging.table7.runs import Run
    from bertfeat.tagging.table7.table import TableTraining, train_table
    from bertfeat.tagging.tagger import TaggedText, Tagger, TextSpan
    from bertfeat.tagging.tagger_check import TaggerReport, check_tagger
    from bertfeat.tagging.training import Training, train

_HOMES = {
    "Epoch": "bertfeat.tagging.epochs",
    "FineTuned": "bertfeat.tagging.table7.finetune",
    "Grid": "bertfeat.tagging.table7.grid",
    "LabelScores": "bertfeat.tagging.scores",
    "PAPER_GRID": "bertfeat.tagging.table7.grid",
    "PAPER_ROWS": "bertfeat.tagging.table7.rows",
    "Predictions": "bertfeat.tagging.predictions",
    "Prepared": "bertfeat.tagging.datasets",
    "Row": "bertfeat.tagging.table7.rows",
    "RowResult": "bertfeat.tagging.table7.report",
    "Run": "bertfeat.tagging.table7.runs",
    "Scheme": "bertfeat.tagging.schemes",
    "Scores": "bertfeat.tagging.scores",
    "Span": "bertfeat.tagging.schemes",
    "Table": "bertfeat.tagging.table7.report",
    "TableEstimate": "bertfeat.tagging.table7.estimate",
    "TableReport": "bertfeat.tagging.table7.check",
    "TableTraining": "bertfeat.tagging.table7.table",
    "TaggedText": "bertfeat.tagging.tagger",
    "Tagger": "bertfeat.tagging.tagger",
    "TaggerReport": "bertfeat.tagging.tagger_check",
    "TaggerSettings": "bertfeat.tagging.settings",
    "TextSpan": "bertfeat.tagging.tagger",
    "Trained": "bertfeat.tagging.epochs",
    "Training": "bertfeat.tagging.training",
    "TrainingSettings": "bertfeat.tagging.settings",
    "check_table": "bertfeat.tagging.table7.check",
    "check_tagger": "bertfeat.tagging.tagger_check",
    "claimed": "bertfeat.tagging.claims",
    "detect_scheme": "bertfeat.tagging.schemes",
    "estimate_table": "bertfeat.tagging.table7.estimate",
    "features_beside": "bertfeat.tagging.datasets",
    "fine_tune": "bertfeat.tagging.table7.finetune",
    "is_feature_set": "bertfeat.tagging.datasets",
    "lower_cases": "bertfeat.tagging.table7.estimate",
    "markdown": "bertfeat.tagging.table7.report",
    "mean_and_spread": "bertfeat.tagging.table7.report",
    "prepared": "bertfeat.tagging.datasets",
    "read_predictions": "bertfeat.tagging.predictions",
    "read_spans": "bertfeat.tagging.schemes",
    "score": "bertfeat.tagging.scores",
    "score_tagger": "bertfeat.tagging.scores",
    "share_of_capitals": "bertfeat.tagging.table7.estimate",
    "stored_features": "bertfeat.tagging.datasets",
    "table_rows": "bertfeat.tagging.table7.rows",
    "to_bio": "bertfeat.tagging.schemes",
    "to_iobes": "bertfeat.tagging.schemes",
    "train": "bertfeat.tagging.training",
    "train_table": "bertfeat.tagging.table7.table",
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
    "TableReport",
    "TableTraining",
    "TaggedText",
    "Tagger",
    "TaggerReport",
    "TaggerSettings",
    "TextSpan",
    "Trained",
    "Training",
    "TrainingSettings",
    "check_table",
    "check_tagger",
    "claimed",
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
    "score_tagger",
    "share_of_capitals",
    "stored_features",
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
