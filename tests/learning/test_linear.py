"""Heads without a hidden layer are what scikit-learn's are, and of all candidates the best one is kept."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cross_entropy

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.features import FeatureSet
from bertfeat.errors import UsageError
from bertfeat.learning import Head, HeadSettings, verify_head
from tests.support.heads_toy import FP32, QUICK, choices, numbers, plain_rows, topics, train, write_records

Extract = Callable[..., FeatureSet]
SOLVED = HeadSettings(hidden=0)


def standardised(head: Path, features: np.ndarray) -> np.ndarray:
    weights = load_file(head / "head.safetensors")
    return np.asarray((features - weights["mean"].double().numpy()) * weights["scale"].double().numpy())


def weights_of(head: Path) -> tuple[np.ndarray, np.ndarray]:
    weights = load_file(head / "head.safetensors")
    assert set(weights) == {"mean", "scale", "out.weight", "out.bias"}
    return weights["out.weight"].double().numpy(), weights["out.bias"].double().numpy()


@pytest.mark.parametrize("memory", [2**30, 40_000], ids=["in memory", "in chunks"])
def test_labels_are_scikit_learns_logistic_regression(extracted: Extract, tmp_path: Path, memory: int) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    sets = [extracted(f"{name}.csv", keep=("topic",)) for name in ("train", "dev")]
    settings = replace(SOLVED, weight_decay=0.05, memory=memory)
    done = train("classify", *sets, tmp_path / "head", label="topic", layers="concat4", settings=settings)
    gold = [record["topic"] for record in topics(120, 1)]
    inputs = standardised(tmp_path / "head", np.stack([row.vector("concat4", "mean") for row in sets[0]]))
    # two labels have one vector of weights there, half of which is either one's here
    theirs = linear_model.LogisticRegression(C=2 / (0.05 * len(gold)), tol=1e-8, max_iter=5000).fit(inputs, gold)
    weight, bias = weights_of(tmp_path / "head")
    near = 2 * 1e-4 / 0.05  # the gradient at which it is solved, by the decay; of both labels
    np.testing.assert_allclose(weight[1] - weight[0], theirs.coef_[0], atol=near)
    np.testing.assert_allclose(bias[1] - bias[0], theirs.intercept_[0], atol=near)
    assert [str(each).rpartition(" ")[0] for each in done.record.candidates] == ["linear on text, weight decay"]
    assert (done.record.history, done.record.best_epoch) == ((), 0)
    assert verify_head(tmp_path / "head").epochs == 0


def test_numbers_are_scikit_learns_ridge(home: Path, tmp_path: Path) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    sources = [write_records(tmp_path / f"{seed}.jsonl", numbers(80, seed)) for seed in (1, 2)]
    settings = replace(SOLVED, weight_decay=0.5, task="numbers")
    train("classify", *sources, tmp_path / "head", label="wet", model=home / "model", settings=settings, **FP32)
    features = FeatureSet(tmp_path / "head" / "features" / "train.features")
    inputs = standardised(tmp_path / "head", np.stack([row.vector("concat4", "mean") for row in features]))
    gold = np.array([record["wet"] for record in numbers(80, 1)])
    theirs = linear_model.Ridge(alpha=0.5 * 80 / 2).fit(inputs, gold)
    predicted = np.array([row.value for row in plain_rows(Head(tmp_path / "head").predict(features))], float)
    np.testing.assert_allclose(predicted, theirs.predict(inputs), atol=3e-3)


def test_choices_have_the_least_loss_that_there_is(home: Path, tmp_path: Path) -> None:
    """At the minimum the gradient of the loss of a softmax over each question's choices is that of the penalty."""
    sources = [write_records(tmp_path / f"{seed}.csv", choices(30, seed)) for seed in (1, 2)]
    given: dict[str, Any] = {"label": "right", "choices": ("a", "b", "c"), "embed_pairs": "together"}
    settings = replace(SOLVED, weight_decay=0.2)
    train("choose", *sources, tmp_path / "head", model=home / "model", settings=settings, **given, **FP32)
    features = FeatureSet(tmp_path / "head" / "features" / "train.features")
    inputs = standardised(tmp_path / "head", np.stack([row.vector("concat4", "mean") for row in features]))
    weight, _ = weights_of(tmp_path / "head")
    learned = torch.from_numpy(weight[0]).requires_grad_()
    right = torch.tensor([record["right"] for record in choices(30, 1)])
    cross_entropy((torch.from_numpy(inputs) @ learned).view(30, 3), right).backward()  # type: ignore[no-untyped-call]
    assert learned.grad is not None
    np.testing.assert_allclose(learned.grad.numpy(), -0.2 * weight[0], atol=2e-4)


