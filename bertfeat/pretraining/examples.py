"""Training examples: sequences drawn from a corpus, pieces of them masked, and the batches that models take.

Devlin et al. 2019, section 3.1 and appendices A.1 and A.2. A sequence has one segment or two; half of the time, the
second one does not follow the first. 15 % of the pieces are predicted, and of these 80 % become ``[MASK]``, 10 % a
random piece, and 10 % stay as they are. A sequence depends only on the seed, the epoch and its number in the epoch,
so that any sequence can be made at any time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertfeat.errors import CorpusError, parameter
from bertfeat.pretraining.corpus import DocumentRanges, TokenStore, last_word_start
from bertfeat.pretraining.settings import MaskShares, Objective, PretrainingSettings, parse_mask
from bertfeat.ragged import offsets_of

# ── segments ────────────────────────────────────────────────────────────────────────────────────────────────


SHORTER = 0.1
"""Share of the sequences that are of a random length, as in the paper's code (``short_seq_prob``)."""

_ORDER, _DRAW = 1, 3  # parts of a seed that say what random numbers are for; corpus.py uses 0, training.py 4

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

    An epoch has as many sequences as are needed to read each document once; they are spread evenly over each document,
    and shifted anew in each epoch.
    """

    def __init__(self, store: TokenStore, ranges: DocumentRanges, objective: Objective, length: int, seed: int) -> None:
        self._store, self._pairs, self._seed = store, objective.has_pairs, seed
        self._ranges = ranges.where(ranges.lengths >= (2 if self._pairs else 1))
        self._room = length - (3 if self._pairs else 2)  # without special tokens
        lengths = self._ranges.lengths
        self._counts = -(-lengths // self._room)  # sequences of each document
        self._first = offsets_of(self._counts)  # number of each document's first sequence
        self._before = offsets_of(lengths)  # pieces before each document
        self._epoch = -1
        if self._pairs and len(self._ranges) < 2:
            remedy = (
                f"say where documents begin: {parameter('document_column')}, blank lines in text files, or a file for "
                f"each; or give {parameter('objective', str(Objective.MLM))}"
            )
            problem = "the corpus is one document; segments that are not the next come from another"
            raise CorpusError(problem, remedy=remedy)

    def __len__(self) -> int:
        """The number of sequences in an epoch."""
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

        One with room for less than half a sequence before the document's end begins at the document's start instead,
        which few others reach.
        """
        start, end = int(self._ranges.starts[document]), int(self._ranges.ends[document])
        place = (number + float(self._shifts[document])) / int(self._counts[document])
        position = start + int(place * (end - start))
        return start if end - position < self._room // 2 else position

    def _stretch(self, document: int, position: int, length: int) -> Segment:
        """Up to ``length`` pieces from the start of the sentence around a position, or an earlier one near the end."""
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


# ── masks ───────────────────────────────────────────────────────────────────────────────────────────────────


UNPREDICTED = -100
"""The label of a piece that is not predicted, as transformers has it."""

Ids = NDArray[np.int64]


class Masker:
    """Draws the pieces of a sequence that are predicted.

    ``rate`` is their share; ``ordinary`` is true for each id of the vocabulary that is not a special token, ``[V]``.
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
        is the rate times that of all, rounded up or down by chance, and at least 1. With ``whole_words`` they are
        whole words in random order, with as many pieces in all, or fewer where the last words do not fit.
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
        chosen = np.sort(chosen)
        labels[chosen] = ids[chosen]
        seen, draw = ids.copy(), rng.random(len(chosen)) * 100
        seen[chosen[draw < self._shares.masked]] = self._mask_id
        random = chosen[(draw >= self._shares.masked) & (draw < self._shares.masked + self._shares.random)]
        seen[random] = rng.choice(self._pieces, len(random))
        return seen, labels

    def guesses(self, seen: Ids, frequencies: NDArray[np.float64]) -> "ContextFreeGuesses":
        """Compute the chances of predicted pieces by the piece that is seen in each place, and by nothing around it.

        ``seen`` are the ids in those places, ``[P]``; ``frequencies`` of all pieces add up to 1, ``[V]``.
        """
        covered = seen == self._mask_id
        copied = np.where(covered, 0, self._shares.kept * frequencies[seen])
        drawn = np.where(covered, 1, self._shares.random / len(self._pieces))
        return ContextFreeGuesses(seen, copied, drawn, frequencies)


@dataclass(frozen=True, slots=True)
class ContextFreeGuesses:
    """The probabilities of each piece in the predicted places, by Bayes' rule from the mask shares and the seen piece.

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


# ── examples and batches ────────────────────────────────────────────────────────────────────────────────────


