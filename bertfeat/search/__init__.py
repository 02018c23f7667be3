"""FAISS indexes over feature columns: choose, build, keep, search, evaluate, check."""

from bertfeat.search.build import build_index
from bertfeat.search.check import IndexCheck, check_index
from bertfeat.search.choose import IndexType
from bertfeat.search.faiss_index import gpus
from bertfeat.search.metric import Metric
from bertfeat.search.options import BuildOptions, BuildProgress
from bertfeat.search.settings import Effort, Evaluation, IndexSettings
from bertfeat.search.update import Updated, append_features, remove_documents
from bertfeat.search.vector_index import Found, VectorIndex

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
