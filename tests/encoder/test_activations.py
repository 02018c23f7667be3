"""The kernels' activations by themselves, against float64: within a block, rounding would hide their errors."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from bertfeat.core.encoder.kernels import find_kernels
from tests.encoder.support import ACTIVATIONS

Floats = NDArray[np.float32]
Activate = Callable[[Floats, str, bool], Floats]
NUMBERS = {"gelu": 0, "gelu_new": 1, "relu": 2}
VALUES = np.concatenate([np.linspace(-12, 12, 1 << 20), np.geomspace(1e-30, 1e4, 1 << 10)]).astype(np.float32)


@pytest.fixture(scope="module", params=[("avx2", 8), ("avx512", 16)], ids=["avx2", "avx512"])
def activate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Activate:
    (instructions, lanes), found, compiler = request.param, find_kernels(), shutil.which("gcc")
    if compiler is None or found is None or not getattr(found, f"has_{instructions}"):
        pytest.skip(f"there is no gcc, or the processor lacks {instructions}")
    built = tmp_path_factory.mktemp("activations") / f"{instructions}.so"
    source = Path(__file__).with_name("activations.c")
    subprocess.run([compiler, "-O2", f"-DLANES={lanes}", "-fPIC", "-shared", source, "-o", built], check=True)
    library = ctypes.CDLL(str(built))

    def call(values: Floats, activation: str, finely: bool) -> Floats:
        out = np.empty_like(values)
        sizes = (ctypes.c_int64(each) for each in (len(values), NUMBERS[activation], finely))
        library.activate(ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(out.ctypes.data), *sizes)
        return out

    return call


@pytest.mark.parametrize(
    ("activation", "finely", "most"),
    [("gelu", False, 2.7e-5), ("gelu", True, 1e-7), ("gelu_new", False, 1e-5), ("gelu_new", True, 2e-7)],
)
def test_its_error(activate: Activate, activation: str, finely: bool, most: float) -> None:
    """Absolute up to 1, relative beyond it, where the steps of float32 grow."""
    for values in (VALUES, -VALUES):
        wanted = ACTIVATIONS[activation](torch.from_numpy(values).double()).numpy()
        found = activate(values, activation, finely)
        assert (np.abs(found - wanted) / np.maximum(1, np.abs(wanted))).max() < most


@pytest.mark.parametrize("finely", [False, True])
@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "relu"])
def test_no_number_stays_none(activate: Activate, activation: str, finely: bool) -> None:
    assert np.isnan(activate(np.full(16, np.nan, np.float32), activation, finely)).all()


@pytest.mark.parametrize("finely", [False, True])
def test_relu_is_exact(activate: Activate, finely: bool) -> None:
    np.testing.assert_array_equal(activate(VALUES[::-1].copy(), "relu", finely), np.maximum(VALUES[::-1], 0))
