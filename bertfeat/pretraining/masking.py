"""Masking: the pieces of a sequence that are predicted, and those that the model sees in their places.

Devlin et al. 2019, section 3.1 and appendix A.1: 15 % of the pieces are predicted; of these 80 % become ``[MASK]``,
10 % a random piece, and 10 % stay as they are.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.pretraining.settings import MaskShares

UNPREDICTED = -100
"""The label of a piece that is not predicted, as transformers has it."""

Ids = NDArray[np.int64]


class Masker:
    """Draws the pieces of a sequence that are predicted.

    ``rate`` is their share; ``ordinary`` says of each id of the vocabulary whether it is no special token, ``[V]``.
    """

    def __init__(
        self, shares: MaskShares, rate: float, *, whole_words: bool, mask_id: int, ordinary: NDArray[np.bool_]
    ) -> None:
        self._shares, self._rate, self._whole_words = shares, rate, whole_words
        self._mask_id, self._ordinary = mask_id, ordinary
        self._pieces = np.flatnonzero(ordinary)

    def mask(self, ids: Ids, starts: NDArray[np.bool_], rng: np.random.Generator) -> tuple[Ids, Ids]:
        """The ids that the model sees, and the labels: the ids of the predicted pieces. Shapes: ``[T]``.

        ``starts``: whether a piece begins a word. Special tokens are never predicted. The number of predicted pieces
        is the rate times that of all, rounded up or down by chance, and at least 1. With ``whole_words`` as many
        words as have that many pieces in all, taken in random order.
        """
        places = np.flatnonzero(self._ordinary[ids])
        labels = np.full(len(ids), UNPREDICTED, np.int64)
        if not len(places):
            return ids, labels
        count = max(1, int(self._rate * len(places) + rng.random()))
        if self._whole_words:
            chosen = places[_whole_words(np.cumsum(starts[places]), count, rng)]
        else:
            chosen = rng.choice(places, count, replace=False, shuffle=False)
        labels[chosen] = ids[chosen]
        return self._cover(ids, np.sort(chosen), rng), labels

    def guesses(self, seen: Ids, frequencies: NDArray[np.float64]) -> "ContextFreeGuesses":
        """Compute the chances of predicted pieces by the piece that is seen in each place, and by nothing around it.

        ``seen`` are the ids in those places, ``[P]``; ``frequencies`` of all pieces add up to 1, ``[V]``.
        """
        covered = seen == self._mask_id
        copied = np.where(covered, 0, self._shares.kept * frequencies[seen])
        drawn = np.where(covered, 1, self._shares.random / len(self._pieces))
        return ContextFreeGuesses(seen, copied, drawn, frequencies)

    def _cover(self, ids: Ids, chosen: Ids, rng: np.random.Generator) -> Ids:
        seen, draw = ids.copy(), rng.random(len(chosen)) * 100
        seen[chosen[draw < self._shares.masked]] = self._mask_id
        random = chosen[(draw >= self._shares.masked) & (draw < self._shares.masked + self._shares.random)]
        seen[random] = rng.choice(self._pieces, len(random))
        return seen


@dataclass(frozen=True, slots=True)
class ContextFreeGuesses:
    """The chances of each piece in the places that are predicted: by Bayes' rule, from how masking made what is seen.

    A piece that is seen was kept, or drawn in place of another one: its chance is ``copied + drawn * frequency``, that
    of any other ``drawn * frequency``, both over ``copied + drawn``. Where a piece is masked nothing can be copied.
    """

    seen: Ids  # [P]
    copied: NDArray[np.float64]  # [P]
    drawn: NDArray[np.float64]  # [P]
    frequencies: NDArray[np.float64]  # [V]

    def loss(self, labels: Ids) -> float:
        """Mean of the negative logarithms of the right pieces' chances. Shape: ``[P]``."""
        right = self.drawn * self.frequencies[labels] + np.where(labels == self.seen, self.copied, 0)
        return float(-np.log(right / (self.copied + self.drawn)).mean()) if len(labels) else 0.0

    def accuracy(self, labels: Ids) -> float:
        """Share of the places whose likeliest piece is the right one. Shape: ``[P]``."""
        most = int(self.frequencies.argmax())
        stays = self.copied + self.drawn * self.frequencies[self.seen] > self.drawn * self.frequencies[most]
        return float((np.where(stays, self.seen, most) == labels).mean()) if len(labels) else 0.0


def _whole_words(words: Ids, count: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Choose whole words of ``count`` pieces in all, fewer where the last ones do not fit; at least one word.

    ``words``: the number of each piece's word. Shape: ``[P]``.
    """
    names, sizes = np.unique(words, return_counts=True)
    taken, left = [], count
    for at in rng.permutation(len(names)):
        if sizes[at] <= left:
            taken.append(names[at])
            left -= sizes[at]
        if not left:
            break
    return np.isin(words, taken or names[sizes.argmin()])
