"""Sequences drawn from a corpus: one segment, or two, of which the second half of the time is not the next one.

Devlin et al. 2019, section 3.1 and appendix A.2. Which pieces sequence ``number`` of an epoch has follows from the
seed, the epoch and the number alone, so that any of them can be made at any time.
"""

from dataclasses import dataclass

import numpy as np

from bertfeat.errors import CorpusError, parameter
from bertfeat.pretraining.ranges import DocumentRanges
from bertfeat.pretraining.settings import Objective
from bertfeat.pretraining.token_store import TokenStore, last_word_start

SHORTER = 0.1
"""Share of the sequences that are of a random length, as in the paper's code (``short_seq_prob``)."""

_ORDER, _DRAW = 1, 3  # what a random number is for

Segment = tuple[int, int]
"""The range of a segment's pieces in the store: its start, and its end, exclusive."""


@dataclass(frozen=True, slots=True)
class Segments:
    """The segments of one sequence."""

    first: Segment
    second: Segment | None = None
    is_next: bool = True


class SegmentDrawer:
    """Draws the segments of sequences from ranges of a store.

    An epoch has as many sequences as are needed to read each document once; they lie evenly over it, from another
    place on in each epoch.
    """

    def __init__(self, store: TokenStore, ranges: DocumentRanges, objective: Objective, length: int, seed: int) -> None:
        self._store, self._pairs, self._seed = store, objective.has_pairs, seed
        self._ranges = ranges.where(ranges.lengths >= (2 if self._pairs else 1))
        self._room = length - (3 if self._pairs else 2)  # without special tokens
        lengths = self._ranges.lengths
        self._counts = -(-lengths // self._room)  # sequences of each document
        self._first = np.concatenate(([0], np.cumsum(self._counts)))
        self._before = np.concatenate(([0], np.cumsum(lengths)))
        self._epoch = -1
        if self._pairs and len(self._ranges) < 2:
            remedy = (
                f"say where documents begin: {parameter('document_column')}, blank lines in text files, or a file for "
                f"each; or give {parameter('objective', str(Objective.MLM))}"
            )
            problem = "the corpus is one document; segments that are not the next come from another"
            raise CorpusError(problem, remedy=remedy)

    def __len__(self) -> int:
        """The sequences of an epoch."""
        return int(self._first[-1])

    def draw(self, epoch: int, number: int) -> tuple[Segments, np.random.Generator]:
        """The segments of a sequence, and the generator for the rest of what is random in it."""
        if epoch != self._epoch:
            self._begin_epoch(epoch)
        place = int(self._order[number])
        rng = _generator(self._seed, _DRAW, epoch, place)
        document = int(np.searchsorted(self._first, place, side="right")) - 1
        position = self._position(document, place - int(self._first[document]))
        room = int(rng.integers(2, self._room + 1)) if rng.random() < SHORTER else self._room
        start, end = self._stretch(document, position, room)
        if self._pairs and end - start < 2:
            end = min(start + 2, int(self._ranges.ends[document]))
            start = end - 2
        return (self._pair(document, start, end, rng) if self._pairs else Segments((start, end))), rng

    def _begin_epoch(self, epoch: int) -> None:
        """Draw in which order the sequences of an epoch come, and how far those of each document are shifted."""
        rng = _generator(self._seed, _ORDER, epoch)
        self._epoch, self._order, self._shifts = epoch, rng.permutation(len(self)), rng.random(len(self._ranges))

    def _position(self, document: int, number: int) -> int:
        """Return the rough start of sequence ``number`` of a document: evenly spread, shifted anew in each epoch.

        Of those that would run over the document's end the last half begin at its start, which few others reach.
        """
        start, end = int(self._ranges.starts[document]), int(self._ranges.ends[document])
        place = (number + float(self._shifts[document])) / int(self._counts[document])
        position = start + int(place * (end - start))
        return start if end - position < self._room // 2 else position

    def _stretch(self, document: int, position: int, length: int) -> Segment:
        """Up to so many pieces from the sentence around a position on, or from an earlier one near the end."""
        lowest, highest = int(self._ranges.starts[document]), int(self._ranges.ends[document])
        sentences = self._store.sentences
        start = int(sentences[np.searchsorted(sentences, position, side="right") - 1])
        if start + length > highest:
            at = np.searchsorted(sentences, highest - length)
            start = min(start, int(sentences[at])) if at < len(sentences) else start
        start = max(start, lowest)
        end = min(start + length, highest)
        return start, end if end == highest else last_word_start(self._store.pieces, start, end)

    def _pair(self, document: int, start: int, end: int, rng: np.random.Generator) -> Segments:
        """Cut a stretch into two segments; half of the time the second one is taken from another document."""
        cut = self._cut(start, end, rng)
        if rng.random() < 0.5:
            return Segments((start, cut), (cut, end))
        return Segments((start, cut), self._elsewhere(document, end - cut, rng), is_next=False)

    def _cut(self, start: int, end: int, rng: np.random.Generator) -> int:
        """Draw the start of a second segment: that of a sentence, else of a word, else of a piece."""
        sentences = self._store.sentences
        low, high = np.searchsorted(sentences, (start + 1, end))
        if high > low:
            return int(sentences[rng.integers(low, high)])
        words = np.flatnonzero(self._store.starts(start + 1, end))
        return start + 1 + int(rng.choice(words) if len(words) else rng.integers(end - start - 1))

    def _elsewhere(self, document: int, length: int, rng: np.random.Generator) -> Segment:
        """A stretch of at most that length, at a position drawn from all other documents."""
        low, high = int(self._before[document]), int(self._before[document + 1])
        drawn = int(rng.integers(int(self._before[-1]) - (high - low)))
        drawn += high - low if drawn >= low else 0
        other = int(np.searchsorted(self._before, drawn, side="right")) - 1
        return self._stretch(other, int(self._ranges.starts[other]) + drawn - int(self._before[other]), length)


def _generator(*seed: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed))
