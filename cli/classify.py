"""``bertfeat classify``: labels or numbers of texts and pairs."""

from .learning import head_group

command = head_group("classify", "Learn labels, or numbers, of texts and of pairs from their features.")
