"""Tasks of another package: registered as an entry point, trained, predicted and verified as those of this one."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from safetensors.torch import load_file
from sklearn.linear_model import PoissonRegressor

from bertfeat.cli import main
from bertfeat.core.features import FeatureSet
from bertfeat.learning.tasks import all_tasks
from tests.support.heads_toy import numbers, write_records
from tests.support.packages import Packages

STARS = """
from bertfeat.learning import Numbers

class Stars(Numbers):
    \"\"\"Whole numbers from 0 to 4.\"\"\"

    name = "stars"

    def guesses(self, scores, offsets, spans):
        made = super().guesses(scores, offsets, spans)
        return [type(guess)(float(min(4, max(0, round(guess.value))))) for guess in made]
"""

COUNTS = """
import numpy as np
from torch.nn.functional import poisson_nll_loss

from bertfeat.learning import Guess, Task, score_numbers

class Stars(Task):
    \"\"\"How often something happened, by Poisson regression: the network gives the logarithm of the rate.\"\"\"

    name = "counts"
    measure = "Spearman"
    architecture = None

    def read_gold(self, table, label):
        return tuple(float(value) for _, value in table.column(label))

    def make_targets(self, gold):
        return np.array(gold.values, np.float32)

    def mean_loss(self, scores, targets):
        return poisson_nll_loss(scores[:, 0], targets)

    def guesses(self, scores, offsets, spans):
        return [Guess(float(rate)) for rate in np.exp(scores[:, 0])]

    def guess_loss(self, gold, guesses):
        rates = np.maximum([guess.value for guess in guesses], np.finfo(np.float32).tiny)
        return float(np.mean(rates - np.array(gold) * np.log(rates)))

    def score(self, gold, guesses, passages, at):
        return score_numbers(gold, [guess.value for guess in guesses])
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    packages = Packages(tmp_path / "site-packages", "bertfeat.tasks", "stars", "Stars", all_tasks.cache_clear)
    monkeypatch.syspath_prepend(packages.folder)
    yield packages
    packages.forget()


def bertfeat(*arguments: Any) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)])


def test_it_is_used_as_the_others_are(home: Path, tmp_path: Path, packages: Packages) -> None:
    packages.install(STARS)
    train, dev, head = (tmp_path / name for name in ("train.jsonl", "dev.jsonl", "stars.head"))
    write_records(train, numbers(80, 1))
    write_records(dev, numbers(20, 2))
    files = ["--train", train, "--dev", dev, "--label", "wet", "-o", head, "--model", home / "model"]
    options = ["--task", "stars", "--hidden", "0", "--precision", "fp32", "--device", "cpu"]
    done = bertfeat("classify", "train", *files, *options)
    assert done.exit_code == 0, done.stderr
    predicted = bertfeat("classify", "predict", head, dev)
    assert predicted.exit_code == 0, predicted.stderr
    values = [json.loads(line)["value"] for line in predicted.stdout.splitlines()]
    assert len(values) == 20
    assert set(values) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert bertfeat("verify", head).exit_code == 0
    packages.uninstall()
    missing = bertfeat("classify", "predict", head, dev)
    assert missing.exit_code == 1
    assert "stars: no task of classify; there are labels, multi-labels, numbers" in missing.stderr


