"""Batching: texts of many requests → rounds of the encoder → the features of each request.

Each of a few threads takes the texts of a round from the queue, tokenizes and computes them. A round has texts of all
requests that wait for one model and are read in the same way, up to a number of tokens, and runs to the deepest layer
that any of them needs. A vector does not depend on the texts that it was computed with, so answers do not depend on who
asks at the same time. The texts of indexes, feature sets and taggers join the rounds too, by :class:`SharedEncoder`.
Several models share one queue and the threads, so that they do not compete for the cores.

On a CPU each thread has its share of the cores: one round on all of them would stall whenever the event loop needs a
core, because matrix products wait for the slowest core. On a GPU two threads take turns, so that it has the next round
as soon as it is done with one.
"""

import contextlib
import logging
import threading
import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import (
    Document,
    DocumentFeatures,
    Extractor,
    FeatureColumn,
    ModelIdentity,
    PartContent,
    Pooling,
    TokenizedRows,
    TokenSettings,
    Unit,
    content_documents,
    needed_layers,
    threads_in_use,
    use_threads,
)
from bertfeat.errors import BertfeatError, UsageError
from bertfeat.io import give_back_memory
from bertfeat.server.fair_queue import FairQueue

_log = logging.getLogger("bertfeat.server")
_BYTES_A_TOKEN = 4  # in English; it estimates the tokens of texts not tokenized yet, also of an endless word
_ROUND_TOKENS = 1024  # tokens of a round per core; with more, short texts wait for long ones, and nothing is faster
_MOST_ENCODERS = 4  # threads on a CPU, of which one at a time runs Python
_GIVE_BACK_SECONDS, _REST_SECONDS = 2.0, 0.5  # of work, and of idleness, after which free memory is given back


@dataclass(frozen=True, slots=True)
class Wanted:
    """The model and the columns that a request wants of its texts, and how these are read."""

    extractor: Extractor  # one of the server's, whose own columns and settings do not matter
    columns: tuple[FeatureColumn, ...]
    tokens: TokenSettings  # without the units, which the columns decide

    @property
    def has_pieces(self) -> bool:
        """Whether there are columns of tokens or words."""
        return any(not column.pooling.per_document for column in self.columns)

    @property
    def first_tokens_at(self) -> int | None:
        """The deepest layer, if only vectors of first tokens are taken from it; None otherwise.

        The encoder then computes no other rows of that layer. Its products have another shape, so they round
        differently.
        """
        deepest = needed_layers(self.columns)[-1]
        of_deepest = (column for column in self.columns if deepest in column.recipe.layers)
        return deepest if all(column.pooling is Pooling.CLS for column in of_deepest) else None

    def without_units(self) -> "Wanted":
        """The same without the flags for tokens and words, so that requests compare equal: columns have their unit."""
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
    seconds_tokenizing: float  # of all rounds with texts of the request
    seconds_computing: float  # of all rounds with texts of the request


@dataclass(frozen=True, slots=True)
class _ComputedRound:
    """The features of a round of texts, and the times of its computation."""

    content: PartContent
    documents: Sequence[DocumentFeatures]  # of the content, if there are columns of tokens or words
    began: float
    seconds_tokenizing: float
    seconds_computing: float


