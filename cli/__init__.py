"""The command line: thin commands that parse, call the Python API and print."""

import contextlib
import os
import sys
from typing import NoReturn

import click

from bertfeat import __version__

from .app import ENVIRONMENT_PREFIX, Program
from .errors import ClosedInput

__all__ = ["main", "run"]

VERBS = {
    "Features": ("extract", "info", "verify", "export", "bench"),
    "Search": ("index", "search", "usages", "evaluate"),
    "Tagging": ("tag", "probe"),
    "Pictures": ("plot",),
}

EPILOG = f"""
\b
Exit codes: 0 done; 1 error; 2 wrong usage; 3 done, but some rows failed;
130 and 143 interrupted by Ctrl-C or SIGTERM (the same command goes on from there).

\b
Every option can be set in the environment: {ENVIRONMENT_PREFIX}_EXTRACT_LAYERS=concat4.
HF_HOME, HF_HUB_OFFLINE, HF_TOKEN, NO_COLOR and CUDA_VISIBLE_DEVICES are honoured.

\b
Shell completion, for bash (zsh and fish alike):
  eval "$(_{ENVIRONMENT_PREFIX}_COMPLETE=bash_source bertfeat)"
"""


@click.group(
    cls=Program,
    verbs=VERBS,
    epilog=EPILOG,
    context_settings={
        "auto_envvar_prefix": ENVIRONMENT_PREFIX,
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@click.version_option(__version__, "--version", prog_name="bertfeat", message="%(prog)s %(version)s")
def main() -> None:
    """Keep the layers of a frozen BERT as features of a whole corpus, and work with them.

    \b
    bertfeat extract corpus.txt --layers concat4
    bertfeat extract news.jsonl.gz --text-column title,body --pooling mean,word
    bertfeat COMMAND --help
    """


def _refuse_closed_streams() -> None:
    """Put something in the place of closed standard streams, lest a file that is opened take their numbers."""
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
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # what would be said there goes nowhere


def run() -> NoReturn:
    """Run the program in a process of its own, as the shell starts it.

    A run that was stopped may leave a thread inside a library's native code. The interpreter's way out would unwind
    it there, which aborts the process, so that way is taken only after success.
    """
    _refuse_closed_streams()
    # before torch is imported: threads that wait for work sleep, and leave the cores to those that read and write
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        main(prog_name="bertfeat")
    except SystemExit as end:
        if not end.code:
            raise
        with contextlib.suppress(OSError):  # there may be no room for what was to be said
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)
    raise AssertionError("click ends every program by SystemExit")
