"""Results of a search: hits with their texts and kept columns, and the answer to a query."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bertfeat.arguments import checked_methods
from bertfeat.corpus import Value
from bertfeat.display import Cells, displayed


@dataclass(frozen=True, slots=True)
class HitPiece:
    """The token or word that a hit is."""

    number: int  # which token or word of the document
    start: int  # character offsets in the text
    end: int
    in_pair: bool  # in the second text of a pair
    string: str | None  # None where the index keeps no texts


@displayed
@checked_methods
@dataclass(frozen=True, slots=True)
class Hit:
    """A document, or a token or word of it, that is near a query."""

    rank: int  # from 1
    score: float  # cosine or inner product, larger is nearer; or Euclidean distance, smaller is nearer; or see MaxSim
    id: str
    row: int  # of its corpus
    text: str | None  # None where the index keeps no texts
    pair: str | None
    values: Mapping[str, Value]  # of the kept columns
    source: str  # the feature set it is from
    piece: HitPiece | None  # in an index of tokens or words
    number: int  # of the vector in the index
    first_score: float | None = None  # by vector, where ``score`` is by tokens too
    maxsim: float | None = None  # by tokens, where the hit was scored again

    def cells(self) -> Cells:
        """The row of a table that shows the hit."""
        scores = {"rank": self.rank, "score": self.score, "first_score": self.first_score, "maxsim": self.maxsim}
        word = None if self.piece is None else self.piece.string
        return {**scores, "word": word, "text": self.text, "pair": self.pair, "id": self.id, "values": self.values}

    def to_json(self) -> dict[str, object]:
        """The hit as JSON values, without those that it does not have."""
        piece = {} if self.piece is None else {
            "start": self.piece.start, "end": self.piece.end, "string": self.piece.string, "in_pair": self.piece.in_pair
        }  # fmt: skip
        scores = {"score": self.score, "first_score": self.first_score, "maxsim": self.maxsim}
        rounded = {key: None if value is None else round(value, 6) for key, value in scores.items()}
        hit = {"rank": self.rank, "id": self.id, **rounded, "text": self.text, "pair": self.pair}
        kept = {"values": {key: _finite_or_none(value) for key, value in self.values.items()}} if self.values else {}
        return {key: value for key, value in {**hit, **piece, "row": self.row, **kept}.items() if value is not None}


@displayed
@dataclass(frozen=True, slots=True)
class Answer:
    """The hits of one query, best first."""

    query: str | None  # None for a query that was a vector
    hits: tuple[Hit, ...]

    def to_json(self) -> dict[str, object]:
        """The answer as JSON values."""
        return {"query": self.query, "hits": [hit.to_json() for hit in self.hits]}


def _finite_or_none(value: Value) -> Value:
    """JSON has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
