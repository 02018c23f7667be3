"""Where cases run: copies of the world's results, a command over them, and what became of it."""

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from tests.hostile.judge import ANY_END, Rule, problems
from tests.hostile.process import Command, Ended, Server
from tests.hostile.snapshot import Snapshot, contents, snapshot, timeless_text
from tests.hostile.world import make_world
from tests.support.once import made_once


@dataclass(frozen=True, slots=True)
class Use:
    """A verb at work on some of the world's results."""

    name: str
    command: Command
    needs: tuple[str, ...]  # what of the world it reads
    writes: tuple[str, ...] = ()  # patterns of what it makes or changes
    redoes: bool = False  # see Rule

    @property
    def verb(self) -> str:
        """The verb of the command line."""
        first, second = (*self.command.arguments, "")[:2]
        return f"{first} {second}" if first in GROUPS else first


@dataclass(frozen=True, slots=True)
class Told:
    """What a use told and wrote, without times."""

    code: int
    stdout: str
    written: Snapshot

    def but(self, path: str) -> "Told":
        """The same without what was written at a path."""
        return replace(self, written={name: kind for name, kind in self.written.items() if name != path})


@dataclass(frozen=True, slots=True)
class Result:
    """A case that was run."""

    case: str
    reader: str
    verb: str
    ended: Ended
    told: Told
    problems: tuple[str, ...]

    def but(self, problem: str) -> "Result":
        """The same with one more problem."""
        return replace(self, problems=(*self.problems, problem))


GROUPS = ("tag", "plot", "classify", "answer", "choose")
"""Words that are followed by a verb."""

Tell = Callable[[Iterable[Result]], None]  # takes cases into the tally; the fixture ``tell``


@dataclass(slots=True)
class Yard:
    """The world, the warm process, and a place that is made anew for each case."""

    world: Path
    place: Path
    server: Server
    temporary: Path
    _sound: dict[str, Told] = field(default_factory=dict)

    def fresh(self, needs: Iterable[str]) -> Path:
        """A new working folder with copies of what is needed of the world."""
        _clear(self.place)
        _clear(self.temporary)
        self.place.mkdir(parents=True)
        self.temporary.mkdir(parents=True)
        self.temporary.chmod(0o777)
        for name in needs:
            source, target = self.world / name, self.place / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
            else:
                shutil.copy2(source, target)
        return self.place

    def run(
        self, use: Use, case: str, reader: str, *, prepare: Callable[[Path], None] | None = None, rule: Rule = ANY_END
    ) -> Result:
        """Run a use in a fresh place, damaged by ``prepare``, and judge how it ended."""
        place = self.fresh(use.needs)
        if prepare is not None:
            prepare(place)
        return self.again(use, case, reader, rule)

    def close(self) -> None:
        """End the warm process and remove the place."""
        self.server.close()
        _clear(self.place.parent)

    def again(self, use: Use, case: str, reader: str, rule: Rule = ANY_END) -> Result:
        """Run a use in the place as it is."""
        before = snapshot(self.place)
        ended = self.server.run(use.command, self.place, self.temporary)
        after = snapshot(self.place)
        rule = replace(rule, writes=(*rule.writes, *use.writes), redoes=rule.redoes or use.redoes)
        left = os.listdir(self.temporary) if ended.code >= 0 else []
        told = Told(ended.code, timeless_text(ended.stdout), contents(self.place, use.writes))
        return Result(case, reader, use.verb, ended, told, tuple(problems(ended, rule, before, after, left)))

    def sound(self, use: Use) -> Told:
        """What a use tells and writes of undamaged results."""
        if use.name not in self._sound:
            result = self.run(use, "undamaged", "")
            assert result.told.code == 0, (use, result)
            assert not result.problems, (use, result.problems, result.ended)
            self._sound[use.name] = result.told
        return self._sound[use.name]


def open_yard(factory: pytest.TempPathFactory) -> Yard:
    """The yard of a test process; the first one builds the world that all of them share."""
    private = Path(tempfile.mkdtemp(prefix="hostile-", dir=_roomy()))
    private.chmod(0o755)  # some cases run as nobody
    server = Server(private)
    world = made_once(factory, "world", lambda folder: make_world(folder, server))
    return Yard(world, private / "place", server, private / "temporary")


def _roomy() -> str | None:
    """Memory, where there is enough of it: thousands of folders are made and removed."""
    memory = "/dev/shm"
    roomy = os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30
    return memory if roomy else None


def joined(results: Sequence[Result]) -> str:
    """What is wrong with cases, a line each; nothing if all is well."""
    lines = [f"{each.case} [{each.verb}]: {'; '.join(each.problems)}" for each in results if each.problems]
    return "\n".join(lines)


def _clear(folder: Path) -> None:
    if not folder.exists():
        return
    for place, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(place, name)
            if not stat.S_ISLNK(os.lstat(path).st_mode):
                os.chmod(path, 0o755)
    shutil.rmtree(folder)
