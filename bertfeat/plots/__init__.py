"""Every picture: maps of vectors, what probes found layer by layer, how a tagger learnt, and Table 7."""

from bertfeat.plots.curves import draw_curves
from bertfeat.plots.layers import MEASURES, LayersReport, draw_layers
from bertfeat.plots.map import MOST_POINTS, MapReport, draw_map
from bertfeat.plots.pretraining import draw_pretraining
from bertfeat.plots.table7 import draw_table7

__all__ = [
    "MEASURES",
    "MOST_POINTS",
    "LayersReport",
    "MapReport",
    "draw_curves",
    "draw_layers",
    "draw_map",
    "draw_pretraining",
    "draw_table7",
]
