"""The ways to work through a plan, as the commands that a scheduler starts, and starts again until the set is done."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _torture_trial import Trial

Commands = list[tuple[str, list[str]]]
"""Roles, and their commands."""

JOINERS = 3


@dataclass
class Way:
    """One way to work."""

    name: str
    commands: Callable[["Trial", int], Commands]  # those of the next attempt, by the number of attempts before it
    seconds: float  # that an attempt takes, about, as multiples of an undisturbed process in its server
    limit: float  # after so many seconds it hangs
    writes_anywhere: bool = False  # whether several processes write one folder, so that a listing is trusted


def _extract(trial: "Trial", output: object, *more: str) -> list[str]:
    features = ["--layers", "last,-2", "--pooling", "mean,word", "--part-rows", str(trial.part_rows), "--quiet"]
    return ["bertfeat", "extract", str(trial.books), "--model", trial.lane.model, *features, "-o", str(output), *more]


def undisturbed_command(trial: "Trial") -> list[str]:
    """One process that does all."""
    return _extract(trial, trial.target)


def _plain_commands(trial: "Trial", attempt: int) -> Commands:
    if trial.switched:
        return _joined(trial, attempt, 2)
    return [("run", undisturbed_command(trial))]


def _workers_commands(trial: "Trial", attempt: int) -> Commands:
    """Two workers; when the run is started again there may be more or fewer, or none."""
    workers = trial.draw.choice((2, 2, 1, 3, 0)) if attempt else 2
    return [("driver", _extract(trial, trial.target, *(("--workers", str(workers)) if workers else ())))]


def _ray_commands(trial: "Trial", attempt: int) -> Commands:
    del attempt
    machines = trial.lane.machines
    assert machines is not None
    more = ("--engine", "ray", "--address", machines.address, "--workers", "2")
    return [("driver", _extract(trial, trial.target, *more))]


def _join_commands(trial: "Trial", attempt: int) -> Commands:
    if trial.switched:
        return [("run", undisturbed_command(trial))]
    return _joined(trial, attempt, trial.draw.randrange(1, JOINERS + 1) if attempt else JOINERS)


def _joined(trial: "Trial", attempt: int, count: int) -> Commands:
    command = _extract(trial, trial.target, "--join", "--lease", f"{trial.lease:.2f}")
    return [(f"joiner {attempt}.{number}", command) for number in range(count)]


WAYS: Sequence[Way] = (
    Way("plain", _plain_commands, 1, 90),
    Way("workers", _workers_commands, 8, 150),
    Way("ray", _ray_commands, 13, 240),
    Way("nodes", _ray_commands, 13, 240),
    Way("join", _join_commands, 2, 120, writes_anywhere=True),
)
