"""Every picture: maps of vectors, what probes found layer by layer, how a tagger learnt, and Table 7."""

from bertfeat.plots.curves import draw_curves
from bertfeat.plots.layers import MEASURES, LayersDrawn, draw_layers
from bertfeat.plots.map import MOST_POINTS, MapDrawn, draw_map
from bertfeat.plots.table7 import draw_table

__all__ = [
    "MEASURES",
    "MOST_POINTS",
    "LayersDrawn",
    "MapDrawn",
    "draw_curves",
    "draw_layers",
    "draw_map",
    "draw_table",
]
