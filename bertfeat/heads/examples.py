"""The examples of a source: their features, and what is to be predicted of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bertfeat.errors import HeadError
from bertfeat.features import FeatureSet
from bertfeat.heads.answers import AnswerTokens, find_answer_tokens
from bertfeat.heads.gold import Gold, GoldAnswer, read_choices, read_gold
from bertfeat.heads.kinds import HeadKind
from bertfeat.heads.settings import Outputs
from bertfeat.heads.tables import FeatureTable
from bertfeat.heads.tokens import PassageTokens
from bertfeat.io import Location
from bertfeat.recipe import Pooling
from bertfeat.training import ExampleRows, ExampleStore, LayerInput, derive_input, describe_source, join_digests


@dataclass(frozen=True, slots=True)
class HeadExamples:
    """Examples with features, E in number."""

    kind: HeadKind
    sets: tuple[FeatureSet, ...]  # one, or two of a pair that is embedded apart
    store: ExampleStore
    gold: tuple[Gold, ...]  # [E]; empty where it is not known
    tokens: PassageTokens | None = None  # of questions and passages
    passages: tuple[str, ...] = ()  # [E] of questions

    @property
    def origin(self) -> str:
        """Where the examples are from, for messages."""
        return describe_source(self.sets[0])

    @property
    def digest(self) -> str:
        """What identifies the features."""
        return join_digests(self.sets)

    @property
    def folders(self) -> tuple[Location, ...]:
        """Where the features are."""
        return tuple(features.folder for features in self.sets)


def open_examples(
    kind: HeadKind,
    sets: Sequence[FeatureSet],
    layer_input: LayerInput,
    pooling: Pooling,
    *,
    label: str | None = None,
    regression: bool = False,
    budget: int,
) -> HeadExamples:
    """The examples of feature sets; gold is read where there is any.

    Raises:
        HeadError: sets of different rows, or what is to be predicted is not there as it should be.
        NotDerivableError: they do not hold the layers.
    """
    rows = [_rows(features) for features in sets]
    if any(not np.array_equal(rows[0], other) for other in rows[1:]):
        raise HeadError(
            f"{sets[0].folder} and {sets[1].folder} do not hold the same rows",
            remedy="a row that failed in one is listed there; correct it in the corpus and extract both again",
        )
    if not len(rows[0]):
        raise HeadError("there is no example in it", where=describe_source(sets[0]))
    first, table = sets[0], FeatureTable(sets)
    gold = read_gold(kind, table, label, regression=regression)
    tokens: PassageTokens | None = None
    passages: tuple[str, ...] = ()
    ones = np.ones(len(rows[0]), np.int32)
    example_rows = ExampleRows(rows[0], rows[0] + 1, ones)
    if kind is HeadKind.ANSWER:
        tokens, passages = PassageTokens.read(first), read_passages(first)
        example_rows = ExampleRows(rows[0], rows[0] + 1, np.diff(tokens.offsets).astype(np.int32))
    elif kind is HeadKind.CHOOSE:
        choices = read_choices(table)
        example_rows = ExampleRows(choices.first, choices.stop, choices.counts)
    derivations = [derive_input(layer_input, features, pooling) for features in sets]
    return HeadExamples(
        kind, tuple(sets), ExampleStore(sets, derivations, example_rows, budget), gold, tokens, passages
    )


def learn_outputs(kind: HeadKind, gold: Sequence[Gold], origin: str, *, regression: bool) -> Outputs:
    """What a head has to predict, by what is to be predicted in the training set.

    Raises:
        HeadError: one label only, or all numbers are equal, so that there is nothing to learn.
    """
    if kind is not HeadKind.CLASSIFY:
        return Outputs()
    if regression:
        numbers = np.array(gold, np.float64)
        if not numbers.std() > 0:
            raise HeadError(f"every number is {numbers[0]:g}: there is nothing to learn", where=origin)
        return Outputs((), float(numbers.mean()), float(numbers.std()))
    labels = tuple(sorted(set(cast("Sequence[str]", gold))))
    if len(labels) < 2:
        problem = f"every example has the label {labels[0]!r}: there is nothing to learn"
        raise HeadError(problem, where=origin)
    return Outputs(labels)


def make_targets(examples: HeadExamples, outputs: Outputs, *, regression: bool) -> NDArray[np.generic]:
    """What the network is to give for each training example.

    Numbers of labels or choices ``[E]``, standardised numbers ``[E]`` float32, or the numbers of the first and last
    token of the answer in their example ``[E, 2]``, both 0 ([CLS]) where there is none.

    Raises:
        HeadError: a question without a right choice, or an answer that is no stretch of its passage.
    """
    if examples.kind is HeadKind.ANSWER:
        return _span_targets(examples)
    if examples.kind is HeadKind.CHOOSE:
        right = np.array(examples.gold, np.int64)
        if (missing := np.flatnonzero(right < 0)).size:
            raise HeadError(f"question {missing[0] + 1:,} has no right choice", where=examples.origin)
        return right
    if regression:
        scaled = (np.array(examples.gold, np.float64) - outputs.mean) / outputs.spread
        return scaled.astype(np.float32)
    numbers = {label: number for number, label in enumerate(outputs.labels)}
    return np.array([numbers[str(label)] for label in examples.gold], np.int64)


def _span_targets(examples: HeadExamples) -> NDArray[np.int64]:
    tokens = examples.tokens
    assert tokens is not None
    targets = np.zeros((len(examples.gold), 2), np.int64)
    rows = _rows(examples.sets[0])
    for number, answers in enumerate(cast("tuple[tuple[GoldAnswer, ...], ...]", examples.gold)):
        if not answers:
            continue
        passage = tokens.passage(number)
        places = tokens.offsets[number] + passage
        text, answer = examples.passages[number], answers[0]
        found = find_answer_tokens(text, tokens.start[places], tokens.end[places], answer.text, answer.start)
        if not isinstance(found, AnswerTokens):
            raise HeadError(
                f"{found.reason} (row {rows[number]:,}: {answer.text!r}, start {answer.start:,})",
                where=examples.origin,
                remedy="correct its text or its start, which counts the characters of the passage from 0",
            )
        targets[number] = passage[found.first], passage[found.last]
    return targets


def read_passages(features: FeatureSet) -> tuple[str, ...]:
    """The passage of each question.

    Raises:
        HeadError: texts are not stored.
    """
    if "pair" not in features.names:
        problem, remedy = "it holds no texts, and answers are cut out of them", "extract it with its texts"
        raise HeadError(problem, where=features.folder, remedy=remedy)
    return tuple(text for batch in features.stream(["pair"]) for text in batch.column("pair").to_pylist())


def _rows(features: FeatureSet) -> NDArray[np.int64]:
    rows = [batch.column("row").to_numpy() for batch in features.stream(["row"], batch_rows=8192)]
    return np.concatenate(rows) if rows else np.empty(0, np.int64)
