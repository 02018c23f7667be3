"""Tiny models, built once a session, and no network for anyone."""

import atexit
import gc
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # before huggingface_hub is imported
os.environ["BERTFEAT_CACHE"] = ""  # no test reads or writes the user's own cache of digests

import pytest
import torch
from hypothesis import settings

from bertfeat.core.encoder import Encoder, Precision, load_encoder
from bertfeat.core.extraction.sentence_transformers import extractor as extractor_module
from bertfeat.core.models import Model, find_model
from bertfeat.io import Address
from bertfeat.pretraining import calls
from bertfeat.search.evaluation import recall
from tests.support.s3_server import Faults, S3Server
from tests.support.tiny_models import ALL, PACKED, Tiny, build

# Time on shared cores says nothing. make test tries the same examples every time; make slow draws new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None, print_blob=True)
settings.load_profile("same")

# No test compares speeds, so nothing is measured for longer than once.
recall.SECONDS_TIMED = 0.0
calls.SECONDS_MEASURED = 0.0


def _not_waited_for(fd: object) -> None:
    """Stands for ``os.fsync``: no test pulls the plug, and waiting for a disk took more than a tenth of the time."""


os.fsync = _not_waited_for

# What a script starts in the background ignores Ctrl-C, and so would all that tests start to be interrupted.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Set once: pytest's own log_level sets it before and after each test, and each time all loggers forget what they know.
logging.getLogger().setLevel(logging.INFO)

SECONDS = {"slow": 600, "hostile": 3600}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what samples leave out, and give the tests that take minutes the time for it."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for of_one_test in cases.values():
        _mark_what_the_sample_leaves_out(of_one_test)
    for item in items:
        for name in SECONDS:
            if item.get_closest_marker(name) and not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(SECONDS[name]))


def _mark_what_the_sample_leaves_out(items: list[pytest.Item]) -> None:
    """Mark as slow all cases of a test but so many, and as hostile all of these but so many."""
    marker = items[0].get_closest_marker("sampled")
    assert marker is not None
    quick, slow = (*marker.args, len(items))[:2]
    items = [item for item in items if not item.get_closest_marker("hostile")]
    kept = _evenly_spread([item for item in items if not item.get_closest_marker("slow")], quick)
    left_out = [item for item in items if item not in kept]
    kept = _evenly_spread(left_out, slow)
    for item in left_out:
        item.add_marker("slow" if item in kept else "hostile")


def _evenly_spread(items: list[pytest.Item], count: int) -> list[pytest.Item]:
    """So many of the items, from the first to the last one; all, where there are no more."""
    last, gaps = len(items) - 1, max(1, count - 1)
    return [items[number] for number in sorted({at * last // gaps for at in range(count)})] if items else []


def pytest_collection_finish() -> None:
    """Let collections of garbage look at what tests make, and not at what was imported for them."""
    gc.collect()
    gc.freeze()
    atexit.register(gc.unfreeze)  # else libraries report at Python's end what was not collected as leaks


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


@pytest.fixture(autouse=True, scope="module")
def shared_models_stay_as_they_are() -> Iterator[None]:
    """Fail the module whose tests change a model which others read too."""
    yield
    for family, loaded in _LOADED.items():
        assert _state(loaded.folder) == _BUILT[family], family


@pytest.fixture(autouse=True)
def new_threads_compute_as_the_first_one() -> None:
    """Take back what a server said of its threads, which torch applies to all that begin later: manifests tell it."""
    torch.set_num_threads(torch.get_num_threads())


@pytest.fixture(scope="session", autouse=True)
def shared_models_are_loaded_once() -> Iterator[None]:
    """Let extractors share an encoder of each model that all tests read: to load one takes longer than most tests."""
    encoders: dict[tuple[object, ...], Encoder] = {}

    def load_shared(model: Model, precision: Precision, device: torch.device) -> Encoder:
        if model.folder not in (find_model().folder, *(tiny.folder for tiny in _LOADED.values())):
            return load_encoder(model, precision, device)
        held = sorted(each for each in os.environ.items() if each[0].startswith("BERTFEAT_"))
        key = (model.folder, precision, device, torch.get_num_threads(), *held)
        if key not in encoders:
            encoders[key] = load_encoder(model, precision, device)
        return encoders[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extractor_module, "load_encoder", load_shared)
        yield


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
