"""Commands that compute no features import neither torch, which takes seconds, nor transformers."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bertfeat.search import build_index
from tests.support.features_toy import toy_set
from tests.support.tiny_models import Tiny

CODE = """
import sys
from bertfeat.cli import main
try:
    main(sys.argv[1:], prog_name="bertfeat")
except SystemExit as end:
    print("EXIT", end.code or 0)
print("LOADED", *sys.modules)
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "command",
    [
        "info corpus.txt",
        "info toy.features",
        "info toy.index",
        "info model",
        "verify toy.features --sample 0",
        "verify toy.index",
        "export toy.features --to npy --column concat4_mean",
        "search toy.index --vectors vectors.npy",
        "compare toy.features toy.features --pooling mean",
    ],
)
def test_no_torch(home: Path, command: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", CODE, *command.split()], capture_output=True, text=True, cwd=home, check=False
    )
    assert "EXIT 0" in told.stdout, told.stderr
    assert {"torch", "transformers"} & {*told.stdout.partition("LOADED")[2].split()} == set()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, tiny: Callable[[str], Tiny]) -> Path:
    folder = tmp_path_factory.mktemp("light")
    features = toy_set(folder / "toy.features")
    build_index([features], folder / "toy.index", "concat4_mean")
    np.save(folder / "vectors.npy", np.ones((1, 32), np.float32))
    (folder / "corpus.txt").write_text("a river bank\n")
    (folder / "model").symlink_to(tiny("bert").folder)
    return folder
