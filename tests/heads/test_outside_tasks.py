"""A task of another package: registered as an entry point, trained, predicted and verified as those of this one."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.heads_toy import numbers, write_records

STARS = """
from bertfeat.heads import Numbers

class Stars(Numbers):
    \"\"\"Whole numbers from 0 to 4.\"\"\"

    name = "stars"

    def guesses(self, scores, offsets, outputs, spans):
        made = super().guesses(scores, offsets, outputs, spans)
        return [type(guess)(float(min(4, max(0, round(guess.value))))) for guess in made]
"""


def install(folder: Path, code: str, entry: str) -> dict[str, str]:
    """A toy package with an entry point, and the environment in which it is installed."""
    (folder / "toy_tasks.py").write_text(code)
    record = folder / "toy_tasks-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-tasks\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(f"[bertfeat.tasks]\n{entry}\n")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}


def bertfeat(environment: dict[str, str], *arguments: Any) -> subprocess.CompletedProcess[str]:
    code = "from bertfeat.cli import main; main()"
    given = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(given, env=environment, capture_output=True, text=True, check=False)


def test_it_is_used_as_the_others_are(home: Path, tmp_path: Path) -> None:
    environment = install(tmp_path, STARS, "stars = toy_tasks:Stars")
    train, dev, head = (tmp_path / name for name in ("train.jsonl", "dev.jsonl", "stars.head"))
    write_records(train, numbers(80, 1))
    write_records(dev, numbers(20, 2))
    files = ["--train", train, "--dev", dev, "--label", "wet", "-o", head, "--model", home / "model"]
    options = ["--task", "stars", "--hidden", "0", "--precision", "fp32", "--device", "cpu"]
    done = bertfeat(environment, "classify", "train", *files, *options)
    assert done.returncode == 0, done.stderr
    predicted = bertfeat(environment, "classify", "predict", head, dev)
    assert predicted.returncode == 0, predicted.stderr
    values = [json.loads(line)["value"] for line in predicted.stdout.splitlines()]
    assert len(values) == 20
    assert set(values) <= {0.0, 1.0, 2.0, 3.0, 4.0}
    assert bertfeat(environment, "verify", head).returncode == 0
    missing = bertfeat(dict(os.environ), "classify", "predict", head, dev)
    assert missing.returncode == 1
    assert "stars: no task of classify; there are labels, multi-labels, numbers" in missing.stderr
    assert "Traceback" not in missing.stderr


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("Stars = dict", "the entry point stars of bertfeat.tasks is no Task"),
        (STARS.replace('name = "stars"', 'name = "labels"'), "there are two tasks with the name labels"),
    ],
)
def test_what_is_no_task_is_told(tmp_path: Path, code: str, told: str) -> None:
    environment = install(tmp_path, code, "stars = toy_tasks:Stars")
    train = write_records(tmp_path / "train.jsonl", numbers(8, 1))
    given = ["--train", train, "--dev", train, "--label", "wet", "-o", tmp_path / "head"]
    done = bertfeat(environment, "classify", "train", *given)
    assert (done.returncode, told in done.stderr) == (1, True), done.stderr
    assert "Traceback" not in done.stderr
