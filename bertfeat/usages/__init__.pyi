from .collocates import (
    Association as Association,
    Collocate as Collocate,
    Collocates as Collocates,
    find_collocates as find_collocates,
    log_likelihood as log_likelihood,
)
from .frequencies import (
    WordFrequencies as WordFrequencies,
    WordFrequency as WordFrequency,
    count_words as count_words,
)
from .keywords import Keyness as Keyness, Keyword as Keyword, Keywords as Keywords, find_keywords as find_keywords
from .pattern import PATTERN_HELP as PATTERN_HELP, Pattern as Pattern
from .query import (
    find_usage_column as find_usage_column,
    look_up as look_up,
    parse_condition_on as parse_condition_on,
    word_pattern as word_pattern,
)
from .results import (
    Sense as Sense,
    Senses as Senses,
    Site as Site,
    SlicedUsages as SlicedUsages,
    SliceUsages as SliceUsages,
    Usage as Usage,
    Usages as Usages,
    per_million as per_million,
)
from .search import (
    find_usages as find_usages,
    find_usages_by as find_usages_by,
    refuse_for_index as refuse_for_index,
)
from .senses import cluster_labels as cluster_labels, find_senses as find_senses, group_vectors as group_vectors
from .settings import ListSettings as ListSettings
from .word_forms import Attribute as Attribute
from .word_index import open_word_index as open_word_index