class TextRequest:
    """The texts of one request, and those of their features that are computed so far."""

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
        return self.wanted.extractor, self.wanted.tokens, self.wanted.has_pieces, self.first_tokens_at

    def take_round(self, computed: _ComputedRound, numbers: NDArray[np.int64], places: NDArray[np.int64]) -> None:
        """Take the results of a round for the texts ``numbers``, which have the rows ``places`` in it.

        Texts that failed have no row in the round's content, but a failure.
        """
        content = computed.content
        there = np.isin(places, content.rows)
        at, embedded = np.searchsorted(content.rows, places[there]), numbers[there]
        for name, vectors in self._vectors.items():
            vectors[embedded] = content.vectors[name][at]
        self._n_tokens[embedded], self._n_truncated[embedded] = content.n_tokens[at], content.n_truncated[at]
        for number, place in zip(embedded.tolist() if self._documents else (), at.tolist(), strict=False):
            self._documents[number] = _only_wanted(computed.documents[place], self.wanted)
        # without the name of the row before the colon, which is that of a corpus
        reasons = {failure.row: failure.reason.partition(": ")[2] for failure in content.failures}
        self._failures |= {
            number: reasons[place]
            for number, place in zip(numbers.tolist(), places.tolist(), strict=True)
            if place in reasons
        }
        waited = computed.began - self._arrived
        self._seconds[0] = max(self._seconds[0], waited)  # of the text that waited longest
        self._seconds[1] += computed.seconds_tokenizing
        self._seconds[2] += computed.seconds_computing
        self._left -= len(numbers)
        if not self._left:
            self.answer()

    def fail(self, error: BaseException) -> None:
        """Raise an error for whoever waits."""
        self.dropped = True
        with contextlib.suppress(InvalidStateError):  # the client has gone, and nobody waits
            self.future.set_exception(error)

    def answer(self) -> None:
        """Give whoever waits the features that there are."""
        counts = self._n_tokens, self._n_truncated, self._failures
        with contextlib.suppress(InvalidStateError):  # the client has gone, and nobody waits
            self.future.set_result(RequestFeatures(self._vectors, self._documents, *counts, *self._seconds))


def _only_wanted(document: DocumentFeatures, wanted: Wanted) -> DocumentFeatures:
    """A document's features without those that only other requests of the round have asked for."""
    units = {column.pooling.unit for column in wanted.columns}
    return replace(
        document,
        columns=wanted.columns,
        stored={column.name: document.stored[column.name] for column in wanted.columns},
        tokens=document.tokens if Unit.TOKEN in units else None,
        words=document.words if Unit.WORD in units else None,
    )


