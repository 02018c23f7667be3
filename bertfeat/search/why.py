"""Why a text is near a query: the share that each pair of their words has in the score.

Under mean pooling the inner product of two texts is a sum over all pairs of their tokens: of q tokens ``a`` and n
tokens ``b`` it is ``(Σ a / q) · (Σ b / n) = Σ Σ a·b / (q n)``, and their cosine is that over the lengths of both means.
Whitening is affine, so the same holds of whitened vectors. So each pair of words has a share, and all shares add up
to the score. Both texts are encoded again; nothing is stored. Of maxsim, the pairs that it takes are told by
:mod:`bertfeat.search.reranking.explaining`.

Shapes: q tokens and Q words of a query, n tokens and N words of a text, W values in a vector.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked_methods
from bertfeat.core import (
    CharSpans,
    DocumentFeatures,
    FeatureColumn,
    FeatureSettings,
    Pooling,
    WordRule,
    align_words,
    split_words,
)
from bertfeat.display import Cells, displayed
from bertfeat.errors import UsageError, parameter
from bertfeat.search.vector_index import VectorIndex
from bertfeat.search.vectors.faiss_transforms import scale_parts, transform_parts
from bertfeat.search.vectors.metric import Metric

if TYPE_CHECKING:
    from bertfeat.search.index import HitPiece

Shares = NDArray[np.float64]
_STRONGEST = 5


class Origin(StrEnum):
    """The origin of a word: a text itself, or what the model or a prompt put around it."""

    TEXT = "text"
    PAIR = "pair"  # the second text of a pair
    PROMPT = "prompt"
    SPECIAL = "special"  # [CLS], [SEP]


@dataclass(frozen=True, slots=True)
class WhyWord:
    """A word of a query or of a text, with its place there."""

    string: str
    start: int  # characters of its text, or of its prompt; 0 of a special token
    end: int
    origin: Origin

    @property
    def is_own(self) -> bool:
        """Whether it stands in the text itself."""
        return self.origin in (Origin.TEXT, Origin.PAIR)


@dataclass(frozen=True, slots=True)
class WordPair:
    """A word of a query, a word of a text, and their share of the score."""

    query: WhyWord
    word: WhyWord
    share: float


@displayed
@checked_methods
@dataclass(frozen=True, slots=True, eq=False)
class Why:
    """The shares of all pairs of words in a score, which is their sum."""

    query: tuple[WhyWord, ...]
    words: tuple[WhyWord, ...]  # of the text
    shares: Shares  # [Q, N]

    @property
    def score(self) -> float:
        """The cosine or inner product of the two."""
        return float(self.shares.sum())

    def strongest(self, most: int = _STRONGEST) -> tuple[WordPair, ...]:
        """The pairs of words that add most, without special tokens and prompts, from the largest share on."""
        shares = np.where(np.outer(*self._own), self.shares, -np.inf)
        order = np.argsort(-shares, axis=None, kind="stable")[: max(0, most)]
        places = [divmod(at, len(self.words)) for at in order.tolist()]
        return tuple(
            WordPair(self.query[one], self.words[other], float(self.shares[one, other]))
            for one, other in places
            if shares[one, other] > 0
        )

    @property
    def of_frame(self) -> float:
        """The share of special tokens and prompts: of all pairs in which one is."""
        return self.score - float(self.shares[np.ix_(*self._own)].sum())

    @property
    def _own(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which words stand in the texts themselves."""
        one, other = (np.array([each.is_own for each in side], bool) for side in self._sides)
        return one, other

    @property
    def _sides(self) -> tuple[tuple[WhyWord, ...], tuple[WhyWord, ...]]:
        return self.query, self.words

    def cells(self) -> Cells:
        """The score, and the pairs that add most to it."""
        pairs = [
            {"query": each.query.string, "text": each.word.string, "share": each.share} for each in self.strongest()
        ]
        return {"score": self.score, "special tokens and prompts": self.of_frame, "pairs": pairs}

    def to_json(self) -> dict[str, object]:
        """All as JSON values: words as ``[string, start, end, origin]``, and a row of shares for each of the query."""
        query, words = (
            [[each.string, each.start, each.end, str(each.origin)] for each in side] for side in self._sides
        )
        return {
            "query": query,
            "words": words,
            "shares": [[round(share, 9) for share in row] for row in self.shares.tolist()],
        }


