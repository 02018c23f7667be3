"""Tiny models, built once a session, and no network for anyone."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before huggingface_hub is imported
os.environ["BERTFEAT_CACHE"] = ""  # no test reads or writes the user's own cache of digests

import pytest
from hypothesis import settings

from tests.support.tiny_models import ALL, PACKED, Tiny, build

settings.register_profile("bertfeat", deadline=None)  # time on shared cores says nothing
settings.load_profile("bertfeat")


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tiny]:
    """Give a family's tiny model, built and loaded at the first call."""

    def load(family: str) -> Tiny:
        if family not in _LOADED:
            _LOADED[family] = Tiny.load(build(family, tmp_path_factory.mktemp("models") / family))
            _BUILT[family] = _state(_LOADED[family].folder)
        return _LOADED[family]

    return load


_LOADED: dict[str, Tiny] = {}
_BUILT: dict[str, dict[str, int]] = {}


def _state(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


@pytest.fixture(autouse=True)
def shared_models_stay_as_they_are() -> Iterator[None]:
    """Fail the test that changes a model which others read too."""
    yield
    for family, loaded in _LOADED.items():
        assert _state(loaded.folder) == _BUILT[family], family


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
