"""Arguments that a kind of head does not read are refused, whichever call gets them."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bertfeat.core.features import FeatureSet
from bertfeat.errors import UsageError
from bertfeat.learning import (
    Head,
    HeadSettings,
    estimate_head_table7,
    evaluate_head,
    train_head_table7,
    write_predictions,
)
from tests.support.heads_toy import FP32, choices, train, write_records

Extract = Callable[..., FeatureSet]
QUICK = HeadSettings(hidden=0, weight_decay=0.1)
AB: dict[str, Any] = {"choices": ("a", "b")}
NO_CHOOSER = r"^choices applies to choices in corpora; what is predicted here are labels or numbers; leave it out"


@pytest.fixture
def classifier(extracted: Extract, tmp_path: Path) -> Path:
    sets = [extracted(f"{name}.csv", keep=("topic",)) for name in ("train", "dev")]
    train("classify", *sets, tmp_path / "a.head", label="topic", settings=QUICK)
    return tmp_path / "a.head"


@pytest.mark.parametrize("corpus", [False, True])
def test_a_classifier_reads_no_choices(classifier: Path, extracted: Extract, home: Path, corpus: bool) -> None:
    """Whether or not the caller says of which kind it is."""
    source: Any = home / "dev.csv" if corpus else extracted("dev.csv", keep=("topic",))
    for kind in (None, "classify"):
        with pytest.raises(UsageError, match=NO_CHOOSER):
            evaluate_head(classifier, source, kind=kind, **AB)
        with pytest.raises(UsageError, match=NO_CHOOSER):
            write_predictions(classifier, source, print, kind=kind, **AB)
    with pytest.raises(UsageError, match=NO_CHOOSER):
        Head(classifier).predict(source, **AB)


def test_a_chooser_reads_choices_of_corpora(home: Path, tmp_path: Path) -> None:
    """Sets record which choice is right; of them ``choices`` are only the names of what is predicted."""
    sources = [write_records(tmp_path / f"{seed}.csv", choices(12, seed)) for seed in (1, 2)]
    given: dict[str, Any] = {"label": "right", "choices": ("a", "b", "c"), "model": home / "model", **FP32}
    train("choose", *sources, tmp_path / "a.head", settings=QUICK, **given)
    folder = tmp_path / "a.head" / "features"
    sets = (FeatureSet(folder / "dev.features"), FeatureSet(folder / "dev.second.features"))
    asked: dict[str, Any]
    for asked in ({"label": "right"}, {"choices": ("a", "b", "c")}):
        told = r"^(label|choices) applies to choices in corpora.*; .*dev\.features is a feature set, and no corpus is"
        for kind in (None, "choose"):
            with pytest.raises(UsageError, match=told):
                evaluate_head(tmp_path / "a.head", sets, kind=kind, **asked)
        with pytest.raises(UsageError, match=told):
            Head(tmp_path / "a.head").predict(sets, **asked)
    lines: list[str] = []
    write_predictions(tmp_path / "a.head", sets, lines.append, choices=("x", "y", "z"))
    assert {re.findall(r'"column": "(.)"', line)[0] for line in lines} <= {"x", "y", "z"}


@pytest.mark.parametrize(
    ("kind", "unread", "settings"),
    [
        ("classify", AB, {}),
        ("classify", {}, {"max_answer": 7}),
        ("answer", {"label": "topic"}, {}),
        ("answer", AB, {}),
        ("choose", {}, {"max_answer": 7}),
    ],
    ids=str,
)
def test_a_training_and_its_estimate_refuse_them(
    home: Path, tmp_path: Path, kind: str, unread: dict[str, Any], settings: dict[str, Any]
) -> None:
    sources = (home / "train.csv", home / "dev.csv")
    own: dict[str, dict[str, Any]] = {"classify": {"label": "topic"}, "answer": {}, "choose": AB | {"label": "topic"}}
    given = {**own[kind], **unread, "settings": replace(HeadSettings(), **settings), "model": home / "model", **FP32}
    (name,) = [*unread, *settings]
    told = rf"^{name} applies to .*; what is predicted here are .*; leave it out"
    with pytest.raises(UsageError, match=told):
        train(kind, *sources, tmp_path / "out", **given)
    with pytest.raises(UsageError, match=told):
        train_head_table7(kind, *sources, None, tmp_path / "out", **given)
    with pytest.raises(UsageError, match=told):
        estimate_head_table7(kind, *sources, None, **given)
    assert not (tmp_path / "out").exists()
