"""The order in which waiting texts are computed: as requests came, but long ones give way to those that come later.

Each text has a tag, and the text with the least tag is next. For the first :data:`BURST_TOKENS` of a request, the tag
is the number of tokens that had been taken when the request came, so short requests are served in their order. After
that the tag grows by 1 / :data:`SHARE` per token of the request, as if the encoder spent that share of its time on it.
This is VirtualClock (Zhang 1990) with bursts. So a request of one text does not wait behind one of thousands, which
still gets its share when others come all the time.
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
SHARE = 0.25
"""Share of the encoder's time that a longer request gets at least while others come."""


@dataclass(slots=True)
class _Turn(Generic[RequestT]):
    """A request, and how much of it has been taken."""

    request: RequestT
    start: int  # tokens that had been taken when it came
    begun: int = 0  # texts that have been taken
    tokens: int = 0  # of those texts

    @property
    def tag(self) -> float:
        return self.start + max(0, self.tokens - BURST_TOKENS) / SHARE


class FairQueue(Generic[RequestT]):
    """Waiting requests, from which texts are taken one round at a time. Not thread-safe."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _Turn[RequestT]]] = []  # tag, arrival
        self._arrivals = count()
        self._tokens = 0  # that have been taken

    def add(self, request: RequestT) -> None:
        """Add a request of at least one text."""
        heapq.heappush(self._heap, (self._tokens, next(self._arrivals), _Turn(request, self._tokens)))

    def take(self, budget: int) -> list[tuple[RequestT, int]]:
        """Take the texts of a round, of one reading and at most ``budget`` tokens: each as its request and its number.

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
