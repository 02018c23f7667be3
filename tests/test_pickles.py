"""What was opened and used goes through pickle by its folder, and is opened and checked where it is loaded."""

import copy
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bertfeat
from bertfeat.errors import BertfeatError, FeatureSetError, HeadError, IndexFolderError
from bertfeat.search import VectorIndex
from tests.support.heads_toy import MONEY
from tests.support.public_calls import PublicWorld
from tests.support.tiny_models import Tiny


@dataclass(frozen=True)
class Case:
    opened: Callable[[PublicWorld], Any]
    use: Callable[[Any, PublicWorld], object]
    error: type[BertfeatError] | None  # where its folder is another one by then


def hits(index: Any, _: PublicWorld) -> object:
    return [[(hit.id, hit.score) for hit in index.search(text, 4, rerank="maxsim").hits] for text in MONEY]


def neighbors(index: Any, _: PublicWorld) -> object:
    found = index.search(np.eye(4, 32, dtype=np.float32), 5)
    return found.scores.tolist(), found.numbers.tolist()


def guesses(head: Any, world: PublicWorld) -> object:
    return [(row.id, row.value, row.probability) for row in head.predict(world.corpus).rows]


CASES = {
    "feature set": Case(lambda world: world.plain, lambda features, _: features.matrix().tolist(), FeatureSetError),
    "index": Case(lambda world: world.index, hits, IndexFolderError),
    "vector index": Case(lambda world: world.index.vectors, neighbors, IndexFolderError),
    "tagger": Case(lambda world: world.tagger, lambda tagger, _: tagger.tag(MONEY), HeadError),
    "head": Case(lambda world: world.head, guesses, HeadError),
    "extractor": Case(lambda world: world.extractor, lambda extractor, _: extractor.encode(MONEY).tolist(), None),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, tiny: Callable[[str], Tiny]) -> PublicWorld:
    return PublicWorld(tmp_path_factory.mktemp("pickles"), tiny("bert").folder)


@pytest.mark.parametrize("name", CASES)
def test_a_pickle_does_what_was_pickled(world: PublicWorld, name: str) -> None:
    case = CASES[name]
    opened = case.opened(world)
    before = case.use(opened, world)  # it is pickled after it was used
    again = pickle.loads(pickle.dumps(opened))
    assert type(again) is type(opened)
    assert case.use(again, world) == before
    assert case.use(copy.deepcopy(opened), world) == before


def test_another_process_that_was_started_elsewhere_takes_it(
    world: PublicWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(world.index)
    monkeypatch.chdir(world.folder)
    index = VectorIndex("both.index")
    pickled = pickle.dumps(index)
    code = "import pickle, sys; print(len(pickle.load(sys.stdin.buffer)))"
    done = subprocess.run([sys.executable, "-c", code], input=pickled, capture_output=True, cwd=tmp_path, check=True)
    assert int(done.stdout) == len(index)


def test_an_encoder_of_its_own_goes_with_an_index(world: PublicWorld) -> None:
    index = bertfeat.Index(world.index_folder, encoder=world.extractor)
    again = pickle.loads(pickle.dumps(index))
    assert again.search("bank").hits == index.search("bank").hits


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.error is not None])
def test_a_folder_that_is_another_one_by_then_is_refused(world: PublicWorld, name: str, tmp_path: Path) -> None:
    opened = CASES[name].opened(world)
    place = tmp_path / "place"
    shutil.copytree(opened.folder, place)
    pickled = pickle.dumps(type(opened)(place))
    assert len(pickled) < 2000
    shutil.rmtree(place)
    error = CASES[name].error
    assert error is not None
    with pytest.raises(BertfeatError):
        pickle.loads(pickled)
    shutil.copytree(other_folder(world, name), place)
    with pytest.raises(error, match=f"{place}: it was replaced after this was pickled; open it again by its folder"):
        pickle.loads(pickled)


def other_folder(world: PublicWorld, name: str) -> Path:
    """A sound result of the same kind with another content."""
    if name == "feature set":
        assert len(world.more)
        return world.folder / "more.features"
    if "index" in name:
        return world.index_folder
    other = world.new()
    call: dict[str, Any] = {"folder": other, "picture": False}
    if name == "tagger":
        settings = bertfeat.HeadSettings(epochs=1, hidden=5)
        bertfeat.train_head("tag", world.tags, world.tags, layers="last", settings=settings, **call)
    else:
        bertfeat.train_head(**{**world.head_call, **call, "settings": bertfeat.learning.HeadSettings(epochs=2)})
    return other
