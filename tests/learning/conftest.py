"""Corpora that heads learn from, and their features, made once."""

from collections.abc import Callable
from pathlib import Path

import pytest

from bertfeat.core.corpus import CorpusSettings
from bertfeat.core.extraction import Extractor
from bertfeat.core.features import FeatureSet
from tests.support.heads_toy import FP32, pairs, questions, topics, write_questions, write_records
from tests.support.tiny_models import Tiny


@pytest.fixture(scope="session")
def home(tiny: Callable[[str], Tiny], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with a model and corpora of topics, pairs and questions; nothing is written into it."""
    folder = tmp_path_factory.mktemp("heads")
    (folder / "model").symlink_to(tiny("bert").folder)
    for name, number, seed in (("train", 120, 1), ("dev", 40, 2)):
        write_records(folder / f"{name}.csv", topics(number, seed))
        write_records(folder / f"{name}-pairs.jsonl", pairs(number, seed))
        write_questions(folder / f"{name}.json", questions(number // 2, seed, without=True))
    return folder


@pytest.fixture(scope="session")
def extracted(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., FeatureSet]:
    """Give the function that extracts a corpus of ``home``, once for each way."""
    made: dict[str, FeatureSet] = {}
    folder = tmp_path_factory.mktemp("features")

    def extract(name: str, pooling: str = "mean", layers: str = "concat4", **reading: object) -> FeatureSet:
        key = f"{name} {pooling} {layers} {reading}"
        if key not in made:
            extractor = Extractor(home / "model", layers=layers, pooling=pooling, **FP32)
            place = folder / f"{len(made)}.features"
            settings = CorpusSettings(**reading)  # type: ignore[arg-type]
            extractor.extract(home / name, place, part_rows=17, corpus_settings=settings)
            made[key] = FeatureSet(place)
        return made[key]

    return extract
