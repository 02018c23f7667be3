"""Folders that are unlike what transformers writes, and sound: they give the numbers of those that are not."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bertfeat.core.extraction import Extractor
from tests.support.crafted import Change, config, put, tensors, tokenizer_config, write
from tests.support.tiny_models import TEXTS, build


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Give a folder of each path, to be copied."""
    work = tmp_path_factory.mktemp("clean")
    return {family: build(family, work / family) for family in ("bert", "albert")}


def linked(folder: Path) -> None:
    """As in the cache of the hub, every file is a link."""
    blobs = folder.parent / "blobs"
    blobs.mkdir()
    for file in list(folder.iterdir()):
        shutil.move(file, blobs / file.name)
        file.symlink_to(Path("..") / "blobs" / file.name)


def with_counters(folder: Path) -> None:
    file = folder / "model.safetensors"
    save_file({**load_file(file), "embeddings.position_ids": torch.arange(64)[None]}, file, {"format": "pt"})


TAKEN: dict[str, Change] = {
    "links": linked,
    "links to nothing": lambda folder: (folder / "vocab.txt").symlink_to("nowhere"),
    "positions as integers": with_counters,
    "double precision": tensors(lambda _, t: t.double()),
    "labels without end": config(num_labels=10**9, id2label={"0": 1}, problem_type="x"),
    "how to run it": config(
        attn_implementation="nobody/kernel", _attn_implementation="x", return_dict=False, dtype="x"
    ),
    "what to give": config(output_hidden_states=True, output_attentions=True, torch_dtype=5, fusion_config={"x": 1}),
    "other weights": config(transformers_weights="../../etc/passwd"),
    "a part of a checkpoint": lambda folder: write(folder, "shard-00001-model-00001-of-00001.safetensors", b"x"),
    "files of a tokenizer elsewhere": tokenizer_config(vocab_file="/etc/passwd", tokenizer_file="/etc/passwd"),
    "no limit": tokenizer_config(model_max_length=10**30),
    "pickles": put("pytorch_model.bin", b"x"),
    "other prompts": put("config_sentence_transformers.json", {"prompts": None, "similarity_fn_name": 5}),
}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("family", ["bert", "albert"])
@pytest.mark.parametrize("case", TAKEN)
def test_what_changes_no_number_is_taken(
    case: str, family: str, clean: dict[str, Path], tmp_path: Path, vectors: dict[str, Any]
) -> None:
    folder = Path(shutil.copytree(clean[family], tmp_path / "model"))
    TAKEN[case](folder)
    np.testing.assert_array_equal(Extractor(folder, precision="fp32", device="cpu").encode(TEXTS), vectors[family])


@pytest.fixture(scope="module")
def vectors(clean: dict[str, Path]) -> dict[str, Any]:
    """Give the vectors of the sound folders."""
    return {f: Extractor(clean[f], precision="fp32", device="cpu").encode(TEXTS) for f in ("bert", "albert")}
