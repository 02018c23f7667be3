"""The kernels as they are here, and those of AMX, emulated where there is none."""

import pytest

from bertfeat.encoder.kernels import Kernels, find_kernels
from tests.encoder.support import BF16, let_find
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


@pytest.fixture(params=["amx", "bf16", "avx512", "vector"])
def each(request: pytest.FixtureRequest, built: Kernels, monkeypatch: pytest.MonkeyPatch) -> Kernels:
    """Give the kernels with AMX, and without what is beyond AVX512-BF16, AVX-512, or vectors of eight values."""
    if request.param == "amx":
        found: Kernels = request.getfixturevalue("amx")
        let_find(found, monkeypatch)
        return found
    if request.param in ("bf16", "avx512") and not getattr(built, f"has_{request.param}"):
        pytest.skip(f"this CPU has no {request.param}")
    monkeypatch.setattr(built, "has_bf16", request.param == "bf16")
    if request.param == "vector":
        if request.node.callspec.params.get("dtype") is BF16:
            pytest.skip("vectors of eight values are for float32")
        monkeypatch.setattr(built, "has_avx512", False)
        monkeypatch.setattr(built, "has_vnni", False)
    monkeypatch.setattr(built, "has_amx", False)
    return built


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    let_find(None, monkeypatch)
