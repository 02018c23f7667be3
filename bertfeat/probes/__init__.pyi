from .probing import probe_layers as probe_layers
from .results import (
    LayerProbe as LayerProbe,
    ProbeReport as ProbeReport,
    ProbeScores as ProbeScores,
    read_probes as read_probes,
)
from .settings import ProbeSettings as ProbeSettings
