"""Parts whose digests hold and which contradict themselves are told by a check of the set."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.features import FeatureSet
from bertfeat.errors import FeatureSetError
from tests.hostile.forge import forge_part
from tests.hostile.wrong_tables import SHAPES, VALUES
from tests.support.runs import extractor, jsonl_file
from tests.support.tiny_models import Tiny

TOLD = {
    "tokens below zero": "says that it has .* tokens",
    "an empty text": "positions that are not in the text",
    "a text with escapes": "positions that are not in the text",
}


@pytest.fixture(scope="module")
def sound(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("sound")
    records = [
        {"text": f"The bank {at} of the river.", "year": 1900 + at, "author": "Ada", "score": at / 3}
        for at in range(12)
    ]
    corpus = jsonl_file(home / "docs.jsonl", [*records[:7], {"text": None}, *records[7:]])
    extractor(tiny("bert"), pooling="mean,token,word").extract(
        corpus, home / "docs.features", corpus_settings=CorpusSettings(keep=("year", "author", "score")), part_rows=5
    )
    return home / "docs.features"


@pytest.fixture
def part(sound: Path, tmp_path: Path) -> Path:
    return shutil.copytree(sound, tmp_path / "docs.features") / "part-00001.parquet"


def check(part: Path) -> None:
    for _ in FeatureSet(part.parent).check():
        pass


def test_what_is_right_passes(part: Path) -> None:
    forge_part(part, lambda table, header: (table, header))
    check(part)


@pytest.mark.sampled(25)
@pytest.mark.parametrize("name", SHAPES)
def test_contradictions_are_told(part: Path, name: str) -> None:
    forge_part(part, SHAPES[name])
    with pytest.raises(FeatureSetError, match=r"part-0000\d\.parquet"):
        check(part)


@pytest.mark.parametrize("name", VALUES)
def test_odd_values_are_read(part: Path, name: str) -> None:
    """They may be an encoder's, or the corpus's own; but tokens have places in texts, and are counted."""
    forge_part(part, VALUES[name])
    if problem := TOLD.get(name):
        with pytest.raises(FeatureSetError, match=problem):
            check(part)
    else:
        check(part)
