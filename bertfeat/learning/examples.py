"""The examples that a head learns from or predicts for: their features, opened or extracted, and their gold values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.core import FeatureSet
from bertfeat.errors import HeadError, parameter
from bertfeat.io import Location
from bertfeat.learning.datasets import Training
from bertfeat.learning.example_store import ExampleStore, describe_source
from bertfeat.learning.inputs import check_same_features, choose_input, derive_input, extraction_of, join_digests
from bertfeat.learning.kinds import PairForm
from bertfeat.learning.record import HeadInput
from bertfeat.learning.tables import FeatureRows, FeatureTable, Gold, check_pairs
from bertfeat.learning.task import ExampleLayout, GoldExamples, Task


@dataclass(frozen=True, slots=True)
class HeadExamples:
    """E examples with their features and, where they are known, their gold values."""

    sets: tuple[FeatureRows, ...]  # one, or two for pairs that are embedded apart
    table: FeatureTable
    store: ExampleStore
    gold: tuple[Gold, ...]  # [E]; empty where none are known
    layout: ExampleLayout

    @property
    def passages(self) -> tuple[str, ...]:
        """The passage of each question ``[E]``; empty for other tasks."""
        return self.layout.passages

    @property
    def known(self) -> GoldExamples:
        """The gold values, for making targets."""
        return GoldExamples(self.gold, self.origin, layout=self.layout)

    @property
    def origin(self) -> str:
        """The feature set of the examples and its corpus, for messages."""
        return describe_source(self.sets[0])

    @property
    def digest(self) -> str:
        """The digest that identifies the features."""
        return join_digests([features for features in self.sets if isinstance(features, FeatureSet)])

    @property
    def folders(self) -> tuple[Location, ...]:
        """The folders of the features."""
        return tuple(features.folder for features in self.sets if isinstance(features, FeatureSet))


def open_examples(
    task: Task,
    sets: Sequence[FeatureRows],
    reads: HeadInput,
    *,
    label: str | None = None,
    budget: int,
    reader: str = "the head",
    with_gold: bool = True,
    may_be_empty: bool = False,
) -> HeadExamples:
    """The examples of feature sets; gold values are read where there are any, unless ``with_gold`` is False."""
    rows = [_rows(features) for features in sets]
    if any(not np.array_equal(rows[0], other) for other in rows[1:]):
        raise HeadError(
            f"{sets[0].folder} and {sets[1].folder} do not hold the same rows",
            remedy="a row that failed in one is listed there; correct it in the corpus and extract both again",
        )
    table = FeatureTable(sets, reads.pooling)
    check_pairs(table.has_pairs, table.where, needed=reads.pairs is not None, other=reader)
    layout = task.lay_out(sets, table, rows[0])
    if not len(layout.rows.lengths) and not may_be_empty:
        held = "sentence with words" if task.per_vector else "example"
        raise HeadError(f"there is no {held} in it", where=table.where)
    gold = task.gold_of(table, label) if with_gold else ()
    derivations = [derive_input(reads.layers, features, reads.pooling) for features in sets]
    store = ExampleStore(sets, derivations, layout.rows, budget)
    return HeadExamples(tuple(sets), table, store, gold, layout)


def _rows(features: FeatureRows) -> NDArray[np.int64]:
    rows = [batch.column("row").to_numpy() for batch in features.stream(["row"], batch_rows=8192)]
    return np.concatenate(rows) if rows else np.empty(0, np.int64)


# ── training and development sets ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class OpenSources:
    """The task with the outputs of the training set, the kind of features that the head reads, and the examples of each
    set (``train``, ``dev``, perhaps ``test``).
    """

    task: Task
    reads: HeadInput
    examples: Mapping[str, HeadExamples]


def open_sources(sets: Mapping[str, tuple[FeatureSet, ...]], training: Training, layers: str | None) -> OpenSources:
    """The examples of all sets with their gold values; features made otherwise than the training set's are refused.

    The training set gets three quarters of the memory setting, the others share the rest.
    """
    task, first, reads = training.task, sets["train"], head_input(sets["train"], training, layers)
    label = training.asked.label
    opened: dict[str, HeadExamples] = {}
    for name in sorted(sets, key=lambda name: name != "train"):
        listed = sets[name]
        if len(listed) != len(first):
            raise HeadError(f"of train and {name}, one is of pairs that are apart", remedy="give both in one form")
        for features in listed:
            check_same_features(features, reads.model, reads.extraction, str(first[0].folder), reads.pooling)
        memory = training.settings.memory
        share = memory * 3 // 4 if name == "train" else memory // (4 * (len(sets) - 1))
        reader = str(first[0].folder)
        opened[name] = made = open_examples(task, listed, reads, label=label, budget=share, reader=reader)
        if name == "train":
            columns = task.gold_columns(label, [column.name for column in listed[0].kept])
            task = task.learned(made.gold, made.origin, training.settings, columns)
        elif name == "dev":
            task.check_dev(made.gold, made.origin)
    return OpenSources(task, reads, opened)


def head_input(sets: tuple[FeatureSet, ...], training: Training, layers: str | None) -> HeadInput:
    """The kind of features that a head reads from a feature set: pooling, layers and form of pairs."""
    features, reads, pooling = sets[0], training.task.reads, training.asked.pooling
    stored = list(dict.fromkeys(column.pooling for column in features.columns))
    fit = [each for each in stored if each.per_document and pooling in (None, each)]
    usable = fit if reads is None else [reads]
    if len(usable) != 1:
        problem = f"a head reads one vector a text, and this set holds {', '.join(stored)}"
        remedy = f"say which with {parameter('pooling')}, or extract with {parameter('pooling', 'mean')}"
        raise HeadError(problem, where=features.folder, remedy=remedy)
    model = features.header.model
    chosen = choose_input(layers, features.columns, model.num_layers, usable[0])
    derive_input(chosen, features, usable[0])  # refuses a set without these layers
    form = PairForm.APART if len(sets) == 2 else PairForm.TOGETHER if "pair" in features.names else None
    return HeadInput(model, extraction_of(features, usable[0]), usable[0], chosen, form)
