"""Study: what stored layers say of themselves, of each other, and of a change in time."""

from bertfeat.search import Interval
from bertfeat.study.change import measure_change
from bertfeat.study.change_results import (
    ChangeMeasure,
    ChangeReport,
    ChangeSettings,
    SliceDistance,
    UnmeasuredWord,
    WordChange,
)
from bertfeat.study.compare import compare_features
from bertfeat.study.comparison import ComparedSet, ComparisonReport, ComparisonSettings, LayerPair, Measure

__all__ = [
    "ChangeMeasure",
    "ChangeReport",
    "ChangeSettings",
    "ComparedSet",
    "ComparisonReport",
    "ComparisonSettings",
    "Interval",
    "LayerPair",
    "Measure",
    "SliceDistance",
    "UnmeasuredWord",
    "WordChange",
    "compare_features",
    "measure_change",
]
