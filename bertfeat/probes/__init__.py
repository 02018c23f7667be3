"""Probes: how well a linear classifier reads a label off each layer."""

from bertfeat.probes.probing import probe
from bertfeat.probes.results import LayerProbe, Measured, Probed, ProbeSettings, read_probes

__all__ = ["LayerProbe", "Measured", "ProbeSettings", "Probed", "probe", "read_probes"]