class QueueFullError(Exception):
    """The queue has so many tokens that a new request would wait too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the queue is full; it is worked through in {seconds:.0f} s")
        self.seconds = seconds  # until there is room


class ClosedError(Exception):
    """The server is ending, and takes no more requests."""


class EncoderError(Exception):
    """The encoder failed over the texts of a request, though they were alone in it."""


@dataclass(frozen=True, slots=True)
class _Round:
    """Texts that are computed together."""

    extractor: Extractor
    tokenized: TokenizedRows
    texts: int
    pairs: bool  # whether any of them is a pair
    has_pieces: bool  # whether any vectors of tokens or words are asked for
    began: float
    seconds_tokenizing: float


class Batcher:
    """Computes the texts of all requests with the encoders of a server, which are on one device.

    ``round_tokens`` is the size of a round; ``most_tokens`` is how many may wait before requests are refused.
    """

    def __init__(
        self, extractors: Sequence[Extractor], *, round_tokens: int | None = None, most_tokens: int = 1_000_000
    ) -> None:
        self.most_tokens = most_tokens
        self._queue: FairQueue[TextRequest] = FairQueue()
        self._changed = threading.Condition()
        self._taking = threading.Lock()  # held while a request takes a round: two rounds may have texts of it
        self._closing = False
        self._computed_at = self._given_back = 0.0  # when a round was computed, and memory given back
        self._requests: set[TextRequest] = set()  # that somebody waits for
        self.tokens_per_second = 0.0  # moving average over the last rounds
        self.last_round = (0, 0)  # its texts and tokens
        on_cpu = extractors[0].device.type == "cpu"
        self._least_work = min(map(_work_of_token, extractors))
        most_at_once = min(extractor.batch_tokens for extractor in extractors)
        cores = threads_in_use()
        shares = [len(range(number, cores, _MOST_ENCODERS)) for number in range(min(cores, _MOST_ENCODERS))]
        self._at_once = len(shares) if on_cpu else 1  # rounds that are computed at the same time
        self._computing = threading.Semaphore(self._at_once)
        self._round_tokens = round_tokens or (min(most_at_once, _ROUND_TOKENS * shares[0]) if on_cpu else most_at_once)
        self._threads = [
            threading.Thread(target=self._compute_rounds, args=[share], name="bertfeat-encoder", daemon=True)
            for share in (shares if on_cpu else (None, None))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting_tokens(self) -> int:
        """Tokens that wait, as far as is known before they are tokenized."""
        with self._changed:
            return self._waiting()

    @property
    def is_full(self) -> bool:
        """Whether no more texts may wait."""
        return self.waiting_tokens >= self.most_tokens

    @property
    def requests(self) -> int:
        """Requests that wait, or are computed."""
        return len(self._requests)

    def submit(self, texts: Sequence[Document], wanted: Wanted) -> TextRequest:
        """Have texts computed, unless too much waits or the server is ending; the request's future has the features."""
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
                request.answer()
                return request
            self._requests.add(request)
            self._queue.add(request, _work_of_token(wanted.extractor) / self._least_work)
            self._changed.notify_all()
        return request

    def drop(self, request: TextRequest) -> None:
        """Forget a request whose client has gone; texts of it that wait are never computed."""
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

    def _compute_rounds(self, cores: int | None) -> None:
        if cores is not None:
            use_threads(cores)  # of this thread
        while (taken := self._next_texts()) is not None:
            try:
                self._hand_out(taken, self._compute(self._tokenize(taken)))
            except BaseException as error:  # tokenizers panic with one
                self._compute_alone(taken, error)
            del taken
            self._give_back_memory(_GIVE_BACK_SECONDS)

    def _next_texts(self) -> list[tuple[TextRequest, int]] | None:
        while True:
            with self._changed:
                if taken := self._queue.take(self._round_tokens):
                    for request, number in taken:
                        request.waiting_tokens -= request.sizes[number]
                    return taken
                if self._closing:
                    return None
                if self._changed.wait(_REST_SECONDS if self._computed_at > self._given_back else None):
                    continue
            self._give_back_memory(0.0)

    def _give_back_memory(self, seconds: float) -> None:
        """Give back the free memory between buffers of other rounds, unless that was done less than ``seconds`` ago.

        Otherwise the free memory would grow to some 400 MiB.
        """
        with self._changed:
            if time.monotonic() - self._given_back < seconds:
                return
            self._given_back = time.monotonic()
        give_back_memory()

    def _tokenize(self, taken: Sequence[tuple[TextRequest, int]]) -> _Round:
        began = time.monotonic()
        extractor = taken[0][0].wanted.extractor.variant(*_together(request.wanted for request, _ in taken))
        rows = [replace(request.texts[number], row=at) for at, (request, number) in enumerate(taken)]
        tokenized = extractor.tokenize_rows(rows)
        pairs = any(row.pair is not None for row in rows)
        has_pieces = taken[0][0].wanted.has_pieces
        return _Round(extractor, tokenized, len(rows), pairs, has_pieces, began, time.monotonic() - began)

    def _compute(self, waiting: _Round) -> _ComputedRound:
        with self._computing:
            began = time.monotonic()
            content = waiting.extractor.compute_rows(waiting.tokenized, pairs=waiting.pairs)
            seconds = time.monotonic() - began
        columns, layers = waiting.extractor.columns, waiting.extractor.model.num_layers
        documents = content_documents(content, columns, layers) if waiting.has_pieces else ()
        rate = self._at_once * waiting.tokenized.token_count / max(seconds, 1e-6)
        self.tokens_per_second = 0.8 * self.tokens_per_second + 0.2 * rate if self.tokens_per_second else rate
        self.last_round, self._computed_at = (waiting.texts, waiting.tokenized.token_count), time.monotonic()
        return _ComputedRound(content, tuple(documents), waiting.began, waiting.seconds_tokenizing, seconds)

    def _hand_out(self, taken: Sequence[tuple[TextRequest, int]], computed: _ComputedRound) -> None:
        places: dict[TextRequest, list[int]] = {}
        for place, (request, _) in enumerate(taken):
            places.setdefault(request, []).append(place)
        for request, own in places.items():
            numbers = np.array([taken[place][1] for place in own])
            with self._taking:
                request.take_round(computed, numbers, np.array(own))
            if request.future.done():
                self.drop(request)

    def _compute_alone(self, taken: Sequence[tuple[TextRequest, int]], error: BaseException) -> None:
        """Compute each request of a failed round by itself, so that one request fails and not the others."""
        _log.error("a round of %d texts failed (%s)", len(taken), type(error).__name__)
        for request in dict.fromkeys(request for request, _ in taken):
            own = [(each, number) for each, number in taken if each is request]
            try:
                self._hand_out(own, self._compute(self._tokenize(own)))
            except BaseException as alone:
                cause = alone if isinstance(alone, BertfeatError) else EncoderError(type(alone).__name__)
                request.fail(cause)
                self.drop(request)


