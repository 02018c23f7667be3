"""Tagged sentences of a feature set: in memory where they fit a budget, else in chunks read anew each time."""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bertfeat.derivation import Derivation
from bertfeat.errors import BertfeatError, TaggerError, parameter
from bertfeat.features import FeatureSet, list_offsets, piece_offsets, stored_matrices
from bertfeat.io import prefetched
from bertfeat.recipe import FeatureColumn
from bertfeat.tagging.feature_digests import parts_digest

_BLOCKS = 16  # that a chunk is put together from, so that each epoch's chunks are other ones
_SCAN = 8192  # sentences at a time whose tags alone are read


@dataclass(frozen=True, slots=True)
class SentenceChunk:
    """Sentences with the features of their words, flat: S sentences, N words, W width."""

    offsets: NDArray[np.int64]  # [S+1]
    features: NDArray[np.floating]  # [N, W] float16 or float32
    tags: tuple[str, ...]  # [N], or none

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def tags_of(self, sentence: int) -> tuple[str, ...]:
        """The tags of one sentence."""
        return self.tags[self.offsets[sentence] : self.offsets[sentence + 1]]


class SentenceStore:
    """The sentences of a feature set that have words, with what a tagger reads of them (its ``derivation``).

    At most ``budget`` bytes of features are held. Sets that fit are read once and kept; of larger ones each pass
    reads chunks of half the budget, the next while one is used. A chunk is made of blocks from all over the set, in
    an order that ``seed`` decides, so that training sees them shuffled.

    Raises:
        TaggerError: its words have no tags, though ``tagged`` asks for them.
    """

    def __init__(self, features: FeatureSet, derivation: Derivation, budget: int, *, tagged: bool = True) -> None:
        self.folder = features.folder
        self.origin = describe_source(features)  # for messages
        self.digest = parts_digest(features)
        self._features = features
        self._derivation = derivation
        if tagged and "tags" not in features.names:
            raise TaggerError(
                "its words have no tags",
                where=describe_source(features),
                remedy=f"CoNLL files bring them, and JSONL, CSV or Parquet by {parameter('pretokenized', True)} and "
                f"{parameter('tag_column')}",
            )
        self._tagged = tagged
        self._stored = [column for column in features.columns if column.name in self._derivation.columns]
        self.dtype = _input_dtype(self._derivation, self._stored)
        self.width = self._derivation.width
        self._rows, self.lengths = self._scan()
        self._budget = budget
        self._kept: SentenceChunk | None = None

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def words(self) -> int:
        """Number of words."""
        return int(self.lengths.sum())

    @property
    def bytes(self) -> int:
        """Size of all features in memory."""
        return self.words * self.width * self.dtype.itemsize

    @property
    def fits(self) -> bool:
        """Whether all features are kept in memory."""
        return self.bytes <= self._budget

    def tags(self) -> Iterator[tuple[str, ...]]:
        """The tags of each sentence, in order; nothing else is read."""
        for batch in self._features.stream(["tags"], batch_rows=_SCAN):
            for tags in batch.column("tags").to_pylist():
                if tags:
                    yield tuple(tags)

    def check_unchanged(self) -> None:
        """Check that the set did not change since it was opened.

        Raises:
            TaggerError: it was changed since, or is being changed.
        """
        try:
            now = FeatureSet(self.folder, allow_unfinished=self._features.manifest is None)
        except BertfeatError as error:
            raise TaggerError(f"{self.folder} was changed while it was read: {error}") from error
        if parts_digest(now) != self.digest:
            raise TaggerError(f"{self.folder} was changed while it was read", remedy="run the same command again")

    def chunks(self, seed: Sequence[int] | None = None) -> Generator[SentenceChunk]:
        """All sentences, a chunk at a time: in order, or in chunks of blocks that ``seed`` shuffles."""
        if self.fits:
            if self._kept is None:
                self._kept = self._read(self._blocks)
            yield self._kept
            return
        order = np.arange(len(self._blocks))
        if seed is not None:
            np.random.default_rng(seed).shuffle(order)
        most = self._budget // 2  # one is used while the next is read
        yield from prefetched(self._read(blocks) for blocks in self._portions(order, most))

    @cached_property
    def _blocks(self) -> list[tuple[int, int]]:
        """Ranges of sentences, each a small share of what is held at once (or one sentence that is larger)."""
        size = max(1, self._budget // (2 * _BLOCKS) // (self.width * self.dtype.itemsize))  # words
        ends = np.cumsum(self.lengths)
        bounds = [0]
        while bounds[-1] < len(self):
            before = ends[bounds[-1] - 1] if bounds[-1] else 0
            bounds.append(max(bounds[-1] + 1, int(np.searchsorted(ends, before + size, side="right"))))
        return list(pairwise(bounds))

    def _portions(self, order: NDArray[np.int64], most: int) -> Iterator[list[tuple[int, int]]]:
        portion: list[tuple[int, int]] = []
        held = 0
        for number in order:
            first, last = self._blocks[number]
            size = int(self.lengths[first:last].sum()) * self.width * self.dtype.itemsize
            if portion and held + size > most:
                yield portion
                portion, held = [], 0
            portion.append((first, last))
            held += size
        if portion:
            yield portion

    def _scan(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Rows and lengths of the sentences that have words."""
        rows: list[NDArray[np.int64]] = []
        lengths: list[NDArray[np.int32]] = []
        for batch in self._features.stream(["row", "word_start"], batch_rows=_SCAN):
            counts = np.diff(list_offsets(batch, "word_start"))
            rows.append(batch.column("row").to_numpy()[counts > 0])
            lengths.append(counts[counts > 0].astype(np.int32))
        if not sum(map(len, rows)):
            raise TaggerError("there is no sentence with words in it", where=self.folder)
        return np.concatenate(rows), np.concatenate(lengths)

    def _read(self, blocks: Sequence[tuple[int, int]]) -> SentenceChunk:
        counts = np.concatenate([self.lengths[first:last] for first, last in blocks])
        offsets = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
        features = np.empty((int(offsets[-1]), self.width), self.dtype)
        tags: list[str] = []
        at = 0
        names = ["row", *self._derivation.columns, *(["tags"] if self._tagged else [])]
        for first, last in _merge_blocks(blocks):
            start, stop = int(self._rows[first]), int(self._rows[last - 1]) + 1
            for batch in self._features.stream(names, start=start, stop=stop):
                matrices = stored_matrices(batch, self._stored)
                count = int(piece_offsets(batch, self._stored[0])[-1])
                features[at : at + count] = self._derivation.apply(matrices)
                at += count
                if self._tagged:
                    tags.extend(batch.column("tags").flatten().to_pylist())
        return SentenceChunk(offsets, features, tuple(tags))


def describe_source(features: FeatureSet) -> str:
    """A feature set and the corpus that it was made from, for messages."""
    return f"{features.folder} (of {', '.join(features.sources[:3])})" if features.sources else str(features.folder)


def _merge_blocks(blocks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Neighbouring blocks as one."""
    first, last = blocks[0]
    for start, stop in blocks[1:]:
        if start != last:
            yield first, last
            first = start
        last = stop
    yield first, last


def _input_dtype(derivation: Derivation, stored: Sequence[FeatureColumn]) -> np.dtype[np.floating]:
    """float16 where that is what is stored and nothing was computed with it, else float32."""
    copied = (derivation.concat or len(derivation.terms) == 1) and all(term.weight == 1.0 for term in derivation.terms)
    return np.dtype(np.float16 if copied and all(column.dtype == "float16" for column in stored) else np.float32)
