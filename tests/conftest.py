"""Tiny models, built once a session, and no network for anyone."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before huggingface_hub is imported
os.environ["BERTFEAT_CACHE"] = ""  # no test reads or writes the user's own cache of digests

import pytest
from hypothesis import settings

from bertfeat.io import Address
from tests.support.s3_server import Faults, S3Server
from tests.support.tiny_models import ALL, PACKED, Tiny, build

# Time on shared cores says nothing. make test tries the same examples every time; make slow draws new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None, print_blob=True)
settings.load_profile("same")

SECONDS = {"slow": 600, "hostile": 3600}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests that take minutes the time for it."""
    for item in items:
        for name in SECONDS:
            if item.get_closest_marker(name) and not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(SECONDS[name]))


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


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """Start an S3 server on this machine, once."""
    with S3Server() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """Give the S3 server, found by the environment, without harm and with its requests counted from 0."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    s3_server.forget()
    yield s3_server
    s3_server.harm(Faults())


@pytest.fixture
def bucket(s3: S3Server) -> Address:
    """Give an empty bucket of the S3 server."""
    return Address.parse(f"s3://{s3.make_bucket()}")
