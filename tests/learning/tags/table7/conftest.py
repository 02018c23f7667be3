"""A small Table 7, made once a module, and a copy of it for each test."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.tagging_tables import Sets, made_sets, made_table
from tests.support.tiny_models import Tiny


@pytest.fixture(scope="module")
def sets(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Sets:
    return made_sets(tiny("bert").folder, tmp_path_factory.mktemp("sets"))


@pytest.fixture(scope="module")
def made(sets: Sets, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "table"
    made_table(sets, folder)
    return folder


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "table")
