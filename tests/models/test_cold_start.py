"""What loads neither torch nor transformers, and what loads torch alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bertfeat.cli import main
from bertfeat.core.models import find_model
from tests.support.tiny_models import Tiny, build

COMMAND = """
import contextlib, io, json, sys
from bertfeat.cli import main
with contextlib.redirect_stdout(io.StringIO()):
    main({arguments!r}, standalone_mode=False)
"""


def loaded_by(code: str) -> set[str]:
    """Which of the heavy libraries a fresh interpreter has loaded after ``code``."""
    report = "\nimport json, sys; print(json.dumps([*sys.modules]))"
    ran = subprocess.run([sys.executable, "-c", code + report], capture_output=True, text=True, env={**os.environ})
    assert ran.returncode == 0, ran.stderr
    return {"torch", "transformers", "faiss"} & set(json.loads(ran.stdout.splitlines()[-1]))


def loaded_by_command(*arguments: str | Path) -> set[str]:
    return loaded_by(COMMAND.format(arguments=[*map(str, arguments)]))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, tiny_bert: Path) -> Path:
    """Give a folder with a feature set and an index over it."""
    work = tmp_path_factory.mktemp("cold")
    (work / "corpus.txt").write_text("The bank of the river.\nHe went to the bank.\n")
    for arguments in (
        ["extract", work / "corpus.txt", "-o", work / "a.features", "--model", tiny_bert],
        ["index", work / "a.features", "-o", work / "a.index"],
    ):
        result = CliRunner().invoke(main, [*map(str, arguments)])
        assert result.exit_code == 0, result.output
    return work


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("bert", tmp_path_factory.mktemp("models") / "bert")


@pytest.mark.slow
def test_info_on_a_model() -> None:
    assert loaded_by_command("info", find_model().name) == set()


def test_info_on_a_folder(bert: Tiny) -> None:
    assert loaded_by_command("info", bert.folder) == set()


@pytest.mark.slow
def test_info_on_results(results: Path) -> None:
    assert loaded_by_command("info", results / "a.features") == set()
    assert loaded_by_command("info", results / "a.index") <= {"faiss"}


@pytest.mark.slow
def test_verify_without_a_sample(results: Path) -> None:
    assert loaded_by_command("verify", results / "a.features", "--sample", "0") == set()


def test_search_needs_no_transformers(results: Path) -> None:
    assert loaded_by_command("search", results / "a.index", "river") == {"torch", "faiss"}


def test_a_tokenizer_needs_no_torch() -> None:
    code = "from bertfeat.core import Tokenizer, find_model\nTokenizer(find_model())"
    assert loaded_by(code) == set()
