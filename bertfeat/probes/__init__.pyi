from .probing import (
    LayerProbe as LayerProbe,
    ProbeReport as ProbeReport,
    ProbeScores as ProbeScores,
    probe_layers as probe_layers,
    read_probes as read_probes,
)
from .settings import ProbeSettings as ProbeSettings
