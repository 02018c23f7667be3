"""A program can keep the settings of the C library as they were."""

import ctypes

import pytest

from bertfeat.io import keep_freed_memory


@pytest.mark.parametrize(("value", "calls"), [(None, 2), ("0", 0), ("1", 2)])
def test_mallopt_is_called_unless_the_environment_forbids_it(
    monkeypatch: pytest.MonkeyPatch, value: str | None, calls: int
) -> None:
    seen: list[tuple[int, int]] = []

    class Library:
        def mallopt(self, name: int, number: int) -> int:
            seen.append((name, number))
            return 1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    monkeypatch.delenv("BERTFEAT_MALLOC", raising=False)
    if value is not None:
        monkeypatch.setenv("BERTFEAT_MALLOC", value)
    keep_freed_memory()
    assert len(seen) == calls
