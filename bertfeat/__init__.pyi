__version__: str

from .corpus import (
    Corpus as Corpus,
    CorpusSettings as CorpusSettings,
    Document as Document,
    Failure as Failure,
    memory_corpus as memory_corpus,
    open_corpus as open_corpus,
)
from .errors import BertfeatError as BertfeatError
from .extraction import ExtractionReport as ExtractionReport, Extractor as Extractor, verify_features as verify_features
from .features import DocumentFeatures as DocumentFeatures, FeatureSet as FeatureSet, export_features as export_features
from .recipe import FeatureColumn as FeatureColumn, Operation as Operation, Pooling as Pooling, Recipe as Recipe
from .search import build_index as build_index
from .search.index import Hit as Hit, Index as Index
from .tagging import Tagger as Tagger
from .usages import find_usages as find_usages
