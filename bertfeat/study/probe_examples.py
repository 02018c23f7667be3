"""The examples of a probe: labeled documents or words of a feature set, a sample if there are many."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import FeatureSet
from bertfeat.display import format_size
from bertfeat.errors import UsageError, parameter
from bertfeat.io import physical_memory

TAGS = "tags"
"""The label that stands for the tags of words."""

_SCAN = 8192  # rows that are read at a time
_PROBABILITIES = 3  # arrays [examples, classes] that learning holds at once
_WEIGHTS = 25  # arrays [classes, width] that it holds at once


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """The label of each of N documents or words, in the order of the feature set."""

    names: tuple[str, ...]  # of the classes
    numbers: NDArray[np.int32]  # [N] of the class; -1 where there is no label
    rows: NDArray[np.int64]  # [N] row of the document
    aligned: NDArray[np.bool_]  # [N] whether there is a vector

    @property
    def usable(self) -> NDArray[np.bool_]:
        """The mask of the documents or words that have both label and vector: ``[N]``."""
        usable: NDArray[np.bool_] = self.aligned & (self.numbers >= 0)
        return usable


@dataclass(frozen=True, slots=True)
class Examples:
    """The n documents or words that are learned from."""

    chosen: NDArray[np.bool_]  # [N]
    classes: tuple[str, ...]  # sorted
    members: NDArray[np.int64]  # [n] number of the class
    rows: NDArray[np.int64]  # [n] row of the document
    rare: int  # number of sampled ones that were left out, since their class is rare

    @property
    def counts(self) -> NDArray[np.int64]:
        """Members of each class."""
        return np.bincount(self.members, minlength=len(self.classes))


def read_document_labels(features: FeatureSet, column: str) -> LabelColumn:
    """Read the labels of documents: the values of a kept column."""
    numbers = _ClassNumbers()
    rows: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    for batch in features.stream(["row", column], batch_rows=_SCAN):
        rows.append(batch.column("row").to_numpy())
        numbers.add(batch.column(column).to_pylist())
    every = np.concatenate(rows)
    return LabelColumn(numbers.names, numbers.array(), every, np.ones(len(every), bool))


def read_word_labels(features: FeatureSet) -> LabelColumn:
    """Read the labels of words: their tags."""
    numbers = _ClassNumbers()
    rows: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
    aligned: list[NDArray[np.bool_]] = [np.empty(0, np.bool_)]
    for batch in features.stream(["row", TAGS, "aligned"], batch_rows=_SCAN):
        rows.append(np.repeat(batch.column("row").to_numpy(), batch.column(TAGS).value_lengths().to_numpy()))
        aligned.append(batch.column("aligned").flatten().to_numpy(zero_copy_only=False))
        numbers.add(batch.column(TAGS).flatten().to_pylist())
    return LabelColumn(numbers.names, numbers.array(), np.concatenate(rows), np.concatenate(aligned))


def sample_examples(labels: LabelColumn, most: int, least: int, seed: int) -> Examples:
    """Sample whole documents at random, with ``most`` examples in all at most, but at least one document.

    Classes that are then in fewer than ``least`` documents are left out.
    """
    usable = labels.usable
    rows, counts = np.unique(labels.rows[usable], return_counts=True)
    order = np.random.default_rng(seed).permutation(len(rows))
    enough = int(np.searchsorted(np.cumsum(counts[order]), most, side="right"))
    chosen = usable & np.isin(labels.rows, rows[order[: max(enough, 1)]])
    sampled = int(chosen.sum())
    documents = _documents_per_class(labels.numbers[chosen], labels.rows[chosen], len(labels.names))
    chosen[chosen] = documents[labels.numbers[chosen]] >= least
    classes = sorted((labels.names[number], number) for number in np.unique(labels.numbers[chosen]).tolist())
    renumbered = np.zeros(len(labels.names), np.int64)
    renumbered[[number for _, number in classes]] = np.arange(len(classes))
    return Examples(
        chosen=chosen,
        classes=tuple(name for name, _ in classes),
        members=renumbered[labels.numbers[chosen]],
        rows=labels.rows[chosen],
        rare=sampled - int(chosen.sum()),
    )


def check_classes(examples: Examples, label: str, folds: int, *, are_numbers: bool = False) -> None:
    """Refuse fewer than two classes, and classes that are in fewer documents than there are folds."""
    if len(examples.classes) < 2:
        only = f"all there is is {examples.classes[0]!r}" if examples.classes else "there is none"
        problem = f"a probe needs at least two classes of {label!r} among what has a label; {only}"
        left_out = f"{examples.rare:,} members of rarer classes were left out ({parameter('min_members')})"
        raise UsageError(problem, remedy=left_out if examples.rare else "")
    counts = _documents_per_class(examples.members, examples.rows, len(examples.classes))
    few = np.flatnonzero(counts < folds)
    if len(few):
        times = f"{counts[few[0]]} document{'s' if counts[few[0]] > 1 else ''}"
        others = f", and {len(few) - 1:,} more of the {len(counts):,} classes are as rare" if len(few) > 1 else ""
        hint = "; its values are numbers, and each of them is taken for a class" if are_numbers else ""
        raise UsageError(
            f"{examples.classes[few[0]]!r} of {label!r} is in {times}, fewer than the {folds} folds{others}{hint}",
            remedy=f"leave such classes out with {parameter('min_members', folds)}, or give fewer {parameter('folds')} "
            f"or a larger {parameter('most')}",
        )


def check_classifier_memory(examples: Examples, width: int) -> None:
    """Refuse more classes than a classifier over all of them has memory for."""
    classes, members = len(examples.classes), len(examples.members)
    takes = 4 * (_PROBABILITIES * members * classes + _WEIGHTS * classes * width)
    memory = physical_memory()
    if takes > memory:
        raise UsageError(
            f"a classifier of {members:,} examples into {classes:,} classes takes about {format_size(takes)}, and "
            f"there are {format_size(memory)}",
            remedy=f"leave rarer classes out with {parameter('min_members')}, or give a smaller {parameter('most')}",
        )


def _documents_per_class(numbers: NDArray[np.integer], rows: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
    """Count the documents that have each class: ``[classes]``."""
    pairs = np.unique(np.stack([numbers.astype(np.int64), rows]), axis=1)
    return np.bincount(pairs[0], minlength=classes)


class _ClassNumbers:
    """Numbers the classes in the order in which they first occur."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}
        self._arrays: list[NDArray[np.int32]] = [np.empty(0, np.int32)]

    def add(self, values: Iterable[object]) -> None:
        self._arrays.append(np.array([self._number(value) for value in values], np.int32))

    def _number(self, value: object) -> int:
        if value is None or value != value:  # NaN is not itself
            return -1
        if isinstance(value, float):
            value += 0.0  # -0.0 is 0.0
        return self._known.setdefault(str(value), len(self._known))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._known)

    def array(self) -> NDArray[np.int32]:
        return np.concatenate(self._arrays)
