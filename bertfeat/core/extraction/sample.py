"""A random sample of things that are seen once, one after the other (reservoir sampling, Vitter 1985)."""

import random
from typing import Generic, TypeVar

T = TypeVar("T")


class Reservoir(Generic[T]):
    """At most ``size`` of the things that were added, each as likely as any other; always the same ones."""

    def __init__(self, size: int) -> None:
        self._size, self._seen, self._draw = size, 0, random.Random(0)
        self.items: list[T] = []
        """The sample."""

    def add(self, item: T) -> None:
        """Take a thing into the sample, or not."""
        self._seen += 1
        at = self._draw.randrange(self._seen)
        if len(self.items) < self._size:
            self.items.append(item)
        elif at < self._size:
            self.items[at] = item
