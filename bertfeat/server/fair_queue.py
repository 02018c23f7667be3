"""The order in which waiting texts are computed: as requests came, but long ones give way to those that come later.

Each text has a tag, and the least is next. Its request's first texts have the number of tokens that had been taken when
the request came (so short requests are served in their order), the others so much more as if the encoder spent a share
of its time on the request. This is VirtualClock (Zhang 1990) with bursts. So a request of one text does not wait behind
one of thousands, and this one, when others come all the time, still gets its share.
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
"""Tokens of a request that do not give way."""
SHARE = 0.25
"""Share of the encoder's time that a longer request gets at least while others come."""


@dataclass(slots=True)
class _Turn(Generic[RequestT]):
    """A request and how far it is."""

    request: RequestT
    start: int  # tokens that had been taken when it came
    begun: int = 0  # texts
    tokens: int = 0  # of them

    @property
    def tag(self) -> float:
        return self.start + max(0, self.tokens - BURST_TOKENS) / SHARE


class FairQueue(Generic[RequestT]):
    """Requests, of which texts are taken a round at a time. Not for several threads at once."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Turn[RequestT]]] = []  # tag, arrival
        self._arrivals = count()
        self._tokens = 0  # that have been taken

    def __bool__(self) -> bool:
        return any(not turn.request.dropped for *_, turn in self._heap)

    def add(self, request: RequestT) -> None:
        """Add a request of one text at least."""
        heapq.heappush(self._heap, (self._tokens, next(self._arrivals), _Turn(request, self._tokens)))

    def take(self, budget: int) -> list[tuple[RequestT, int]]:
        """The texts of a round, of one reading and so many tokens: each as its request and its number in it.

        The first one is taken however long it is.
        """
        taken: list[tuple[RequestT, int]] = []
        passed_over: list[tuple[float, int, _Turn[RequestT]]] = []
        size = 0
        while self._heap and size < budget:
            tag, arrival, turn = heapq.heappop(self._heap)
            request = turn.request
            if request.dropped:
                continue
            number = request.order[turn.begun]
            length = request.sizes[number]
            if taken and (request.reading != taken[0][0].reading or size + length > budget):
                passed_over.append((tag, arrival, turn))
                continue
            taken.append((request, number))
            size += length
            turn.begun += 1
            turn.tokens += length
            if turn.begun < len(request.order):
                heapq.heappush(self._heap, (turn.tag, arrival, turn))
        self._tokens += size
        for entry in passed_over:
            heapq.heappush(self._heap, entry)
        return taken
