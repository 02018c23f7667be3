"""What a trial has to do with: a fault, a lane to run in, and the record of what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from _torture_ray import Machines
from _torture_runs import Crew

if TYPE_CHECKING:
    from _torture_trial import Trial

    from tests.support.s3_server import S3Server


class Fault:
    """What is done to the runs of a trial; by itself nothing."""

    mends = False  # whether a set that is told to be damaged is mended and done again

    def prepare(self, trial: "Trial") -> None:
        """Before the first attempt."""

    def strike(self, trial: "Trial", crew: Crew) -> None:
        """During an attempt, at whose beginning it is called."""

    def between(self, trial: "Trial", *, done: bool) -> bool:
        """After an attempt; whether the commands are to be run again though they say that they are done."""
        del trial, done
        return False

    def mend(self, trial: "Trial") -> None:
        """Do what the message of a damaged set says."""

    def environment(self, role: str) -> Mapping[str, str]:
        """Of a process."""
        del role
        return {}

    def finish(self, trial: "Trial") -> None:
        """At the end, whatever happened."""


@dataclass(frozen=True)
class Undisturbed:
    """What one undisturbed process gives."""

    content: dict[str, str]  # digests
    code: int  # that it ends with
    sizes: tuple[int, ...]  # of the files


@dataclass
class Record:
    """What became of a trial."""

    name: str
    faults: int = 0  # that hit
    requests: int = 0  # harmed ones
    attempts: int = 0
    seconds: float = 0.0
    outcome: str = ""
    messages: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)  # files and processes that should have gone
    notes: list[str] = field(default_factory=list)


@dataclass
class Lane:
    """Where trials run one after the other: folders, a server of S3, and what undisturbed runs give."""

    folder: Path
    model: str
    server: "S3Server"
    client: Any  # of the server, past its proxy
    machines: Machines | None = None
    pace: float = 1.0  # seconds of an undisturbed process
    undisturbed: dict[str, Undisturbed] = field(default_factory=dict)

    @property
    def disk(self) -> Path:
        """Where a file system of its own may be mounted."""
        return self.folder / "disk"

    @property
    def temporary(self) -> Path:
        return self.folder / "tmp"
