"""Reports that the tests of pictures draw."""

import itertools
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from bertfeat.search import Interval, LayerScores, LayerTable, Origin, OwnIds, RetrievalMetric, Why, WhyWord
from bertfeat.study import (
    ChangeMeasure,
    ChangeReport,
    ComparedSet,
    ComparisonReport,
    LayerPair,
    LayerProbe,
    ProbeReport,
    ProbeScores,
    SliceDistance,
    WordChange,
)
from bertfeat.usages import Sense, Senses, SlicedUsages, SliceUsages, Usage
from bertfeat.where import Slice
from tests.support.plots_toy import LONG


def changed(word: str, names: list[str]) -> WordChange:
    interval = Interval(0.3, 0.2, 0.25)  # which does not hold its value, as happens to a small change
    steps = [SliceDistance(one, other, interval, interval, interval) for one, other in itertools.pairwise(names)]
    counts = dict.fromkeys(names, 30)
    return WordChange(word, counts, 30, steps[0], tuple(steps), dict.fromkeys(names, (20, 10)), (), ())


def report_of(words: list[str], names: list[str]) -> ChangeReport:
    slices = tuple(Slice(name, name, name, 9) for name in names)
    changes = tuple(changed(word, names) for word in words)
    return ChangeReport("toy.features", "year", "last_word", ChangeMeasure.PRT, slices, 0, changes, ())


def senses_of(word: str, names: list[str], counts: Sequence[tuple[int, ...]]) -> Senses:
    usage = Usage(0, "1", "in the ", word, " of the prison\n", 7, 11, False, 0.9, {})
    slices = tuple(Slice(name, name, name, 9) for name in names)
    senses = tuple(Sense(sum(count), (usage,), count) for count in counts)
    return Senses(word, "last_word", 9, 30, 0, 30, senses, "year", slices)


def why_of(query: Sequence[str], words: Sequence[str]) -> Why:
    """Shares that grow from pair to pair, and some below zero; a special token stands before both."""
    sides = [
        (WhyWord("[CLS]", 0, 0, Origin.SPECIAL), *(WhyWord(each, 0, len(each), Origin.TEXT) for each in side))
        for side in (query, words)
    ]
    shares = np.linspace(-0.01, 0.1, len(sides[0]) * len(sides[1])).reshape(len(sides[0]), len(sides[1]))
    return Why(sides[0], sides[1], shares)


def frequencies_of(word: str, names: list[str], counts: Sequence[tuple[int, int]]) -> SlicedUsages:
    """Of each slice the usages, and the words among which they are."""
    slices = []
    for name, (found, words) in zip(names, counts, strict=True):
        often = round(1e6 * found / words, 2) if words else 0.0
        slices.append(SliceUsages(Slice(name, name, name, 9), words, found, often, 0, None, ()))
    return SlicedUsages(word, None, "last_word", "year", 9 * len(names), 0, tuple(slices))


def layer_table_of(columns: list[str], transforms: list[str], features: str = "toy.features") -> LayerTable:
    rows = tuple(
        LayerScores(column, transform, 8, {"ndcg_at_10": Interval(0.3 + at / 100, 0.2, 0.6)}, Interval(0, 0, 0), False)
        for at, column in enumerate(columns)
        for transform in transforms
    )
    metrics = [RetrievalMetric.parse("nDCG@10")]
    return LayerTable(features, "some/model", metrics, 1000, 20, 30, 0, OwnIds.KEEP, rows, ())


def probed(layers: Sequence[str], label: str = "tags", model: str = "some/model") -> ProbeReport:
    measured = ProbeScores(0.8, 0.02, 0.7, 0.03)
    found = [
        LayerProbe(name, int(name.removeprefix("layer")) if name.startswith("layer") else None, measured, True)
        for name in layers
    ]
    baseline = ProbeScores(0.3, 0.0, 0.1, 0.0)
    counts: Mapping[str, int] = {"a": 60, "b": 40}
    return ProbeReport(
        *("corpus.features", model, label, "mean", 5, 100, 100, 0, 0, 0, counts, "a", baseline, tuple(found))
    )


def head_table_of(rows: Sequence[tuple[str, float | None]], runs: int, test: bool) -> Any:
    results = [
        SimpleNamespace(
            title=title,
            paper=paper,
            dev=tuple(0.6 + run / 50 for run in range(runs)),
            test=tuple(0.5 + run / 50 for run in range(runs)) if test else (),
        )
        for title, paper in rows
    ]
    return SimpleNamespace(model=f"someone/{LONG}", measure="accuracy", purpose="tag", rows=results)


def history_of(epochs: int, losses: tuple[float, float] = (2.0, 0.5)) -> Any:
    return SimpleNamespace(
        history=tuple({"loss": losses[number % 2], "score": number / 50} for number in range(epochs)),
        measure="span F1",
        input=SimpleNamespace(name="concat4"),
        model=SimpleNamespace(name=f"someone/{LONG}"),
        best_epoch=1,
        score=0.5,
    )


def comparison_of(layers: int) -> ComparisonReport:
    names = tuple(f"layer{layer}" for layer in range(layers))
    one, other = (ComparedSet(f"{name}.features", "some/model", "fp32", names, 0, 0, 0) for name in ("one", "other"))
    pairs = tuple(LayerPair(down, across, 0.9, 0.8, 0.7, 0.6, 0.5) for down in names for across in names)
    return ComparisonReport(one, other, "mean", True, 9, 9, 9, 5, 0, pairs)


def pretraining_of(*, pairs: bool) -> Any:
    point = SimpleNamespace(step=1, words=3.0, pairs=0.7 if pairs else None, anchor=None)
    return SimpleNamespace(model=None, steps=9, history=[point, point], before=None, after=None)
