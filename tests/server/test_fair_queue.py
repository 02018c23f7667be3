"""The order in which waiting texts are taken, against what fairness asks."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from bertfeat.server.fair_queue import SHARE, FairQueue


@dataclass(eq=False)
class Waiting:
    """A request as the queue sees it."""

    sizes: list[int]
    reading: str = "a"
    dropped: bool = False
    order: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.order = list(range(len(self.sizes)))


def test_a_short_request_does_not_wait_behind_a_long_one() -> None:
    queue: FairQueue[Waiting] = FairQueue()
    long, short = Waiting([10] * 1000), Waiting([10])
    queue.add(long)
    assert queue.take(2000) == [(long, number) for number in range(200)]
    queue.add(short)
    assert (short, 0) in queue.take(100)


@pytest.mark.parametrize("long_ones", [1, 3, 8, 40])
def test_nor_behind_many_long_ones(long_ones: int) -> None:
    queue: FairQueue[Waiting] = FairQueue()
    for _ in range(long_ones):
        queue.add(Waiting([10] * 5000))
    for _ in range(20 * long_ones):
        queue.take(1000)
    waited = []
    for _ in range(50):  # short ones come now and then
        queue.add(short := Waiting([10]))
        waited.append(next(rounds for rounds in range(100) if (short, 0) in queue.take(1000)))
        for _ in range(5):
            queue.take(1000)
    assert max(waited) <= 1


def test_a_first_text_is_taken_however_long_it_is() -> None:
    queue: FairQueue[Waiting] = FairQueue()
    huge, other = Waiting([5000]), Waiting([10])
    queue.add(huge)
    queue.add(other)
    assert queue.take(100) == [(huge, 0)]
    assert queue.take(100) == [(other, 0)]
    assert queue.take(100) == []


def test_a_round_has_one_reading() -> None:
    queue: FairQueue[Waiting] = FairQueue()
    requests = [Waiting([10] * 3, reading) for reading in "abab"]
    for request in requests:
        queue.add(request)
    first, second = queue.take(1000), queue.take(1000)
    assert {request.reading for request, _ in first} == {"a"}
    assert {request.reading for request, _ in second} == {"b"}
    assert len(first) == len(second) == 6


def test_what_was_dropped_is_not_taken() -> None:
    queue: FairQueue[Waiting] = FairQueue()
    gone, stays = Waiting([10] * 5), Waiting([10])
    queue.add(gone)
    queue.add(stays)
    gone.dropped = True
    assert queue.take(1000) == [(stays, 0)]
    assert not queue.take(1000)


requests = st.lists(
    st.tuples(st.lists(st.integers(1, 300), min_size=1, max_size=12), st.sampled_from("ab"), st.integers(0, 5)),
    min_size=1,
    max_size=12,
)


@settings(deadline=None)
@given(requests, st.integers(1, 500))
def test_every_text_is_taken_once(drawn: list[tuple[list[int], str, int]], budget: int) -> None:
    """Whenever requests come: each text once, in its request's order, and rounds within the budget."""
    queue: FairQueue[Waiting] = FairQueue()
    coming = [(Waiting(sizes, reading), when) for sizes, reading, when in drawn]
    taken: list[tuple[Waiting, int]] = []
    for step in range(10_000):
        for request, when in coming:
            if when == step:
                queue.add(request)
        a_round = queue.take(budget)
        assert len(a_round) <= 1 or sum(request.sizes[number] for request, number in a_round) <= budget
        taken += a_round
        if step > 5 and not a_round:
            break
    for request, _ in coming:
        assert [number for each, number in taken if each is request] == request.order


@pytest.mark.parametrize("shares", [2, 5])
def test_long_requests_get_equal_shares(shares: int) -> None:
    queue: FairQueue[Waiting] = FairQueue()
    for number in range(shares):
        queue.add(Waiting([7 + number] * 2000))
    got: dict[Waiting, int] = {}
    for _ in range(100):
        for request, number in queue.take(200):
            got[request] = got.get(request, 0) + request.sizes[number]
    assert len(got) == shares
    assert max(got.values()) - min(got.values()) <= 200


def test_short_requests_are_taken_as_they_came() -> None:
    queue: FairQueue[Waiting] = FairQueue()
    requests = [Waiting([40] * 8) for _ in range(50)]
    for request in requests:
        queue.add(request)
    order = [request for _ in range(200) for request, _ in queue.take(300)]
    assert order == [request for request in requests for _ in range(8)]


def test_a_long_request_gets_its_share_while_short_ones_come_all_the_time() -> None:
    queue: FairQueue[Waiting] = FairQueue()
    long = Waiting([50] * 4000)
    queue.add(long)
    got = {True: 0, False: 0}
    missing = 30
    for _ in range(1000):
        for _ in range(missing):  # as many wait at any time
            queue.add(Waiting([50]))
        taken = queue.take(200)
        missing = sum(request is not long for request, _ in taken)
        for request, number in taken:
            got[request is long] += request.sizes[number]
    assert got[True] / (got[True] + got[False]) == pytest.approx(SHARE, rel=0.1)


def test_a_larger_model_has_its_share_of_work_and_not_of_tokens() -> None:
    queue: FairQueue[Waiting] = FairQueue()
    large, small = Waiting([10] * 5000, "large"), Waiting([10] * 5000, "small")
    queue.add(large, 8.0)
    queue.add(small)
    taken = {"large": 0, "small": 0}
    while taken["large"] + taken["small"] < 4500:
        for request, _ in queue.take(100):
            taken[request.reading] += 1
    assert taken["small"] / taken["large"] == pytest.approx(8.0, rel=0.05)
