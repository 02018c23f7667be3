from .change import measure_change as measure_change
from .change_results import (
    ChangeReport as ChangeReport,
    Interval as Interval,
    SliceDistance as SliceDistance,
    UnmeasuredWord as UnmeasuredWord,
    WordChange as WordChange,
)
from .compare import compare_features as compare_features
from .comparison import (
    ComparedSet as ComparedSet,
    ComparisonReport as ComparisonReport,
    LayerPair as LayerPair,
    Measure as Measure,
)
from .settings import (
    ChangeMeasure as ChangeMeasure,
    ChangeSettings as ChangeSettings,
    ComparisonSettings as ComparisonSettings,
)
