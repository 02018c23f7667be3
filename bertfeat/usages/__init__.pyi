from .query import (
    find_usage_column as find_usage_column,
    parse_condition_on as parse_condition_on,
    word_query as word_query,
)
from .results import (
    Sense as Sense,
    Senses as Senses,
    Site as Site,
    SlicedUsages as SlicedUsages,
    SliceUsages as SliceUsages,
    Usage as Usage,
    Usages as Usages,
)
from .scan import scan_features as scan_features
from .search import (
    find_usages as find_usages,
    find_usages_by as find_usages_by,
    find_usages_in_index as find_usages_in_index,
)
from .senses import cluster_labels as cluster_labels, find_senses as find_senses
