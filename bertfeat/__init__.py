"""Frozen BERT features: any layer, whole corpora, exact and resumable, in Parquet; search over them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bertfeat.corpus import Corpus, CorpusSettings, Document, Failure, memory_corpus, open_corpus
    from bertfeat.errors import BertfeatError
    from bertfeat.extraction import ExtractionReport, Extractor, verify_features
    from bertfeat.features import DocumentFeatures, FeatureSet, export
    from bertfeat.recipe import FeatureColumn, Operation, Pooling, Recipe
    from bertfeat.search import build_index
    from bertfeat.search.index import Hit, Index
    from bertfeat.tagging import Tagger
    from bertfeat.usages import find_usages

__version__ = "0.1.0"

# Where each public name lives. It is imported when it is first asked for, so that `import bertfeat` costs nothing.
_HOMES = {
    "BertfeatError": "bertfeat.errors",
    "Corpus": "bertfeat.corpus",
    "CorpusSettings": "bertfeat.corpus",
    "Document": "bertfeat.corpus",
    "DocumentFeatures": "bertfeat.features",
    "ExtractionReport": "bertfeat.extraction",
    "Extractor": "bertfeat.extraction",
    "Failure": "bertfeat.corpus",
    "FeatureColumn": "bertfeat.recipe",
    "FeatureSet": "bertfeat.features",
    "Hit": "bertfeat.search.index",
    "Index": "bertfeat.search.index",
    "Operation": "bertfeat.recipe",
    "Pooling": "bertfeat.recipe",
    "Recipe": "bertfeat.recipe",
    "Tagger": "bertfeat.tagging",
    "build_index": "bertfeat.search",
    "export": "bertfeat.features",
    "find_usages": "bertfeat.usages",
    "memory_corpus": "bertfeat.corpus",
    "open_corpus": "bertfeat.corpus",
    "verify_features": "bertfeat.extraction",
}

__all__ = [
    "BertfeatError",
    "Corpus",
    "CorpusSettings",
    "Document",
    "DocumentFeatures",
    "ExtractionReport",
    "Extractor",
    "Failure",
    "FeatureColumn",
    "FeatureSet",
    "Hit",
    "Index",
    "Operation",
    "Pooling",
    "Recipe",
    "Tagger",
    "__version__",
    "build_index",
    "export",
    "find_usages",
    "memory_corpus",
    "open_corpus",
    "verify_features",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bertfeat' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
