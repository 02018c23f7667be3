"""``bertfeat choose``: multiple choice."""

from .learning import head_group

command = head_group("choose", "Learn which of several continuations is the right one, from features.")
