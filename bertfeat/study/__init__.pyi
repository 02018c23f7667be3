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
from .layer_choice import (
    ChosenLayers as ChosenLayers,
    LayerTask as LayerTask,
    LayerTrial as LayerTrial,
    as_layer_task as as_layer_task,
    choose_layers as choose_layers,
    choose_stored_layers as choose_stored_layers,
)
from .probe_settings import ProbeSettings as ProbeSettings
from .probing import (
    LayerProbe as LayerProbe,
    ProbeReport as ProbeReport,
    ProbeScores as ProbeScores,
    probe_layers as probe_layers,
    read_probes as read_probes,
)
from .settings import (
    ChangeMeasure as ChangeMeasure,
    ChangeSettings as ChangeSettings,
    ComparisonSettings as ComparisonSettings,
)
