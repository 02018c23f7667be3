from .change import (
    ChangeReport as ChangeReport,
    Interval as Interval,
    SliceDistance as SliceDistance,
    UnmeasuredWord as UnmeasuredWord,
    WordChange as WordChange,
    measure_change as measure_change,
)
from .compare import (
    ComparedSet as ComparedSet,
    ComparisonReport as ComparisonReport,
    LayerPair as LayerPair,
    Measure as Measure,
    compare_features as compare_features,
)
from .settings import (
    ChangeMeasure as ChangeMeasure,
    ChangeSettings as ChangeSettings,
    ComparisonSettings as ComparisonSettings,
)
