"""The texts of a request that wait for the encoder, and what there is of their features."""

import time
from collections.abc import Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Document
from bertfeat.extraction import PartResult
from bertfeat.features import DocumentFeatures
from bertfeat.recipe import FeatureColumn, Pooling, Unit, needed_layers
from bertfeat.tokens import TokenSettings

_BYTES_A_TOKEN = 4  # of English, for what is not tokenized yet; an endless word takes its turns by its length too


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns that a request wants of its texts, and how these are read."""

    columns: tuple[FeatureColumn, ...]
    tokens: TokenSettings  # without the units, which the columns decide

    @property
    def has_pieces(self) -> bool:
        """Whether there are columns of tokens or words."""
        return any(not column.pooling.per_document for column in self.columns)

    @property
    def first_tokens_at(self) -> int | None:
        """The deepest layer, if only first tokens are taken of it; None otherwise.

        The encoder then computes no other rows of that layer, by products of another shape, which round otherwise.
        """
        deepest = needed_layers(self.columns)[-1]
        of_deepest = (column for column in self.columns if deepest in column.recipe.layers)
        return deepest if all(column.pooling is Pooling.CLS for column in of_deepest) else None

    def without_units(self) -> "Wanted":
        """The same, comparable with what others want: the columns say which units there are."""
        return replace(self, tokens=replace(self.tokens, with_tokens=False, with_words=False))


@dataclass(frozen=True, slots=True)
class RequestFeatures:
    """The features of a request's texts, in their order."""

    vectors: Mapping[str, NDArray[np.float32]]  # of document columns: [n, width]; rows of failed texts are zero
    documents: Sequence[DocumentFeatures | None]  # empty unless there are columns of tokens or words
    n_tokens: NDArray[np.int64]  # [n]
    n_truncated: NDArray[np.int64]  # [n] tokens that were cut off, because the request asked for it
    failures: Mapping[int, str]  # number of the text → why it could not be embedded
    seconds_waiting: float  # of the text that waited longest
    seconds_tokenizing: float  # of the rounds that it was in
    seconds_computing: float


class TextRequest:
    """The texts of one request, and what there is of their features."""

    def __init__(self, texts: Sequence[Document], wanted: Wanted) -> None:
        self.texts, self.wanted = texts, wanted
        prompt = len(wanted.tokens.prompt.encode())
        self.sizes = [2 + (len((text.text + (text.pair or "")).encode()) + prompt) // _BYTES_A_TOKEN for text in texts]
        self.order = sorted(range(len(texts)), key=self.sizes.__getitem__, reverse=True)
        self.first_tokens_at = wanted.first_tokens_at
        self.dropped = False
        self.future: Future[RequestFeatures] = Future()
        self.waiting_tokens = sum(self.sizes)
        self._arrived, self._left = time.monotonic(), len(texts)
        self._seconds = [0.0, 0.0, 0.0]  # waiting, tokenizing, computing
        self._documents: list[DocumentFeatures | None] = [None] * len(texts) if wanted.has_pieces else []
        self._n_tokens, self._n_truncated = np.zeros((2, len(texts)), np.int64)
        self._failures: dict[int, str] = {}
        self._vectors = {
            column.name: np.zeros((len(texts), column.width), np.float32)
            for column in wanted.columns
            if column.pooling.per_document
        }

    @property
    def reading(self) -> Hashable:
        """The key that texts have to share to be computed together, with the same bytes as alone."""
        return self.wanted.tokens, self.wanted.has_pieces, self.first_tokens_at

    def take_round(self, computed: "ComputedRound", numbers: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        """Note what a round gave for the texts ``numbers``, which have the rows ``places`` in it."""
        content = computed.result.content
        there = np.isin(places, content.rows)
        at, of = np.searchsorted(content.rows, places[there]), numbers[there]
        for name, vectors in self._vectors.items():
            vectors[of] = content.vectors[name][at]
        self._n_tokens[of], self._n_truncated[of] = content.n_tokens[at], content.n_truncated[at]
        for number, place in zip(of.tolist() if self._documents else (), at.tolist(), strict=False):
            self._documents[number] = _only_wanted(computed.documents[place], self.wanted)
        reasons = {failure.row: failure.reason.partition(": ")[2] for failure in computed.result.failures}
        self._failures |= {
            number: reasons[place]
            for number, place in zip(numbers.tolist(), places.tolist(), strict=True)
            if place in reasons
        }
        waited = computed.began - self._arrived
        self._seconds[0] = max(self._seconds[0], waited)
        self._seconds[1] += computed.seconds_tokenizing
        self._seconds[2] += computed.seconds_computing
        self._left -= len(numbers)
        if not self._left:
            self._answer()

    def fail(self, error: BaseException) -> None:
        """Have whoever waits get an error."""
        self.dropped = True
        if not self.future.done():
            self.future.set_exception(error)

    def _answer(self) -> None:
        if not self.future.done():
            self.future.set_result(
                RequestFeatures(
                    self._vectors, self._documents, self._n_tokens, self._n_truncated, self._failures, *self._seconds
                )
            )


@dataclass(frozen=True, slots=True)
class ComputedRound:
    """The features of a round of texts, and the times of its computation."""

    result: PartResult
    documents: Sequence[DocumentFeatures]  # of the content, if there are columns of tokens or words
    began: float
    seconds_tokenizing: float
    seconds_computing: float


def _only_wanted(document: DocumentFeatures, wanted: Wanted) -> DocumentFeatures:
    """A document without what others have asked for."""
    units = {column.pooling.unit for column in wanted.columns}
    return replace(
        document,
        columns=wanted.columns,
        stored={column.name: document.stored[column.name] for column in wanted.columns},
        tokens=document.tokens if Unit.TOKEN in units else None,
        words=document.words if Unit.WORD in units else None,
    )


def no_features(request: TextRequest) -> RequestFeatures:
    """The features of a request without texts."""
    nothing = np.zeros(0, np.int64)
    vectors = {
        column.name: np.zeros((0, column.width), np.float32)
        for column in request.wanted.columns
        if column.pooling.per_document
    }
    return RequestFeatures(vectors, (), nothing, nothing, {}, 0.0, 0.0, 0.0)
