"""The kinds of heads: the shapes of task of the BERT paper's Figure 4."""

from enum import StrEnum

from bertfeat.recipe import Pooling
from bertfeat.training import Use


class HeadKind(StrEnum):
    """The verb of the shell that trains a head: its tasks read words, texts, passages or choices."""

    TAG = "tag"  # a tag of each word of a sentence
    CLASSIFY = "classify"  # labels or a number of a text or a pair
    ANSWER = "answer"  # the span of a passage that answers a question
    CHOOSE = "choose"  # one of several continuations

    @property
    def noun(self) -> str:
        """The word for such a head in messages."""
        return {"tag": "a tagger", "classify": "a classifier", "answer": "a span reader", "choose": "a chooser"}[self]

    @property
    def predicted(self) -> Use:
        """The kind of its predictions, which decides the options that are read."""
        return {"tag": Use.TAGS, "classify": Use.LABELS, "answer": Use.ANSWERS, "choose": Use.CHOICES}[self]


class PairForm(StrEnum):
    """The form in which a pair of texts is embedded."""

    APART = "apart"  # each text by itself; the head gets u, v, |u-v| and u·v
    TOGETHER = "together"  # as one sequence with segment ids, as in the paper


DOCUMENT_POOLINGS = (Pooling.MEAN, Pooling.CLS, Pooling.LAST, Pooling.MAX)
"""The poolings that give a text one vector."""
