"""A process that is forked after a model was loaded: it computes, on one thread, and says so once."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tiny_models import build

SCRIPT = """
import logging, os, signal, sys, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import numpy as np, torch
torch.set_num_threads(2)
from bertfeat import Extractor
logging.basicConfig(format="%(message)s")
extractor = Extractor(sys.argv[1], precision="fp32", device="cpu", pooling="mean")
texts = ["The bank of the river was steep, and the water ran fast below the old mill."] * 300
wanted = extractor.encode(texts)
child = os.fork()
if child == 0:
    signal.alarm(60)  # else it would outlive a test that fails
    found = [extractor.encode(texts), extractor.encode(texts)]
    close = all(np.abs(each - wanted).max() < 1e-5 for each in found)
    print("child", close, torch.get_num_threads(), flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
print("parent", status, np.array_equal(extractor.encode(texts), wanted), torch.get_num_threads())
"""


@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("family", ["bert", "albert"])
def test_a_forked_process_computes_on_one_thread(family: str, tmp_path: Path) -> None:
    folder = build(family, tmp_path / family, hidden_size=64, intermediate_size=256)
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)], capture_output=True, text=True, timeout=120, check=True
    )
    assert ran.stdout.splitlines() == ["child True 1", "parent 0 True 2"]
    assert ran.stderr.count("this process was forked from one that had loaded a model") == 1
