"""Commands started in forks of a warm process (:mod:`tests.hostile.server`), and what became of them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile.server import BROKEN as BROKEN, CLOSED as CLOSED

ROOT = Path(__file__).parent.parent.parent
LIMIT = 150.0  # seconds: an hour of a busy machine is no hang, and a hang has no end


@dataclass(frozen=True, slots=True)
class Command:
    """A command of bertfeat, and what stands around it."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: str = os.devnull  # a path, or CLOSED
    stdout: str | None = None  # a path, CLOSED or BROKEN; None: kept, and so below
    stderr: str | None = None
    limit: float = LIMIT
    gigabytes: float | None = 8.0  # of address space: a case that reads without end must not take the machine
    user: int | None = None
    step: int | None = None  # before which file-system step in the folder the signal comes; 0: only count them
    step_folder: str = "."
    signal: int = signal.SIGKILL
    call: str | None = None  # a function (module:name) instead of the command line


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int  # negative: the signal
    stdout: str
    stderr: str
    seconds: float
    processor: float  # seconds
    megabytes: float  # most at once, those of the warm process among them
    where: str | None  # the stack of one that ran out of time
    steps: int  # in the folder of a command that counts them


class Server:
    """The warm process; one command at a time."""

    def __init__(self, private: Path) -> None:
        self._private = private
        private.mkdir(parents=True, exist_ok=True)
        home = private / "home"
        home.mkdir(exist_ok=True)
        quiet = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "COLUMNS": "100"}
        places = {"HOME": str(home), "HF_HOME": str(home / "hf"), "MPLCONFIGDIR": str(home / "matplotlib")}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("BERTFEAT_", "PYTEST_"))}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.server"],
            cwd=ROOT,
            env={**kept, **quiet, **places, "OMP_WAIT_POLICY": "PASSIVE"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, command: Command, folder: Path, temporary: Path) -> Ended:
        """Run a command in a folder, its temporary files in another one."""
        kept = [self._private / name for name in ("stdin", "stdout", "stderr", "where", "steps")]
        for path in kept:
            path.unlink(missing_ok=True)
        streams = [command.stdin, command.stdout or str(kept[1]), command.stderr or str(kept[2])]
        reply = self._asked(
            {
                "arguments": command.arguments,
                "call": command.call,
                "folder": str(folder),
                "environment": {"TMPDIR": str(temporary), **command.environment},
                "streams": streams,
                "where": str(kept[3]),
                "limit": command.limit,
                "gigabytes": command.gigabytes,
                "user": command.user,
                "step": command.step,
                "step_folder": os.path.normpath(folder / command.step_folder),
                "log": str(kept[4]),
                "signal": command.signal,
            }
        )
        return Ended(
            code=reply["code"],
            stdout=_read(kept[1]),
            stderr=_read(kept[2]),
            seconds=reply["seconds"],
            processor=reply["processor"],
            megabytes=reply["megabytes"],
            where=_read(kept[3]) if reply["timed_out"] else None,
            steps=len(_read(kept[4]).splitlines()),
        )

    def _asked(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server of hostile cases ended with {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """End the warm process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def words(*parts: str | Path | Sequence[str]) -> tuple[str, ...]:
    """Arguments of a command: strings are split at blanks, other sequences are taken as they are."""
    found: list[str] = []
    for part in parts:
        found += part.split(" ") if isinstance(part, str) else [str(part)] if isinstance(part, Path) else part
    return tuple(found)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
