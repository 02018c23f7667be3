"""dictionary_learning trains on the stream of vectors itself.

It has a process of its own: nnsight, which it imports, changes what numba compiles.
"""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from bertfeat import Extractor

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
TRAINING = """
import itertools, json, sys
import torch
from bertfeat import FeatureSet, VectorDataset
from dictionary_learning.trainers import TopKTrainer
from dictionary_learning.trainers.top_k import AutoEncoderTopK
from dictionary_learning.training import trainSAE

folder, out = sys.argv[1:]
stream = FeatureSet(folder).vectors("3", "token", batch=256, drop_special=True, drop_norms=10)
data = VectorDataset(stream, dtype=torch.float32)

def batches():
    for epoch in itertools.count():
        data.set_epoch(epoch)
        for batch in data:
            yield batch.matrix

trainer = {
    **{"trainer": TopKTrainer, "steps": 300, "activation_dim": 384, "dict_size": 512, "k": 16, "layer": 3},
    **{"lm_name": "all-MiniLM-L6-v2", "lr": 1e-3, "warmup_steps": 10, "device": "cpu", "seed": 0},
}
trainSAE(batches(), [trainer], 300, save_dir=out, device="cpu")
sae = AutoEncoderTopK.from_pretrained(f"{out}/trainer_0/ae.pt")
held = torch.cat(list(itertools.islice(batches(), 10)))
with torch.no_grad():
    left = (sae(held) - held).pow(2).sum() / (held - held.mean(0)).pow(2).sum()
print(json.dumps(left.item()))
"""


def test_it_trains(tmp_path: Path) -> None:
    if importlib.util.find_spec("dictionary_learning") is None:
        pytest.skip("make ecosystem installs it")
    folder = tmp_path / "f.features"
    Extractor(layers="3", pooling="token", precision="fp32", device="cpu").extract(EXAMPLES / "corpus.txt", folder)
    command = [sys.executable, "-c", TRAINING, str(folder), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) < 0.5
