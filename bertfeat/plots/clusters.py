"""Clusters of a map, named by the words that their texts have more often than the others.

Shapes: n points, m texts, K clusters, V different words.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import WordRule, fold_word, is_word, split_words
from bertfeat.usages import group_vectors, log_likelihood

MOST_TEXTS = 20_000
"""The most texts from which clusters are named; of more, an even sample."""

LONGEST = 2000
"""The most characters of a text that count."""

_IN_NAME = 3  # words
_LEAST = 2  # texts of a cluster that have a word of its name
_TIMES = 3  # as often as in the other texts: pronouns tell clusters apart, but tell nobody what is in them
_SIGNIFICANT = 6.63  # G² at p = 0.01, for a table of 2 × 2
_STEM = 4  # letters by which two words are taken for forms of one
_CANDIDATES = 30  # words from which those of a name are chosen


@dataclass(frozen=True, slots=True)
class Cluster:
    """Points near one another on a map."""

    words: tuple[str, ...]  # that its texts have more often than the others, without case; the most telling first
    x: float  # of its middle
    y: float
    count: int  # of its points

    @property
    def name(self) -> str:
        """The words, with commas between them."""
        return ", ".join(self.words)

    @property
    def short_name(self) -> str:
        """The first two words, for a place on the map."""
        return ", ".join(self.words[:2])


@dataclass(frozen=True, slots=True)
class Clustering:
    """The points of a map, each in one of its clusters."""

    clusters: tuple[Cluster, ...]  # [K] the largest first
    codes: NDArray[np.uint8]  # [n] the place of each point's cluster among them


class LabelWords:
    """The different words of texts, by a rule of splitting, without case, numbers and single letters."""

    def __init__(self, texts: Iterable[str], rule: WordRule = WordRule.SPACES) -> None:
        numbers: dict[str, int] = {}
        found = [[numbers.setdefault(word, len(numbers)) for word in _different_words(text, rule)] for text in texts]
        self.texts = len(found)
        owners = np.repeat(np.arange(len(found)), [len(each) for each in found])
        words = np.array([number for each in found for number in each], np.int64)
        frequent = np.bincount(words, minlength=len(numbers)) >= _LEAST  # rarer ones cannot be in a name
        kept = frequent[words]
        self.vocabulary = [word for word, often in zip(numbers, frequent.tolist(), strict=True) if often]
        self._owners, self._words = owners[kept], (np.cumsum(frequent) - 1)[words[kept]]

    def count(self, codes: NDArray[np.integer], groups: int) -> NDArray[np.int64]:
        """The number of texts of each group that have each word: ``[m]`` → ``[groups, V]``."""
        cells = codes[self._owners].astype(np.int64) * len(self.vocabulary) + self._words
        return np.bincount(cells, minlength=groups * len(self.vocabulary)).reshape(groups, -1)


def beginning(texts: Iterable[str | None]) -> str:
    """The texts of a document as one, each cut so that all of them count."""
    parts = [text for text in texts if text]
    return " ".join(part[: LONGEST // len(parts)] for part in parts)


def _different_words(text: str, rule: WordRule) -> list[str]:
    text = text[:LONGEST]
    spans = split_words(text, rule)
    words = dict.fromkeys(text[a:b] for a, b in zip(spans.start.tolist(), spans.end.tolist(), strict=True))
    folded = dict.fromkeys(map(fold_word, words))
    return [word for word in folded if len(word) > 1 and is_word(word) and not word.isnumeric()]


def find_clusters(
    flat: NDArray[np.float32], most: int, words: LabelWords | None, of_texts: NDArray[np.int64]
) -> Clustering:
    """Group the points of a map ``[n, 2]`` into ``most`` clusters by k-means, but at most √(n/2), and name them.

    The words of a name are those that at least three times as large a share of the cluster's texts has as of the other
    texts, with the highest G² (Dunning 1993) of the number of texts that have them. ``of_texts`` ``[m]`` are the
    numbers of the points that these texts belong to. Without words, clusters have no names.

    Raises:
        MissingLibraryError: scikit-learn is not installed.
    """
    groups = min(most, math.isqrt(len(flat) // 2) or 1, len(np.unique(flat, axis=0)))
    labels = group_vectors(flat, groups, starts=3) if groups else np.empty(0, np.int64)
    groups = len(np.unique(labels))  # points that differ in their last bits alone may leave a group empty
    labels = np.unique(labels, return_inverse=True)[1]
    sizes = np.bincount(labels, minlength=groups)
    order = np.argsort(-sizes, kind="stable")
    ranks = np.empty(groups, np.uint8)
    ranks[order] = np.arange(groups)
    codes = ranks[labels]
    names = _name_groups(words, codes[of_texts], groups) if words is not None and groups else [()] * groups
    middles = [np.median(flat[codes == code], axis=0).tolist() for code in range(groups)]
    counts = sizes[order].tolist()
    clusters = (Cluster(name, x, y, count) for name, (x, y), count in zip(names, middles, counts, strict=True))
    return Clustering(tuple(clusters), codes)


def _name_groups(words: LabelWords, codes: NDArray[np.uint8], groups: int) -> list[tuple[str, ...]]:
    """The words that tell the texts of each group from the others, the most telling first."""
    inside = words.count(codes, groups)
    anywhere, texts = inside.sum(axis=0), np.bincount(codes, minlength=groups)
    names = []
    for found, own in zip(inside, texts.tolist(), strict=True):
        others = words.texts - own
        chosen = np.flatnonzero((found >= _LEAST) & (found * others >= _TIMES * (anywhere - found) * own))
        scores = log_likelihood(found[chosen].astype(float), anywhere[chosen].astype(float), own, words.texts)
        chosen, scores = chosen[scores >= _SIGNIFICANT], scores[scores >= _SIGNIFICANT]
        best = chosen[np.argsort(-scores, kind="stable")[:_CANDIDATES]]
        names.append(_choose_words([words.vocabulary[number] for number in best.tolist()]))
    return names


def _choose_words(words: list[str]) -> tuple[str, ...]:
    """The first words of which none is a form of another."""
    chosen: list[str] = []
    for word in words:
        if not any(word[:_STEM] == other[:_STEM] for other in chosen):
            chosen.append(word)
    return tuple(chosen[:_IN_NAME])