def _work_of_token(extractor: Extractor) -> int:
    """The work of a token, as far as it differs between models: layers times the square of their width."""
    return max(1, extractor.model.num_layers) * extractor.model.hidden_size**2


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


class SharedEncoder:
    """Embeds texts as a record says, by an encoder of the server. To be called on threads that may wait."""

    def __init__(self, identity: ModelIdentity, wanted: Wanted, batcher: Batcher, seconds: float) -> None:
        """Embed texts for whoever made features with the model ``identity``; they may take so many ``seconds``."""
        self.identity, self.wanted = identity, wanted
        self._batcher, self._seconds = batcher, seconds

    def of_columns(self, columns: Sequence[FeatureColumn]) -> "SharedEncoder":
        """The same encoder for other columns."""
        wanted = replace(self.wanted, columns=tuple(columns))
        return SharedEncoder(self.identity, wanted, self._batcher, self._seconds)

    def encode(self, texts: Sequence[str], /) -> NDArray[np.float32]:
        """One vector per text, ``[n, width]``."""
        (column,) = self.wanted.columns
        return self._compute(texts).vectors[column.name]

    def features(self, texts: Sequence[str], /) -> list[DocumentFeatures]:
        """Tokens or words with their vectors."""
        return [document for document in self._compute(texts).documents if document is not None]

    @property
    def prompt(self) -> str:
        """The text that is put before every text."""
        return self.wanted.tokens.prompt

    @property
    def marks_texts(self) -> bool:
        """Whether its model compares tokens, and reads queries and documents each in its own way."""
        return self.wanted.extractor.marks_texts

    def token_features(
        self, texts: Sequence[str | tuple[str, str]], column: FeatureColumn, prompt: str = ""
    ) -> list[DocumentFeatures]:
        """The tokens or words of texts or pairs after a prompt, and their vectors in a column of these."""
        wanted = replace(self.wanted, columns=(column,), tokens=replace(self.wanted.tokens, prompt=prompt))
        other = SharedEncoder(self.identity, wanted, self._batcher, self._seconds)
        return [document for document in other._compute(texts).documents if document is not None]

    def language_warning(self, text: str, /) -> str | None:
        """The warning about a query in a language that the model does not know; None if it knows it."""
        return self.wanted.extractor.language_warning(text)

    def _compute(self, texts: Sequence[str | tuple[str, str]]) -> RequestFeatures:
        both = [(text, None) if isinstance(text, str) else text for text in texts]
        documents = [Document(number, str(number), text, pair) for number, (text, pair) in enumerate(both)]
        waiting = self._batcher.submit(documents, self.wanted)
        try:
            features = waiting.future.result(self._seconds)
        except BaseException:
            self._batcher.drop(waiting)  # the caller gets an error, because it took too long
            raise
        for number, reason in features.failures.items():
            problem, _, _ = reason.partition("; ")  # the remedies are options of the command
            raise UsageError(f"text {number} cannot be embedded: {problem}")
        return features
