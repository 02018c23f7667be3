"""What can become of a file: cut, flipped, emptied, grown, replaced by what is no file, or by another one."""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Damage:
    """A damage of a file; ``other`` is the same file of another result."""

    name: str
    apply: Callable[[Path, Path | None], None]
    harmless: bool = False  # the file is read as before


def damages(seed: str, *, flips: int = 6, cuts: int = 5, other: bool = True) -> Iterator[Damage]:
    """The damages that any file can take; which bytes are flipped and where it is cut follows from the seed."""
    draw = random.Random(seed)
    yield from _SHAPES
    if other:
        yield Damage("of another result", _exchanged)
    for share in (0.0, *sorted(round(draw.random(), 4) for _ in range(cuts - 2)), 1.0):
        yield Damage(f"cut at {share:.2%}" if share < 1 else "without its last byte", _cut(share))
    for share in sorted(draw.random() for _ in range(flips)):
        bit = draw.randrange(8)
        yield Damage(f"bit {bit} flipped at {share:.2%}", _flip(share, bit))


def _cut(share: float) -> Callable[[Path, Path | None], None]:
    def apply(path: Path, _other: Path | None) -> None:
        size = path.stat().st_size
        os.truncate(path, min(int(size * share), max(0, size - 1)))

    return apply


def _flip(share: float, bit: int) -> Callable[[Path, Path | None], None]:
    def apply(path: Path, _other: Path | None) -> None:
        data = bytearray(path.read_bytes())
        data[int(len(data) * share)] ^= 1 << bit
        path.write_bytes(data)

    return apply


def _exchanged(path: Path, other: Path | None) -> None:
    assert other is not None
    shutil.copyfile(other, path)


def _replaced(make: Callable[[Path], None]) -> Callable[[Path, Path | None], None]:
    def apply(path: Path, _other: Path | None) -> None:
        path.unlink()
        make(path)

    return apply


def _changed(change: Callable[[bytes], bytes]) -> Callable[[Path, Path | None], None]:
    return lambda path, _other: (path.write_bytes(change(path.read_bytes())), None)[1]


def _linked_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def _link_to_copy(path: Path, _other: Path | None) -> None:
    top = path
    while top.parent.name != "place":  # see yard.py
        top = top.parent
    copy = top.with_name(f"copy-of-{path.name}").resolve()  # where nothing else looks
    path.rename(copy)
    path.symlink_to(copy)


_SHAPES = (
    Damage("missing", _replaced(lambda path: None)),
    Damage("a folder", _replaced(lambda path: path.mkdir())),
    Damage("a FIFO", _replaced(lambda path: os.mkfifo(path))),
    Damage("a link to nowhere", _replaced(lambda path: path.symlink_to("nowhere"))),
    Damage("a link to itself", _replaced(_linked_to_itself)),
    Damage("a link to /dev/zero", _replaced(lambda path: path.symlink_to("/dev/zero"))),
    Damage("a link to /dev/null", _replaced(lambda path: path.symlink_to("/dev/null"))),
    Damage("a link to /dev/tty", _replaced(lambda path: path.symlink_to("/dev/tty"))),
    Damage("one byte longer", _changed(lambda data: data + b"\0")),
    Damage("twice over", _changed(lambda data: data * 2)),
    Damage("all zeros", _changed(lambda data: bytes(len(data)))),
    Damage("a hole of zeros", _changed(lambda data: data[: len(data) // 3] + bytes(16) + data[len(data) // 3 + 16 :])),
    Damage("a link to its copy", _link_to_copy, harmless=True),
    Damage("100 GB of nothing", lambda path, _other: os.truncate(path, 100 << 30)),
)
