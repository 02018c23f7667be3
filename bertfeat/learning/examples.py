"""The examples of a source: their features, and what is to be predicted of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import HeadError
from bertfeat.features import FeatureSet
from bertfeat.io import Location
from bertfeat.learning.example_store import ExampleStore, describe_source
from bertfeat.learning.inputs import derive_input, join_digests
from bertfeat.learning.record import HeadInput
from bertfeat.learning.tables import FeatureRows, FeatureTable, Gold
from bertfeat.learning.task import ExampleLayout, GoldExamples, Task


@dataclass(frozen=True, slots=True)
class HeadExamples:
    """Examples with features, E in number."""

    sets: tuple[FeatureRows, ...]  # one, or two of a pair that is embedded apart
    table: FeatureTable
    store: ExampleStore
    gold: tuple[Gold, ...]  # [E]; empty where it is not known
    layout: ExampleLayout

    @property
    def passages(self) -> tuple[str, ...]:
        """The passage of each question, and nothing of other tasks. [E]."""
        return self.layout.passages

    @property
    def known(self) -> GoldExamples:
        """The gold values, to be learned from."""
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
    with_gold: bool = True,
    may_be_empty: bool = False,
) -> HeadExamples:
    """The examples of feature sets; gold is read where there is any, unless ``with_gold`` is off."""
    rows = [_rows(features) for features in sets]
    if any(not np.array_equal(rows[0], other) for other in rows[1:]):
        raise HeadError(
            f"{sets[0].folder} and {sets[1].folder} do not hold the same rows",
            remedy="a row that failed in one is listed there; correct it in the corpus and extract both again",
        )
    table = FeatureTable(sets)
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


@dataclass(frozen=True, slots=True)
class OpenSources:
    """The features that a head reads, its task with the outputs of the training set, and the examples by name."""

    task: Task
    reads: HeadInput
    examples: Mapping[str, HeadExamples]
