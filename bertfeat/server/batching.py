"""Texts of many requests → rounds of the encoder → the features of each request.

Two threads: one takes the texts of a round from the queue and tokenizes them, the other one computes, so that the
encoder has the next round ready. A round has texts of all requests that wait, up to a number of tokens, and runs to the
deepest layer that any of them needs. A vector does not depend on the texts that it was computed with, so neither do
answers depend on who asks at the same time.
"""

import logging
import queue
import threading
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bertfeat.corpus import Document
from bertfeat.errors import BertfeatError
from bertfeat.extraction import Embedder, PartResult, TokenizedRows
from bertfeat.features import DocumentFeatures, content_documents
from bertfeat.recipe import FeatureColumn, Unit
from bertfeat.server.fair_queue import FairQueue
from bertfeat.tokens import TokenSettings

_BYTES_A_TOKEN = 4  # of English, for what is not tokenized yet
_log = logging.getLogger("bertfeat.server")


class QueueFullError(Exception):
    """So much waits that a new request would wait too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the queue is full; it is worked through in {seconds:.0f} s")
        self.seconds = seconds  # until there is room


class ClosedError(Exception):
    """The server is ending, and takes no more requests."""


class EncoderError(Exception):
    """The encoder failed over the texts of a request, though they were alone in it."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request wants of its texts."""

    columns: tuple[FeatureColumn, ...]
    tokens: TokenSettings  # without the units, which the columns decide

    @property
    def has_pieces(self) -> bool:
        """Whether there are columns of tokens or words."""
        return any(not column.pooling.per_document for column in self.columns)

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
        """What texts have to share to be computed together."""
        return self.wanted.tokens, self.wanted.has_pieces

    def take_round(self, computed: "_ComputedRound", numbers: NDArray[np.int64], places: NDArray[np.int64]) -> None:
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
class _Round:
    """Texts that are computed together."""

    taken: Sequence[tuple[TextRequest, int]]
    embedder: Embedder
    tokenized: TokenizedRows
    began: float
    seconds_tokenizing: float


@dataclass(frozen=True, slots=True)
class _ComputedRound:
    """Their features."""

    result: PartResult
    documents: Sequence[DocumentFeatures]  # of the content, if there are columns of tokens or words
    began: float
    seconds_tokenizing: float
    seconds_computing: float


