"""Random numbers that are functions of their place alone: an order of the numbers below n, and shares."""

import numpy as np

_WORD = (1 << 64) - 1
_ROUNDS = 4


class Permutation:
    """A bijection of ``0 … size - 1``, drawn by a seed: a Feistel network whose values beyond the size walk on."""

    def __init__(self, size: int, *seed: int) -> None:
        self._size = size
        self._half = max(1, ((size - 1).bit_length() + 1) // 2)
        self._keys = [int(key) for key in np.random.SeedSequence(seed).generate_state(_ROUNDS, np.uint64)]

    def __call__(self, number: int) -> int:
        """The number that stands in this place."""
        number = self._mix(number)
        while number >= self._size:
            number = self._mix(number)
        return number

    def _mix(self, number: int) -> int:
        mask = (1 << self._half) - 1
        left, right = number >> self._half, number & mask
        for key in self._keys:
            left, right = right, left ^ (_scramble(right ^ key) & mask)
        return left << self._half | right


def uniform(*seed: int) -> float:
    """A number from 0 up to, not including, 1."""
    state = 0
    for number in seed:
        state = _scramble((state + number + 0x9E3779B97F4A7C15) & _WORD)
    return (state >> 11) / (1 << 53)


def _scramble(number: int) -> int:
    """splitmix64's last step (Steele et al. 2014)."""
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _WORD
    return number ^ number >> 31
