"""The subword pieces of texts, without special tokens, in flat arrays: one text's pieces after another's.

Shapes: ``T`` texts, ``P`` pieces of all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bertfeat.core.words import CharSpans
from bertfeat.ragged import Int64s, offsets_of, ranges


@dataclass(frozen=True, slots=True, eq=False)
class TextPieces:
    """The pieces of one text or of several; iterated, those of each text."""

    ids: NDArray[np.int32]  # [P]
    spans: CharSpans | None  # [P] character offsets in their own text, where they were asked for
    counts: Int64s  # [T] pieces of each text

    @classmethod
    def of_one(cls, ids: NDArray[np.int32], spans: CharSpans | None) -> Self:
        """The pieces of one text."""
        return cls(ids, spans, np.array([len(ids)]))

    @classmethod
    def join(cls, texts: Sequence[Self], *, offsets: bool) -> Self:
        """The pieces of texts that were split apart; ``offsets`` says whether theirs are known."""
        return cls(
            ids=np.concatenate([np.zeros(0, np.int32), *(each.ids for each in texts)]),
            spans=CharSpans.join([each.spans for each in texts if each.spans is not None]) if offsets else None,
            counts=np.concatenate([np.zeros(0, np.int64), *(each.counts for each in texts)]),
        )

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[Self]:
        for own in starmap(slice, pairwise(offsets_of(self.counts).tolist())):
            yield self.of_one(self.ids[own], self.spans and self.spans.take(own))

    @property
    def starts(self) -> Int64s:
        """The number of each text's first piece. Shape: ``[T]``."""
        return offsets_of(self.counts)[:-1]

    def with_texts(self, numbers: Int64s, others: Self) -> Self:
        """The same with the pieces of other texts in the places of some that have none here."""
        both = self.join([self, others], offsets=self.spans is not None)
        starts, counts = self.starts, self.counts.copy()
        starts[numbers], counts[numbers] = len(self.ids) + others.starts, others.counts
        order = ranges(starts, counts)
        return type(self)(both.ids[order], both.spans and both.spans.take(order), counts)
