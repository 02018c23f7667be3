"""The kernels as they are here, and those of AMX, emulated where there is none."""

import pytest

from bertfeat.encoder.kernels import Kernels, find_kernels
from tests.encoder.support import let_find
from tests.support.emulated import emulated_amx


@pytest.fixture
def built() -> Kernels:
    found = find_kernels()
    if found is None:
        pytest.skip("the kernels were not built here, or this CPU has no AVX2")
    return found


@pytest.fixture
def amx(built: Kernels) -> Kernels:
    """Give the kernels with AMX, its tiles emulated where the CPU has none."""
    found = built if built.has_amx else emulated_amx()
    if found is None:
        pytest.skip("this CPU has neither AMX nor AVX512-BF16, or there is no gcc")
    return found


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    let_find(None, monkeypatch)
