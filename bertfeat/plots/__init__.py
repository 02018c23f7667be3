"""Every picture: maps of vectors, probes and searches by layer, change, two sets compared, training, Table 7, scores.

Each ``draw_…`` returns matplotlib's figure, which notebooks show. With a ``path`` it is written, too, in the form that
its ending says: png, pdf or svg. ``width`` and ``height`` are in inches. With ``axes`` the picture is drawn on those of
a figure of the caller's, in its style, one for each panel; they get a title, and no note.
"""

from bertfeat.plots.change import MOST_WORDS, draw_change, draw_frequencies, draw_senses
from bertfeat.plots.clusters import MOST_TEXTS, Cluster, Clustering, LabelWords, beginning, find_clusters
from bertfeat.plots.comparison import draw_comparison
from bertfeat.plots.curves import draw_curves, draw_pretraining
from bertfeat.plots.figure import FORMS, draw_if_possible, form_of, picture_path
from bertfeat.plots.layers import MEASURES, draw_layers, draw_retrieval, draw_table7, layer_columns
from bertfeat.plots.layouts import METHOD_NAMES, best_method, lay_out_apart, lay_out_vectors
from bertfeat.plots.map import MOST_POINTS, draw_map, map_documents, write_map_page
from bertfeat.plots.map_content import DocumentMap
from bertfeat.plots.map_page import PAGE, write_page
from bertfeat.plots.map_picture import draw_points
from bertfeat.plots.map_sample import evenly
from bertfeat.plots.why import draw_why

__all__ = [
    "FORMS",
    "MEASURES",
    "METHOD_NAMES",
    "MOST_POINTS",
    "MOST_TEXTS",
    "MOST_WORDS",
    "PAGE",
    "Cluster",
    "Clustering",
    "DocumentMap",
    "LabelWords",
    "beginning",
    "best_method",
    "draw_change",
    "draw_comparison",
    "draw_curves",
    "draw_frequencies",
    "draw_if_possible",
    "draw_layers",
    "draw_map",
    "draw_points",
    "draw_pretraining",
    "draw_retrieval",
    "draw_senses",
    "draw_table7",
    "draw_why",
    "evenly",
    "find_clusters",
    "form_of",
    "lay_out_apart",
    "lay_out_vectors",
    "layer_columns",
    "map_documents",
    "picture_path",
    "write_map_page",
    "write_page",
]