Batch = dict[str, Tensor]
"""The arguments of a model's ``forward``, and ``unmasked_ids``; ``[S, T]`` each, ``next_sentence_label`` ``[S]``."""


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The ids around and between segments, and which ids stand for pieces of texts."""

    cls: int
    sep: int
    pad: int
    mask: int
    ordinary: NDArray[np.bool_]  # [V], False for special tokens


@dataclass(frozen=True, slots=True)
class Example:
    """One sequence. Shapes: ``[T]``."""

    ids: Ids  # as the text has them
    seen: Ids  # as the model sees them
    types: Ids  # 0 for the first segment, 1 for the second
    labels: Ids
    is_next: bool


class SequenceExamples(Sequence[Example]):
    """The examples of a training in their order, each made when it is asked for.

    Number i is sequence i mod n of epoch i // n, where n is the number of sequences of an epoch.
    """

    def __init__(
        self,
        store: TokenStore,
        ranges: DocumentRanges,
        settings: PretrainingSettings,
        special: SpecialTokens,
        count: int | None = None,
    ) -> None:
        self._store, self.special, self.objective = store, special, settings.goal
        self._drawer = SegmentDrawer(store, ranges, settings.goal, settings.max_length, settings.seed)
        left_to_right = MaskShares(masked=100, random=0, kept=0)  # a piece that is predicted is not seen
        self.masker = Masker(
            parse_mask(settings.mask) if settings.goal.has_masks else left_to_right,
            settings.mask_rate,
            whole_words=settings.whole_words,
            mask_id=special.mask,
            ordinary=special.ordinary,
        )
        self._count = len(self._drawer) if count is None else count

    @property
    def epoch(self) -> int:
        """The number of sequences of an epoch."""
        return len(self._drawer)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> Example:  # type: ignore[override]  # nobody slices them
        if not 0 <= number < self._count:
            raise IndexError(number)
        segments, rng = self._drawer.draw(*divmod(number, self.epoch))
        ids, types, starts = self._joined(segments.first, segments.second)
        if self.objective is Objective.LTR:
            seen, labels = ids, np.where(self.special.ordinary[ids], ids, UNPREDICTED)
        else:
            seen, labels = self.masker.mask(ids, starts, rng)
        return Example(ids, seen, types, labels, segments.is_next)

    def _joined(self, first: tuple[int, int], second: tuple[int, int] | None) -> tuple[Ids, Ids, NDArray[np.bool_]]:
        """Ids, segment ids and starts of words of ``[CLS] first [SEP] second [SEP]``.

        The first piece of a segment begins a word, though that word may have begun before.
        """
        ids: list[Ids] = [np.array([self.special.cls])]
        starts: list[NDArray[np.bool_]] = [np.array([True])]
        sizes = [1]
        for segment in (first, second):
            if segment is not None:
                ids += [self._store.ids(*segment), np.array([self.special.sep])]
                starts += [self._store.starts(*segment), np.array([True])]
                starts[-2][0] = True
                sizes.append(segment[1] - segment[0] + 1)
        sizes = [sizes[0] + sizes[1], *sizes[2:]]
        return np.concatenate(ids), np.repeat(np.arange(len(sizes)), sizes), np.concatenate(starts)


_PADS = {"token_type_ids": 0, "labels": UNPREDICTED, "attention_mask": 0}


@dataclass(frozen=True, slots=True)
class Collator:
    """Makes batches of examples, padded to the longest one."""

    pad: int
    has_types: bool  # whether the model tells segments apart
    has_pairs: bool
    keeps_unmasked: bool  # whether the ids before masking are wanted

    def __call__(self, examples: Sequence[Example]) -> Batch:
        """Pad and stack: ``[T]`` each → ``[S, longest]``."""
        columns: dict[str, list[Ids]] = {
            "input_ids": [example.seen for example in examples],
            "attention_mask": [np.ones_like(example.ids) for example in examples],
            "labels": [example.labels for example in examples],
        }
        if self.has_types:
            columns["token_type_ids"] = [example.types for example in examples]
        if self.keeps_unmasked:
            columns["unmasked_ids"] = [example.ids for example in examples]
        batch = {name: _padded(rows, _PADS.get(name, self.pad)) for name, rows in columns.items()}
        if self.has_pairs:
            batch["next_sentence_label"] = torch.tensor([int(not example.is_next) for example in examples])
        return batch


def _padded(rows: Sequence[Ids], pad: int) -> Tensor:
    table = np.full((len(rows), max(map(len, rows))), pad, np.int64)
    for row, values in zip(table, rows, strict=True):
        row[: len(values)] = values
    return torch.from_numpy(table)
