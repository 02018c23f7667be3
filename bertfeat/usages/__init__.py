"""The usages of a word in a feature set: in corpus order, nearest in meaning first, or grouped by sense."""

from bertfeat.usages.index_usages import find_usages_in_index
from bertfeat.usages.match import Match
from bertfeat.usages.results import Sense, Senses, Usage, Usages
from bertfeat.usages.search import find_usages
from bertfeat.usages.senses import find_senses

__all__ = [
    "Match",
    "Sense",
    "Senses",
    "Usage",
    "Usages",
    "find_senses",
    "find_usages",
    "find_usages_in_index",
]
