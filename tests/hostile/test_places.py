"""Outputs where they cannot be, or where something else is: full disks, protected folders, foreign files."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.hostile.judge import Rule
from tests.hostile.process import Command, words
from tests.hostile.snapshot import contents
from tests.hostile.test_kills import WRITERS
from tests.hostile.yard import Result, Tell, Use, Yard

NOBODY = 65534
SHARES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)  # of what the output takes
PAGE = 4096
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk, and being somebody else, need root")


def _ours(use: Use) -> bool:
    """Whether all that it writes is below one name."""
    return len(use.writes) == 1


ON_DISK = [use for use in WRITERS if _ours(use)]


@pytest.fixture
def disk(yard: Yard) -> Iterator[Path]:
    """A disk that holds the place of a case."""
    yard.fresh(())
    made = yard.place / "disk"
    made.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(made)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk needs root")
    made.chmod(0o755)
    yield made
    subprocess.run(["umount", "-l", str(made)], check=True)


@ROOT
@pytest.mark.hostile
@pytest.mark.parametrize("use", ON_DISK, ids=lambda use: use.name)
def test_a_full_disk(yard: Yard, tell: Tell, disk: Path, use: Use) -> None:
    tell(_full(yard, disk, use, SHARES))


@ROOT
@pytest.mark.parametrize("use", ON_DISK[::5], ids=lambda use: use.name)
def test_some_full_disks(yard: Yard, tell: Tell, disk: Path, use: Use) -> None:
    tell(_full(yard, disk, use, (0.5,)))


def _full(yard: Yard, disk: Path, use: Use, shares: tuple[float, ...]) -> Iterator[Result]:
    """The inputs lie on the disk as well; what is left of it is a share of what the output takes."""
    _filled(yard, disk, use)
    before = _used(disk)
    there = _on_disk(yard, disk, use, "undisturbed", Rule(codes=(0,)))
    assert there.told.code == 0, there
    whole, taken = contents(disk, use.writes), max(PAGE, _used(disk) - before)
    for share in shares:
        _filled(yard, disk, use)
        earlier = contents(disk, use.writes)
        _resize(disk, before + PAGE + int(taken * share))
        case = f"{use.name} on a disk with {share:.0%} of the room"
        result = _on_disk(yard, disk, use, case, Rule(codes=(0, 1)))
        if result.told.code and "No space left" not in result.ended.stderr:
            result = result.but(f"does not say that the disk is full: {result.ended.stderr[-200:]}")
        if (
            result.told.code
            and not set(earlier.items()) <= set(contents(disk, use.writes).items())
            and "--overwrite" not in use.command.arguments
        ):
            result = result.but("earlier results are changed")
        yield result
        _resize(disk, 64 << 20)
        if result.told.code:
            again = _on_disk(yard, disk, use, f"{case}, then with room", Rule(codes=(0,)))
            yield again if contents(disk, use.writes) == whole else again.but("differs from an undisturbed run")


def _filled(yard: Yard, disk: Path, use: Use) -> None:
    for path in disk.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name in use.needs:
        source, target = yard.world / name, disk / name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy2(source, target)


def _on_disk(yard: Yard, disk: Path, use: Use, case: str, rule: Rule) -> Result:
    place, yard.place = yard.place, disk
    try:
        return yard.again(replace(use, redoes=True), case, "full disk", rule)
    finally:
        yard.place = place


def _used(disk: Path) -> int:
    found = os.statvfs(disk)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def _resize(disk: Path, size: int) -> None:
    pages = -(-size // PAGE)
    subprocess.run(["mount", "-o", f"remount,size={pages * PAGE}", str(disk)], check=True)


# ── folders that cannot be written or read ──────────────────────────────────────────────────────────────────


@ROOT
@pytest.mark.hostile
@pytest.mark.parametrize("use", WRITERS, ids=lambda use: use.name)
def test_folders_without_permission(yard: Yard, tell: Tell, use: Use) -> None:
    use = replace(use, command=replace(use.command, user=NOBODY))
    tell([*_forbidden(yard, use), *_unreadable(yard, use)])


def _forbidden(yard: Yard, use: Use) -> Iterator[Result]:
    """All is root's, and the command runs as nobody: it can read, and not write."""
    result = yard.run(use, f"{use.name} in a folder of others", "permissions", prepare=_readable, rule=Rule(codes=(1,)))
    if "Permission denied" not in result.ended.stderr:
        result = result.but(f"does not say that permission is denied: {result.ended.stderr[-200:]}")
    yield result


