"""The order in which waiting texts are computed: requests take turns, token by token.

This is start-time fair queueing (Goyal, Vin and Cheng 1996). Each request's next text has a tag: the tokens of the
request that were taken before, counted from the tag that was served when it came. The least tag is next. So a request
of one text does not wait behind one of thousands, and none waits for ever.
"""

import heapq
from collections.abc import Hashable
from itertools import count
from typing import Generic, Protocol, TypeVar


class Queued(Protocol):
    """A request whose texts wait."""

    dropped: bool  # nobody waits for it any more

    @property
    def reading(self) -> Hashable:
        """How its texts are tokenized; only texts of one reading are computed together."""

    @property
    def sizes(self) -> "list[int]":
        """The length of each text, in tokens, as far as is known."""

    @property
    def order(self) -> "list[int]":
        """The numbers of its texts in the order in which they are taken."""


RequestT = TypeVar("RequestT", bound=Queued)


class FairQueue(Generic[RequestT]):
    """Requests, of which texts are taken a round at a time. Not for several threads at once."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, int, RequestT]] = []  # tag, arrival, texts taken
        self._arrivals = count()
        self._served = 0.0  # the tag of what was taken last

    def __bool__(self) -> bool:
        return any(not request.dropped for *_, request in self._heap)

    def add(self, request: RequestT) -> None:
        """Add a request of one text at least."""
        heapq.heappush(self._heap, (self._served, next(self._arrivals), 0, request))

    def take(self, budget: int) -> list[tuple[RequestT, int]]:
        """The texts of a round, of one reading and so many tokens: each as its request and its number in it.

        The first one is taken however long it is.
        """
        taken: list[tuple[RequestT, int]] = []
        passed_over: list[tuple[float, int, int, RequestT]] = []
        size = 0
        while self._heap and size < budget:
            tag, arrival, begun, request = heapq.heappop(self._heap)
            if request.dropped:
                continue
            number = request.order[begun]
            if taken and (request.reading != taken[0][0].reading or size + request.sizes[number] > budget):
                passed_over.append((tag, arrival, begun, request))
                continue
            self._served = max(self._served, tag)
            taken.append((request, number))
            size += request.sizes[number]
            if begun + 1 < len(request.order):
                heapq.heappush(self._heap, (tag + request.sizes[number], arrival, begun + 1, request))
        for entry in passed_over:
            heapq.heappush(self._heap, entry)
        return taken
