"""Tiny models, built once a session, and no network for anyone."""

import os
from collections.abc import Callable
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before huggingface_hub is imported

import pytest

from tests.tiny_models import ALL, PACKED, Tiny, build


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tiny]:
    """Give a family's tiny model, built and loaded at the first call."""
    loaded: dict[str, Tiny] = {}

    def load(family: str) -> Tiny:
        if family not in loaded:
            loaded[family] = Tiny.load(build(family, tmp_path_factory.mktemp("models") / family))
        return loaded[family]

    return load


@pytest.fixture(params=ALL)
def any_tiny(request: pytest.FixtureRequest, tiny: Callable[[str], Tiny]) -> Tiny:
    return tiny(request.param)


@pytest.fixture(params=PACKED)
def packed_tiny(request: pytest.FixtureRequest, tiny: Callable[[str], Tiny]) -> Tiny:
    return tiny(request.param)


@pytest.fixture
def bert(tiny: Callable[[str], Tiny]) -> Tiny:
    return tiny("bert")


@pytest.fixture
def bert_folder(tmp_path: Path) -> Path:
    """Give a tiny BERT of one's own, to be damaged."""
    return build("bert", tmp_path / "bert")
