"""The process that a command runs in: its standard streams, its environment and its end.

Only :func:`bertfeat.cli.run` calls this. A program that imports the library keeps its process as it is.
"""

import codecs
import contextlib
import os
import sys
from typing import NoReturn

from bertfeat.errors import UsageError

ENVIRONMENT = {
    # threads that wait for work sleep, and leave the cores to those that read and write
    "OMP_WAIT_POLICY": "PASSIVE",
    # each of torch's caches keeps 128 shapes of products instead of 1,024, which in a long run take some 150 MB
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",
    "LRU_CACHE_CAPACITY": "128",
}
"""Variables that torch or bertfeat reads when it first computes; what the user has set stays."""


class ClosedInput:
    """Stands for a standard input that is closed: reading it is a usage error."""

    closed = True
    encoding = "utf-8"

    def isatty(self) -> bool:
        """It is no terminal."""
        return False

    def __getattr__(self, name: str) -> NoReturn:
        raise UsageError(
            "standard input is closed, and it is to be read (-)", remedy="give a file, or pipe something in"
        )


def prepare_process() -> None:
    """Set up the process, before torch is imported."""
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii":
        _start_with_utf8()
    _replace_closed_streams()
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def _start_with_utf8() -> NoReturn:
    """Start the command again with UTF-8 for names of files and for output.

    In a C locale, where ``PYTHONUTF8=0`` and ``PYTHONCOERCECLOCALE=0`` forbid Python to do so by itself, names that are
    not ASCII cannot be given to the libraries of C++ and Rust, which all take UTF-8.
    """
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _replace_closed_streams() -> None:
    """Open the null device for closed standard streams, so that no file that is opened later gets their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stdout is None:
        os.write(2, b"error: standard output is closed, so there is nowhere to print the result to\n")
        os._exit(1)
    if sys.stdin is None:
        sys.stdin = ClosedInput()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # messages are dropped


def end_process(end: SystemExit) -> NoReturn:
    """End the process with the exit code of ``end``.

    A run that was stopped may leave a thread inside a library's native code. Python's regular shutdown would unwind
    that thread, which aborts the process; so it is used only after success.
    """
    if not end.code:
        raise end
    with contextlib.suppress(OSError):  # the device may be full
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(end.code if isinstance(end.code, int) else 1)
