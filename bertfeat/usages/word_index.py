"""The word index of a feature set: every word of its texts in the order of the corpus, and the places of each word.

A word is kept as its number in the vocabulary, and a place is the number of words before it, as in the corpus
workbenches of linguists (Christ 1994). So neighbors, phrases and counts are arithmetic on arrays, and no text is read.
Words are those of the set, without case; where a set keeps the vectors of chosen words only, those of its texts.

The index is made by the first look-up and lies in ``.bertfeat/words.arrow`` in the set's folder, or in the user's cache
where that folder cannot be written. It can be deleted at any time. It is mapped into memory, not read.

Shapes: D documents, T texts (two a document in sets of pairs), N words, V different words, n hits.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bertfeat.core import WORDS_NAME, CharSpans, FeatureSet, WordList, WordQuery, fold_word, is_word
from bertfeat.errors import DamagedError, StorageError
from bertfeat.io import STATE_FOLDER, user_cache_folder
from bertfeat.progress import ProgressOption, StepProgress, telling
from bertfeat.ragged import offsets_of
from bertfeat.usages.word_index_file import read_arrays, stores_all_words, write_word_index


@dataclass(frozen=True, slots=True)
class Hits:
    """The places at which a word, or several that follow one another, were found; ascending."""

    first: NDArray[np.int64]  # [n] the place of the first word
    length: NDArray[np.int64]  # [n] the number of words, mostly 1

    @classmethod
    def of_words(cls, places: NDArray[np.int64]) -> Self:
        """Hits of one word each."""
        return cls(places, np.ones(len(places), np.int64))

    def __len__(self) -> int:
        return len(self.first)

    def __getitem__(self, chosen: slice | NDArray[np.integer] | NDArray[np.bool_]) -> Self:
        return type(self)(self.first[chosen], self.length[chosen])


@dataclass(frozen=True)
class WordIndex:
    """A word index that is mapped into memory."""

    path: Path
    rows: NDArray[np.int64]  # [D] the row of each document
    counts: NDArray[np.int64]  # [D] the number of its words, without punctuation marks
    texts: NDArray[np.int64]  # [T+1] the place of the first word of each text
    vocabulary: pa.LargeStringArray  # [V] the different words without case, sorted
    ends: NDArray[np.int64]  # [V+1] where the places of each different word begin in `places`
    words: NDArray[np.unsignedinteger]  # [N] the number of each word in the vocabulary
    places: NDArray[np.unsignedinteger]  # [N] the places of each different word, ascending
    starts: NDArray[np.unsignedinteger]  # [N] where each word begins in its text, in characters
    lengths: NDArray[np.unsignedinteger]  # [N] its number of characters
    tag_names: pa.LargeStringArray  # the different tags; none where the set has no tags
    tags: NDArray[np.unsignedinteger]  # [N] the number of each word's tag; [0] where there are none

    @classmethod
    def of_text(cls, words: Sequence[str], spans: CharSpans) -> Self:
        """The index of one text, in memory, of words that lie at ``spans``."""
        folded = list(map(fold_word, words))
        vocabulary = sorted(set(folded))
        known = {word: number for number, word in enumerate(vocabulary)}
        numbers = np.array([known[word] for word in folded], np.uint32)
        return cls(
            path=Path(),
            rows=np.zeros(1, np.int64),
            counts=np.array([sum(map(is_word, folded))]),
            texts=np.array([0, len(numbers)]),
            vocabulary=pa.array(vocabulary, pa.large_string()),
            ends=offsets_of(np.bincount(numbers, minlength=len(vocabulary))),
            words=numbers,
            places=np.argsort(numbers, kind="stable").astype(np.uint32),
            starts=spans.start.astype(np.uint32),
            lengths=(spans.end - spans.start).astype(np.uint32),
            tag_names=pa.array([], pa.large_string()),
            tags=np.zeros(0, np.uint8),
        )

    # ── look-up ─────────────────────────────────────────────────────────────────────────────────────────────

    def find(self, query: WordQuery) -> Hits:
        """Find the places of a word, of several in a row, or of words that begin alike.

        The words that give its key are found one after the other: those that begin it, then those that go on.
        """
        key = query.key
        matched: defaultdict[int, list[Hits]] = defaultdict(list)  # hits of the key's first characters, by their number
        for numbers, length in self._words_that_begin(key, longer=query.begins):
            matched[length].append(Hits.of_words(self._places_of(numbers)))
        for at in range(1, len(key)):
            hits = _join_hits(matched.pop(at, []))
            stop = hits.first + hits.length
            hits = hits[stop < len(self.words)]
            if not len(hits):
                continue
            rest, following = key[at:].lstrip(" "), self.words[hits.first + hits.length]
            for numbers, length in self._words_that_begin(rest, longer=query.begins):
                longer = hits[(following >= numbers.start) & (following < numbers.stop)]
                after = longer.first + longer.length
                longer = longer[self.go_on(after) & (self.adjoin(after) == (key[at] != " "))]
                matched[len(key) - len(rest) + length].append(Hits(longer.first, longer.length + 1))
        return _join_hits(matched[len(key)])

    def find_listed(self, words: WordList) -> Hits:
        """Find every word that a list chooses, each by itself."""
        hits = _join_hits([self.find(query) for query in words.queries])
        longest = int(hits.length.max(initial=0))
        places = [hits.first[hits.length > at] + at for at in range(longest)]
        return Hits.of_words(self.without_marks(np.unique(np.concatenate([np.empty(0, np.int64), *places]))))

    def without_marks(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The places among some at which more than a punctuation mark stands."""
        chosen: NDArray[np.int64] = places[self.letters[self.words[places]]]
        return chosen

    @cached_property
    def letters(self) -> NDArray[np.bool_]:
        """Mask of the different words that are more than a punctuation mark, ``[V]``."""
        letters: NDArray[np.bool_] = np.array(pc.match_substring_regex(self.vocabulary, "[0-9A-Za-z]"))
        others = np.flatnonzero(~letters)
        letters[others] = [is_word(word) for word in self.spell(others)]
        return letters

    def go_on(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether a text goes on from the word before each place to one that is at it; ``[n]``."""
        inside = (places > 0) & (places < len(self.words))
        at = np.flatnonzero(inside)
        inside[at] = self.texts[np.searchsorted(self.texts, places[at])] != places[at]
        return inside

    def adjoin(self, places: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether words stand where the one before them ends, if it is in their text; ``[n]``."""
        adjoin: NDArray[np.bool_] = (
            self.starts[places] == self.starts[places - 1].astype(np.int64) + self.lengths[places - 1]
        )
        return adjoin

    def _words_that_begin(self, key: str, *, longer: bool) -> Iterator[tuple[range, int]]:
        """The numbers of the words that a key begins with, and of how many of its characters.

        With ``longer`` also those of the words that begin with the key.
        """
        for length in range(1, len(key) + (not longer)):
            number = bisect_left(self.vocabulary, key[:length], key=str)
            word = str(self.vocabulary[number]) if number < len(self.vocabulary) else ""
            if word == key[:length]:
                yield range(number, number + 1), length
            elif not word.startswith(key[:length]):
                break  # no word does, and none begins with more of the key
        if longer:
            begin = bisect_left(self.vocabulary, key, key=str)
            yield (
                range(begin, bisect_right(self.vocabulary, key, begin, key=lambda word: str(word)[: len(key)])),
                len(key),
            )

    def _places_of(self, numbers: range) -> NDArray[np.int64]:
        """The places of some words of the vocabulary, ascending."""
        places = self.places[self.ends[numbers.start] : self.ends[numbers.stop]].astype(np.int64)
        return np.sort(places) if len(numbers) > 1 else places

    # ── places ──────────────────────────────────────────────────────────────────────────────────────────────

    def text_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the text in which each place lies, ``[n]``."""
        texts: NDArray[np.int64] = np.searchsorted(self.texts, places, side="right") - 1
        return texts

    def document_of(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The number of the document in which each place lies, ``[n]``."""
        return self.text_of(places) // self.texts_per_document

    def characters(self, hits: Hits) -> NDArray[np.int64]:
        """The characters at which each hit begins and ends, ``[n, 2]``."""
        last = hits.first + hits.length - 1
        end = self.starts[last].astype(np.int64) + self.lengths[last]
        return np.stack([self.starts[hits.first].astype(np.int64), end], axis=1)

    def strings(self, places: NDArray[np.int64]) -> list[str]:
        """The words at some places, without case."""
        return self.spell(self.words[places])

    def spell(self, numbers: NDArray[np.integer]) -> list[str]:
        """The words of some numbers in the vocabulary."""
        words: list[str] = self.vocabulary.take(pa.array(numbers)).to_pylist()
        return words

    def are_words(self, places: NDArray[np.int64], words: Sequence[str]) -> NDArray[np.bool_]:
        """Mask of the places at which one of some words without case stands, ``[n]``."""
        numbers = pc.index_in(pa.array(words, pa.large_string()), self.vocabulary).drop_null().to_numpy()
        chosen: NDArray[np.bool_] = np.isin(self.words[places], numbers)
        return chosen

    def neighbors(
        self, first: NDArray[np.int64], places: NDArray[np.int64], bounds: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The numbers of the words at ``places`` near hits, ``[n]``; -1 where these are outside of the hit's text.

        Or outside of ``bounds`` ``[n, 2]``, some of its characters.
        """
        texts = self.text_of(first)
        inside = np.flatnonzero((places >= self.texts[texts]) & (places < self.texts[texts + 1]))
        start, end = self.characters(Hits.of_words(places[inside])).T
        inside = inside[(start >= bounds[inside, 0]) & (end <= bounds[inside, 1])]
        numbers = np.full(len(places), -1, np.int64)
        numbers[inside] = self.words[places[inside]]
        return numbers

    @cached_property
    def texts_per_document(self) -> int:
        """Two in sets of pairs, else one."""
        return (len(self.texts) - 1) // max(1, len(self.rows))

    def damaged(self, what: str) -> DamagedError:
        """The error of an index that holds something that is not so."""
        return DamagedError(
            f"the word index holds {what}", where=self.path, remedy="delete it: the next look-up makes it again"
        )


def _join_hits(found: Sequence[Hits]) -> Hits:
    """All of several hits, ascending."""
    first = np.concatenate([np.empty(0, np.int64), *(hits.first for hits in found)])
    length = np.concatenate([np.empty(0, np.int64), *(hits.length for hits in found)])
    return Hits(first, length)[np.argsort(first, kind="stable")]


def open_word_index(features: FeatureSet, *, progress: ProgressOption[StepProgress] = None) -> WordIndex:
    """Open the word index of a feature set with texts, which is made first if there is none, or if the set changed.

    Raises:
        StorageError: it cannot be written anywhere.
        DamagedError: a part of the set is damaged.
    """
    key = _identity(features)
    paths = list(_possible_paths(features))
    for path in paths:
        if (arrays := read_arrays(path, key)) is not None:
            return WordIndex(path, **arrays)
    with telling(progress) as tell:
        for path in paths:
            try:
                write_word_index(features, path, key, tell)
            except StorageError:
                if path == paths[-1]:
                    raise
            if (arrays := read_arrays(path, key)) is not None:
                return WordIndex(path, **arrays)
    raise StorageError("another program replaces the word index", where=paths[-1], remedy="try again")


def _identity(features: FeatureSet) -> str:
    """The digest of what a word index is made from."""
    parts = "".join(entry.sha256 for entry in features.entries)
    if not stores_all_words(features):
        parts += features.header.settings.word_rule.record  # texts are split anew, which another version does otherwise
    return hashlib.sha256(parts.encode()).hexdigest()


def _possible_paths(features: FeatureSet) -> Iterator[Path]:
    """The files in which the index may be, the best one first: beside the features, else in the user's cache."""
    folder = features.folder
    if isinstance(folder, Path):
        folder = folder.absolute()
        if (folder / STATE_FOLDER).is_dir():  # it is not made here, where only features are read
            yield folder / WORDS_NAME
    name = hashlib.sha256(str(folder).encode("utf-8", "surrogateescape")).hexdigest()[:32]
    yield user_cache_folder("words") / f"{name}.arrow"
