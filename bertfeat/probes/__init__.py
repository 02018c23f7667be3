"""Probes: how well a linear classifier reads a label off each layer."""

from bertfeat.probes.probing import probe_layers
from bertfeat.probes.results import LayerProbe, ProbeReport, ProbeScores, ProbeSettings, read_probes

__all__ = ["LayerProbe", "ProbeReport", "ProbeScores", "ProbeSettings", "probe_layers", "read_probes"]