def _unreadable(yard: Yard, use: Use) -> Iterator[Result]:
    """The folder is its own, and a file that it needs is not."""
    for name in use.needs:

        def prepare(place: Path, name: str = name) -> None:
            for path in (place, *place.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
            path = place / name
            for each in [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]:
                each.chmod(0)

        case = f"{use.name}, {name} is not readable"
        rule = Rule(codes=(0, 1, 2), names=(name,))  # Table 7 and others need not read all of it
        yield yard.run(use, case, "permissions", prepare=prepare, rule=rule)


def _readable(place: Path) -> None:
    for path in (place, *place.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


# ── outputs where something else is ─────────────────────────────────────────────────────────────────────────


def _output(use: Use) -> str:
    return use.command.arguments[use.command.arguments.index("-o") + 1]


FRESH = [use for use in WRITERS if "-o" in use.command.arguments and _output(use) not in use.needs]


@pytest.mark.hostile
@pytest.mark.parametrize("use", FRESH, ids=lambda use: use.name)
def test_what_is_there_already(yard: Yard, tell: Tell, use: Use) -> None:
    tell(_taken(yard, use))


def _taken(yard: Yard, use: Use) -> Iterator[Result]:
    place = _output(use)
    makes_file = Path(place).suffix in (".npy", ".conll", ".png", ".html")
    for other in ("docs.features", "flat.index", "plain.tagger", "paper.table7", "probe.json", "model"):
        if place.endswith(Path(other).suffix or "?") or (other == "probe.json" and makes_file):
            continue

        def prepare(folder: Path, other: str = other) -> None:
            source = yard.world / other
            shutil.copytree(source, folder / place) if source.is_dir() else shutil.copy2(source, folder / place)

        yield _refused(yard, use, f"{use.name} over {other}", prepare, (0, 1, 2) if other == "model" else (1, 2))
    yield _refused(yard, use, f"{use.name} into a folder with files of others", _foreign(place), (0, 1, 2))
    for what in ("nowhere", place, "/dev/null", "/dev/full", "other"):
        yield _refused(yard, use, f"{use.name} over a link to {what}", _link(place, what), (0, 1, 2))
    if use.verb != "plot map" and not use.verb.endswith("predict"):  # which write to pipes, and wait for their readers
        yield _refused(yard, use, f"{use.name} over a FIFO", lambda folder: os.mkfifo(folder / place), (0, 1, 2))
    for name in (".bertfeat", ".bertfeat/kind", ".bertfeat/lock"):
        if not makes_file:
            yield _refused(
                yard, use, f"{use.name}: {name} is a link to a file of others", _planted(place, name), (0, 1, 2)
            )


def _refused(yard: Yard, use: Use, case: str, prepare: object, codes: tuple[int, ...]) -> Result:
    def made(folder: Path) -> None:
        (folder / "mine.txt").write_text("mine")
        (folder / "other").mkdir(exist_ok=True)
        (folder / "other" / "mine.txt").write_text("mine")
        prepare(folder)  # type: ignore[operator]

    result = yard.run(
        use,
        case,
        "outputs",
        prepare=made,
        rule=Rule(codes=codes, writes=("other", "nowhere") if "a link" in case else ()),
    )
    kept = [path for path in (yard.place / "mine.txt", yard.place / "other" / "mine.txt") if path.read_text() != "mine"]
    return result.but(f"overwrites {kept[0].name}, which is of others") if kept else result


def _foreign(place: str) -> object:
    def prepare(folder: Path) -> None:
        (folder / place).mkdir()
        (folder / place / "letters.txt").write_text("mine")
        (folder / place / "runs").mkdir()
        (folder / place / "runs" / "mine.json").write_text("{}")

    return prepare


def _link(place: str, what: str) -> object:
    return lambda folder: (folder / place).symlink_to(what)


def _planted(place: str, name: str) -> object:
    def prepare(folder: Path) -> None:
        path = folder / place / name
        path.parent.mkdir(parents=True)
        path.symlink_to(folder / ("other" if name == ".bertfeat" else "mine.txt"))

    return prepare


# ── surroundings ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.hostile
@pytest.mark.parametrize("use", WRITERS, ids=lambda use: use.name)
def test_surroundings(yard: Yard, tell: Tell, use: Use) -> None:
    odd = {
        "no temporary folder": {"TMPDIR": "/nonexistent"},
        "no home": {"HOME": "/nonexistent", "MPLCONFIGDIR": "/nonexistent/m", "HF_HOME": "/nonexistent/h"},
        "a terminal of one column": {"COLUMNS": "1", "LINES": "1"},
        "columns that are no number": {"COLUMNS": "x"},
        "a locale that there is not": {"LC_ALL": "xx_XX.UTF-8", "LANG": "xx"},
        "an unknown terminal": {"TERM": "\x1b[31m"},
        "no threads": {"OMP_NUM_THREADS": "0"},
    }
    tell(
        yard.run(
            replace(use, command=replace(use.command, environment=each)),
            f"{use.name}: {name}",
            "surroundings",
            rule=Rule(codes=(0, 1)),
        )
        for name, each in odd.items()
    )


@pytest.mark.hostile
def test_a_working_folder_that_is_gone(yard: Yard, tell: Tell) -> None:
    used = [Command(words("info"), call="tests.hostile.test_places:_in_a_removed_folder")]
    tell(
        yard.run(Use("gone", command, ()), "info in a folder that is gone", "surroundings", rule=Rule(codes=(0, 1, 2)))
        for command in used
    )


def _in_a_removed_folder(*arguments: str) -> None:
    import sys

    import bertfeat.cli

    Path("gone").mkdir()
    os.chdir("gone")
    os.rmdir("../gone")
    sys.argv = ["bertfeat", *arguments]
    bertfeat.cli.run()
