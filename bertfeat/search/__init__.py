"""FAISS indexes over feature columns: choose, build, keep, search, evaluate, check."""

from bertfeat.search.build import build_index
from bertfeat.search.build_options import BuildOptions, BuildProgress
from bertfeat.search.faiss_index import count_faiss_gpus
from bertfeat.search.index_types import IndexType
from bertfeat.search.metric import Metric
from bertfeat.search.settings import IndexSettings, RecallReport, SearchParameter
from bertfeat.search.update import UpdateReport, append_features, remove_documents
from bertfeat.search.vector_index import Neighbours, VectorIndex
from bertfeat.search.verify import IndexReport, verify_index

__all__ = [
    "BuildOptions",
    "BuildProgress",
    "IndexReport",
    "IndexSettings",
    "IndexType",
    "Metric",
    "Neighbours",
    "RecallReport",
    "SearchParameter",
    "UpdateReport",
    "VectorIndex",
    "append_features",
    "build_index",
    "count_faiss_gpus",
    "remove_documents",
    "verify_index",
]
