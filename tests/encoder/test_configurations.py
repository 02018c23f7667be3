"""Keys of ``config.json`` one by one, at another value: as Hugging Face computes with it, or refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from bertfeat.core.encoder import Precision, load_encoder
from bertfeat.core.models import find_model
from bertfeat.core.recipe import outputs_of
from bertfeat.core.tokens import TokenBatch
from bertfeat.errors import ModelError
from tests.support.tiny_families import PACKED, build
from tests.support.tiny_models import CPU

BOUND = 3e-5
IDS = np.array([2, 9, 5, 1, 30, 6, 0, 12, 7, 3], np.int32)  # padding tokens of both kinds among them
ASIDE = ("model_type", "architectures", "dtype", "torch_dtype", "transformers_version")
GENERAL = ("layer_norm_eps", "pad_token_id", "hidden_act", "activation", "embedding_size", "type_vocab_size")
"""Keys that one family reads, and that another's configuration may have for nothing."""


def other(key: str, value: object) -> list[object]:
    """Values that a configuration might have instead."""
    if key == "layer_norm_eps":
        return [0.3, 0]
    if key in ("hidden_act", "activation"):
        return ["relu", "gelu_new", "silu"]
    if key == "position_embedding_type":
        return ["absolute", "relative_key"]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [0, 1, 5, 64, None]
    if isinstance(value, float):
        return [0.5]
    return ["other"] if isinstance(value, str) else [True, 5]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("family", PACKED)
def test_each_key_means_what_it_means_to_transformers(family: str, tmp_path: Path) -> None:
    folder = build(family, tmp_path / family)
    written: dict[str, Any] = json.loads((folder / "config.json").read_text("utf-8"))
    known = CONFIG_MAPPING[family]().to_dict()
    compared = set()
    for key in sorted({*written, *known, *GENERAL} - {*ASIDE}):
        for value in other(key, written.get(key, known.get(key))):
            (folder / "config.json").write_text(json.dumps({**written, key: value}), "utf-8")
            if compare(folder):
                compared.add(key)
    assert {"layer_norm_eps", "pad_token_id"} <= compared


def compare(folder: Path) -> bool:
    """Compare the layers of a sequence; False where either of the two refuses the configuration."""
    try:
        encoder = load_encoder(find_model(folder), Precision.FP32, CPU)
    except ModelError:
        return False
    types = np.zeros(len(IDS), np.int8)
    layers = range(find_model(folder).num_layers + 1)
    found = encoder.hidden_states(TokenBatch(np.array([0]), IDS, types, np.array([len(IDS)])), outputs_of(layers))
    wanted = theirs(folder)
    if wanted is None:
        return False
    for state, layer in zip(found, wanted, strict=True):
        message = (folder / "config.json").read_text("utf-8")
        np.testing.assert_allclose(state.values.numpy(), layer, rtol=0, atol=BOUND, err_msg=message)
    return True


@torch.no_grad()
def theirs(folder: Path) -> Any:
    """Hugging Face's layers; None where it cannot make the module, or not of these weights, or computes no numbers."""
    try:
        module, told = AutoModel.from_pretrained(folder, output_loading_info=True)
        if any("pooler" not in str(key) for kind in ("missing_keys", "mismatched_keys") for key in told[kind]):
            return None
        states = module.eval()(torch.from_numpy(IDS[None]).long(), output_hidden_states=True).hidden_states
    except Exception:
        return None
    return [state[0].numpy() for state in states]
