"""The kinds of heads: the shapes of task of the BERT paper's Figure 4, tagging aside."""

from enum import StrEnum

from bertfeat.recipe import Pooling


class HeadKind(StrEnum):
    """What a head does with a text, a pair, or a question with its choices."""

    CLASSIFY = "classify"  # a label or a number of a text or a pair
    ANSWER = "answer"  # the span of a passage that answers a question
    CHOOSE = "choose"  # one of several continuations

    @property
    def noun(self) -> str:
        """What such a head is called in messages."""
        return {"classify": "a classifier", "answer": "a span reader", "choose": "a chooser"}[self]


class PairForm(StrEnum):
    """How a pair of texts is embedded."""

    APART = "apart"  # each text by itself; the head gets u, v, |u-v| and u·v
    TOGETHER = "together"  # as one sequence with segment ids, as in the paper


DOCUMENT_POOLINGS = (Pooling.MEAN, Pooling.CLS, Pooling.MAX)
"""The poolings that give a text one vector."""
