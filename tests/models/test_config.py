"""Configurations read without transformers say what transformers reads in them."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import CONFIG_MAPPING

from bertfeat.core.models import PACKED_FAMILIES, Model, ModelConfig, find_model
from bertfeat.errors import ModelError
from tests.support.tiny_models import PACKED, build


def both_readings(folder: Path) -> tuple[ModelConfig, ModelConfig]:
    own = Model("x", folder)
    return own.config, own._library[0]


def same(folder: Path) -> bool:
    ours, theirs = both_readings(folder)
    padding = {ours.sizes.pad_token_id} if "pad_token_id" in PACKED_FAMILIES[ours.model_type].unread else {}
    special = ours.special_ids - {*padding} <= theirs.special_ids  # which transformers fills up with its defaults
    fields = {"model_type", "sizes", "activation", "inner_size", "notes", "tokenizer_class"}
    if PACKED_FAMILIES[ours.model_type].unread:  # what transformers reads there, its module does not compute with
        fields -= {"sizes"}
    return special and all(getattr(ours, name) == getattr(theirs, name) for name in fields)


@pytest.mark.parametrize("family", PACKED)
def test_tiny_families(family: str, tmp_path: Path) -> None:
    assert same(build(family, tmp_path / family))


def test_the_default_model() -> None:
    assert same(find_model().folder)


@pytest.mark.parametrize("family", PACKED_FAMILIES)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"hidden_size": 120, "num_attention_heads": 6},
        {"num_hidden_layers": 3, "intermediate_size": 77, "vocab_size": 99},
        {"dim": 96, "n_layers": 2, "n_heads": 3, "hidden_dim": 50, "activation": "relu"},
        {"pad_token_id": 5, "bos_token_id": 7, "max_position_embeddings": 33},
        {"auto_map": {"AutoModel": "code.Model"}, "tokenizer_class": "BertTokenizerFast"},
        {"hidden_act": "relu", "layer_norm_eps": 1e-5, "position_embedding_type": "absolute"},
    ],
    ids=lambda changes: ",".join(changes) or "defaults",
)
def test_what_a_configuration_leaves_out(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    known = CONFIG_MAPPING[family]().to_dict()
    if family == "distilbert":
        changes = {key: value for key, value in changes.items() if key in known or key in ("auto_map", "hidden_size")}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family, **changes}))
    assert same(tmp_path)


def test_distilberts_numbers_by_their_own_names(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        json.dumps({"model_type": "distilbert", "dim": 96, "n_layers": 2, "n_heads": 3, "hidden_dim": 50})
    )
    ours, theirs = both_readings(tmp_path)
    for name in ("num_hidden_layers", "hidden_size", "vocab_size", "num_attention_heads", "max_position_embeddings"):
        assert getattr(ours.sizes, name) == getattr(theirs.sizes, name)
    assert (ours.sizes.hidden_size, ours.inner_size, theirs.inner_size) == (96, 50, 50)
    assert ours.sizes.type_vocab_size is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"is_decoder": True}, "is no encoder"),
        ({"position_embedding_type": "relative_key_query"}, "only absolute ones can be computed"),
        ({"hidden_act": 5}, "the activation is 5"),
        ({"num_hidden_layers": True}, "Expected 'int', got 'bool'"),
        ({"vocab_size": None}, "has no vocab_size in its config.json"),
        ({"num_decoder_layers": 5_000}, "num_decoder_layers is 5,000"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **changes}))
    with pytest.raises(ModelError, match=words):
        _ = Model("x", tmp_path).config
