"""dictionary_learning trains on the stream of vectors itself, of one place and from one to another."""

# mypy: disable-error-code="import-not-found, misc, no-any-return"

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from bertfeat import Extractor, FeatureSet, VectorDataset

pytest.importorskip("dictionary_learning", reason="make ecosystem installs it")
from dictionary_learning.trainers import TopKTrainer
from dictionary_learning.training import trainSAE

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
STEPS = 300


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureSet:
    folder = tmp_path_factory.mktemp("dictionary") / "f.features"
    Extractor(layers="3", pooling="token", precision="fp32", device="cpu").extract(EXAMPLES / "corpus.txt", folder)
    return FeatureSet(folder)


def batches(features: FeatureSet) -> Iterator[Tensor]:
    """Epoch after epoch of the stream, without [CLS] and [SEP]."""
    stream = features.vectors("3", "token", batch=256, drop_special=True, drop_norms=10)
    data = VectorDataset(stream, dtype=torch.float32)
    for epoch in range(100):
        data.set_epoch(epoch)
        for batch in data:
            yield batch.matrix


def test_it_trains(features: FeatureSet, tmp_path: Path) -> None:
    trained: dict[str, Any] = {
        "trainer": TopKTrainer,
        "steps": STEPS,
        "activation_dim": 384,
        "dict_size": 512,
        "k": 16,
        "layer": 3,
        "lm_name": "all-MiniLM-L6-v2",
        "lr": 1e-3,
        "warmup_steps": 10,
        "device": "cpu",
        "seed": 0,
    }
    with contextlib.redirect_stderr(io.StringIO()):
        trainSAE(batches(features), [trained], STEPS, save_dir=str(tmp_path), device="cpu")
    from dictionary_learning.trainers.top_k import AutoEncoderTopK

    sae = AutoEncoderTopK.from_pretrained(str(tmp_path / "trainer_0" / "ae.pt"))
    held = torch.cat([batch for batch, _ in zip(batches(features), range(10), strict=False)])
    with torch.no_grad():
        left = (sae(held) - held).pow(2).sum() / (held - held.mean(0)).pow(2).sum()
    assert float(left) < 0.5
