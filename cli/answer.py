"""``bertfeat answer``: spans of passages that answer questions."""

from .learning import head_group

command = head_group("answer", "Learn to find the answers to questions in passages, from the features of their tokens.")
