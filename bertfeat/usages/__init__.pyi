from .match import Match as Match
from .results import Sense as Sense, Senses as Senses, Usage as Usage, Usages as Usages
from .search import find_usages as find_usages, find_usages_in_index as find_usages_in_index
from .senses import find_senses as find_senses