@runtime_checkable
class TokenEncoder(Protocol):
    """An encoder that gives all tokens of a text, as a :class:`bertfeat.Extractor` does."""

    @property
    def prompt(self) -> str:
        """The text that it puts before every text."""
        ...

    @property
    def marks_texts(self) -> bool:
        """Whether its model compares tokens, and reads queries and documents each in its own way."""
        ...

    def token_features(
        self, texts: Sequence[object], column: FeatureColumn, prompt: str = ""
    ) -> list[DocumentFeatures]:
        """The tokens or words of texts or pairs after a prompt, and their vectors in a column of these."""
        ...


_Parts = NDArray[np.floating]


class Explainer:
    """Explains the hits of an index, or the likeness of two texts, by the words of both.

    Raises:
        UsageError: scores of this kind are no sums over words; says why.
    """

    def __init__(self, column: FeatureColumn, rule: WordRule, prepare: Callable[[_Parts], _Parts]) -> None:
        """Explain scores of vectors of ``column``, to whose tokens ``prepare`` does what is done to their mean."""
        if column.pooling is not Pooling.MEAN:
            raise unexplained(f"{column.name} is no mean of tokens")
        self._column = FeatureColumn(column.recipe, Pooling.TOKEN, column.width, "float32")
        self._rule, self._prepare = rule, prepare

    @classmethod
    def of_index(cls, index: VectorIndex) -> "Explainer":
        """The explainer of an index.

        Raises:
            UsageError: its scores are no sums over words.
        """
        settings = index.settings
        if settings.marks_words:
            raise unexplained(f"a hit is one {settings.unit}")
        if settings.encoding is not None:
            raise unexplained(f"a vector of {settings.contents} is no mean of tokens")
        if settings.metric is Metric.L2:
            raise unexplained("a distance is no sum over pairs of words")
        refuse_neighbors(settings.extraction)

        def prepare(parts: _Parts) -> _Parts:
            scaled = scale_parts(parts) if settings.preparation is Metric.COSINE else parts
            return transform_parts(index.faiss_index, scaled)

        return cls(settings.query_column, settings.extraction.word_rule, prepare)

    def explain(self, encoder: object, query: str, prompt: str, texts: Sequence["ExplainedText"]) -> list[Why]:
        """Explain why each text is near a query; ``prompt`` is what stood before the texts when they were embedded.

        Raises:
            UsageError: the encoder gives no tokens, or a text cannot be embedded.
        """
        if not isinstance(encoder, TokenEncoder):
            raise unexplained("the encoder at hand gives no tokens of a text")
        if encoder.marks_texts:
            raise unexplained("the model reads queries otherwise than documents")
        asked = (
            [PromptedText(encoder.prompt, query)],
            [PromptedText(prompt, each.text, each.pair, each.span) for each in texts],
        )
        (own,), read = ([*map(self._read, side, self._features(encoder, side))] for side in asked)
        return [self._compare(own, each) for each in read]

    def _features(self, encoder: TokenEncoder, texts: Sequence["PromptedText"]) -> list[DocumentFeatures]:
        return encoder.token_features([each.item for each in texts], self._column) if texts else []

    def _read(self, text: "PromptedText", features: DocumentFeatures) -> "TokensByWord":
        """The tokens that a text's vector is the mean of, and the words that they are of."""
        placed = PlacedTokens.of(features, self._column)
        counted = np.ones(len(placed.strings), bool) if text.span is None else placed.in_span(*text.span)
        found = TokensByWord.of(text, placed, self._rule, features.matrix(self._column.name), counted)
        return replace(found, parts=self._prepare(found.parts) / max(1, len(found.parts)))

    @staticmethod
    def _compare(query: "TokensByWord", text: "TokensByWord") -> Why:
        shares = np.zeros((len(query.words), len(text.words)))
        np.add.at(shares, (query.owners[:, None], text.owners[None, :]), query.parts @ text.parts.T)
        return Why(query.words, text.words, shares)


@dataclass(frozen=True, slots=True)
class ExplainedText:
    """A text, or a pair of texts, or a span of a text, that is near a query."""

    text: str
    pair: str | None = None
    span: tuple[int, int] | None = None  # characters

    @classmethod
    def of_hit(cls, text: str | None, pair: str | None, piece: "HitPiece | None") -> "ExplainedText":
        """The text of a hit, or the span of it that the hit is.

        Raises:
            UsageError: the index keeps no texts.
        """
        if text is None:
            raise unexplained("the index keeps no texts")
        return cls(text, pair, None if piece is None else (piece.start, piece.end))


