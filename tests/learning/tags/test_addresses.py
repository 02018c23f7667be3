"""Taggers learn from feature sets at addresses, and remember those."""

from itertools import count
from pathlib import Path

import pytest

from bertfeat.core.features import FeatureSet
from bertfeat.errors import UsageError
from bertfeat.io import Address, list_files, put_file, read_file
from bertfeat.learning import HeadSettings, Tagger, verify_head
from bertfeat.learning.inputs import find_place, record_place
from bertfeat.learning.sources import open_head_source
from tests.support.tagging_toy import feature_set, tagged, train
from tests.support.tiny_models import Tiny

_NUMBERS = count()


def uploaded(features: FeatureSet) -> Address:
    """A copy of a feature set in memory."""
    address = Address.parse(f"memory://tagging-{next(_NUMBERS)}/{features.folder.name}")
    for file in list_files(features.folder):
        put_file(address / file.name, read_file(features.folder / file.name))
    return address


def test_a_tagger_is_trained_verified_and_used_at_addresses(bert: Tiny, tmp_path: Path) -> None:
    first, second = (feature_set(bert.folder, tmp_path / f"{seed}.features", 12, seed) for seed in range(2))
    there = [uploaded(features) for features in (first, second)]
    settings = HeadSettings(epochs=1, hidden=4)
    here = train(first, second, tmp_path / "here.tagger", settings=settings)
    report = train(open_at(there[0]), open_at(there[1]), tmp_path / "there.tagger", settings=settings)
    assert report.record.places == {"train": (str(there[0]),), "dev": (str(there[1]),)}
    assert report.record.weights == here.record.weights
    states = verify_head(tmp_path / "there.tagger").features
    assert {str(state) for state in states.values()} == {"the same"}
    tagger = Tagger(tmp_path / "there.tagger")
    assert tagged(tagger, there[1]) == tagged(tagger, second)
    for file in list_files(there[1]):
        put_file(there[1] / file.name, b"")
    assert str(verify_head(tmp_path / "there.tagger").features["dev"]) != "the same"


def open_at(address: Address) -> FeatureSet:
    opened = open_head_source(str(address))
    assert isinstance(opened, tuple)
    return opened[0]


def test_places_are_recorded_so_that_they_are_found_again(tmp_path: Path) -> None:
    address = Address.parse("s3://bucket/train.features")
    tagger = tmp_path / "ner.tagger"
    assert record_place(address, tagger) == "s3://bucket/train.features"
    assert record_place(tmp_path / "train.features", tagger) == "../train.features"
    for place in (address, tagger / "../train.features"):
        assert find_place(tagger, record_place(place, tagger)) == place


def test_a_corpus_at_an_address_is_no_feature_set() -> None:
    with pytest.raises(UsageError, match=r"memory://nothing/train\.conll: there is no feature set at this address"):
        open_head_source("memory://nothing/train.conll")
