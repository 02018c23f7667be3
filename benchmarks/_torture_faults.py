"""Faults of processes and machines: killed, stopped past their leases, doubled, and with clocks that jump."""

import os
import random
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from _torture_clock import VARIABLE, Clock
from _torture_records import Fault
from _torture_runs import Crew, Run, children
from _torture_trial import Trial
from _torture_ways import undisturbed_command

from tests.support.s3_server import Faults

_SECONDS_TO_GO = 10.0  # that worker processes have to end after their run was killed
_MOST_JUMP = 10 * 86400


class Kill(Fault):
    """SIGKILL, or another signal, at random moments of one to three attempts."""

    def __init__(self, victim: str, number: signal.Signals = signal.SIGKILL) -> None:
        self.victim, self.number = victim, number

    def prepare(self, trial: Trial) -> None:
        self.left = trial.draw.randrange(1, 4)
        self.switches = trial.draw.random() < 0.3
        self.slow = trial.store == "s3" and trial.draw.random() < 0.5

    def strike(self, trial: Trial, crew: Crew) -> None:
        """Kill one, or several one after the other."""
        if not self.left:
            return
        self.left -= 1
        if self.slow:
            trial.lane.server.harm(Faults(delay=trial.draw.uniform(0.02, 0.15)))
        trial.wait_for_moment(crew)
        if self.victim == "command":
            alive = crew.alive
            self._kill_runs(trial, [trial.draw.choice(alive)] if alive else [])
        elif self.victim == "all":
            self._kill_runs(trial, crew.alive)
        elif self.victim == "worker":
            self._kill_workers(trial, crew)
        else:
            assert trial.lane.machines is not None
            trial.record.faults += bool(crew.alive) and trial.lane.machines.kill_node(trial.draw)
        trial.lane.server.harm(Faults())

    def between(self, trial: Trial, *, done: bool) -> bool:
        """Have a new node, if one was killed; and let others go on with what is there."""
        trial.switched = self.switches and trial.record.faults > 0
        if trial.lane.machines and self.victim == "node":
            trial.lane.machines.mend()
        return False

    def _kill_runs(self, trial: Trial, runs: list[Run]) -> None:
        workers = [pid for run in runs for pid, command in children(run.pid) if "spawn_main" in command]
        for run in runs:
            if run.send(self.number):
                run.harmed = "killed" if self.number == signal.SIGKILL else "terminated"
                trial.record.faults += 1
        for run in runs:
            run.process.join(_SECONDS_TO_GO)
        end = time.monotonic() + _SECONDS_TO_GO
        while workers and time.monotonic() < end:
            workers = [pid for pid in workers if Path(f"/proc/{pid}/exe").exists()]
            time.sleep(0.02)
        trial.record.left += ["a worker process of a run that was killed"] * len(workers)

    def _kill_workers(self, trial: Trial, crew: Crew) -> None:
        for _ in range(trial.draw.randrange(1, 4)):
            machines = trial.lane.machines
            pids = machines.actors() if machines else _worker_pids(crew)
            if pids and crew.alive:
                try:
                    os.kill(trial.draw.choice(sorted(pids)), signal.SIGKILL)
                    trial.record.faults += 1
                except ProcessLookupError:
                    pass
            crew.wait(trial.draw.uniform(0, trial.way.seconds / 2))


def _worker_pids(crew: Crew) -> list[int]:
    return [pid for run in crew.alive for pid, command in children(run.pid) if "spawn_main" in command]


class Stop(Fault):
    """SIGSTOP past the lease, and SIGCONT, while another process does the same work."""

    def strike(self, trial: Trial, crew: Crew) -> None:
        """Stop a process in the first attempt."""
        if trial.record.attempts > 1:
            return
        trial.wait_for_moment(crew)
        alive = crew.alive
        if not alive:
            return
        stopped = trial.draw.choice(alive)
        if not stopped.send(signal.SIGSTOP):
            return
        trial.record.faults += 1
        self.meanwhile(trial, crew, stopped)
        until = trial.draw.choice(("lease", "lease", "end"))
        if until == "lease":
            time.sleep(trial.lease * trial.draw.uniform(1.2, 2.5))
        else:
            crew.wait(trial.way.limit / 3, lambda: crew.alive == [stopped])
        stopped.send(signal.SIGCONT)

    def meanwhile(self, trial: Trial, crew: Crew, stopped: Run) -> None:
        """Start the same command once more, where nobody else is at work."""
        if trial.way.name != "join":
            role = stopped.role
            commands = dict(trial.way.commands(trial, 0))
            trial.add(crew, role, commands[role], self)


class Stale(Stop):
    """A process is stopped, the corpus changes, others do it anew, and the stopped one goes on over the old state."""

    mends = True  # by doing it again: the one that was late has marked the set as unfinished

    def meanwhile(self, trial: Trial, crew: Crew, stopped: Run) -> None:
        """Kill the others, change the corpus, and start anew."""
        for run in crew.alive:
            if run is not stopped and run.send(signal.SIGKILL):
                run.harmed = "killed"
        crew.wait(5, lambda: crew.alive == [stopped])
        trial.change_corpus()
        for role, command in trial.way.commands(trial, 0)[:2]:
            trial.add(crew, f"later {role}", command, self)

    def between(self, trial: Trial, *, done: bool) -> bool:
        """Expect the set of the changed corpus, at once where those who began later have finished it."""
        if not trial.record.faults:
            return False
        if trial.record.attempts == 1:
            trial.expected = trial.reference()
        later = any(role.startswith("later") for role in trial.done_roles)
        return trial.record.attempts == 1 and not later


class Intruder(Fault):
    """A run that does not join, or a second one of the same command, while others are at work on the folder."""

    def strike(self, trial: Trial, crew: Crew) -> None:
        """Start it in the first attempt."""
        if trial.record.attempts > 1:
            return
        trial.wait_for_moment(crew)
        alive = crew.alive
        if trial.way.name == "join":
            command = undisturbed_command(trial)
        elif alive:
            command = dict(trial.way.commands(trial, 0))[alive[0].role]
        if alive:
            trial.record.faults += 1
            trial.add(crew, "intruder", command, self)


class ClockJumps(Fault):
    """The time of day jumps by hours and days, in each process by itself; and one process is killed or stopped."""

    def prepare(self, trial: Trial) -> None:
        names = ("a", "b", "c")
        self.clocks = [Clock(trial.lane.folder / f"clock-{name}") for name in names]
        self.next, self.draw = 0, random.Random(trial.draw.random())
        for clock in self.clocks:
            clock.jump(self.draw.randrange(-_MOST_JUMP, _MOST_JUMP))
        self.ended = threading.Event()
        threading.Thread(target=self._jump, daemon=True).start()
        self.other: Fault = trial.draw.choice((Kill("command"), Stop(), Fault()))
        self.other.prepare(trial)
        trial.record.faults += 1

    def _jump(self) -> None:
        while not self.ended.wait(self.draw.uniform(0.05, 0.8)):
            self.draw.choice(self.clocks).jump(self.draw.randrange(-_MOST_JUMP, _MOST_JUMP))

    def environment(self, role: str) -> Mapping[str, str]:
        """One of the clocks."""
        del role
        self.next += 1
        return {VARIABLE: str(self.clocks[self.next % len(self.clocks)].path)}

    def strike(self, trial: Trial, crew: Crew) -> None:
        self.other.strike(trial, crew)

    def finish(self, trial: Trial) -> None:
        self.ended.set()
