"""The end of a command: every exception becomes one line on stderr and a documented exit code."""

import io
import logging
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import NoReturn

import click

from bertfeat import __version__
from bertfeat.errors import INTERRUPTED, TERMINATED, BertfeatError, shell_spelling, spell_parameters

from .console import write_stderr

MESSAGE_LENGTH = 500  # characters at most of a message about wrong usage
BROKEN_PIPE = 141  # the exit code that a shell gives a program that died of SIGPIPE

# words by which libraries say that memory ran out, without a MemoryError: torch, its allocators, C++, FAISS, pyarrow
_MEMORY_WORDS = ("out of memory", "not enough memory", "can't allocate memory", "bad_alloc", "Cannot allocate memory")
_NO_MEMORY = (
    "error: memory ran out; free some of it, or use less: fewer --batch-tokens, a smaller --part-rows or --memory, "
    "where the command has them. What was finished stays, and the same command goes on from there"
)

_tell: ContextVar[Callable[[str], object]] = ContextVar("tell", default=write_stderr)

# the exception by which click shows the help of a group called without a command; only newer versions of click have it
_NO_ARGUMENTS: type[Exception] = getattr(click.exceptions, "NoArgsIsHelpError", click.exceptions.Exit)


class SigtermInterrupt(BaseException):
    """SIGTERM arrived; like KeyboardInterrupt, only the outermost frame may catch it."""


@contextmanager
def reported_errors() -> Iterator[None]:
    """End the command with one line on stderr and the right exit code, whatever happens inside."""
    _tell.set(write_stderr)
    try:
        with spell_parameters(shell_spelling), _signals_raise(), _plain_warnings():
            if isinstance(sys.stdout, io.TextIOWrapper):  # characters that its encoding does not have are escaped
                sys.stdout.reconfigure(errors="backslashreplace")
            yield
            sys.stdout.flush()  # else a closed pipe would be noticed only after the last handler is gone
    except (_NO_ARGUMENTS, click.exceptions.Exit, click.Abort):
        raise
    except click.ClickException as error:
        _end_with_usage_error(error)
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
    except SigtermInterrupt:
        _end("terminated", TERMINATED)
    except Exception as error:
        if any(words in str(error) for words in _MEMORY_WORDS):
            _end(_NO_MEMORY, 1)
        _tell.get()(traceback.format_exc().rstrip())
        _end(f"error: {_bug_in(error)}; please report the lines above", 1)


def _bug_in(error: Exception) -> str:
    from bertfeat.io import extension_at_fault  # here, so that the help stays light

    package = extension_at_fault(error)
    if package is not None:
        return f"this is a bug in the package {package}, which extends bertfeat"
    return f"this is a bug in bertfeat {__version__}, not in your input"


def _end_with_usage_error(error: click.ClickException) -> NoReturn:
    """End the command that was called wrongly, worded as the library words its errors."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    message = error.format_message()
    shown = message if len(message) <= MESSAGE_LENGTH else f"{message[:MESSAGE_LENGTH]}…"  # it quotes arguments
    hint = f"\nTry '{context.command_path} -h' for help." if context is not None else ""
    _end(f"error: {shown}{hint}", error.exit_code)


def tell_end_in(log: logging.Logger) -> None:
    """Write the last message of this command to a log instead of stderr, whatever ends the command."""
    _tell.set(log.warning)


def _end(message: str, exit_code: int) -> NoReturn:
    _tell.get()(message)
    raise click.exceptions.Exit(exit_code) from None


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
    raise SigtermInterrupt if terminated else KeyboardInterrupt


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
        write_stderr(f"warning: {record.getMessage()}")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show each warning of the library as one line, without its line of source code."""
    log, handler = logging.getLogger("bertfeat"), _WarningLines(logging.WARNING)
    log.addHandler(handler)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: write_stderr(f"warning: {message}")
            yield
    finally:
        log.removeHandler(handler)


def _full_stdout() -> str:
    """The words that name stdout as the cause of an OSError, after silencing it; empty if it still takes output."""
    try:
        sys.stdout.flush()
    except OSError:
        _silence_stdout()
        return ": standard output"
    return ""


def _silence_stdout() -> None:
    """Point stdout at the null device, so that the interpreter's last flush does not report the closed pipe."""
    with open(os.devnull, "w") as null:
        os.dup2(null.fileno(), sys.stdout.fileno())