class Batcher:
    """Computes the texts of all requests with one encoder.

    ``round_tokens``: of a round; ``most_tokens``: that may wait, beyond which requests are refused.
    """

    def __init__(self, embedder: Embedder, *, round_tokens: int | None = None, most_tokens: int = 1_000_000) -> None:
        self.embedder = embedder
        self._round_tokens = round_tokens or embedder.batch_tokens
        self.most_tokens = most_tokens
        self._queue: FairQueue[TextRequest] = FairQueue()
        self._changed = threading.Condition()
        self._ready: queue.Queue[_Round | None] = queue.Queue(maxsize=1)
        self._closing = False
        self._requests: set[TextRequest] = set()  # that somebody waits for
        self.tokens_per_second = 0.0  # of the last rounds
        self.last_round = (0, 0)  # its texts and tokens
        self._threads = [
            threading.Thread(target=self._tokenize_rounds, name="bertfeat-tokenizer", daemon=True),
            threading.Thread(target=self._compute_rounds, name="bertfeat-encoder", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting_tokens(self) -> int:
        """Tokens that wait, as far as is known before they are tokenized."""
        with self._changed:
            return self._waiting()

    @property
    def requests(self) -> int:
        """Requests that wait, or are computed."""
        return len(self._requests)

    def submit(self, texts: Sequence[Document], wanted: Wanted) -> TextRequest:
        """Have texts computed; the request's future gives their features.

        Raises:
            QueueFullError: too much waits already.
            ClosedError: the server is ending.
        """
        request = TextRequest(texts, wanted)
        with self._changed:
            if self._closing:
                raise ClosedError("the server is ending")
            waiting = self._waiting()
            if waiting and waiting + request.waiting_tokens > self.most_tokens:
                # what has to be done before this one has room, at the speed of the last rounds
                surplus = waiting + request.waiting_tokens - self.most_tokens
                raise QueueFullError(max(1.0, surplus / max(self.tokens_per_second, 1000.0)))
            if not texts:
                request.future.set_result(_nothing(request))
                return request
            self._requests.add(request)
            self._queue.add(request)
            self._changed.notify_all()
        return request

    def drop(self, request: TextRequest) -> None:
        """Forget a request whose client has gone; what of it is not computed yet, is not."""
        with self._changed:
            request.dropped = True
            self._requests.discard(request)

    def close(self, seconds: float) -> None:
        """Take no more requests, finish those that there are, and end; those that take longer get an error."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        with self._changed:
            left, self._requests = self._requests, set()
        for request in left:
            request.fail(ClosedError("the server has ended"))

    # ── the threads ─────────────────────────────────────────────────────────────────────────────────────────

    def _waiting(self) -> int:
        return sum(request.waiting_tokens for request in self._requests)

    def _tokenize_rounds(self) -> None:
        while (taken := self._next_texts()) is not None:
            try:
                self._ready.put(self._tokenize(taken))
            except Exception as error:
                self._ready.join()  # the encoder serves one at a time
                self._compute_alone(taken, error)
        self._ready.put(None)

    def _next_texts(self) -> list[tuple[TextRequest, int]] | None:
        with self._changed:
            while not (taken := self._queue.take(self._round_tokens)):
                if self._closing:
                    return None
                self._changed.wait()
            for request, number in taken:
                request.waiting_tokens -= request.sizes[number]
            return taken

    def _tokenize(self, taken: Sequence[tuple[TextRequest, int]]) -> _Round:
        began = time.monotonic()
        embedder = self.embedder.variant(*_together(request.wanted for request, _ in taken))
        rows = [replace(request.texts[number], row=at) for at, (request, number) in enumerate(taken)]
        tokenized = embedder.tokenize_rows(rows)
        return _Round(taken, embedder, tokenized, began, time.monotonic() - began)

    def _compute_rounds(self) -> None:
        while (waiting := self._ready.get()) is not None:
            if any(not request.dropped for request, _ in waiting.taken):
                try:
                    self._hand_out(waiting.taken, self._compute(waiting))
                except Exception as error:
                    self._compute_alone(waiting.taken, error)
            self._ready.task_done()

    def _compute(self, waiting: _Round) -> _ComputedRound:
        began = time.monotonic()
        pairs = any(request.texts[number].pair is not None for request, number in waiting.taken)
        result = waiting.embedder.compute_rows(waiting.tokenized, pairs=pairs)
        documents: Iterable[DocumentFeatures] = ()
        if waiting.taken[0][0].wanted.has_pieces:
            columns, layers = waiting.embedder.columns, waiting.embedder.model.num_layers
            documents = content_documents(result.content, columns, layers)
        computed = _ComputedRound(
            result, tuple(documents), waiting.began, waiting.seconds_tokenizing, time.monotonic() - began
        )
        rate = result.computed_tokens / max(computed.seconds_computing, 1e-6)
        self.tokens_per_second = 0.8 * self.tokens_per_second + 0.2 * rate if self.tokens_per_second else rate
        self.last_round = len(waiting.taken), result.computed_tokens
        return computed

    def _hand_out(self, taken: Sequence[tuple[TextRequest, int]], computed: _ComputedRound) -> None:
        places: dict[TextRequest, list[int]] = {}
        for place, (request, _) in enumerate(taken):
            places.setdefault(request, []).append(place)
        for request, own in places.items():
            numbers = np.array([taken[place][1] for place in own])
            request.take_round(computed, numbers, np.array(own))
            if request.future.done():
                self.drop(request)

    def _compute_alone(self, taken: Sequence[tuple[TextRequest, int]], error: Exception) -> None:
        """Compute each request of a round that failed by itself, so that one fails and not the others."""
        _log.error("a round of %d texts failed (%s)", len(taken), type(error).__name__)
        for request in dict.fromkeys(request for request, _ in taken):
            own = [(each, number) for each, number in taken if each is request]
            try:
                self._hand_out(own, self._compute(self._tokenize(own)))
            except Exception as alone:
                cause = alone if isinstance(alone, BertfeatError) else EncoderError(type(alone).__name__)
                request.fail(cause)
                self.drop(request)


def _together(all_wanted: Iterable[Wanted]) -> tuple[tuple[FeatureColumn, ...], TokenSettings]:
    """The columns of all requests of a round, and how their texts are tokenized."""
    columns: dict[str, FeatureColumn] = {}
    tokens: TokenSettings | None = None
    for wanted in all_wanted:
        columns |= {column.name: column for column in wanted.columns}
        tokens = wanted.tokens
    assert tokens is not None
    units = {column.pooling.unit for column in columns.values()}
    settings = replace(tokens, with_tokens=Unit.TOKEN in units, with_words=Unit.WORD in units)
    return tuple(columns.values()), settings


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


def _nothing(request: TextRequest) -> RequestFeatures:
    nothing = np.zeros(0, np.int64)
    vectors = {
        column.name: np.zeros((0, column.width), np.float32)
        for column in request.wanted.columns
        if column.pooling.per_document
    }
    return RequestFeatures(vectors, (), nothing, nothing, {}, 0.0, 0.0, 0.0)
