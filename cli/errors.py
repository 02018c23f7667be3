"""How a command ends: every exception becomes one line on stderr and a documented exit code."""

import io
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

import click

from bertfeat import __version__
from bertfeat.errors import INTERRUPTED, TERMINATED, BertfeatError, UsageError

from .console import tell

BROKEN_PIPE = 141  # what a shell says of a program that died of SIGPIPE


# what libraries say whose own exceptions are no MemoryError: torch, its allocators, C++, FAISS, pyarrow
_MEMORY_WORDS = ("out of memory", "not enough memory", "can't allocate memory", "bad_alloc", "Cannot allocate memory")
_NO_MEMORY = (
    "error: memory ran out; free some of it, or use less: fewer --batch-tokens, a smaller --part-rows or --memory, "
    "where the command has them. What was finished stays, and the same command goes on from there"
)


class Terminated(BaseException):
    """SIGTERM arrived; like KeyboardInterrupt, nothing but the outermost frame may swallow it."""


class ClosedInput:
    """Stands for a standard input that is closed: whoever wants to read it is told so."""

    closed = True
    encoding = "utf-8"

    def isatty(self) -> bool:
        """It is no terminal."""
        return False

    def __getattr__(self, name: str) -> NoReturn:
        raise UsageError("standard input is closed, and it is to be read (-); give a file, or pipe something in")


@contextmanager
def reported_errors() -> Iterator[None]:
    """End the command with the right exit code, whatever happens inside; click's own exceptions pass."""
    try:
        with _signals_raise(), _plain_warnings():
            _let_stdout_print_anything()
            yield
            sys.stdout.flush()  # else a closed pipe would be noticed only after the last handler is gone
    except (click.ClickException, click.exceptions.Exit, click.Abort):
        raise
    except MemoryError:
        _end(_NO_MEMORY, 1)
    except BertfeatError as error:
        _end(f"error: {error}", error.exit_code)
    except BrokenPipeError:
        _silence_stdout()
        raise click.exceptions.Exit(BROKEN_PIPE) from None
    except OSError as error:
        where = f": {error.filename}" if error.filename else _full_stdout()
        _end(f"error: {error.strerror or error}{where}", 1)
    except KeyboardInterrupt:
        _end("interrupted", INTERRUPTED)
    except Terminated:
        _end("terminated", TERMINATED)
    except Exception as error:
        if any(words in str(error) for words in _MEMORY_WORDS):
            _end(_NO_MEMORY, 1)
        traceback.print_exc()
        _end(f"error: this is a bug in bertfeat {__version__}, not in your input; please report the lines above", 1)


def _end(message: str, exit_code: int) -> NoReturn:
    tell(message)
    raise click.exceptions.Exit(exit_code) from None


@contextmanager
def named(where: str) -> Iterator[None]:
    """Let what is wrong with what was read from a file name the file."""
    try:
        yield
    except BertfeatError as error:
        raise type(error)(f"{where}: {error}") from error


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that files are closed and locks released."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _raise) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _raise(number: int, frame: FrameType | None) -> NoReturn:
    terminated = number == signal.SIGTERM
    if _importing(frame):
        # nothing is open yet, and an exception inside the import of a native library can abort the process
        os.write(2, f"{'terminated' if terminated else 'interrupted'}\n".encode())
        os._exit(TERMINATED if terminated else INTERRUPTED)
    raise Terminated if terminated else KeyboardInterrupt


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class _WarningLines(logging.Handler):
    """Shows what the library logs as one line each."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line to stderr."""
        tell(f"warning: {record.getMessage()}")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show what the library warns of as one line, without the source line that it came from."""
    log, handler = logging.getLogger("bertfeat"), _WarningLines(logging.WARNING)
    log.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: tell(f"warning: {message}")
            yield
    finally:
        log.removeHandler(handler)


def _let_stdout_print_anything() -> None:
    """Texts may hold what the terminal's encoding does not know; escape that rather than fail."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _full_stdout() -> str:
    """Where an error of the system came from, if standard output takes no more; it is silenced then."""
    try:
        sys.stdout.flush()
    except OSError:
        _silence_stdout()
        return ": standard output"
    return ""


def _silence_stdout() -> None:
    """Point stdout nowhere, so that the interpreter's last flush does not complain about the closed pipe."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
