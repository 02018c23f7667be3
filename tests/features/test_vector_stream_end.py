"""Iterators of vectors that are left early: the process ends in silence."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.features_toy import toy_parts, toy_set

LEFT = {
    "loop": "for batch in stream: break",
    "iterator": "left = iter(stream); next(left)",
    "two": "left = [iter(stream), iter(stream)]; next(left[0]); next(left[1]); left.append(left)",
    "torch": "from bertfeat import VectorDataset; left = iter(VectorDataset(stream)); next(left)",
    "loader": "from bertfeat import VectorDataset; from torch.utils.data import DataLoader; "
    "left = iter(DataLoader(VectorDataset(stream), batch_size=None)); next(left)",
    "batches": "left = features.batches('last', 'mean', batch_rows=1); next(left)",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("way", LEFT)
def test_the_process_ends_in_silence(way: str, tmp_path: Path) -> None:
    folder = toy_set(tmp_path / "toy.features", *toy_parts(poolings=("token", "mean")))
    code = f"""
import torch
from bertfeat import FeatureSet
features = FeatureSet({str(folder)!r})
stream = features.vectors("last", "token", batch=2, memory=1)
{LEFT[way]}
print("done")
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("done\n", "")
