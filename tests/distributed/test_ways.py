"""Whoever does the work, the feature set is byte for byte the one of a single undisturbed run."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.tiny_models import Tiny
from tests.support.ways import CORPORA, end_all, extract, joined, local_workers, made, options

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # it is forked


@pytest.fixture(autouse=True)
def workers_are_forked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    local_workers(monkeypatch)
    yield


@pytest.mark.parametrize("write", CORPORA.values(), ids=CORPORA)
def test_the_same_bytes(bert: Tiny, tmp_path: Path, write: Callable[[Path], list[str]]) -> None:
    (tmp_path / "corpus").mkdir()
    arguments = [*write(tmp_path / "corpus"), *options(bert)]
    extract(*arguments, "-o", tmp_path / "one")
    alone = made(tmp_path / "one")
    assert len(alone[0]) > 4
    runs = joined(arguments, tmp_path / "joined", 3)
    extract(*arguments, "-o", tmp_path / "two", "--workers", "2")
    assert made(tmp_path / "two") == alone
    assert list(end_all(runs)) == [0, 0, 0]
    assert made(tmp_path / "joined") == alone
    for name, way in (("one", ["--workers", "1"]), ("two", ["--join"]), ("joined", [])):
        told = extract(*arguments, "-o", tmp_path / name, *way)
        assert "nothing to do" in told.stdout, told.stdout
        assert made(tmp_path / name) == alone
