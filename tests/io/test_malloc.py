"""Settings of the C library and of single blocks of memory."""

import ctypes
import mmap

import numpy as np
import pytest

from bertfeat.io import keep_freed_memory, use_huge_pages


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


@pytest.mark.parametrize("offset", [0, 8, 4096])
@pytest.mark.parametrize("size", [0, 100, 5_000, 40_000_000])
def test_a_block_in_huge_pages_holds_what_is_written(offset: int, size: int) -> None:
    block = np.empty(offset + size, np.uint8)
    block[:offset] = 7
    use_huge_pages(block.ctypes.data + offset, size)
    block[offset:] = 9
    assert (block[:offset] == 7).all()
    assert (block[offset:] == 9).all()


def test_a_small_block_costs_no_call_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: pytest.fail("the C library was asked"))
    use_huge_pages(0, 1_000_000)


def test_no_huge_pages_where_the_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    use_huge_pages(np.empty(1 << 24, np.uint8).ctypes.data, 1 << 24)
