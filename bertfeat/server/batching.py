"""Texts of many requests → rounds of the encoder → the features of each request.

Each of a few threads takes the texts of a round from the queue, tokenizes and computes them. A round has texts of all
requests that wait, up to a number of tokens, and runs to the deepest layer that any of them needs. A vector does not
depend on the texts that it was computed with, so neither do answers depend on who asks at the same time.

On a CPU each thread has its share of the cores: one round on all of them would stand still whenever the event loop
needs one, because products wait for the slowest core. On a GPU two threads take turns, so that it has the next round
as soon as it is done with one.
"""

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bertfeat.corpus import Document
from bertfeat.errors import BertfeatError
from bertfeat.extraction import Embedder, TokenizedRows, threads_in_use, use_threads
from bertfeat.features import content_documents
from bertfeat.io import give_back_memory
from bertfeat.recipe import FeatureColumn, Unit
from bertfeat.server.fair_queue import FairQueue
from bertfeat.server.text_request import ComputedRound, TextRequest, Wanted, no_features
from bertfeat.tokens import TokenSettings

_log = logging.getLogger("bertfeat.server")
_MOST_ENCODERS = 4  # of which one at a time runs Python
_GIVE_BACK_SECONDS, _REST_SECONDS = 2.0, 0.5  # of work, and of nothing to do
_ROUND_TOKENS = 1024  # of a core; with more, short texts wait for long ones, and nothing is faster


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
class _Round:
    """Texts that are computed together."""

    embedder: Embedder
    tokenized: TokenizedRows
    texts: int
    pairs: bool  # whether any of them is a pair
    has_pieces: bool  # whether any vectors of tokens or words are asked for
    began: float
    seconds_tokenizing: float


class Batcher:
    """Computes the texts of all requests with one encoder.

    ``round_tokens``: of a round; ``most_tokens``: that may wait, beyond which requests are refused.
    """

    def __init__(self, embedder: Embedder, *, round_tokens: int | None = None, most_tokens: int = 1_000_000) -> None:
        self.embedder = embedder
        self.most_tokens = most_tokens
        self._queue: FairQueue[TextRequest] = FairQueue()
        self._changed = threading.Condition()
        self._taking = threading.Lock()  # what a round gave into requests, of which two rounds may have texts
        self._closing = False
        self._computed_at = self._given_back = 0.0  # when a round was computed, and memory given back
        self._requests: set[TextRequest] = set()  # that somebody waits for
        self.tokens_per_second = 0.0  # of the last rounds
        self.last_round = (0, 0)  # its texts and tokens
        on_cpu = embedder.device.type == "cpu"
        cores = threads_in_use()
        shares = [len(range(number, cores, _MOST_ENCODERS)) for number in range(min(cores, _MOST_ENCODERS))]
        self._at_once = len(shares) if on_cpu else 1  # rounds
        self._computing = threading.Semaphore(self._at_once)
        self._round_tokens = round_tokens or (
            min(embedder.batch_tokens, _ROUND_TOKENS * shares[0]) if on_cpu else embedder.batch_tokens
        )
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
                request.future.set_result(no_features(request))
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
        """Give back what is free between buffers of other rounds, unless that was done some seconds ago.

        It would grow to some 400 MiB.
        """
        with self._changed:
            if time.monotonic() - self._given_back < seconds:
                return
            self._given_back = time.monotonic()
        give_back_memory()

    def _tokenize(self, taken: Sequence[tuple[TextRequest, int]]) -> _Round:
        began = time.monotonic()
        embedder = self.embedder.variant(*_together(request.wanted for request, _ in taken))
        rows = [replace(request.texts[number], row=at) for at, (request, number) in enumerate(taken)]
        tokenized = embedder.tokenize_rows(rows)
        pairs = any(row.pair is not None for row in rows)
        has_pieces = taken[0][0].wanted.has_pieces
        return _Round(embedder, tokenized, len(rows), pairs, has_pieces, began, time.monotonic() - began)

    def _compute(self, waiting: _Round) -> ComputedRound:
        with self._computing:
            began = time.monotonic()
            result = waiting.embedder.compute_rows(waiting.tokenized, pairs=waiting.pairs)
            seconds = time.monotonic() - began
        columns, layers = waiting.embedder.columns, waiting.embedder.model.num_layers
        documents = content_documents(result.content, columns, layers) if waiting.has_pieces else ()
        rate = self._at_once * result.computed_tokens / max(seconds, 1e-6)
        self.tokens_per_second = 0.8 * self.tokens_per_second + 0.2 * rate if self.tokens_per_second else rate
        self.last_round, self._computed_at = (waiting.texts, result.computed_tokens), time.monotonic()
        return ComputedRound(result, tuple(documents), waiting.began, waiting.seconds_tokenizing, seconds)

    def _hand_out(self, taken: Sequence[tuple[TextRequest, int]], computed: ComputedRound) -> None:
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
        """Compute each request of a round that failed by itself, so that one fails and not the others."""
        _log.error("a round of %d texts failed (%s)", len(taken), type(error).__name__)
        for request in dict.fromkeys(request for request, _ in taken):
            own = [(each, number) for each, number in taken if each is request]
            try:
                self._hand_out(own, self._compute(self._tokenize(own)))
            except BaseException as alone:
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
