"""The usages by which a word's change is measured: a random sample of each slice, drawn as they are read.

Shapes: S slices, n usages of each, W width of the feature column.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import FeatureSet, ReadableColumn
from bertfeat.study.settings import ChangeSettings
from bertfeat.usages import Pattern, Site, Usage, look_up
from bertfeat.where import Cut, Slice, slice_number

MEMORY = 2**30
"""Bytes that samples of the vocabulary take at once; for more words the feature set is read again."""

_EVERY_WORD = Pattern.parse("*")
_CHARACTER = 4  # bytes of a character at most
_USAGE = 1000  # bytes of a usage without its context and vector, about


@dataclass(frozen=True, slots=True)
class EqualSample:
    """The same number of usages of every slice, in the order of the slices."""

    units: NDArray[np.float32]  # [S, n, W] of length 1
    usages: Sequence[Sequence[Usage]]  # [S][n]


class WordSample:
    """Usages of a word: a random sample of at most ``settings.most`` from every slice (Vitter 1985, algorithm R)."""

    def __init__(self, word: str, slices: Sequence[Slice], by: str, settings: ChangeSettings) -> None:
        self.word = word
        self.random = np.random.default_rng([settings.seed, *word.encode("utf-8", "surrogatepass")])
        self._slices, self._by, self._settings = slices, by, settings
        self._seen = [0] * len(slices)
        self._units: list[list[NDArray[np.float32]]] = [[] for _ in slices]
        self._usages: list[list[Usage]] = [[] for _ in slices]

    @property
    def counts(self) -> dict[str, int]:
        """The number of usages that were added, by slice, whether they are in the sample or not."""
        return {one.name: seen for one, seen in zip(self._slices, self._seen, strict=True)}

    @property
    def is_enough(self) -> bool:
        """Whether every slice has as many usages as the settings ask for."""
        return min(self._seen) >= self._settings.least

    def add(self, site: Site, unit: NDArray[np.float32]) -> None:
        """Count a usage, and sample it or not; in a full sample it replaces a random earlier usage."""
        at = slice_number(self._slices, site.values[self._by])
        if at is None:
            return
        self._seen[at] += 1
        place = len(self._usages[at])
        if place == self._settings.most:
            place = int(self.random.integers(self._seen[at]))
        if place < self._settings.most:
            # copied, so that one usage does not keep the vectors of its row group in memory
            self._units[at][place : place + 1] = [unit.copy()]
            self._usages[at][place : place + 1] = [site.usage(self._settings.context)]

    def equal(self) -> EqualSample:
        """Draw as many usages of each slice as the smallest sample has, at random from larger ones."""
        number = min(map(len, self._usages))
        chosen = [np.sort(self.random.permutation(len(usages))[:number]).tolist() for usages in self._usages]
        pairs = list(zip(chosen, self._units, self._usages, strict=True))
        return EqualSample(
            np.stack([np.stack([units[at] for at in places]) for places, units, _ in pairs]),
            [[usages[at] for at in places] for places, _, usages in pairs],
        )


@dataclass(frozen=True, slots=True)
class WordReader:
    """Draws the usages of words from a feature set."""

    features: FeatureSet
    column: ReadableColumn
    cut: Cut
    by: str  # the kept column
    settings: ChangeSettings

    def sample_word(self, pattern: Pattern) -> WordSample:
        """Draw the usages of one word; the vectors are read only where it occurs."""
        sample, search = self._begin(pattern.word), look_up(self.features, pattern, self.column)
        for read in search.read_vectors(np.arange(len(search.hits))):
            for site, unit in zip(read.sites, read.matrix, strict=True):
                sample.add(site, unit)
        return sample

    def frequent_words(self) -> list[str]:
        """The words with ``settings.least`` usages in every slice, sorted; a number for each word and slice is held.

        Usages without a vector, which are few, count here.
        """
        search = look_up(self.features, _EVERY_WORD, self.column)
        of_hits = self.cut.of_documents[search.index.document_of(search.hits.first)]
        words, different = search.index.words[search.hits.first], len(search.index.vocabulary)
        counts = [np.bincount(words[of_hits == one], minlength=different) for one in range(len(self.cut.slices))]
        frequent = np.flatnonzero(np.min(counts, axis=0) >= self.settings.least)
        return search.index.spell(frequent)

    def sample_vocabulary(self, words: Iterable[str]) -> Iterator[WordSample]:
        """Draw the usages of many words, reading the feature set once for every :data:`MEMORY` bytes of samples.

        Words that have too few usages with a vector are left out.
        """
        usage_bytes = self.column.width * 4 + 2 * self.settings.context * _CHARACTER + _USAGE
        at_once = max(1, MEMORY // (len(self.cut.slices) * self.settings.most * usage_bytes))
        search = look_up(self.features, _EVERY_WORD, self.column)
        names = iter(words)
        while samples := {word: self._begin(word) for word in islice(names, at_once)}:
            chosen = np.flatnonzero(search.index.are_words(search.hits.first, list(samples)))
            for read in search.read_vectors(chosen):
                strings = search.index.strings(search.hits.first[read.numbers])
                for word, site, unit in zip(strings, read.sites, read.matrix, strict=True):
                    samples[word].add(site, unit)
            yield from (sample for sample in samples.values() if sample.is_enough)

    def _begin(self, word: str) -> WordSample:
        return WordSample(word, self.cut.slices, self.by, self.settings)
