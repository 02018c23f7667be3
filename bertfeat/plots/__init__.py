"""Every picture: maps of vectors, probes and searches by layer, change, two sets compared, training, Table 7."""

from bertfeat.plots.change import MOST_WORDS, draw_change, draw_senses
from bertfeat.plots.comparison import draw_comparison
from bertfeat.plots.curves import draw_curves
from bertfeat.plots.figure import picture_path
from bertfeat.plots.layers import MEASURES, LayersReport, draw_layers
from bertfeat.plots.map import MOST_POINTS, MapReport, draw_map
from bertfeat.plots.pretraining import draw_pretraining
from bertfeat.plots.retrieval import draw_retrieval
from bertfeat.plots.table7 import draw_table7

__all__ = [
    "MEASURES",
    "MOST_POINTS",
    "MOST_WORDS",
    "LayersReport",
    "MapReport",
    "draw_change",
    "draw_comparison",
    "draw_curves",
    "draw_layers",
    "draw_map",
    "draw_pretraining",
    "draw_retrieval",
    "draw_senses",
    "draw_table7",
    "picture_path",
]
