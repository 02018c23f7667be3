"""The senses of a word: its usages, grouped by their vectors.

Shapes: n usages, W width of the feature column.
"""

import threading
import warnings
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bertfeat.arguments import checked
from bertfeat.core import FeatureSet, unit_vectors
from bertfeat.errors import UsageError, needed_library
from bertfeat.io import Address
from bertfeat.options import takes
from bertfeat.progress import ProgressOption, StepProgress
from bertfeat.usages.near import NearWord
from bertfeat.usages.query import (
    UsageSearch,
    find_usage_column,
    look_up,
    parse_condition_on,
    shown_context,
    word_pattern,
)
from bertfeat.usages.results import Sense, Senses, Usage
from bertfeat.usages.settings import UsageSettings
from bertfeat.usages.spans import open_cutter
from bertfeat.where import Cut, cut_slices, refuse_slices_of_nothing

MOST = 10_000
"""The most usages that are grouped; of more, a random sample is taken, always the same one."""

_SEED = 0
_GROUPING = threading.Lock()


@dataclass(frozen=True, slots=True)
class SenseRequest(UsageSettings):
    """A search for usages that are grouped into senses."""

    features: FeatureSet | str | Path | Address
    word: str
    senses: int
    _: KW_ONLY
    by: str | None = None
    slices: str | int | None = None
    progress: ProgressOption[StepProgress] = None


@checked
@takes(SenseRequest)
def find_senses(asked: SenseRequest) -> Senses:
    """Group the usages of a word into a number of ``senses``, each shown by its ``k`` most central usages (5).

    The groups are those of scikit-learn's k-means over vectors of length 1; the same set gives the same groups. Their
    number is your choice: nothing here says how many senses the word has. With ``by`` the usages of each sense are
    counted in each slice of that kept column, such as years (Giulianelli, Del Tredici and Fernández 2020), and usages
    outside of all slices are left out. See :func:`find_usages` and :func:`find_usages_by` for the rest.

    Raises:
        UsageError: fewer than two senses, fewer usages or different vectors than senses, ``by`` or
            ``slices`` that do not cut the set into slices, ``k`` below 0, or a condition that cannot be read.
        FeatureSetError: no texts, or no vectors of tokens or words, in the set.
        NotDerivableError: the column cannot be derived from the stored ones.
        MissingLibraryError: scikit-learn is not installed.
    """
    features = asked.features if isinstance(asked.features, FeatureSet) else FeatureSet(asked.features)
    word, by, slices = asked.word, asked.by, asked.slices
    pattern, nearby = word_pattern(features, word), NearWord.of(asked)
    k, characters = 5 if asked.k is None else asked.k, shown_context(asked)
    if asked.senses < 2:
        raise UsageError(f"{asked.senses} senses are no groups", remedy="ask for at least 2")
    readable = find_usage_column(features, asked.column)
    condition, cutter = parse_condition_on(features, asked.where), open_cutter(features, asked.spans)
    refuse_slices_of_nothing(by, slices)
    cut = None if by is None else cut_slices(features, by, slices)
    search = look_up(features, pattern, readable, condition, nearby, cutter, progress=asked.progress)
    every = Cut((), np.zeros(len(search.documents), np.int64))
    cut = every if cut is None else cut.among(search.documents)
    of_hits = cut.of_documents[search.index.document_of(search.hits.first)]
    inside = np.flatnonzero(of_hits >= 0)
    numbers = search.first_of_documents(inside) if asked.one_per_document else inside
    if len(numbers) > MOST:
        numbers = np.sort(np.random.default_rng(_SEED).choice(numbers, MOST, replace=False))
    nothing = (np.empty(0, np.int64), np.empty((0, readable.width), np.float32))
    blocks = [nothing, *((read.numbers, read.matrix) for read in search.read_vectors(numbers))]
    grouped, matrix = (np.concatenate(arrays) for arrays in zip(*blocks, strict=True))
    members = _group_usages(matrix, asked.senses, word) if len(inside) else []
    found = (int(search.documents.sum()), len(inside), len(numbers) - len(grouped), len(grouped))
    shown = [
        Sense(
            len(places),
            _most_central(search, grouped[places], matrix[places], k, characters),
            tuple(np.bincount(of_hits[grouped[places]], minlength=len(cut.slices)).tolist()) if cut.slices else (),
        )
        for places in members
    ]
    outside = len(search.hits) - len(inside)
    return Senses(word, readable.name, *found, tuple(shown), by, cut.slices, outside, asked.near, asked.spans)


def _group_usages(matrix: NDArray[np.float32], senses: int, word: str) -> list[NDArray[np.intp]]:
    """The rows of ``matrix`` ``[n, W]`` that belong to each sense, the largest first."""
    if len(matrix) < senses:
        raise UsageError(f"{word!r} has {len(matrix)} usages to group, which are too few for {senses} senses")
    labels = cluster_labels(matrix, senses, word)
    members = [np.flatnonzero(labels == label) for label in range(senses)]
    return sorted(members, key=lambda places: (-len(places), places[0]))


def cluster_labels(matrix: NDArray[np.float32], senses: int, word: str) -> NDArray[np.integer]:
    """The sense number of each usage of a word, ``[n]``, from the usages' vectors ``[n, W]`` of length 1.

    Raises:
        UsageError: fewer different vectors than senses.
        MissingLibraryError: scikit-learn is not installed.
    """
    different = len(np.unique(matrix, axis=0))
    if different < senses:
        raise UsageError(f"{word!r} has only {different} different vectors, which are too few for {senses} senses")
    return group_vectors(matrix, senses)


def group_vectors(matrix: NDArray[np.float32], groups: int, starts: int = 10) -> NDArray[np.integer]:
    """The group number of each of the vectors ``[n, W]``, ``[n]``, by the best of several runs of k-means.

    At least ``groups`` vectors are different.

    Raises:
        MissingLibraryError: scikit-learn is not installed.
    """
    with needed_library("groups of vectors need scikit-learn", "bertfeat[analysis]"):
        from sklearn.cluster import KMeans
        from sklearn.exceptions import ConvergenceWarning
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # comes with scikit-learn
    # one thread, so that sums are the same on every machine (several are slower on a busy one), and one call at a time,
    # since the limit is one of the process
    with _GROUPING, threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of fewer groups than asked for
        labels: NDArray[np.integer] = KMeans(groups, n_init=starts, random_state=_SEED).fit_predict(matrix)
    return labels


def _most_central(
    search: UsageSearch, numbers: NDArray[np.int64], matrix: NDArray[np.float32], k: int, context: int
) -> tuple[Usage, ...]:
    """The ``k`` usages that are nearest to the mean of all, of hits with vectors ``[n, W]``."""
    # rounded before they are compared: scores of equal vectors can differ in the last digits of a matrix product
    scores = np.round(matrix @ unit_vectors(matrix.mean(axis=0)), 6)
    order = np.argsort(-scores, kind="stable")[:k]
    return tuple(search.read_usages(numbers[order].tolist(), context, scores[order].tolist()))