def test_a_task_of_its_own_loss(home: Path, tmp_path: Path, packages: Packages) -> None:
    """And of a network of its own in transformers there is none: that is told before anything is replaced."""
    packages.install(COUNTS)
    train, dev, head = (tmp_path / name for name in ("train.jsonl", "dev.jsonl", "counts.head"))
    write_records(train, numbers(80, 1))
    write_records(dev, numbers(20, 2))
    files = ["--train", train, "--dev", dev, "--label", "wet", "-o", head, "--model", home / "model"]
    options = ["--task", "counts", "--precision", "fp32", "--device", "cpu"]
    done = bertfeat("classify", "train", *files, *options, "--hidden", "0", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["score"] > 0.8
    weights = load_file(head / "head.safetensors")
    features = FeatureSet(head / "features" / "train.features")
    inputs = (features[features.columns[0].name] - weights["mean"].numpy()) * weights["scale"].numpy()
    gold = np.array([record["wet"] for record in numbers(80, 1)])
    decay = json.loads(done.stdout)["chosen"]["weight_decay"]
    theirs = PoissonRegressor(alpha=decay, tol=1e-8, max_iter=2000).fit(inputs, gold)
    np.testing.assert_allclose(weights["out.weight"][0], theirs.coef_, atol=2e-3)
    predicted = bertfeat("classify", "predict", head, dev)
    assert {frozenset(json.loads(line)) for line in predicted.stdout.splitlines()} == {frozenset({"id", "value"})}
    made = head.joinpath("head.json").read_bytes()
    refused = bertfeat("classify", "train", *files, *options, "--fine-tune", "--overwrite")
    assert refused.exit_code == 2
    assert "--fine-tune: the task counts is learned from stored features alone; transformers has no" in refused.stderr
    assert head.joinpath("head.json").read_bytes() == made


@pytest.mark.parametrize(
    ("method", "what"),
    [
        ("def guess_loss(self, gold, guesses): return float('inf')", "loss on the development set is inf"),
        (
            "def score(self, *given): return replace(super().score(*given), spearman=float('nan'))",
            "Spearman on the development set is nan",
        ),
    ],
    ids=["loss", "score"],
)
def test_a_task_whose_numbers_are_none(home: Path, tmp_path: Path, packages: Packages, method: str, what: str) -> None:
    packages.install(f"from dataclasses import replace\n{STARS}\n    {method}\n")
    train = write_records(tmp_path / "train.jsonl", numbers(30, 1))
    files = ["--train", train, "--dev", train, "--label", "wet", "-o", tmp_path / "head", "--model", home / "model"]
    options = ["--task", "stars", "--hidden", "0", "--precision", "fp32", "--device", "cpu"]
    done = bertfeat("classify", "train", *files, *options)
    assert (done.exit_code, what in done.stderr) == (1, True), done.stderr
    assert "correct the task stars" in done.stderr


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("Stars = dict", "toy_package:Stars: this entry point of bertfeat.tasks is no Task"),
        (STARS.replace('name = "stars"', 'name = "labels"'), "there are two tasks with the name labels"),
        ("1 / 0", "entry point stars of bertfeat.tasks cannot be loaded (ZeroDivisionError: division by zero)"),
        ("open('/nowhere/at/all')", "of bertfeat.tasks cannot be loaded (FileNotFoundError: [Errno 2]"),
        (
            re.sub("    def score.*", "", COUNTS, flags=re.DOTALL),
            "toy_package:Stars: this entry point of bertfeat.tasks cannot be made a task (TypeError: Can't instantiate",
        ),
    ],
)
def test_what_is_no_task_is_told(home: Path, tmp_path: Path, packages: Packages, code: str, told: str) -> None:
    """By the command that asks for it; those of built-in tasks go on."""
    packages.install(code)
    train = write_records(tmp_path / "train.jsonl", numbers(30, 1))
    files = ["--train", train, "--dev", train, "--label", "wet", "-o", tmp_path / "head", "--model", home / "model"]
    refused = bertfeat("classify", "train", *files, "--task", "stars")
    assert (refused.exit_code, told in refused.stderr) == (1, True), refused.stderr
    assert "uninstall the package that registers it, or correct it" in refused.stderr
    done = bertfeat("classify", "train", *files, "--task", "numbers", "--hidden", "0", "--precision", "fp32")
    assert done.exit_code == 0, done.stderr


def test_a_task_that_fails_is_told_with_its_package(home: Path, tmp_path: Path, packages: Packages) -> None:
    packages.install(COUNTS.replace("return np.array(gold.values, np.float32)", "return gold.nothing_of_this_name"))
    train = write_records(tmp_path / "train.jsonl", numbers(30, 1))
    files = ["--train", train, "--dev", train, "--label", "wet", "-o", tmp_path / "head", "--model", home / "model"]
    done = bertfeat("classify", "train", *files, "--task", "counts", "--hidden", "0", "--precision", "fp32")
    assert done.exit_code == 1
    assert "AttributeError" in done.stderr
    assert "error: this is a bug in the package toy_package, which extends bertfeat; please report" in done.stderr