def test_the_best_candidate_is_kept_and_all_are_told(home: Path, tmp_path: Path) -> None:
    """Of pairs those that read the cosines alone are among them, so that no head is worse than they are."""
    sources = [home / f"{name}-pairs.jsonl" for name in ("train", "dev")]
    given: dict[str, Any] = {"label": "relation", "model": home / "model", "settings": replace(QUICK, epochs=2), **FP32}
    pairs = CorpusSettings(text_columns=("a",), pair_column="b")
    record = train("classify", *sources, tmp_path / "head", corpus_settings=pairs, **given).record
    assert [candidate.hidden for candidate in record.candidates][:2] == [128, 0]
    groups = [candidate.inputs for candidate in record.candidates]
    assert list(dict.fromkeys(groups)) == ["texts", "cosines", "differences"]
    assert record.candidates[-1].averaged
    losses = [candidate.loss for candidate in record.candidates if candidate.loss is not None]
    assert record.chosen is not None
    assert (record.score, record.chosen.loss) == (record.chosen.score, min(losses))
    assert record.network is not None
    assert record.network.hidden == record.chosen.hidden
    for group in ("cosines", "differences", "texts"):
        decays = [each.weight_decay for each in record.candidates if (each.hidden, each.inputs) == (0, group)]
        assert decays == sorted(decays, reverse=True)
        assert decays[0] == 10.0
        losses = [each.loss or 0.0 for each in record.candidates if (each.hidden, each.inputs) == (0, group)]
        assert losses[:-1] == sorted(losses[:-1], reverse=True)  # it ends where the loss rises


def test_the_mean_of_network_and_linear_head_is_what_numpy_computes(extracted: Extract, tmp_path: Path) -> None:
    sets = [extracted(f"{name}.csv", keep=("topic",)) for name in ("train", "dev")]
    settings = replace(QUICK, weight_decay=0.003)
    done = train("classify", *sets, tmp_path / "head", label="topic", layers="last", settings=settings)
    *others, both = done.record.candidates
    assert (both.hidden, both.averaged, [each.hidden for each in others]) == (128, True, [128, 0])
    assert done.record.chosen == both, "it is not averaged that this toy is learned best"
    weights = {
        name: tensor.double().numpy() for name, tensor in load_file(tmp_path / "head" / "head.safetensors").items()
    }
    inputs = standardised(tmp_path / "head", np.stack([row.vector("last", "mean") for row in sets[1]]))
    hidden = np.maximum(inputs @ weights["hidden.weight"].T + weights["hidden.bias"], 0)
    network = hidden @ weights["out.weight"].T + weights["out.bias"]
    linear = inputs @ weights["linear.weight"].T + weights["linear.bias"]
    right = [["money", "water"].index(record["topic"]) for record in topics(40, 2)]
    scored = (network, linear, (network + linear) / 2)
    losses = [cross_entropy(torch.from_numpy(scores), torch.tensor(right)).item() for scores in scored]
    assert [each.loss for each in done.record.candidates] == pytest.approx(losses, abs=1e-5)
    assert both.loss == min(each.loss or 0.0 for each in done.record.candidates)


def test_settings_of_epochs_are_refused_where_there_are_none(extracted: Extract, tmp_path: Path) -> None:
    sets = [extracted(f"{name}.csv", keep=("topic",)) for name in ("train", "dev")]
    with pytest.raises(
        UsageError, match=r"epochs applies to networks .* in epochs; without a hidden layer a head is solved"
    ):
        train("classify", *sets, tmp_path / "a", label="topic", settings=HeadSettings(hidden=0, epochs=6))
    with pytest.raises(UsageError, match=r"weight_decay=-1\.0: must be above 0 and at most 1,000,000"):
        HeadSettings(weight_decay=-1.0)
    settings = HeadSettings(hidden=0, epochs=1)  # a mix is learned in epochs
    done = train("classify", *sets, tmp_path / "b", label="topic", layers="mix4", settings=settings)
    assert (len(done.record.history), [each.hidden for each in done.record.candidates]) == (1, [0])
