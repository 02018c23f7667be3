"""A new family on the packed path is two entries: in PACKED_FAMILIES and in WEIGHT_NAMES."""

from pathlib import Path

import numpy as np
import pytest

from bertfeat.core.encoder.linear import ACTIVATION_FUNCTIONS
from bertfeat.core.encoder.packed import PackedEncoder
from bertfeat.core.encoder.path import ACTIVATIONS, WEIGHT_NAMES
from bertfeat.core.models import PACKED_FAMILIES
from bertfeat.core.recipe import Pooling
from tests.support.tiny_architectures import ARCHITECTURES
from tests.support.tiny_models import TEXTS, Tiny, documents, text_states


def test_a_family_with_the_weights_of_roberta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ARCHITECTURES["data2vec-text"].build(tmp_path / "data2vec")
    monkeypatch.setitem(PACKED_FAMILIES, "data2vec-text", PACKED_FAMILIES["roberta"])
    monkeypatch.setitem(WEIGHT_NAMES, "data2vec-text", WEIGHT_NAMES["roberta"])
    tiny = Tiny.load(folder)
    assert type(tiny.encoder) is PackedEncoder
    vectors = tiny.features(documents(TEXTS), "all", Pooling.CLS)
    for at, text in enumerate(TEXTS):
        for layer, states in enumerate(text_states(folder, text)):
            np.testing.assert_allclose(vectors[f"layer{layer}_cls"][at], states[0], rtol=0, atol=3e-5)


def test_both_tables_have_the_same_families() -> None:
    assert WEIGHT_NAMES.keys() == PACKED_FAMILIES.keys()


def test_all_activations_can_be_computed() -> None:
    assert set(ACTIVATIONS) == ACTIVATION_FUNCTIONS.keys()
