"""The examples of a source: their features, and what is to be predicted of each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import HeadError
from bertfeat.features import FeatureSet
from bertfeat.io import Location
from bertfeat.learning.example_store import ExampleStore, describe_source
from bertfeat.learning.inputs import LayerInput, derive_input, join_digests
from bertfeat.learning.record import Outputs
from bertfeat.learning.settings import HeadSettings
from bertfeat.learning.tables import FeatureRows, FeatureTable, Gold
from bertfeat.learning.task import ExampleLayout, GoldExamples, Task
from bertfeat.recipe import Pooling


@dataclass(frozen=True, slots=True)
class HeadExamples:
    """Examples with features, E in number."""

    task: Task
    sets: tuple[FeatureRows, ...]  # one, or two of a pair that is embedded apart
    table: FeatureTable
    store: ExampleStore
    gold: tuple[Gold, ...]  # [E]; empty where it is not known
    layout: ExampleLayout

    @property
    def passages(self) -> tuple[str, ...]:
        """The passage of each question, and nothing of other tasks. [E]."""
        return self.layout.passages

    def learn_outputs(self, settings: HeadSettings) -> Outputs:
        """The outputs of a head that learns from them."""
        return self.task.learn_outputs(self.gold, self.origin, settings)

    def make_targets(self, outputs: Outputs) -> NDArray[np.generic]:
        """The values that the network is to give for each example."""
        return self.task.make_targets(GoldExamples(self.gold, self.origin, layout=self.layout), outputs)

    @property
    def origin(self) -> str:
        """Where the examples are from, for messages."""
        return describe_source(self.sets[0])

    @property
    def digest(self) -> str:
        """The digest that identifies the features."""
        return join_digests([features for features in self.sets if isinstance(features, FeatureSet)])

    @property
    def folders(self) -> tuple[Location, ...]:
        """Where the features are."""
        return tuple(features.folder for features in self.sets if isinstance(features, FeatureSet))


def open_examples(
    task: Task,
    sets: Sequence[FeatureRows],
    layer_input: LayerInput,
    pooling: Pooling,
    *,
    label: str | None = None,
    budget: int,
    with_gold: bool = True,
    may_be_empty: bool = False,
    known: Outputs | None = None,
) -> HeadExamples:
    """The examples of feature sets; gold is read where there is any, unless ``with_gold`` is off.

    Labels are spelled as those that are ``known``.
    """
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
    gold: tuple[Gold, ...] = ()
    if with_gold and task.has_gold(table, label):
        gold = task.read_gold(table, label, known)
    derivations = [derive_input(layer_input, features, pooling) for features in sets]
    store = ExampleStore(sets, derivations, layout.rows, budget)
    return HeadExamples(task, tuple(sets), table, store, gold, layout)


def _rows(features: FeatureRows) -> NDArray[np.int64]:
    rows = [batch.column("row").to_numpy() for batch in features.stream(["row"], batch_rows=8192)]
    return np.concatenate(rows) if rows else np.empty(0, np.int64)
