"""Where the tokens of questions and passages are, as answers are cut out of passages."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import HeadError, parameter
from bertfeat.features import FeatureSet, MemoryFeatures, PiecePositions, position_columns, read_positions
from bertfeat.tokens import ranges


@dataclass(frozen=True, slots=True)
class PassageTokens:
    """The tokens of E questions with their passages, flat: N tokens."""

    offsets: NDArray[np.int64]  # [E+1]
    start: NDArray[np.int32]  # [N] characters
    end: NDArray[np.int32]  # [N]
    allowed: NDArray[np.bool_]  # [N] tokens of the passage, and [CLS], which stands for no answer

    @classmethod
    def of(cls, pieces: list[PiecePositions]) -> "PassageTokens":
        """The tokens of documents that were read batch by batch."""
        counts = np.concatenate([np.diff(batch.offsets) for batch in pieces])
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        segments = [batch.segment for batch in pieces]
        assert all(segment is not None for segment in segments)
        segment = np.concatenate([part for part in segments if part is not None])
        start, end = (np.concatenate([getattr(batch, name) for batch in pieces]) for name in ("start", "end"))
        allowed = (segment == 1) & (end > start)
        allowed[offsets[:-1]] = True
        return cls(offsets, start, end, allowed)

    @classmethod
    def read(cls, features: FeatureSet | MemoryFeatures) -> "PassageTokens":
        """The tokens of a feature set."""
        names = position_columns("token", features.names)
        if "token_segment" not in names:
            raise HeadError(
                "it holds no tokens of pairs",
                where=features.folder,
                remedy=f"extract questions and passages as pairs, with {parameter('pooling', 'token')}",
            )
        if isinstance(features, FeatureSet) and not features.header.settings.special_tokens:
            raise HeadError(
                "it holds no vector of [CLS], which stands for no answer",
                where=features.folder,
                remedy=f"extract it without {parameter('special_tokens', False)}",
            )
        return cls.of([read_positions(batch, "token") for batch in features.stream(names)])

    def passage(self, example: int) -> NDArray[np.int64]:
        """The numbers, in their example, of the tokens of its passage."""
        first, last = int(self.offsets[example]), int(self.offsets[example + 1])
        return 1 + np.flatnonzero(self.allowed[first + 1 : last])

    def part(self, examples: NDArray[np.int64]) -> "PassageTokens":
        """The tokens of some examples alone."""
        lengths = np.diff(self.offsets)[examples]
        numbers = ranges(self.offsets[examples], lengths)
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return PassageTokens(offsets, self.start[numbers], self.end[numbers], self.allowed[numbers])
