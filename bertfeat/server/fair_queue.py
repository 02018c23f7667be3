"""The order in which waiting texts are computed: as requests came, but long ones give way to those that come later.

Each text has a tag, and the text with the least tag is next. For the first :data:`BURST_TOKENS` of a request, the tag
is the time when the request came, on a clock that counts the tokens that are taken, so short requests are served in
their order. After that the tag grows by 1 / :data:`SHARE` per token of the request, as if the encoder spent that share
of its time on it. This is VirtualClock (Zhang 1990) with bursts. So a request of one text does not wait behind one of
thousands, which still gets its share when others come all the time. Where long requests are so many that their shares
would be more than a half, the clock goes slower, and their shares are smaller: short ones do not wait behind them. A
token of a larger model counts as several, by the work that it is.
"""

import heapq
from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import Generic, Protocol, TypeVar


class Queued(Protocol):
    """A request whose texts wait."""

    dropped: bool  # nobody waits for it any more

    @property
    def reading(self) -> Hashable:
        """The way its texts are tokenized; only texts of one reading are computed together."""

    @property
    def sizes(self) -> "list[int]":
        """The length of each text, in tokens, as far as is known."""

    @property
    def order(self) -> "list[int]":
        """The numbers of its texts in the order in which they are taken."""


RequestT = TypeVar("RequestT", bound=Queued)
BURST_TOKENS = 1024
"""The first tokens of a request, which do not give way to later requests."""
LEAST_TOKENS = 256
"""Tokens of a round of a large model beside small ones."""
SHARE = 0.25
"""Share of the encoder's time that a longer request gets at least while others come; of several, a half together."""


@dataclass(slots=True)
class _Turn(Generic[RequestT]):
    """A request, and how much of it has been taken."""

    request: RequestT
    start: float  # the clock when it came
    weight: float  # of a token of it
    begun: int = 0  # texts that have been taken
    tokens: float = 0.0  # of those texts, by their weight

    @property
    def tag(self) -> float:
        return self.start + max(0, self.tokens - BURST_TOKENS) / SHARE


class FairQueue(Generic[RequestT]):
    """Waiting requests, from which texts are taken one round at a time. Not thread-safe."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Turn[RequestT]]] = []  # tag, arrival
        self._arrivals = count()
        self._clock = 0.0  # counts the tokens that have been taken, by their weight

    def add(self, request: RequestT, weight: float = 1.0) -> None:
        """Add a request of at least one text; a token of it counts as ``weight`` tokens."""
        heapq.heappush(self._heap, (self._clock, next(self._arrivals), _Turn(request, self._clock, weight)))

    def take(self, budget: int) -> list[tuple[RequestT, int]]:
        """Take the texts of a round, of one reading and at most ``budget`` tokens: each as its request and its number.

        The first one is taken however long it is. Where its tokens count as several, the round has fewer of them, so
        that others need not wait for long, but :data:`LEAST_TOKENS` at least, which processors compute as fast as more.
        """
        taken: list[tuple[RequestT, int]] = []
        passed_over: list[tuple[float, int, _Turn[RequestT]]] = []
        size, most = 0, float(budget)
        long_ones = sum(turn.tokens > BURST_TOKENS and not turn.request.dropped for _, _, turn in self._heap)
        while self._heap and size < most:
            tag, arrival, turn = heapq.heappop(self._heap)
            request = turn.request
            if request.dropped:
                continue
            number = request.order[turn.begun]
            length = request.sizes[number]
            if taken and (request.reading != taken[0][0].reading or size + length > most):
                passed_over.append((tag, arrival, turn))
                continue
            if not taken:
                most = max(budget / turn.weight, min(budget, LEAST_TOKENS))
            taken.append((request, number))
            size += length
            turn.begun += 1
            turn.tokens += length * turn.weight
            self._clock += length * turn.weight / max(1.0, 2 * SHARE * long_ones)
            if turn.begun < len(request.order):
                heapq.heappush(self._heap, (turn.tag, arrival, turn))
        for entry in passed_over:
            heapq.heappush(self._heap, entry)
        return taken
