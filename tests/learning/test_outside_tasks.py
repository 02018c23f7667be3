"""A task of another package: registered as an entry point, trained, predicted and verified as those of this one."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bertfeat.cli import main
from bertfeat.learning.tasks.table import all_tasks
from tests.support.heads_toy import numbers, write_records

STARS = """
from bertfeat.learning import Numbers

class Stars(Numbers):
    \"\"\"Whole numbers from 0 to 4.\"\"\"

    name = "stars"

    def guesses(self, scores, offsets, outputs, spans):
        made = super().guesses(scores, offsets, outputs, spans)
        return [type(guess)(float(min(4, max(0, round(guess.value))))) for guess in made]
"""


class Packages:
    """A folder on Python's path, for a package with one entry point."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        folder.mkdir()
        monkeypatch.syspath_prepend(folder)

    def install(self, code: str) -> None:
        (self._folder / "toy_tasks.py").write_text(code)
        record = self._folder / "toy_tasks-1.0.dist-info"
        record.mkdir()
        (record / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-tasks\nVersion: 1.0\n")
        (record / "entry_points.txt").write_text("[bertfeat.tasks]\nstars = toy_tasks:Stars\n")
        self.forget()

    def uninstall(self) -> None:
        self._folder.rename(self._folder.with_name("uninstalled"))
        self.forget()

    def forget(self) -> None:
        """Let what was installed be looked for again, as in a new process."""
        sys.modules.pop("toy_tasks", None)
        all_tasks.cache_clear()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Packages]:
    packages = Packages(tmp_path / "site-packages", monkeypatch)
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


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("Stars = dict", "the entry point stars of bertfeat.tasks is no Task"),
        (STARS.replace('name = "stars"', 'name = "labels"'), "there are two tasks with the name labels"),
    ],
)
def test_what_is_no_task_is_told(tmp_path: Path, packages: Packages, code: str, told: str) -> None:
    packages.install(code)
    train = write_records(tmp_path / "train.jsonl", numbers(8, 1))
    done = bertfeat("classify", "train", "--train", train, "--dev", train, "--label", "wet", "-o", tmp_path / "head")
    assert (done.exit_code, told in done.stderr) == (1, True), done.stderr