@dataclass(frozen=True, slots=True)
class PromptedText:
    """A text with the prompt before it."""

    prompt: str
    text: str
    pair: str | None = None
    span: tuple[int, int] | None = None  # in the text, and moved by the prompt

    def __post_init__(self) -> None:
        if self.span is not None:
            object.__setattr__(self, "span", tuple(len(self.prompt) + end for end in self.span))

    @property
    def whole(self) -> str:
        """The text as the model reads it."""
        return self.prompt + self.text

    @property
    def item(self) -> str | tuple[str, str]:
        """The text, or the pair, as an encoder takes it."""
        return self.whole if self.pair is None else (self.whole, self.pair)

    def word(self, string: str, start: int, end: int, *, in_pair: bool) -> WhyWord:
        """A word at a place in what the model reads."""
        if in_pair:
            return WhyWord(string, start, end, Origin.PAIR)
        if end <= len(self.prompt):
            return WhyWord(string, start, end, Origin.PROMPT)
        begin = max(0, start - len(self.prompt))
        return WhyWord(self.text[begin : end - len(self.prompt)], begin, end - len(self.prompt), Origin.TEXT)


@dataclass(frozen=True, slots=True)
class PlacedTokens:
    """The tokens (or words) of a text, with their places in it."""

    spans: CharSpans
    segments: NDArray[np.int8]
    strings: Sequence[str]

    @classmethod
    def of(cls, features: DocumentFeatures, column: FeatureColumn) -> "PlacedTokens":
        """The tokens or words that have a vector in a column."""
        pieces = features.pieces_of(column)
        assert pieces is not None
        assert pieces.strings is not None
        segments = np.zeros(len(pieces.start), np.int8) if pieces.segment is None else np.asarray(pieces.segment)
        return cls(CharSpans(np.asarray(pieces.start), np.asarray(pieces.end)), segments, pieces.strings)

    def in_span(self, start: int, end: int) -> NDArray[np.bool_]:
        """Whether each has a character in a span of the first text."""
        spans = self.spans
        inside: NDArray[np.bool_] = (spans.end > start) & (spans.start < end) & (self.segments == 0)
        return inside & (spans.end > spans.start)


@dataclass(frozen=True, slots=True)
class TokensByWord:
    """The tokens of a text that count, and the words that they are of."""

    words: tuple[WhyWord, ...]
    owners: NDArray[np.int64]  # [q] number of each token's word
    parts: NDArray[np.floating]  # [q, W] their vectors

    @classmethod
    def of(
        cls,
        text: PromptedText,
        tokens: PlacedTokens,
        rule: WordRule,
        vectors: NDArray[np.floating],
        counted: NDArray[np.bool_],
    ) -> "TokensByWord":
        """The tokens for which ``counted`` is true, with their vectors of all that are ``vectors``, ``[q, W]``."""
        words, owners = words_of_tokens(text, tokens, rule)
        kept, own = np.unique(owners[counted], return_inverse=True)
        return cls(tuple(words[at] for at in kept.tolist()), own, vectors[counted].astype(np.float64))


def words_of_tokens(
    text: PromptedText, tokens: PlacedTokens, rule: WordRule
) -> tuple[list[WhyWord], NDArray[np.int64]]:
    """The words that tokens are of, in the order of their first tokens, and the number of each token's word.

    A token of two words is of the first one; one of no word, such as ``[CLS]``, is a word by itself.
    """
    owners = np.full(len(tokens.strings), -1, np.int64)
    words: list[WhyWord] = []
    for segment, whole in enumerate([text.whole] if text.pair is None else [text.whole, text.pair]):
        own = np.flatnonzero((tokens.segments == segment) & (tokens.spans.end > tokens.spans.start))
        spans = split_words(whole, rule)
        for start, end, first, stop in zip(
            *(each.tolist() for each in (spans.start, spans.end, *align_words(spans, tokens.spans.take(own)))),
            strict=True,
        ):
            free = own[first:stop][owners[own[first:stop]] < 0]
            if len(free):
                owners[free] = len(words)
                words.append(text.word(whole[start:end], start, end, in_pair=segment == 1))
    for at in np.flatnonzero(owners < 0).tolist():
        owners[at] = len(words)
        words.append(WhyWord(tokens.strings[at], 0, 0, Origin.SPECIAL))
    order = np.argsort(np.unique(owners, return_index=True)[1])  # of words, by their first tokens
    return [words[at] for at in order.tolist()], np.argsort(order)[owners]


def refuse_neighbors(extraction: FeatureSettings) -> None:
    """Refuse texts that cannot be encoded again as they were."""
    if extraction.document_context:
        raise unexplained("its texts were read between their neighbors")


def unexplained(why: str) -> UsageError:
    """The error for a score that cannot be told by words."""
    return UsageError(f"{parameter('why', True)} tells which words a score is the sum of, and {why}")
