"""``bertfeat tag``: taggers learnt from stored features."""

from .heads import head_group

command = head_group("tag", "Learn tags of words from their features, and tag texts.")
