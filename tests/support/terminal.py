"""Programs on a pseudo-terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

_END = b"\0all is written\0"


class Shown(NamedTuple):
    """What a program wrote to its terminal, and to a pipe for the other stream."""

    exit_code: int
    terminal: bytes
    piped: bytes


def on_a_terminal(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    stream: Literal["stdout", "stderr"] = "stdout",
    columns: int | None = None,
) -> Shown:
    """Run a program, one of whose streams is a terminal.

    The terminal stays open until all was read: what is left in it when its last user closes it may be lost.
    """
    ours, theirs = pty.openpty()
    written = bytearray()

    def read() -> None:
        while not written.endswith(_END):
            written.extend(os.read(ours, 4096))

    reader = threading.Thread(target=read, daemon=True)
    try:
        if columns:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        reader.start()
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: theirs}
        run = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, **streams)  # type: ignore[call-overload]
        os.write(theirs, _END)
        reader.join()
    finally:
        os.close(theirs)
        os.close(ours)
    return Shown(run.returncode, bytes(written.removesuffix(_END)), run.stdout or run.stderr or b"")
