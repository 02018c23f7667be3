"""``make quick``: which tests belong to what changed."""

import runpy
from collections.abc import Callable, Iterable
from pathlib import Path, PurePath

import pytest

ROOT = Path(__file__).resolve().parent.parent
name_tests: Callable[[PurePath], Iterable[str]] = runpy.run_path(str(ROOT / ".ci" / "changed.py"))["name_tests"]


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("bertfeat/learning/loop.py", {"tests/learning"}),
        ("bertfeat/core/encoder/csrc/kernels.h", {"tests/encoder"}),
        ("bertfeat/core/recipe.py", {"tests/test_recipe.py", "tests/recipe"}),
        ("cli/index.py", {"tests/cli/test_index.py"}),
        ("cli/console.py", {"tests/cli"}),
        ("cli/learning/train.py", {"tests/cli"}),
        ("tests/learning/test_labels.py", {"tests/learning/test_labels.py"}),
        ("tests/learning/conftest.py", {"tests/learning"}),
        ("docs/search.md", {"tests/test_documents.py"}),
        ("LICENSE", set()),
    ],
)
def test_of_what_changed(changed: str, tests: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert set(name_tests(PurePath(changed))) == tests


def test_tests_of_a_helper_are_those_that_import_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    if not (ROOT / ".git").exists():
        pytest.skip("git is asked, and these sources are no checkout of it")
    found = set(name_tests(PurePath("tests/support/pretraining_toy.py")))
    assert {"tests/pretraining/test_run.py", "tests/cli/test_pretrain.py"} <= found
    assert all("pretraining_toy" in (ROOT / path).read_text("utf-8") for path in found)


def test_every_room_has_tests() -> None:
    folders = [*(ROOT / "bertfeat").iterdir(), *(ROOT / "bertfeat" / "core").iterdir()]
    rooms = {path for path in folders if path.is_dir() and any(path.glob("*.py"))}
    without = {room.name for room in rooms if not (ROOT / "tests" / room.name).is_dir()}
    assert without <= {"adapters", "core"}
