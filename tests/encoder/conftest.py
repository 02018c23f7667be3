"""The kernels as they are here, and those of AMX, emulated where there is none."""

import pytest

from bertfeat.core.encoder.kernels import Kernels, find_kernels
from tests.encoder.support import BF16, KINDS, held_to, let_find


@pytest.fixture
def built() -> Kernels:
    found = find_kernels()
    if found is None:
        pytest.skip("the kernels were not built here, or this CPU has no AVX2")
    return found


@pytest.fixture
def amx(monkeypatch: pytest.MonkeyPatch) -> Kernels:
    """Give the kernels with AMX, its tiles emulated where the CPU has none."""
    return held_to("amx", monkeypatch)


@pytest.fixture(params=KINDS)
def each(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernels | None:
    """Give the kernels as each kind of processor has them; for ``none``, which a test may ask for too, none."""
    if request.param == "none":
        let_find(None, monkeypatch)
        return None
    if request.param == "avx2" and request.node.callspec.params.get("dtype") is BF16:
        pytest.skip("vectors of eight values are for float32")
    if request.param == "avx2" and (neon := find_kernels()) is not None and not neon.has_avx2:
        return neon
    return held_to(request.param, monkeypatch)


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    let_find(None, monkeypatch)
