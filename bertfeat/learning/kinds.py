"""The kinds of heads, and the forms in which pairs of texts are embedded."""

from enum import StrEnum


class HeadKind(StrEnum):
    """The verb of the shell that trains a head: its tasks read words, texts, passages or choices."""

    TAG = "tag"  # a tag for each word of a sentence
    CLASSIFY = "classify"  # labels or a number for a text or a pair
    ANSWER = "answer"  # the span of a passage that answers a question
    CHOOSE = "choose"  # one of several continuations

    @property
    def noun(self) -> str:
        """The word for such a head in messages."""
        return {"tag": "a tagger", "classify": "a classifier", "answer": "a span reader", "choose": "a chooser"}[self]


class PairForm(StrEnum):
    """The form in which a pair of texts is embedded."""

    APART = "apart"  # each text by itself; the head gets u, v, |u-v| and u·v
    TOGETHER = "together"  # as one sequence with segment ids, as in the paper
