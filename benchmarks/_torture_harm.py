"""Faults of what is written and read: storage that fails, full disks, damaged parts, corpora that change."""

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from _torture_places import BucketFolder, Folder, Place, is_part
from _torture_records import Fault
from _torture_runs import FILE_BYTES, Crew
from _torture_trial import Trial

from tests.support.s3_server import Faults

_PAGE = 4096
_ROOM = 64 << 20
_WRITES = frozenset(("put", "create", "replace"))


class Storm(Fault):
    """The storage answers with errors, late, in part or not at all, during one or two attempts."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def prepare(self, trial: Trial) -> None:
        self.left = trial.draw.randrange(1, 3)
        self.from_start = trial.draw.random() < 0.5
        self.patience = "60"
        if self.kind in ("down", "stalled"):
            self.patience = trial.draw.choice(("1.5", "3", "60"))
        if self.kind == "torn" and isinstance(trial.base, BucketFolder):
            for _ in range(trial.draw.randrange(1, 4)):
                trial.target.leave_upload(f"part-{trial.draw.randrange(20):05}.parquet")

    def environment(self, role: str) -> Mapping[str, str]:
        del role
        return {"BERTFEAT_STORAGE_TIMEOUT": self.patience if self.left else "60"}

    def strike(self, trial: Trial, crew: Crew) -> None:
        """Do the harm until the attempt ends, or for some seconds."""
        if not self.left:
            return
        self.left -= 1
        if not self.from_start:
            trial.wait_for_moment(crew)
        server, draw = trial.lane.server, trial.draw
        before = len(server.requests)
        faults, seconds = self._faults(draw)
        with server.harmed(faults):
            crew.wait(seconds)
        time.sleep(0.1)  # requests that were stalled are counted when they have ended
        harmed = sum(bool(request.fault) for request in server.requests[before:])
        if faults.delay:
            harmed = len(server.requests) - before
        trial.record.requests += harmed
        trial.record.faults += bool(harmed)

    def _faults(self, draw: random.Random) -> tuple[Faults, float]:
        """What is done to requests, and for how many seconds at most."""
        share, seed = draw.uniform(0.05, 0.6), draw.randrange(1 << 30)
        writes = draw.choice((frozenset(), _WRITES))
        match self.kind:
            case "throttled":
                return Faults(seed, throttled=share, kinds=writes), 60
            case "dropped":
                return Faults(seed, dropped_before=share, kinds=writes), 60
            case "unanswered":
                return Faults(seed, dropped_after=share / 2, failed_after=share / 2, kinds=writes), 60
            case "torn":
                return Faults(seed, torn=share, kinds=_WRITES), 60
            case "cut":
                return Faults(seed, cut=share), 60
            case "stalled":
                most = 1 if self.patience == "60" else 3
                return Faults(seed, stalled=share / 4, most=most), 45
            case "slow":
                return Faults(seed, delay=draw.uniform(0.1, 0.8)), draw.uniform(3, 12)
            case "down":
                return Faults(down=True), draw.uniform(0.3, 5)
            case "refused":
                return Faults(refused=True), 20
        part = share / 6
        named = dict.fromkeys(("throttled", "dropped_before", "dropped_after", "failed_after", "cut", "torn"), part)
        return Faults(seed, delay=draw.uniform(0, 0.1), **named), 60


class FullDisk(Fault):
    """The disk is full, of the output or for temporary files; it gets more room when a run has failed."""

    def __init__(self, which: str) -> None:
        self.which = which

    def prepare(self, trial: Trial) -> None:
        self.disk, self.mounted = trial.lane.disk, False
        sizes, draw = trial.expected.sizes, trial.draw
        largest = max(sizes)
        ray = trial.lane.machines is not None and trial.way.name in ("ray", "nodes")
        self.by_limit = os.geteuid() != 0 or (not ray and draw.random() < 0.25)
        if self.by_limit:
            trial.settings[FILE_BYTES] = str(int(largest * draw.uniform(0.2, 1.1)))
            return
        self.size = int((sum(sizes) if self.which == "output" else largest * 2) * draw.uniform(0.1, 1.1))
        options = f"size={max(_PAGE * 4, self.size)}"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "torture", self.disk], check=True)
        self.mounted = True
        if self.which == "output":
            assert isinstance(trial.base, Folder)
            trial.base = Folder(self.disk / trial.base.path.name)
        else:
            trial.settings["TMPDIR"] = str(self.disk)

    def between(self, trial: Trial, *, done: bool) -> bool:
        """Make room, if it was that which a run had not."""
        told = sum("No space left" in message or "too large" in message for message in trial.record.messages)
        trial.record.faults = max(trial.record.faults, told)
        if not done:
            trial.settings.pop(FILE_BYTES, None)
            if self.mounted:
                self.size *= 2
                options = f"remount,size={max(_PAGE * 4, self.size)}"
                subprocess.run(["mount", "-o", options, self.disk], check=True)
        return False

    def finish(self, trial: Trial) -> None:
        if self.mounted:
            subprocess.run(["umount", "-l", self.disk], check=True)


class Corrupt(Fault):
    """A file of the set is damaged between two attempts: after a kill, or when the set was finished."""

    mends = True

    def prepare(self, trial: Trial) -> None:
        self.left, self.damaged = 1, dict[str, Place]()
        self.finished = trial.draw.random() < 0.4

    def strike(self, trial: Trial, crew: Crew) -> None:
        """Kill all, so that there is something to damage and something to do."""
        if self.left and not self.finished:
            trial.wait_for_moment(crew)
            for run in crew.alive:
                if run.send(signal.SIGKILL):
                    run.harmed = "killed"

    def between(self, trial: Trial, *, done: bool) -> bool:
        """Damage a file, once; what messages have told twice is removed, as they advise."""
        draw = trial.draw
        names = [name for name in trial.base.names() if is_part(name) or draw.random() < 0.1]
        if self.left and names and (done or not self.finished):
            self.left = 0
            name = draw.choice(names)
            how, content = _damage(draw, trial.base, name, names)
            trial.record.notes.append(f"{how}: {name}")
            trial.base.write(name, content)
            self.damaged[name] = trial.base
            trial.record.faults += 1
            trial.done_roles.clear()
            return True
        if not done and self.left == 0:
            self._follow_messages(trial)
        return False

    def mend(self, trial: Trial) -> None:
        """Run the commands again, and do what is advised beside that."""
        self._follow_messages(trial)
        trial.done_roles.clear()

    def _follow_messages(self, trial: Trial) -> None:
        """Remove a damaged file where a message asks for it; one that does not help is a wrong one."""
        for name, base in tuple(self.damaged.items()):
            told = [message for message in trial.record.messages if name[-18:] in message]
            if told and any(word in told[-1] for word in ("delete", "move it", "remove")):
                with contextlib.suppress(OSError):
                    base.remove(name)
            elif told.count(told[-1] if told else "") > 2:
                trial.record.wrong.append(f"doing what it says does not help: {told[-1]}")


def _damage(draw: random.Random, base: Place, name: str, names: list[str]) -> tuple[str, bytes]:
    content = bytearray(base.read(name))
    how = draw.choice(("a flipped bit", "truncated", "empty", "another part", "foreign bytes", "longer"))
    at = draw.randrange(max(1, len(content)))
    if how == "a flipped bit" and content:
        content[at] ^= 1 << draw.randrange(8)
    elif how == "truncated":
        del content[at:]
    elif how == "empty":
        content.clear()
    elif how == "another part":
        content[:] = base.read(draw.choice(names))
    elif how == "longer":
        content += b"\0" * draw.randrange(1, 2000)
    else:
        content[:] = draw.randbytes(draw.randrange(1, 5000))
    return how, bytes(content)


class Changed(Fault):
    """The corpus changes under a run; when it has ended, the commands are run again."""

    def prepare(self, trial: Trial) -> None:
        self.changed = False

    def strike(self, trial: Trial, crew: Crew) -> None:
        """Change it at a random moment of the first attempt."""
        if self.changed:
            return
        trial.wait_for_moment(crew)
        trial.change_corpus()
        self.changed = True
        trial.record.faults += bool(crew.alive)

    def between(self, trial: Trial, *, done: bool) -> bool:
        """The set that was finished is a sound one; the next one is that of the changed corpus."""
        if trial.record.attempts > 1:
            return False
        if done and (problem := trial.verify()):
            trial.record.wrong.append(f"said to be done, but: {problem}")
        trial.expected = trial.reference()
        trial.done_roles.clear()
        return True


def remove_mounts(folder: Path) -> None:
    """Unmount what a torture that was killed has left."""
    for line in Path("/proc/mounts").read_text().splitlines():
        place = line.split()[1]
        if place.startswith(str(folder)):
            subprocess.run(["umount", "-l", place], check=False)
