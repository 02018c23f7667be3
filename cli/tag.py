"""``bertfeat tag``: taggers learned from stored features."""

from .learning import head_group

command = head_group("tag", "Learn tags of words from their features, and tag texts.")
