"""The command line: thin commands that parse, call the Python API and print."""

from typing import NoReturn

import click

from bertfeat import __version__

from .app import ENVIRONMENT_PREFIX, Program
from .process import end_process, prepare_process

__all__ = ["main", "run"]

SECTIONS = {
    "Features": ("extract", "contexts", "info", "verify", "export", "bench"),
    "Search": ("index", "search", "usages", "collocates", "words", "evaluate", "serve"),
    "Learning": ("tag", "classify", "answer", "choose", "pretrain"),
    "Study": ("probe", "compare", "change"),
    "Pictures": ("plot",),
}

HOMES = dict.fromkeys(("tag", "classify", "answer", "choose"), "learning")

EPILOG = f"""
\b
Exit codes: 0 done; 1 error; 2 wrong usage; 3 done, but some rows failed;
130 and 143 interrupted by Ctrl-C or SIGTERM (the same command continues).

\b
Every option can be set in the environment: {ENVIRONMENT_PREFIX}_EXTRACT_LAYERS=concat4.
HF_HOME, HF_HUB_OFFLINE, HF_TOKEN, NO_COLOR and CUDA_VISIBLE_DEVICES are honoured.

\b
Shell completion, for bash (zsh and fish alike):
  eval "$(_{ENVIRONMENT_PREFIX}_COMPLETE=bash_source bertfeat)"
"""


@click.group(
    cls=Program,
    sections=SECTIONS,
    homes=HOMES,
    epilog=EPILOG,
    context_settings={
        "auto_envvar_prefix": ENVIRONMENT_PREFIX,
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@click.version_option(__version__, "--version", prog_name="bertfeat", message="%(prog)s %(version)s")
def main() -> None:
    """Store the hidden layers of a frozen BERT as features of a whole corpus, and search, tag and probe with them.

    \b
    bertfeat extract corpus.txt --layers concat4
    bertfeat extract news.jsonl.gz --text-column title,body --pooling mean,word
    bertfeat COMMAND --help
    """


def run() -> NoReturn:
    """Run the program in a process of its own, as the shell starts it."""
    prepare_process()
    try:
        main(prog_name="bertfeat")
    except SystemExit as end:
        end_process(end)
    raise AssertionError("click ends every program by SystemExit")
