"""FAISS indexes over feature columns: choose, build, keep, search, evaluate, check."""

from bertfeat.index.build import build_index
from bertfeat.index.check import IndexCheck, check_index
from bertfeat.index.choose import IndexType
from bertfeat.index.engine import gpus
from bertfeat.index.metric import Metric
from bertfeat.index.options import BuildOptions, BuildProgress
from bertfeat.index.search import Found, VectorIndex
from bertfeat.index.settings import Effort, Evaluation, IndexSettings
from bertfeat.index.update import Updated, append_features, remove_documents

__all__ = [
    "BuildOptions",
    "BuildProgress",
    "Effort",
    "Evaluation",
    "Found",
    "IndexCheck",
    "IndexSettings",
    "IndexType",
    "Metric",
    "Updated",
    "VectorIndex",
    "append_features",
    "build_index",
    "check_index",
    "gpus",
    "remove_documents",
]
